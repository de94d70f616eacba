"""Measuring side of a fleet run: one run on this machine, in a thread of its own, reported when asked.

The same engine as ``sweep`` runs here, under this machine's lock. If nobody asks any more, whoever started the run is
gone, and it ends by itself. Independent of Ray.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from core.base.evidence import Status
from core.base.schema import UserError
from core.machine.cores import unhindered
from core.machine.environment import capture_environment, refuse_unusable, resources
from core.machine.interference import InterferenceSampler
from core.machine.lock import Busy, Held, machine_lock
from core.machine.meter import Meter
from core.networks.families.code import refuse_code
from core.rounds.plan import check_fits
from core.rounds.run import Run
from core.studies.fleet import messages
from core.studies.fleet.messages import Ended, Item, Waits
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

ANSWER_S = 5.0
"""Longest time between answers, empty ones included."""
ALONE_S = 90.0
"""Time without a question after which nobody is there any more."""
BUSY_AGAIN_S = 1.0


class NodeRun:
    """Measurement of one run, which keeps new items until they are known elsewhere. Everything but the engine is
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
        self._stop = Stop()
        self._changed = threading.Condition()
        self._items: deque[bytes] = deque()
        self._known = 0
        self._oldest_s: float | None = None
        self._asked_s = time.monotonic()
        self._progress = Progress("starting", "Starting", 0, 0, 0.0, 0.0)
        self._run_id = ""
        self._ended = False
        self._thread: threading.Thread | None = None

    def begin(self, run: bytes) -> None:
        """Start to measure a run without rounds, given as JSON. Returns at once."""
        asked = Run.from_json(run)
        self._run_id = asked.id
        self._thread = threading.Thread(target=self._measure, args=(asked,), name="breakeven-fleet", daemon=True)
        self._thread.start()

    def take(self, question: int, known: int, hold_s: float, answer_s: float = ANSWER_S) -> bytes:
        """Answer a question with the items after number ``known``; items up to it are discarded.

        Waits until there are some and the oldest is ``hold_s`` old, or the run has ended, or ``answer_s`` have passed.
        """
        end_s = time.monotonic() + answer_s
        with self._changed:
            self._asked_s = time.monotonic()
            while self._known < known and self._items:
                self._items.popleft()
                self._known += 1
            while (left_s := self._wait_s(end_s, hold_s)) > 0:
                self._changed.wait(left_s)
            self._asked_s = time.monotonic()
            self._oldest_s = None
            activity, left_s = self._progress.activity, max(0.0, self._progress.remaining_s)
            items = messages.fitting(tuple(self._items))
            return messages.answer(self._run_id, question, self._known + 1, items, activity, left_s)

    def cancel(self) -> None:
        """Stop in order; what was measured is still sent."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def _wait_s(self, end_s: float, hold_s: float) -> float:
        """Return how long an answer may still wait."""
        now_s = time.monotonic()
        if self._ended:
            return 0.0
        if self._items:
            end_s = min(end_s, (self._oldest_s or now_s) + hold_s)
        return end_s - now_s

    # -- what the engine's thread does -----------------------------------------------------------------------------

    def _measure(self, run: Run) -> None:
        status, elapsed_s, reason, refused = "failed", 0.0, "", False
        recorder = _Told(self._tell)
        try:
            unhindered()  # for this thread; its children inherit it
            self._refuse(run)
            task = dataclasses.replace(SWEEP, run=_sweep)
            measure_here(task, run, recorder, self._follow, self._stop, self._instruments, lock=self._machine)
        except Cancelled:
            status = self._stop.status
        except UserError as error:
            reason, refused = str(error), not recorder.began
        except Exception as error:  # a defect ends this run, and is reported
            reason = f"It stopped: {error}"
        status, elapsed_s = recorder.ended or (status, elapsed_s)
        if self._instruments.launcher is launch_processes:
            TEMPLATES.close()
        self._tell(Ended(status=status, elapsed_s=elapsed_s, reason=reason[: messages.MAX_SAID], refused=refused))
        with self._changed:
            self._ended = True
            self._changed.notify_all()

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

    def _follow(self, progress: Progress) -> None:
        self._progress = progress
        self._see_alone()

    @contextmanager
    def _machine(self, title: str) -> Iterator[Held]:
        """Acquire this machine's lock, waiting while another measurement holds it. Raises Cancelled."""
        told = ""
        with ExitStack() as stack:
            while True:
                try:
                    held = stack.enter_context(machine_lock(title))
                    break
                except Busy as busy:
                    if str(busy) != told:
                        told = str(busy)
                        self._tell(Waits(reason=told[: messages.MAX_SAID]))
                self._see_alone()
                if self._stop.wait(BUSY_AGAIN_S):
                    raise Cancelled
            yield held

    def _see_alone(self) -> None:
        if time.monotonic() - self._asked_s > ALONE_S:
            self._stop.interrupt()

    def _tell(self, *items: Item) -> None:
        encoded = [messages.encode(item) for item in items]
        with self._changed:
            self._items.extend(encoded)
            if self._oldest_s is None:
                self._oldest_s = time.monotonic()
            self._changed.notify_all()


def _sweep(tools: StudyTools, run: Run) -> Run:
    """Measure a run, once this machine is free, with its environment of that moment."""
    return run_sweep(tools, run.model_copy(update={"environment": capture_environment(), "created_at": now()}))


class _Told(NullRecorder):
    """Recorder that sends what it is given. ``ended`` is the run's final status and its seconds."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell
        self.began = False
        self.ended: tuple[Status, float] | None = None

    def begin(self, run: Run) -> None:
        self.began = True
        self._tell(run)

    def record(self, run_id: str, records: tuple[Any, ...]) -> None:  # noqa: ARG002
        self._tell(*records)

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:  # noqa: ARG002
        self.ended = status, elapsed_s
