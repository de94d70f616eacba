"""Workers that a study lost while they measured, as warnings: one per target and cause."""

from __future__ import annotations

from core.evidence import Warning


class Losses:
    """Losses of one study. A later measurement of the same cell may hide a loss, so each is noted."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[str]] = {}
        self._codes: dict[tuple[str, str], str] = {}

    @property
    def warnings(self) -> tuple[Warning, ...]:
        return tuple(self._warning(*cause) for cause in self._places)

    def add(self, who: str, where: str, reason: str, code: str = "worker") -> Warning:
        """Record the loss of a worker of ``who`` at ``where``, as in “batch 32”; return the warning for all losses of
        that cause.

        ``code`` distinguishes the first place from those of another session of the same study.
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
