"""The job of this process: one sweep, study or demonstration at a time, in a background thread, seen as snapshots.

Pages and the command line start, cancel and watch through this class; nothing else owns an engine thread. Snapshots
are immutable, so any number of browser tabs may read them while the engine goes on.
"""

from __future__ import annotations

import atexit
import dataclasses
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from core.environment import capture_environment
from core.families.code import refuse_code
from core.measure.clock import Clock, WallClock
from core.measure.lock import Busy, holder, machine_lock
from core.measure.noise import NoiseSampler
from core.measure.pair import NoiseSource, SweepFailed
from core.measure.process import launch_processes
from core.measure.progress import Progress, Recorder, Snapshot
from core.measure.protocol import Launcher, WorkerError
from core.measure.studies import StudyFailed, StudyRecord, StudySnapshot, StudyTools
from core.measure.supervisor import run_sweep
from core.results import Run
from core.spec import SweepPlan
from core.store import new_run_id
from core.store.studies import StudyKind

__all__ = ["Busy", "Jobs", "TaskSnapshot", "new_run"]

StudyWork = Callable[[StudyTools], StudyRecord]


class RunStore(Recorder, Protocol):
    """A recorder that can also read a run back; :class:`core.store.Store` is one."""

    def load(self, run_id: str) -> Run: ...

    def add_study(self, kind: StudyKind, study_id: str, run_id: str | None, body: str) -> None: ...


class TaskSnapshot:
    """A short measurement that is no sweep (the demonstration of pitfalls): running, done or failed."""

    def __init__(self, description: str) -> None:
        self.description = description
        self.result: Any = None
        self.error: str | None = None
        self.active = True


def new_run(run_id: str, plan: SweepPlan, name: str | None = None) -> Run:
    """A run without rounds, with this machine's environment."""
    return Run(
        id=run_id,
        name=name or plan.title,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        label="measured",
        status="running",
        target_names=plan.target_names,
        plan=plan,
        environment=capture_environment(),
    )


