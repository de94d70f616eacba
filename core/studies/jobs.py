"""The job of this process: one measurement at a time, of any kind, in a background thread, observed as snapshots.

Pages start, cancel and watch through this class; nothing else owns an engine thread. Snapshots are immutable, so any
number of browser tabs may read them while the engine runs.
"""

from __future__ import annotations

import atexit
import dataclasses
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from core.base.files import READ_ONLY, read_only
from core.base.schema import UserError
from core.machine.environment import refuse_unusable
from core.machine.interference import InterferenceSampler
from core.machine.lock import Busy, holder
from core.machine.meter import Meter
from core.studies.here import Instruments, measure_here
from core.studies.kind import Kind, Task
from core.studies.pauses import Pauses
from core.studies.progress import Progress, Snapshot
from core.studies.runner import Cancelled, InterferenceSource, MeterSource, Stop
from core.studies.store_queue import StoreQueue, StudyStore
from core.worker.clock import Clock, WallClock
from core.worker.process import launch_processes, warm_up
from core.worker.protocol import Launcher
from core.worker.templates import TEMPLATES

P = TypeVar("P")


class Jobs:
    """Owner of at most one engine thread. Create one per process and close it at the end.

    Everything but the store is replaceable for tests.
    """

    def __init__(
        self,
        store: StudyStore,
        launcher: Launcher = launch_processes,
        clock: Clock | None = None,
        interference: Callable[[], InterferenceSource | None] = InterferenceSampler,
        meter: Callable[[], MeterSource | None] = Meter,
    ) -> None:
        self._queue = StoreQueue(store)
        self._instruments = Instruments(launcher, clock or WallClock(), interference, meter)
        self.pauses = Pauses(self._instruments.clock)
        self._guard = threading.Lock()
        self._stop = Stop()
        self._thread: threading.Thread | None = None
        self._snapshots: dict[str, Snapshot] = {}
        self._current = ""
        atexit.register(self.close)

    def warm_up(self) -> None:
        """Import frameworks ahead, so that workers soon start at once. Skipped during any measurement on this machine,
        which it would disturb; a measurement here is followed by it.
        """
        if self._instruments.launcher is launch_processes and not self._is_active() and holder() is None:
            warm_up()

    def start(self, task: Task[P, Any], plan: P) -> str:
        """Begin to measure and return the id of the result. Raises Busy, or UserError for a bad plan."""
        if read_only():
            raise Busy(f"Nothing is measured here: this server only reads ({READ_ONLY}).")
        with self._guard:
            if self._is_active():
                raise Busy("A measurement is already running here; cancel it or wait until it is done.")
            if task.here and (elsewhere := holder()) is not None:
                raise Busy(elsewhere)
            task.check(plan)
            refuse_unusable(task.targets(plan))  # empty for a task that measures elsewhere
            streams = isinstance(task, Kind) and task.streams
            progress = Progress("starting", "Starting", 0, 0, 0.0, 0.0)
            snapshot = Snapshot(
                task.name, task.id_of(plan), task.describe(plan), progress, record=plan if streams else None
            )
            self._queue.forget()
            self._stop, self._current = Stop(), task.name
            self._snapshots[task.name] = snapshot
            self.pauses.begin()
            self._thread = threading.Thread(
                target=self._measure, args=(task, plan, self._stop), name=f"breakeven-{task.name}", daemon=True
            )
            self._thread.start()
        return snapshot.id

    def snapshot(self, kind: str | None = None) -> Snapshot | None:
        """Return the last measurement of that kind in this process, or of any kind; it may be running."""
        last = self._snapshots.get(self._current if kind is None else kind)
        if last is None or last.kind != self._current:
            return last
        return dataclasses.replace(last, unwritten=self._queue.unwritten())

    def cancel(self) -> None:
        """Ask the running measurement to stop; what it measured is kept."""
        self._stop.set()
        self.pauses.change()

    @property
    def writing(self) -> bool:
        """Tell whether something measured here is still on its way to the store."""
        return self._is_active() or self._queue.waiting

    @property
    def stopping(self) -> bool:
        """Tell whether the running measurement was asked to stop and has not ended yet."""
        return self._is_active() and self._stop.is_set()

    def busy_elsewhere(self) -> str | None:
        """Return a sentence if another process on this machine measures, else None."""
        return None if self._is_active() else holder()

    def wait(self, timeout_s: float | None = None) -> None:
        """Block until the engine thread has ended."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def close(self) -> None:
        """Interrupt and wait: workers end before the process does, results are written if possible, and a sweep can be
        resumed.
        """
        self._stop.interrupt()
        self.pauses.change()
        self.wait(30.0)
        self._queue.close()
        if self._instruments.launcher is launch_processes:
            TEMPLATES.close()

    def _is_active(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _measure(self, task: Task[P, Any], plan: P, stop: Stop) -> None:
        last = self._snapshots[task.name]
        result, error, cancelled = None, None, False
        try:
            result = measure_here(
                task, plan, self._queue, partial(self._follow, task), stop, self._instruments,
                study_id=last.id, pause=partial(self.pauses.pause, stop),
            )  # fmt: skip
        except UserError as failure:
            error, cancelled = str(failure), isinstance(failure, Cancelled)
        except Exception as failure:  # any failure ends this measurement, never the app
            error = f"{last.title} stopped: {failure}"
        if task.here and self._instruments.launcher is launch_processes and not stop.is_set():
            warm_up()  # lets the next one start as quickly
        last = self._snapshots[task.name]
        progress = dataclasses.replace(last.progress, phase="done")
        record = last.record if result is None else result
        self._snapshots[task.name] = dataclasses.replace(
            last, progress=progress, active=False, record=record, error=error, cancelled=cancelled
        )
        self.pauses.change()

    def _follow(self, task: Task[Any, Any], progress: Progress) -> None:
        """Keep the progress for whoever watches."""
        last = self._snapshots[task.name]
        if last.answer is None and progress.answer is not None:
            self.pauses.soon()
        self._snapshots[task.name] = dataclasses.replace(
            last,
            progress=progress,
            reported_s=time.monotonic(),
            record=last.record if progress.record is None else progress.record,
            answer=last.answer if progress.answer is None else progress.answer,
        )
        if not task.here:  # other machines do the measuring
            self.pauses.pause(self._stop, longest_s=0.0)
