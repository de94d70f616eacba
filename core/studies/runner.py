"""Tools that every study measures with, and the procedure that all studies share."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from core.base.evidence import CardUse, Ended, Interference, Warning
from core.base.schema import UserError
from core.machine.environment import capture_environment
from core.studies import deadlines
from core.studies.progress import Phase, Progress
from core.studies.turns import CoreTurns
from core.worker.clock import Clock
from core.worker.protocol import (
    BlockDone,
    Launcher,
    Prepare,
    Prepared,
    R,
    Release,
    Request,
    RunBlock,
    Worker,
    WorkerError,
    WorkerLost,
)
from core.workload.spec import Target

APART_S, APART_BLOCKS = 1.0, 10.0
"""Time between two samples of a GPU at one batch size, and at least as many lengths of its blocks."""


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


OVERDRAWN = 0.25  # share of the budget by which a round may end late

OnProgress = Callable[[Progress], None]


def unheard(_: Progress) -> None:
    """Discard progress; if nobody reads it, nothing costly is derived for it."""


class InterferenceSource(Protocol):
    """Source of information on other programs (:class:`core.machine.interference.InterferenceSampler`)."""

    def watch(self, targets: tuple[Target, ...]) -> None:
        """Set which GPUs will be measured, before any worker starts."""

    def reset(self, our_cpu_s: float, our_pids: tuple[int, ...]) -> None:
        """Leave out the time since the last call: starting and preparing are no part of any sample."""

    def sample(self, our_cpu_s: float, our_pids: tuple[int, ...]) -> Interference:
        """Return the activity of other programs since the last sample."""

    def close(self) -> None: ...


class MeterSource(Protocol):
    """Meter of the activity and energy of the measured GPUs and of the CPU packages
    (:class:`core.machine.meter.Meter`).
    """

    def begin(self, device: str) -> None:
        """Start sampling for a block on a device such as ``gpu:0``."""

    def end(self) -> CardUse | None:
        """Return the card's activity since the start; None if it cannot be read."""

    def refused(self, device: str) -> str:
        """Explain why the energy of a device cannot be read and what to do; empty if it can."""

    def package_j(self) -> float | None:
        """Return a running total of joules used by the CPU packages; None if it cannot be read."""

    def pause(self, seconds: float) -> None:
        """Let time pass with everything idle."""

    def close(self) -> None: ...


class Recorder(Protocol):
    """Storage of a sweep as it arrives; the store implements it."""

    def begin(self, run: Any) -> None:
        """Keep a new run, or resume one that was stopped (same id), with status ``running``."""

    def record(self, run_id: str, records: tuple[Any, ...]) -> None:
        """Commit records at once; a Cell, TracedCell, LoopCost, EnergyWindow or Warning replaces its predecessor."""

    def finish(self, run_id: str, status: Any, elapsed_s: float) -> None: ...

    def delete(self, run_id: str) -> None: ...


class NullRecorder:
    """Recorder that keeps nothing, for a sweep that is part of a larger record, or without a history."""

    def begin(self, run: Any) -> None: ...

    def record(self, run_id: str, records: tuple[Any, ...]) -> None: ...

    def finish(self, run_id: str, status: Any, elapsed_s: float) -> None: ...

    def delete(self, run_id: str) -> None: ...

    def add_study(self, kind: str, study_id: str, record: Any, name: str | None = None) -> None: ...


class Stop(threading.Event):
    """Event that asks a measurement to end in order. ``status`` tells the reason: cancelled by its user, or
    interrupted.
    """

    status: Ended = "cancelled"

    def interrupt(self) -> None:
        """Stop because the process must end, not at the user's request: the measurement can be resumed later."""
        if not self.is_set():
            self.status = "interrupted"
        self.set()


