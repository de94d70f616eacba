"""What a study reports while it runs: its progress, and snapshots that any number of pages may read."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["starting", "measuring", "restarting", "tracing", "finishing", "done"]


@dataclass(frozen=True)
class Progress:
    """``activity`` is a sentence in the present tense. ``remaining_s`` is what is left of the budget at most, 0 where
    that is not known.

    ``record`` is what was measured so far and ``answer`` what follows from it, of studies that tell as they go.
    """

    phase: Phase
    activity: str
    cells_done: int
    cells_total: int
    elapsed_s: float
    remaining_s: float
    record: Any = None
    answer: Any = None

    def share(self, left_s: float) -> float:
        """How much is done, where so many seconds are left: of the time, or of the cells where no time is known."""
        if self.remaining_s <= 0:
            return self.cells_done / self.cells_total if self.cells_total and self.elapsed_s > 0 else 0.0
        whole_s = self.elapsed_s + self.remaining_s
        return (whole_s - left_s) / whole_s


@dataclass(frozen=True)
class Snapshot:
    """A study of any kind at one moment, or the last one when it has ended.

    ``record`` and ``answer`` are those so far while it runs, then the whole; ``error`` is why there is no result, for
    one that was ``cancelled`` before there could be any, too. ``unwritten`` says what the history lacks of it.
    ``reported_s``: when its progress was reported, on the monotonic clock.
    """

    kind: str
    id: str
    title: str
    progress: Progress
    active: bool = True
    record: Any = None
    answer: Any = None
    error: str | None = None
    cancelled: bool = False
    unwritten: str | None = None
    reported_s: float = field(default_factory=time.monotonic, compare=False)

    @property
    def left_s(self) -> float:
        """What is left of the budget now, at most; ``progress`` is as old as the last report."""
        return max(0.0, self.progress.remaining_s - (time.monotonic() - self.reported_s))
