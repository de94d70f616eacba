"""Workers that a study lost while they measured, as warnings: one for each target and cause."""

from __future__ import annotations

from core.evidence import Warning


class Losses:
    """Of one study. What a loss leaves may be measured again and hide it, so each is noted."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[str]] = {}
        self._codes: dict[tuple[str, str], str] = {}

    @property
    def warnings(self) -> tuple[Warning, ...]:
        return tuple(self._warning(*cause) for cause in self._places)

    def add(self, who: str, where: str, reason: str, code: str = "worker") -> Warning:
        """Note that a worker of ``who`` was lost ``where``, as in “batch 32”; the warning for all of that cause so far.

        ``code`` tells the first place apart from those of another session of the same study.
        """
        places = self._places.setdefault((who, reason), [])
        self._codes.setdefault((who, reason), f"lost_{code}_{len(self._places)}")
        places.append(where)
        return self._warning(who, reason)

    def _warning(self, who: str, reason: str) -> Warning:
        places = self._places[who, reason]
        times = {1: "", 2: " twice"}.get(len(places), f" {len(places)} times")
        text = f"The worker of {who} was lost{times}, at {', '.join(dict.fromkeys(places))}: {reason}"
        return Warning(code=self._codes[who, reason], text=text)