@dataclass(frozen=True)
class StudyTools:
    """Tools to measure with: real workers and the wall clock, or simulated ones in tests."""

    launcher: Launcher
    clock: Clock
    cancel: threading.Event
    interference: InterferenceSource | None
    report: OnProgress
    recorder: Recorder = field(default_factory=NullRecorder)
    startups: dict[tuple[Target, ...], float] = field(default_factory=dict)
    """Longest start of these targets so far in seconds, as seen by this program."""
    meter: MeterSource | None = None
    """Samples the GPUs during their blocks; nothing of it starts if no GPU is measured."""
    pause: Callable[[], None] = lambda: None
    """Lets open pages draw; to be called between visits, while no block runs. It returns at once if no page is open or
    none is due (:class:`core.studies.pauses.Pauses`)."""

    def check(self) -> None:
        """Raise Cancelled if asked to stop."""
        if self.cancel.is_set():
            raise Cancelled

    @property
    def stopped_as(self) -> Ended:
        """Status of a measurement that was asked to stop; a plain event counts as its user's request."""
        return self.cancel.status if isinstance(self.cancel, Stop) else "cancelled"


class Unavailable(UserError):
    """A recorder cannot be reached, or accepts nothing at present; later it may."""


class StudyFailed(UserError):
    """A study could not measure its subject."""


class Cancelled(StudyFailed):
    """The user, or the closing app, asked to stop. It leaves a study only if there is nothing to keep."""

    def __init__(self) -> None:
        super().__init__("Cancelled before the first round; nothing was measured.")


