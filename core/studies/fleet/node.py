"""Measuring side of a fleet run: one run on this machine, kept here and polled for what is new.

The same engine as ``sweep`` runs here, under this machine's lock. If nobody polls any more, whoever started the run is
gone, and it ends by itself. Independent of Ray.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from core.base.evidence import Status
from core.base.schema import UserError
from core.machine.cores import unhindered
from core.machine.environment import capture_environment, refuse_unusable, resources
from core.machine.interference import InterferenceSampler
from core.machine.lock import Busy, Held, machine_lock
from core.machine.meter import Meter
from core.networks.families.code import refuse_code
from core.rounds.plan import check_fits
from core.rounds.run import Run, RunRecord
from core.studies.fleet.cluster import RunEnd, Update
from core.studies.here import Instruments, measure_here
from core.studies.progress import Progress
from core.studies.runner import Cancelled, InterferenceSource, MeterSource, NullRecorder, Stop, StudyTools, now
from core.studies.sweep.kind import SWEEP
from core.studies.sweep.supervisor import run_sweep
from core.userdata.source import check_data
from core.worker.clock import Clock, WallClock
from core.worker.interpreters import refuse_python
from core.worker.process import launch_processes
from core.worker.protocol import Launcher
from core.worker.templates import TEMPLATES

ALONE_S = 90.0
"""Time without a poll after which nobody is there any more."""
BUSY_AGAIN_S = 1.0
MAX_REASON = 1_000


class RunKeeper(NullRecorder):
    """Recorder that keeps the one run measured here. ``finished`` is its final status and its seconds."""

    def __init__(self) -> None:
        self.begun: Run | None = None
        self.records: list[RunRecord] = []
        self.finished: tuple[Status, float] | None = None

    def begin(self, run: Run) -> None:
        self.begun = run

    def record(self, run_id: str, records: tuple[RunRecord, ...]) -> None:  # noqa: ARG002
        self.records += records

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:  # noqa: ARG002
        self.finished = status, elapsed_s


class NodeRun:
    """Measurement of one run: :meth:`measure` in one thread, the rest from others. Everything but the engine is
    replaceable for tests.
    """

    def __init__(
        self,
        launcher: Launcher = launch_processes,
        clock: Clock | None = None,
        interference: Callable[[], InterferenceSource | None] = InterferenceSampler,
        meter: Callable[[], MeterSource | None] = Meter,
    ) -> None:
        self._instruments = Instruments(launcher, clock or WallClock(), interference, meter)
        self._stop, self._keeper = Stop(), RunKeeper()
        self._waiting = ""
        self._left_s = 0.0
        self._polled_s = time.monotonic()
        self._end: RunEnd | None = None

    def poll(self, last_seq: int) -> Update:
        """Return what is new after the first ``last_seq`` records. Asking again gives the same, and more."""
        self._polled_s = time.monotonic()
        end, keeper = self._end, self._keeper  # the end is read first, as no record comes after it
        begun = keeper.begun if last_seq == 0 else None
        return Update(last_seq, tuple(keeper.records[last_seq:]), begun, self._waiting, self._left_s, end)

    def cancel(self) -> None:
        """Stop in order; what was measured can still be polled."""
        self._stop.set()

    def measure(self, run: Run) -> None:
        """Measure a run without rounds, to its end."""
        status: Status = "failed"
        elapsed_s, reason, refused = 0.0, "", False
        try:
            unhindered()  # for this thread; its children inherit it
            self._refuse(run)
            task = dataclasses.replace(SWEEP, run=_sweep)
            measure_here(task, run, self._keeper, self._report, self._stop, self._instruments, lock=self._machine)
        except Cancelled:
            status = self._stop.status
        except UserError as error:
            reason, refused = str(error), self._keeper.begun is None
        except Exception as error:  # a defect ends this run, and is reported
            reason = f"It stopped: {error}"
        status, elapsed_s = self._keeper.finished or (status, elapsed_s)
        if self._instruments.launcher is launch_processes:
            TEMPLATES.close()
        self._end = RunEnd(status, elapsed_s, reason[:MAX_REASON], refused)

    def _refuse(self, run: Run) -> None:
        """Raise UserError if this machine cannot, or must not, measure the plan."""
        assert run.plan is not None
        plan = run.plan
        refuse_code(plan.workload.network)
        refuse_python(plan.targets)
        refuse_unusable(plan.targets)
        if plan.pipeline.data is not None:
            check_data(plan.pipeline.data)
        here = resources()
        if here.memory_available_bytes is not None:
            check_fits(plan, here.memory_available_bytes, here.limited_words)

    def _report(self, progress: Progress) -> None:
        self._left_s = max(0.0, progress.remaining_s)
        self._check_alone()

    @contextmanager
    def _machine(self, title: str) -> Iterator[Held]:
        """Acquire this machine's lock, waiting while another measurement holds it. Raises Cancelled."""
        with ExitStack() as stack:
            while True:
                try:
                    held = stack.enter_context(machine_lock(title))
                    break
                except Busy as busy:
                    self._waiting = str(busy)[:MAX_REASON]
                self._check_alone()
                if self._stop.wait(BUSY_AGAIN_S):
                    raise Cancelled
            yield held

    def _check_alone(self) -> None:
        if time.monotonic() - self._polled_s > ALONE_S:
            self._stop.interrupt()


def _sweep(tools: StudyTools, run: Run) -> Run:
    """Measure a run, once this machine is free, with its environment of that moment."""
    return run_sweep(tools, run.model_copy(update={"environment": capture_environment(), "created_at": now()}))
