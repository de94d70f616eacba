"""What the campaign counts, and a class of cases: made from a seed and an index, so that each can be played again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

Count = Literal["rounds lost", "orphans", "tracebacks", "over time", "over 1 GB", "wrong numbers", "else"]
COUNTS: tuple[Count, ...] = (
    "rounds lost", "orphans", "tracebacks", "over time", "over 1 GB", "wrong numbers", "else",
)  # fmt: skip
"""``over time``: an input that takes more than 10 s, a study that ends later after its budget than it may, a command
that goes on for more than 3 s after Ctrl-C. ``else``: an exit status or a status that is not the documented one, a
worker not closed, more than one sentence, control characters."""

LATE_SHARE, LATE_S, FIRST_HANG_S = 0.5, 30.0, 90.0
"""A study may end so much of its budget, and so many seconds, after it: what it waited for last. Where something hung
that was the first of its kind, a start or a preparation, nothing told how long it takes: a minute, and half a one for
starting again."""

GROUPS = ("simulated", "real", "hostile")


@dataclass
class Findings:
    """What did not hold in one case. ``note`` hears at once what the case is about: it may not live to its end."""

    found: list[tuple[Count, str]] = field(default_factory=list)
    case: str = ""
    note: Callable[[str], object] = lambda _: None

    def about(self, words: str) -> None:
        self.case = ascii(words)[1:-1][:200]
        self.note(self.case)

    def add(self, count: Count, words: str) -> None:
        self.found.append((count, " ".join(words.split())[:300]))

    def require(self, holds: bool, count: Count, words: str) -> None:
        if not holds:
            self.add(count, words)

    @contextmanager
    def watching(self, *allowed: type[BaseException]) -> Iterator[None]:
        """An exception other than those allowed would be a traceback on somebody's screen."""
        try:
            yield
        except allowed:
            pass
        except Exception as error:
            self.add("tracebacks", f"{type(error).__name__}: {error}")


Check = Callable[[random.Random, int, Findings], None]


@dataclass(frozen=True)
class CaseClass:
    """``check`` plays one case and notes what did not hold; ``cases`` is how many a whole campaign plays.

    A case is in a process of its own, which may have ``patience_s`` by the clock; where it is ``bounded``, 10 s of CPU
    time and 1 GB of memory are all that it may take.
    """

    name: str
    group: str
    cases: int
    check: Check
    bounded: bool = False
    patience_s: float = 60.0

    def play(self, seed: int, index: int, note: Callable[[str], object] = lambda _: None) -> Findings:
        findings = Findings(note=note)
        self.check(random.Random(f"{seed}:{self.name}:{index}"), index, findings)
        return findings