class Asking:
    """Requests to the workers of one study, each with the deadline from :mod:`core.studies.deadlines`.

    Every wait ends with Cancelled as soon as the user asks for it.
    """

    def __init__(self, tools: StudyTools, budget_s: float) -> None:
        self._tools, self._clock, self._budget_s = tools, tools.clock, budget_s
        self.lost_s = 0.0
        """Seconds lost to failed starts, by which the study is extended."""
        self.restarts: tuple[Warning, ...] = ()
        self.losses = Losses()
        self._longest: dict[Hashable, float] = {}
        self._forgiven: set[Hashable] = set()
        self._targets: WeakKeyDictionary[Worker, Target] = WeakKeyDictionary()
        self._turns = CoreTurns()
        self._watching = False
        self._sampled: WeakKeyDictionary[Worker, tuple[int, float]] = WeakKeyDictionary()
        self._slowed: bool | None = None
        self.card: CardUse | None = None
        """Activity of the GPU during the last block or :meth:`watched`; None for a CPU."""

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """Warnings about workers that were lost while they started or measured."""
        return (*self.restarts, *self.losses.warnings)

    def start(self, targets: tuple[Target, ...], **limits: Any) -> tuple[Worker, ...]:
        """Start a fresh worker per target; ``limits`` are the launcher's. A failed start is retried once, unless memory
        ran out. Raises WorkerError.
        """
        launch: Any = self._tools.launcher
        longest_s, begin_s = self._tools.startups.get(targets), self._clock.now_s()
        deadline_s = deadlines.start_s(self._budget_s, longest_s)
        try:
            workers = launch(targets, deadline_s, self._tools.check, **limits)
        except WorkerLost as error:
            if error.outcome == "out_of_memory":
                raise
            self._tools.check()
            text = f"A worker was lost while it started, and was started once more: {error.reason}"
            self.restarts += (Warning(code=f"lost_start_{len(self.restarts) + 1}", text=text),)
            self.lost_s += self._clock.now_s() - begin_s
            begin_s = self._clock.now_s()
            if error.outcome == "hung":
                deadline_s = min(deadline_s, deadlines.again_s(self._budget_s))
            workers = launch(targets, deadline_s, self._tools.check, **limits)
        self._tools.startups[targets] = max(longest_s or 0.0, self._clock.now_s() - begin_s)
        self._targets.update(zip(workers, targets, strict=True))
        self._turns.started(targets)
        return tuple(workers)

    def prepare(self, worker: Worker, request: Prepare, like: Hashable = None, expected_s: float = 0.0) -> Prepared:
        """Prepare a cell; preparations with the same ``like`` take about as long. Raises WorkerError."""
        return self.ask(worker, request, (like, request.pipeline), expected_s)

    def block(self, worker: Worker, request: RunBlock, expected_s: float) -> BlockDone:
        """Run a block that should take ``expected_s``; ``card`` is then what its GPU did in an untimed one after it, if
        one was due. Raises WorkerError.

        Asking the driver takes 3 to 27 ms of a core (measured: H200, docs/validation.md), so never in a timed block.
        """
        deadline_s = deadlines.block_s(self._budget_s, expected_s, worker.ready.on_gpu)
        target = self._targets.get(worker)
        if target is not None and self._turns.wakes_cores(target, self._clock.now_s()):
            request = request.model_copy(update={"wake_cores": True})
        done = self._asked(worker, request, deadline_s)
        if self._watching:
            return done
        self.card, now_s = None, self._clock.now_s()
        batch, due_s = self._sampled.get(worker, (None, -math.inf))
        is_metered = target is not None and target.is_gpu and self._tools.meter is not None
        if is_metered and (batch != request.batch or now_s >= due_s):
            with self.watched(worker):
                self._asked(worker, request, deadline_s)
            due_s = now_s + max(APART_S, APART_BLOCKS * done.block_ms / 1000) if self.card else math.inf
            self._sampled[worker] = request.batch, due_s
        return done

    @contextmanager
    def watched(self, worker: Worker) -> Iterator[None]:
        """Sample the worker's GPU, if it has one, in a ``with`` block; blocks of steps inside belong to the sample."""
        meter, target = self._tools.meter, self._targets.get(worker)
        if self._watching or meter is None or target is None or not target.is_gpu:
            self.card = self.card if self._watching else None
            yield
            return
        self._watching, self.card = True, None
        meter.begin(target.device)
        try:
            yield
        finally:
            self._watching, self.card = False, meter.end()
        if self.card is not None and self.card.busy:
            self._slowed = self.card.slowed or bool(self._slowed)

    def restart_interference(self, workers: Sequence[Worker]) -> None:
        """Leave out the time since the last call: starting and preparing are no interference."""
        self._slowed = None
        if self._tools.interference is not None:
            self._tools.interference.reset(*used_by(workers))

    def interference(self, workers: Sequence[Worker]) -> Interference:
        """Return the activity of other programs since the last call, and whether a GPU was slowed in a block since."""
        slowed, self._slowed = self._slowed, None
        activity = sampled(self._tools.interference, workers)
        return activity if slowed is None else activity.model_copy(update={"throttled": slowed})

    def release(self, worker: Worker, request: Release) -> None:
        """Release a cell. Raises WorkerError."""
        worker.ask(request, deadlines.release_s(self._budget_s))

    def ask(self, worker: Worker, request: Request[R], like: Hashable = None, expected_s: float = 0.0) -> R:
        """Return the reply to any other request, with the deadline of a preparation. Raises WorkerError."""
        key, begin_s = (type(request), like), self._clock.now_s()
        longest_s, gpu = self._longest.get(key), worker.ready.on_gpu
        reply = self._asked(worker, request, deadlines.prepare_s(self._budget_s, longest_s, expected_s, gpu))
        self._longest[key] = max(self._longest.get(key, 0.0), self._clock.now_s() - begin_s)
        return reply

    def _asked(self, worker: Worker, request: Request[R], deadline_s: float) -> R:
        try:
            return worker.ask(request, deadline_s)
        finally:
            if worker in self._targets:
                self._turns.ended(self._targets[worker], self._clock.now_s())

    def forgives(self, cell: Hashable, error: WorkerError) -> bool:
        """Tell whether a cell may be retried: once, after its worker crashed, as the cell may not be the cause."""
        if not isinstance(error, WorkerLost) or error.outcome != "crashed" or cell in self._forgiven:
            return False
        self._forgiven.add(cell)
        return True


