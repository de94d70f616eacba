"""Counts of the campaign, and classes of cases, made from a seed and an index so that each can be replayed."""

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
"""``over time``: an input that takes more than 10 s, a study that ends too long after its budget, a command that
continues for more than 3 s after Ctrl-C. ``else``: an undocumented exit status or study status, a worker that was not
closed, more than one sentence, control characters.
"""

LATE_SHARE, LATE_S, FIRST_HANG_S = 0.5, 30.0, 90.0
"""A study may end late by this share of its budget plus these seconds, for the last thing it waited for. If the first
start or preparation of its kind hung, nothing indicated its duration: a minute, and half a minute for starting again.
"""

GROUPS = ("simulated", "real", "hostile")


@dataclass
class Findings:
    """Violations found in one case.

    ``note`` receives at once what the case is about, since the case may not survive to its end.
    """

    violations: list[tuple[Count, str]] = field(default_factory=list)
    case: str = ""
    note: Callable[[str], object] = lambda _: None

    def about(self, words: str) -> None:
        self.case = ascii(words)[1:-1][:200]
        self.note(self.case)

    def add(self, count: Count, words: str) -> None:
        self.violations.append((count, " ".join(words.split())[:300]))

    def require(self, holds: bool, count: Count, words: str) -> None:
        if not holds:
            self.add(count, words)

    @contextmanager
    def watching(self, *allowed: type[BaseException]) -> Iterator[None]:
        """Record any exception other than those allowed, since it would be a traceback on a user's screen."""
        try:
            yield
        except allowed:
            pass
        except Exception as error:
            self.add("tracebacks", f"{type(error).__name__}: {error}")


Check = Callable[[random.Random, int, Findings], None]


@dataclass(frozen=True)
class CaseClass:
    """A class of cases: ``check`` plays one case and notes violations; a whole campaign plays ``cases`` of them.

    A case runs in its own process, for at most ``patience_s`` by the clock; a ``bounded`` one may take 10 s of CPU time
    and 1 GB of memory.
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