class Jobs:
    """Owns at most one engine thread. Create one per process and close it at the end.

    Everything but the store is replaceable for tests.
    """

    def __init__(
        self,
        store: RunStore,
        launcher: Launcher = launch_processes,
        clock: Clock | None = None,
        noise: Callable[[], NoiseSource | None] = NoiseSampler,
    ) -> None:
        self._store = store
        self._launcher, self._clock, self._noise = launcher, clock or WallClock(), noise
        self._guard = threading.Lock()
        self._cancel = threading.Event()
        self._thread: threading.Thread | None = None
        self._snapshot: Snapshot | None = None
        self._task: TaskSnapshot | None = None
        self._study: StudySnapshot | None = None
        atexit.register(self.close)

    def start(self, plan: SweepPlan, name: str | None = None) -> str:
        """Begin a sweep and return its run id. Raises Busy with a sentence, or ValueError for a person's own code."""
        return self._begin(lambda: new_run(new_run_id(), plan, name))

    def resume(self, run_id: str) -> str:
        """Take an interrupted or cancelled run up again. Raises Busy, or ValueError when it has no plan.

        One of a person's own code is refused as well: nobody asked here for that code to be run.
        """

        def load() -> Run:
            run = self._store.load(run_id)
            if run.plan is None:
                raise ValueError("Only points were imported for this run; it has no plan that could go on.")
            return run

        return self._begin(load)

    def run_task(self, description: str, work: Callable[[], Any]) -> bool:
        """Run a short measurement in the background, under the same lock; False when something else is running."""
        with self._guard:
            if self._is_active() or holder() is not None:
                return False
            task = self._task = TaskSnapshot(description)
            self._thread = threading.Thread(target=self._do_task, args=(task, work), name="breakeven-task", daemon=True)
            self._thread.start()
        return True

    def start_study(self, kind: StudyKind, description: str, work: StudyWork) -> bool:
        """Run a study in the background and store it; False when something else is running."""
        with self._guard:
            if self._is_active() or holder() is not None:
                return False
            self._cancel = threading.Event()
            self._study = StudySnapshot(kind, description, active=True)
            tools = StudyTools(self._launcher, self._clock, self._cancel, self._noise, self._keep_progress)
            self._thread = threading.Thread(
                target=self._do_study, args=(kind, work, tools), name="breakeven-study", daemon=True
            )
            self._thread.start()
        return True

    def study_snapshot(self) -> StudySnapshot | None:
        """The study that is running, or the last one of this process."""
        return self._study

    def cancel(self) -> None:
        """Ask the sweep or study to stop; what it measured is kept."""
        self._cancel.set()

    def snapshot(self) -> Snapshot | None:
        """The current sweep, or the last one of this process."""
        return self._snapshot

    def task_snapshot(self) -> TaskSnapshot | None:
        return self._task

    def busy_elsewhere(self) -> str | None:
        """A sentence when another process on this machine measures, else None."""
        return None if self._is_active() else holder()

    def wait(self, timeout_s: float | None = None) -> None:
        """Block until the engine thread has ended."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def close(self) -> None:
        """Cancel and wait: workers end before the process does."""
        self.cancel()
        self.wait(30.0)

    def _is_active(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _begin(self, make: Callable[[], Run]) -> str:
        with self._guard:
            if self._is_active():
                raise Busy("A measurement is already running here; cancel it or wait until it is done.")
            if (elsewhere := holder()) is not None:
                raise Busy(elsewhere)
            run = make()
            if run.plan is not None:
                refuse_code(run.plan.workload.network)
            self._cancel = threading.Event()
            progress = Progress("starting", "Starting", 0, 0, run.elapsed_s, 0.0)
            self._snapshot = Snapshot(run.model_copy(update={"status": "running"}), progress, None, 0)
            self._thread = threading.Thread(
                target=self._do_sweep, args=(run, self._cancel), name="breakeven-sweep", daemon=True
            )
            self._thread.start()
        return run.id

    def _do_sweep(self, run: Run, cancel: threading.Event) -> None:
        try:
            with machine_lock(run.name):
                run_sweep(
                    run,
                    launcher=self._launcher,
                    clock=self._clock,
                    recorder=self._store,
                    cancel=cancel,
                    on_progress=self._keep,
                    noise=self._noise(),
                )
        except (Busy, SweepFailed) as error:
            self._fail(str(error))
        except Exception as error:  # whatever breaks ends this sweep, never the app
            self._fail(f"The sweep stopped: {error}")

    def _do_task(self, task: TaskSnapshot, work: Callable[[], Any]) -> None:
        try:
            with machine_lock(task.description):
                task.result = work()
        except Exception as error:  # shown on the page that asked
            task.error = str(error)
        finally:
            task.active = False

    def _do_study(self, kind: StudyKind, work: StudyWork, tools: StudyTools) -> None:
        assert self._study is not None
        result, error = None, None
        try:
            with machine_lock(self._study.description):
                result = work(tools)
            self._store.add_study(kind, new_run_id(), getattr(result, "run_id", None), result.to_json())
        except (Busy, StudyFailed, SweepFailed, WorkerError) as failure:
            error = str(failure)
        except Exception as failure:  # whatever breaks ends this study, never the app
            error = f"The study stopped: {failure}"
        self._study = dataclasses.replace(self._study, active=False, result=result, error=error)

    def _keep_progress(self, progress: Progress) -> None:
        assert self._study is not None
        self._study = dataclasses.replace(self._study, progress=progress)

    def _keep(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def _fail(self, sentence: str) -> None:
        last = self._snapshot
        assert last is not None
        progress = Progress(
            "done", "Failed", last.progress.cells_done, last.progress.cells_total, last.progress.elapsed_s, 0.0
        )
        run = last.run.model_copy(update={"status": "failed"})
        self._snapshot = Snapshot(run, progress, last.answer, last.revision + 1, sentence)