class StudyRunner:
    """Base of a running study: its time, requests to stop, progress, interference, and workers."""

    def __init__(self, tools: StudyTools, budget_s: float) -> None:
        self.tools, self.clock, self.budget_s = tools, tools.clock, budget_s
        self.asking = Asking(tools, budget_s)
        self.begin_s = self.clock.now_s()
        self.created_at = now()
        self.environment = capture_environment()

    @property
    def elapsed_s(self) -> float:
        return self.clock.now_s() - self.begin_s

    @property
    def end_s(self) -> float:
        return self.begin_s + self.budget_s + self.asking.lost_s

    @property
    def remaining_s(self) -> float:
        """Seconds left of the budget; negative once it is overdrawn."""
        return self.end_s - self.clock.now_s()

    @property
    def overdue(self) -> bool:
        """Tell whether the budget is overdrawn by so much that even a round in progress is abandoned."""
        return self.remaining_s < -OVERDRAWN * self.budget_s

    def check(self) -> None:
        """Raise Cancelled if asked to stop."""
        self.tools.check()

    def tell(self, phase: Phase, activity: str, done: int, total: int, record: Any = None) -> None:
        left_s = max(0.0, self.remaining_s)
        self.tools.report(Progress(phase, activity, done, total, self.elapsed_s, left_s, record))
        self.tools.pause()

    @contextmanager
    def started(self, targets: tuple[Target, ...]) -> Iterator[tuple[Worker, ...]]:
        """Start a fresh worker per target, closed at the end of the ``with`` block. Raises WorkerError."""
        workers = self.asking.start(targets)
        try:
            yield workers
        finally:
            for worker in workers:
                worker.close()

    def interference(self, workers: Sequence[Worker]) -> Interference:
        """Return the activity of other programs since the last call."""
        return self.asking.interference(workers)

    def envelope(self, status: Ended) -> dict[str, Any]:
        """Return the fields of :class:`core.rounds.study.Study` that depend on time and place."""
        return {
            "status": status,
            "created_at": self.created_at,
            "elapsed_s": self.elapsed_s,
            "environment": self.environment,
        }

    def nothing(self, status: Ended, why: str = "") -> StudyFailed:
        """Return the error to raise without any round: Cancelled, or the reason."""
        if status in ("cancelled", "interrupted"):
            return Cancelled()
        return StudyFailed(why or "Nothing could be measured within the budget; give it more time.")


def cut_short(done: str, why: str) -> Warning:
    """Return a warning that a study ended early with what it had; ``done`` is such as “12 rounds”."""
    return Warning(code="cut_short", text=f"Cut short after {done}: {why}")


@contextmanager
def watching(
    make: Callable[[], InterferenceSource | None], targets: tuple[Target, ...]
) -> Iterator[InterferenceSource | None]:
    """Open a source for one measurement of these targets, closed at its end."""
    source = make()
    try:
        if source is not None:
            source.watch(targets)
        yield source
    finally:
        if source is not None:
            source.close()


@contextmanager
def metering(make: Callable[[], MeterSource | None]) -> Iterator[MeterSource | None]:
    """Open a meter for one measurement, closed at its end."""
    meter = make()
    try:
        yield meter
    finally:
        if meter is not None:
            meter.close()


def sampled(source: InterferenceSource | None, workers: Sequence[Worker]) -> Interference:
    """Return the activity of programs other than these workers since the last call; unknown without a source."""
    if source is None:
        return Interference()
    return source.sample(*used_by(workers))


def used_by(workers: Sequence[Worker]) -> tuple[float, tuple[int, ...]]:
    """Return the CPU seconds that these workers have used so far, and their process ids."""
    return sum(worker.cpu_time_s() for worker in workers), tuple(worker.ready.pid for worker in workers)


def start_words(count: int) -> str:
    return f"Starting {count} worker process{'es' if count > 1 else ''}"


def now() -> str:
    """Return the time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
