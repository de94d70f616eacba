"""Reports of a running study: its progress, and snapshots that any number of pages may read."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["starting", "measuring", "restarting", "tracing", "finishing", "done"]


@dataclass(frozen=True)
class Progress:
    """Progress of a study. ``activity`` is a sentence in the present tense; ``remaining_s`` is at most the rest of the
    budget, 0 if unknown.

    ``record`` and ``answer`` are the measurements and conclusions so far, for studies that stream.
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
        """Return the share that is done with so many seconds left: of the time, or of the cells if no time is known."""
        if self.remaining_s <= 0:
            return self.cells_done / self.cells_total if self.cells_total and self.elapsed_s > 0 else 0.0
        whole_s = self.elapsed_s + self.remaining_s
        return (whole_s - left_s) / whole_s


@dataclass(frozen=True)
class Snapshot:
    """State of a study of any kind at one moment, or at its end.

    ``record`` and ``answer`` are partial while it runs, then complete; ``error`` explains why there is no result, also
    if it was ``cancelled`` too early. ``unwritten`` says what the history lacks of it. ``reported_s`` is when its
    progress was reported, on the monotonic clock.
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
        """Rest of the budget now, at most; ``progress`` is as old as the last report."""
        return max(0.0, self.progress.remaining_s - (time.monotonic() - self.reported_s))
