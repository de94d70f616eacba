"""What every study measures with, and the course that all of them share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from core.evidence import Ended, Interference
from core.machine.environment import capture_environment
from core.schema import UserError
from core.spec import Target
from core.studies.progress import Phase, Progress
from core.worker.clock import Clock
from core.worker.protocol import Launcher, Worker

START_DEADLINE_S = 180.0  # importing a framework from a cold disk takes tens of seconds
PREPARE_DEADLINE_S = 180.0  # XLA may compile a deep network for a minute
RELEASE_DEADLINE_S = 60.0
BLOCK_DEADLINE_S = 20.0  # at least; else thirty times what the block is expected to take
HANG_FACTOR = 30.0

OnProgress = Callable[[Progress], None]


def unheard(_: Progress) -> None:
    """Progress that nobody reads: what is costly to tell is then not worked out."""


class InterferenceSource(Protocol):
    """Says what other programs do (:class:`core.machine.interference.InterferenceSampler`)."""

    def sample(self, our_cpu_s: float, our_pids: tuple[int, ...]) -> Interference:
        """What else the machine did since the last call."""

    def close(self) -> None: ...


class Recorder(Protocol):
    """Where a sweep is kept as it arrives; the store implements it."""

    def begin(self, run: Any) -> None:
        """Keep a new run, or resume an interrupted one (same id), with status ``running``."""

    def record(self, run_id: str, records: tuple[Any, ...]) -> None:
        """Commit records at once; a Cell, TracedCell or Warning replaces the one of the same cell or code."""

    def finish(self, run_id: str, status: Any, elapsed_s: float) -> None: ...

    def delete(self, run_id: str) -> None: ...


class NullRecorder:
    """Keeps nothing: for a sweep whose run is part of something larger, which is kept as a whole."""

    def begin(self, run: Any) -> None: ...

    def record(self, run_id: str, records: tuple[Any, ...]) -> None: ...

    def finish(self, run_id: str, status: Any, elapsed_s: float) -> None: ...

    def delete(self, run_id: str) -> None: ...


@dataclass(frozen=True)
class StudyTools:
    """How to measure here: real workers and the wall clock, or simulated ones in tests."""

    launcher: Launcher
    clock: Clock
    cancel: threading.Event
    interference: InterferenceSource | None
    report: OnProgress
    recorder: Recorder = field(default_factory=NullRecorder)


class StudyFailed(UserError):
    """A study could not measure what it is about."""


class Cancelled(StudyFailed):
    """The user, or the closing app, asked to stop. It leaves a study only where there is nothing to keep."""

    def __init__(self) -> None:
        super().__init__("Cancelled before the first round; nothing was measured.")


class StudyRunner:
    """One study while it runs: its time, whether to stop, progress, interference, starts of workers."""

    def __init__(self, tools: StudyTools, budget_s: float) -> None:
        self.tools, self.clock, self.budget_s = tools, tools.clock, budget_s
        self.begin_s = self.clock.now_s()
        self.end_s = self.begin_s + budget_s
        self.created_at = now()
        self.environment = capture_environment()

    @property
    def elapsed_s(self) -> float:
        return self.clock.now_s() - self.begin_s

    @property
    def remaining_s(self) -> float:
        """Seconds of the budget that are left; negative when it is overdrawn."""
        return self.end_s - self.clock.now_s()

    def check(self) -> None:
        """Raises Cancelled when asked to stop."""
        if self.tools.cancel.is_set():
            raise Cancelled

    def tell(self, phase: Phase, activity: str, done: int, total: int, record: Any = None) -> None:
        left_s = max(0.0, self.remaining_s)
        self.tools.report(Progress(phase, activity, done, total, self.elapsed_s, left_s, record))

    @contextmanager
    def started(self, targets: tuple[Target, ...]) -> Iterator[tuple[Worker, ...]]:
        """A fresh worker for each target, closed at the end of the block. Raises WorkerError."""
        workers = self.tools.launcher(targets, START_DEADLINE_S)
        try:
            yield workers
        finally:
            for worker in workers:
                worker.close()

    def interference(self, workers: Sequence[Worker]) -> Interference:
        """What other programs did since the last call."""
        return sampled(self.tools.interference, workers)

    def envelope(self, status: Ended) -> dict[str, Any]:
        """The fields of :class:`core.studies.study.Study` that time and place tell."""
        return {
            "status": status,
            "created_at": self.created_at,
            "elapsed_s": self.elapsed_s,
            "environment": self.environment,
        }

    def nothing(self, status: Ended, why: str = "") -> StudyFailed:
        """What to raise where there is no round: Cancelled, or the reason."""
        if status == "cancelled":
            return Cancelled()
        return StudyFailed(why or "Nothing could be measured within the budget; give it more time.")


@contextmanager
def watching(make: Callable[[], InterferenceSource | None]) -> Iterator[InterferenceSource | None]:
    """A source for one measurement, closed at its end."""
    source = make()
    try:
        yield source
    finally:
        if source is not None:
            source.close()


def sampled(source: InterferenceSource | None, workers: Sequence[Worker]) -> Interference:
    """What other programs than these workers did since the last call; unknown without a source."""
    if source is None:
        return Interference()
    used = sum(worker.cpu_time_s() for worker in workers)
    return source.sample(used, tuple(worker.ready.pid for worker in workers))


def host_of(target: Target) -> Target:
    """The target whose worker process can serve this one too."""
    return Target(device=target.device, threads=target.threads)


def start_words(count: int) -> str:
    return f"Starting {count} worker process{'es' if count > 1 else ''}"


def block_deadline_s(expected_s: float) -> float:
    """How long a block may take before its worker counts as hung."""
    return max(BLOCK_DEADLINE_S, HANG_FACTOR * expected_s)


def now() -> str:
    """UTC in ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
