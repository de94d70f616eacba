"""What a sweep tells the world while it runs: immutable snapshots for pages, and a recorder for the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from core.analysis.answer import Answer
from core.results import Cell, Process, Round, Run, Setup, Status, Warning
from core.traced import TracedCell

Record = Process | Setup | Round | Cell | Warning | TracedCell
Phase = Literal["starting", "measuring", "restarting", "tracing", "finishing", "done"]


@dataclass(frozen=True)
class Progress:
    """``activity`` is a sentence in the present tense. ``remaining_s`` is what is left of the budget at most."""

    phase: Phase
    activity: str
    cells_done: int
    cells_total: int
    elapsed_s: float
    remaining_s: float


@dataclass(frozen=True)
class Snapshot:
    """A sweep at one moment. ``revision`` rises with every record, so a page redraws only when something landed.

    ``answer`` is the estimate so far (None before the first round); ``error`` is set when the sweep failed.
    """

    run: Run
    progress: Progress
    answer: Answer | None
    revision: int
    error: str | None = None

    @property
    def active(self) -> bool:
        return self.progress.phase != "done"


class Recorder(Protocol):
    """Where a sweep is kept as it arrives; the store implements it."""

    def begin(self, run: Run) -> None:
        """Keep a new run, or take an interrupted one up again (same id), with status ``running``."""
        ...

    def record(self, run_id: str, records: tuple[Record, ...]) -> None:
        """Commit records at once; a Cell, TracedCell or Warning replaces the one of the same cell or code."""
        ...

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None: ...


class NullRecorder:
    """Keeps nothing: for a sweep whose run is part of something larger, which is kept as a whole."""

    def begin(self, run: Run) -> None:
        pass

    def record(self, run_id: str, records: tuple[Record, ...]) -> None:
        pass

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:
        pass
