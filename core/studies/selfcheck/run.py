"""Runner of a self-check: one worker on the target reads part by part, within two minutes; each may fail alone."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from core import __version__
from core.base.evidence import Ended, Interference
from core.base.frameworks import Execution
from core.base.schema import UserError
from core.hardware.host_record import HostStudy
from core.machine.environment import refuse_unusable
from core.networks.families import network_from_name
from core.rounds.answer.analyse import analyse
from core.studies.host.run import HostPlan, run_host_study
from core.studies.kind import Task
from core.studies.resolution.answer import shown_from
from core.studies.resolution.record import resolution_plan, spread_batches
from core.studies.resolution.run import run_resolution
from core.studies.runner import Cancelled, StudyFailed, StudyRunner, StudyTools, start_words, unheard
from core.studies.selfcheck.record import (
    CellReading,
    Clusters,
    Disturbance,
    Equal,
    Factor,
    Loops,
    MachineFacts,
    Memory,
    Part,
    Readings,
    SelfCheck,
    TraceReading,
    anonymous,
)
from core.worker.clock import Clock
from core.worker.protocol import (
    CellFailed,
    Examine,
    Examined,
    Look,
    Prepare,
    Prepared,
    R,
    Request,
    TraceSteps,
    Worker,
    WorkerLost,
)
from core.workload.spec import Pipeline, PipelineKind, Target, Workload

S = TypeVar("S")
BUDGET_S = 105.0
"""Workers take some seconds to end, so the total is two minutes at most."""
LEAST_S = 3.0  # for a part to begin
FLOOR_S = 20.0
EQUAL_S, EQUAL_BATCHES = 30.0, 3
LAST: dict[Part, float] = {"floor": 35.0, "equal": 25.0}
"""Least seconds for these parts, each with its own workers."""
NETWORKS = {"cpu": ("784-512-512-10", 256), "gpu": ("1024-4096-4096-4096-10", 4096)}
"""Network and batch: some 10 ms per step on two cores, and 3 ms (H100) to 150 ms (T4) on a GPU, so that neither kernel
starts nor the profiler dominate it."""
RECURRENT, RECURRENT_BATCH = "lstm-128x1-28x28-10", 64
FLOAT_BYTES, LABEL_BYTES = 4, 8
BLOCK_MS, WARMUP_MS = 25.0, 500.0
TRACED_MS, TRACES = 60.0, 7  # an interval of the median needs six
LEAST_STEPS, MOST_STEPS = 2, 20
SLOTS: dict[Part, int] = {"cell": 0, "host": 1, "clusters": 2, "recurrent": 3}
ACTIVITIES: dict[Part, str] = {
    "cell": "Preparing a step, and seeing where it runs",
    "loops": "Timing blocks against barer loops",
    "trace": "Tracing steps",
    "factor": "Making a computation longer by a known factor",
    "memory": "Allocating a known amount of memory",
    "host": "Tracing steps that are fed from the host",
    "recurrent": "Preparing a recurrent layer",
    "clusters": "Compiling the step with XLA",
    "floor": "Measuring what a step costs on the host",
    "equal": "Measuring the target against itself",
}
FIELDS = {"trace": "traces", "host": "host_trace"}
"""Fields of :class:`Readings` whose name differs from that of their part."""
OF_THE_CELL: tuple[Part, ...] = ("loops", "trace")
NO_TIME = "There was no time for it within two minutes."
STOPPED = "It was stopped before this was reached."
OF_A_GPU: dict[Part, str] = {
    "host": "A CPU target has no link that data would be copied over.",
    "recurrent": "cuDNN serves GPUs only.",
}


@dataclass(frozen=True)
class SelfCheckPlan:
    """Plan of a self-check. ``target`` sets a device, and threads of a CPU; execution modes are part of the checks."""

    target: Target
    budget_s: float = BUDGET_S


def run_self_check(tools: StudyTools, plan: SelfCheckPlan) -> SelfCheck:
    """Read everything this machine shows within the budget. Raises Cancelled if nothing was read."""
    return _Runner(tools, plan).run()


class _Runner(StudyRunner):
    def __init__(self, tools: StudyTools, plan: SelfCheckPlan) -> None:
        super().__init__(tools, plan.budget_s)
        self.target = plan.target
        self.readings: dict[str, Any] = {}
        self.missing: dict[Part, str] = {}
        self.disturbances: list[Disturbance] = []
        self.versions: dict[str, str] = {}
        self.notes: tuple[str, ...] = ()
        self.host: HostStudy | None = None
        self.traced_steps = MOST_STEPS

    def run(self) -> SelfCheck:
        try:
            try:
                self._of_worker()
            except Cancelled:
                raise
            except UserError as error:
                self._lose(error)
            self._floor()
            self._equal()
        except Cancelled:
            if not self.readings:
                raise
        stopped = self.tools.cancel.is_set()
        status: Ended = self.tools.stopped_as if stopped else "finished"
        why = STOPPED if stopped else NO_TIME
        missing = {part: self.missing.get(part, why) for part in ACTIVITIES if part not in self.readings}
        parts = {FIELDS.get(name, name): value for name, value in self.readings.items() if name != "floor"}
        readings = Readings(missing=missing, disturbances=tuple(self.disturbances), **parts)
        facts = MachineFacts.of(self.environment)
        return SelfCheck(
            target=self.target,
            status=status,
            created_at=self.created_at,
            elapsed_s=self.elapsed_s,
            breakeven=__version__,
            machine=facts.model_copy(update={"versions": facts.versions | self.versions}),
            notes=self.notes,
            readings=readings,
            host=self.host,
        )

    def _of_worker(self) -> None:
        """Read all parts that need one worker. Raises UserError for an unusable target or lost worker, or Cancelled."""
        self.tell("starting", start_words(1), 0, len(ACTIVITIES))
        if self.tools.interference is not None:
            self.tools.interference.watch((self.target,))
        self.notes = tuple(map(anonymous, refuse_unusable((self.target,))))
        parts = [part for part in ACTIVITIES if part not in LAST]
        while parts:
            begin_s = self.clock.now_s()
            with self.started((self.target,)) as (worker,):
                self.readings.setdefault("startup_s", self.clock.now_s() - begin_s)
                self.versions = worker.ready.versions
                self.interference((worker,))  # the cost of starting is not interference
                while parts and self._read(worker, parts.pop(0)):
                    pass

    def _read(self, worker: Worker, part: Part) -> bool:
        """Read a part, or note why it cannot be read. Return False if the worker was lost. Raises Cancelled, or
        WorkerLost for a second loss.
        """
        if not self._begins(part):
            return True
        try:
            self.readings[part] = getattr(self, f"_{part}")(worker)
        except CellFailed as error:
            self.missing[part] = anonymous(error.reason)
            if error.outcome == "misplaced" and part == "cell":
                self.readings["misplaced"] = anonymous(error.reason)
        except WorkerLost as error:
            if "lost" in self.readings or self.remaining_s <= 0:
                raise
            self.readings["lost"] = self.missing[part] = anonymous(str(error))
            return False
        self.disturbances.append(Disturbance.of(self.interference((worker,))))
        return True

    def _lose(self, error: UserError) -> None:
        """Record that no worker starts, or a second one was lost; a lack of time is not its fault."""
        reason = anonymous(str(error)) if self.remaining_s > 0 else NO_TIME
        if self.remaining_s > 0:
            self.readings.setdefault("lost", reason)
        for part in ACTIVITIES:
            if part not in LAST and part not in self.readings:
                self.missing.setdefault(part, reason)

    def _begins(self, part: Part) -> bool:
        """Return True if a part can be read, else note the reason. Raises Cancelled."""
        self.check()
        self.tell("measuring", ACTIVITIES[part], list(ACTIVITIES).index(part), len(ACTIVITIES))
        if not self.target.is_gpu and part in OF_A_GPU:
            self.missing[part] = OF_A_GPU[part]
        elif part in OF_THE_CELL and "cell" in self.missing:
            self.missing[part] = self.missing["cell"]
        elif self.remaining_s < LAST.get(part, LEAST_S):
            self.missing[part] = NO_TIME
        return part not in self.missing

    def _ask(self, worker: Worker, request: Request[R]) -> R:
        return worker.ask(request, max(LEAST_S, self.remaining_s))

    def _prepare(
        self, worker: Worker, part: Part, execution: Execution, pipeline: PipelineKind = "resident"
    ) -> Prepared:
        network, batch = self._network(part)
        request = Prepare(
            workload=Workload(network=network_from_name(network)),
            pipeline=Pipeline(kind=pipeline),
            batch=batch,
            slot=SLOTS[part],
            variant=self.target.model_copy(update={"execution": execution}),
            block_ms=BLOCK_MS,
            warmup_ms=WARMUP_MS,
        )
        return self._ask(worker, request)

    def _network(self, part: Part) -> tuple[str, int]:
        if part == "recurrent":
            return RECURRENT, RECURRENT_BATCH
        return NETWORKS["gpu" if self.target.is_gpu else "cpu"]

    def _cell(self, worker: Worker) -> CellReading:
        prepared = self._prepare(worker, "cell", "graph")
        self.block_steps = prepared.steps_per_block
        step_ms = min(prepared.latency_ms)
        self.traced_steps = max(LEAST_STEPS, min(MOST_STEPS, math.ceil(TRACED_MS / step_ms)))
        network, batch = self._network("cell")
        sample = math.prod(network_from_name(network).input_shape)
        return CellReading(
            network=network,
            batch=batch,
            batch_bytes=batch * (FLOAT_BYTES * sample + LABEL_BYTES),
            placement=prepared.placement,
            host_ops=prepared.host_ops,
        )

    def _examine(self, worker: Worker, look: Look, part: Part = "cell", steps: int = 1) -> Examined:
        request = Examine(look=look, batch=self._network(part)[1], slot=SLOTS[part], steps=steps)
        return self._ask(worker, request)

    def _loops(self, worker: Worker) -> Loops:
        ms = self._examine(worker, "loops", steps=self.block_steps).ms
        return Loops(
            steps=self.block_steps,
            block_ms=ms["block"],
            bare_ms=ms["bare"],
            synced_ms=ms["synced"],
            sync_ms=ms["sync"][0],
            clock_ms=ms["clock"][0],
        )

    def _trace(self, worker: Worker) -> tuple[TraceReading, ...]:
        traces: list[TraceReading] = []
        while len(traces) < TRACES and (not traces or self.remaining_s > LEAST_S):
            self.check()
            traces.append(self._traced(worker, "cell"))
        return tuple(traces)

    def _traced(self, worker: Worker, part: Part) -> TraceReading:
        request = TraceSteps(batch=self._network(part)[1], slot=SLOTS[part], steps=self.traced_steps)
        return TraceReading.of(self._ask(worker, request))

    def _factor(self, worker: Worker) -> Factor:
        with self.asking.watched(worker):  # by far the longest work of a GPU here
            examined = self._examine(worker, "factor")
        self.readings["card"] = self.asking.card
        return Factor(**examined.counts, **{f"{name}_ms": values for name, values in examined.ms.items()})

    def _memory(self, worker: Worker) -> Memory:
        return Memory(**self._examine(worker, "memory").counts)

    def _host(self, worker: Worker) -> TraceReading:
        self._prepare(worker, "host", "graph", "host")
        return self._traced(worker, "host")

    def _clusters(self, worker: Worker) -> Clusters:
        self._prepare(worker, "clusters", "xla")
        clusters = Clusters(**self._examine(worker, "clusters", "clusters", self.traced_steps).counts)
        if self.target.is_gpu:
            with suppress(CellFailed):  # costs its own check alone
                self.readings["xla_trace"] = self._traced(worker, "clusters")
        return clusters

    def _recurrent(self, worker: Worker) -> tuple[str, ...]:
        return self._prepare(worker, "recurrent", "graph").placement

    def _floor(self) -> None:
        """Run the host study, without its machine and names. It ends in time, whatever it awaits. Raises Cancelled."""
        if not self._begins("floor"):
            return
        if (study := self._study("floor", lambda tools: run_host_study(tools, HostPlan(budget_s=FLOOR_S)))) is None:
            return
        rounds = tuple(item.model_copy(update={"interference": Interference()}) for item in study.rounds)
        warnings = tuple(w.model_copy(update={"text": anonymous(w.text)}) for w in study.warnings)
        self.host = study.model_copy(update={"environment": None, "rounds": rounds, "warnings": warnings})
        self.readings["floor"] = True

    def _equal(self) -> None:
        """Run a short sweep of the target against itself, if it can be measured at all. Raises Cancelled."""
        if "lost" in self.readings and "cell" not in self.readings:
            self.missing["equal"] = self.readings["lost"]
        elif "misplaced" in self.readings:
            self.missing["equal"] = self.readings["misplaced"]
        if "equal" in self.missing or not self._begins("equal"):
            return
        network, batch = self._network("cell")
        plan = resolution_plan(
            Workload(network=network_from_name(network)),
            self.target.model_copy(update={"execution": "graph"}),
            spread_batches(1, batch, count=EQUAL_BATCHES),
            min(EQUAL_S, self.remaining_s),
        )
        if (study := self._study("equal", lambda tools: run_resolution(tools, plan))) is None:
            return
        self.readings["equal"] = Equal(
            elapsed_s=study.elapsed_s,
            starts=len({item.process for item in study.run.rounds}),
            rounds=len(study.run.rounds),
            claims=analyse(study.run).claims,
            difference=shown_from(study.run),
        )

    def _study(self, part: Part, run: Callable[[StudyTools], S]) -> S | None:
        """Run a whole study in the remaining time; return None if it measured nothing, with the reason noted.

        Raises Cancelled.
        """
        until = _Until(self.tools.cancel, self.clock, self.end_s)
        try:
            return run(dataclasses.replace(self.tools, cancel=until, report=unheard))
        except StudyFailed as error:
            self.check()
            self.missing[part] = NO_TIME if until.is_set() else anonymous(str(error))
            return None


class _Until(threading.Event):
    """Cancel event that is also set at the end of the time."""

    def __init__(self, wish: threading.Event, clock: Clock, end_s: float) -> None:
        super().__init__()
        self._wish, self._clock, self._end_s = wish, clock, end_s

    def is_set(self) -> bool:
        return self._wish.is_set() or self._clock.now_s() >= self._end_s


SELF_CHECK: Task[SelfCheckPlan, SelfCheck] = Task(
    name="selfcheck", describe=lambda plan: f"Self-check of {plan.target}", run=run_self_check
)
