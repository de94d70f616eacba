"""The job of a process, for every kind of study: started once, watched by many, cancelled, never fatal."""

import dataclasses
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from core.base.schema import UserError
from core.machine.lock import Busy, machine_lock
from core.rounds.run import Run
from core.studies import store_queue
from core.studies.experiment.record import Arm, Experiment
from core.studies.experiment.run import ExperimentPlan, measure_arms
from core.studies.jobs import Jobs
from core.studies.kind import Kind, Task
from core.studies.pipeline.kind import PIPELINE
from core.studies.progress import Progress, Snapshot
from core.studies.runner import StudyFailed, StudyTools
from core.studies.sweep.kind import SWEEP, new_run
from core.worker.protocol import WorkerLost
from core.workload.spec import Pipeline, Target, Workload
from simulated.simulation import Curve, Fault, Machine
from simulated.sweeps import MemoryRecorder, plan
from tests.support.gpus import BLACKWELL, plug_in

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))


class MemoryStore(MemoryRecorder):
    def __init__(self) -> None:
        super().__init__()
        self.studies: list[tuple[str, str, Any]] = []

    def add_study(self, kind: str, study_id: str, record: Any, name: str | None = None) -> None:  # noqa: ARG002
        self.studies.append((kind, study_id, record))


class Gated(Machine):
    """Machine that waits for the test before its workers start."""

    def launch(self, targets, deadline_s, *_):
        self.gate.wait(20)
        return super().launch(targets, deadline_s)


@pytest.fixture
def machine() -> Gated:
    machine = Gated(CROSSING)
    machine.gate = threading.Event()
    return machine


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def jobs(machine: Gated, store: MemoryStore):
    made = Jobs(store, launcher=machine.launch, clock=machine.clock, interference=lambda: None, meter=lambda: None)
    yield made
    machine.gate.set()
    made.close()


def begin_sweep(jobs: Jobs, **changes: Any) -> str:
    return jobs.start(SWEEP, new_run(plan(**changes), "My sweep"))


def ended(jobs: Jobs, machine: Gated) -> Snapshot:
    """Let the workers start, wait for the end, and look."""
    machine.gate.set()
    jobs.wait(30)
    snapshot = jobs.snapshot()
    assert not snapshot.active
    with machine_lock("free again"):
        return snapshot


def arms_plan() -> ExperimentPlan:
    arms = tuple(
        Arm(code=code, title=code, target=Target(), pipeline=pipeline, batch=32)
        for code, pipeline in (("resident", Pipeline()), ("host", Pipeline(kind="host")))
    )
    return ExperimentPlan(Workload(network="784-128-10"), arms, 30.0)


def study(run: Any = None) -> Kind[Any, Experiment, Any]:
    """Return a kind whose plan does not matter."""
    work = run or (lambda tools, _: measure_arms(tools, arms_plan()))
    return dataclasses.replace(PIPELINE, describe=lambda _: "a study", run=work, targets=lambda _: ())


def test_a_sweep_runs_in_the_background(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    run_id = begin_sweep(jobs)
    running = jobs.snapshot("sweep")
    assert (running.id, running.title, running.active) == (run_id, "My sweep", True)
    assert running.record.rounds == ()
    done = ended(jobs, machine)
    assert (done.record.status, done.record.name, done.error) == ("finished", "My sweep", None)
    assert done.record.environment is not None
    assert done.answer.verdict.kind == "crossover"
    assert store.finished[0] == "finished"
    assert store.studies == [], "its rounds were kept as they came"


class Watching:
    """A part of a page that waits for pauses again after each wake-up, and notes what there was to draw."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs, self.seen, self._waits = jobs, [], ExitStack()
        self.wait()

    def wait(self) -> None:
        self._waits.enter_context(self.jobs.pauses.waiting(self.wake, changes=False, pauses=True))

    def wake(self) -> None:
        self.seen.append(self.jobs.snapshot())
        self.wait()


def test_a_sweep_pauses_for_a_page_between_visits_and_has_its_first_answer_drawn(jobs: Jobs, machine: Gated) -> None:
    page = Watching(jobs)
    begin_sweep(jobs)
    record = ended(jobs, machine).record
    assert all(snapshot.active for snapshot in page.seen)
    with_answer = [snapshot for snapshot in page.seen if snapshot.answer is not None]
    assert len(with_answer[0].record.rounds) <= 12, "it is drawn with the first visit"
    assert 2 <= len(page.seen) <= 2 + record.elapsed_s / 10


def test_every_page_is_told_of_the_beginning_a_wish_to_stop_and_the_end(jobs: Jobs, machine: Gated) -> None:
    told: list[bool] = []

    def wake() -> None:
        told.append(jobs.snapshot().active)

    for act in (lambda: begin_sweep(jobs), jobs.cancel, lambda: ended(jobs, machine)):
        with jobs.pauses.waiting(wake, changes=True, pauses=False):
            act()
    assert told == [True, True, False]


@pytest.mark.usefixtures("no_patience")
def test_a_study_runs_in_the_background_under_the_machines_lock(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    held: list[bool] = []

    def watched(tools: StudyTools, _: object) -> Experiment:
        with pytest.raises(Busy), machine_lock("something else"):
            pass
        held.append(True)
        return measure_arms(tools, arms_plan())

    assert jobs.snapshot("pipeline") is None
    study_id = jobs.start(study(watched), None)
    running = jobs.snapshot("pipeline")
    assert (running.kind, running.id, running.title, running.active) == ("pipeline", study_id, "a study", True)
    assert running.record is None
    done = ended(jobs, machine)
    assert (done.error, done.record.status, done.progress.activity) == (None, "finished", "Finished")
    assert held == [True]
    assert store.studies == [("pipeline", study_id, done.record)]


def test_what_is_measured_elsewhere_neither_waits_for_this_machine_nor_holds_it(
    jobs: Jobs, machine: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(tools: StudyTools, _: Any) -> str:
        with machine_lock("what is measured here meanwhile"):
            return f"{tools.interference} {tools.meter}"

    monkeypatch.setattr("core.studies.jobs.holder", lambda: "Another process measures.")
    with pytest.raises(Busy):
        jobs.start(Task(name="near", describe=str, run=run), "a plan")
    jobs.start(Task(name="away", describe=str, run=run, here=False), "a plan")
    assert ended(jobs, machine).record == "None None"


def test_a_task_reports_and_is_not_kept(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    jobs.start(Task(name="demo", describe=lambda n: f"{n} times", run=lambda _, n: 2 * n), 21)
    done = ended(jobs, machine)
    assert (done.kind, done.title, done.record) == ("demo", "21 times", 42)
    assert store.studies == []


def test_only_one_measurement_runs_whatever_its_kind(jobs: Jobs, machine: Gated) -> None:
    begin_sweep(jobs)
    for task, asked in ((SWEEP, new_run(plan())), (study(), None), (Task(name="x", describe=str, run=id), 1)):
        with pytest.raises(Busy, match="already running here"):
            jobs.start(task, asked)  # type: ignore[arg-type]
    assert jobs.snapshot("pipeline") is None
    ended(jobs, machine)
    jobs.start(study(), None)
    assert ended(jobs, machine).kind == "pipeline"
    assert jobs.snapshot("sweep") is not None, "what ended earlier can still be asked for"


def test_busy_elsewhere_is_said(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "Another Breakeven process (pid 1) is measuring: x."
    monkeypatch.setattr("core.studies.jobs.holder", lambda: sentence)
    assert jobs.busy_elsewhere() == sentence
    with pytest.raises(Busy, match="pid 1"):
        jobs.start(study(), None)
    assert jobs.snapshot() is None


def test_cancelling_ends_a_sweep_and_keeps_it(jobs: Jobs, machine: Gated) -> None:
    begin_sweep(jobs)
    jobs.cancel()
    assert ended(jobs, machine).record.status == "cancelled"


def test_the_end_of_the_process_interrupts_what_runs(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    """Interrupt before the first round, too: nobody cancelled it, so it can be resumed."""
    begin_sweep(jobs)
    assert not jobs.stopping
    threading.Timer(0.2, machine.gate.set).start()
    jobs.close()
    assert store.finished is not None
    assert store.finished[0] == "interrupted"
    assert not store.deleted
    assert not jobs.stopping


@pytest.mark.parametrize("by_user", [True, False])
def test_what_a_study_measured_before_it_was_stopped_is_kept_with_who_stopped_it(
    jobs: Jobs, machine: Gated, store: MemoryStore, by_user: bool
) -> None:
    def stopped(tools: StudyTools, _: object) -> Experiment:
        def report(progress: Progress) -> None:
            if progress.activity.startswith("Measuring") and not tools.cancel.is_set() and next(seen) == 3:
                (jobs.cancel if by_user else tools.cancel.interrupt)()
                assert jobs.stopping

        seen = iter(range(1000))
        return measure_arms(dataclasses.replace(tools, report=report), arms_plan())

    jobs.start(study(stopped), None)
    assert ended(jobs, machine).record.status == ("cancelled" if by_user else "interrupted")
    assert len(store.studies) == 1


def test_a_sweep_that_its_user_cancelled_stays_so_at_the_end(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    begin_sweep(jobs)
    jobs.cancel()
    assert jobs.stopping
    machine.gate.set()
    jobs.close()
    assert store.finished is not None
    assert store.finished[0] == "cancelled"


def test_cancelling_ends_a_study_and_keeps_its_rounds(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    said: list[str] = []

    def cancelled(tools: StudyTools, _: object) -> Experiment:
        def report(progress: Progress) -> None:
            said.append(progress.activity)
            tools.report(progress)
            if said.count("Measuring all variants in turn") == 3:
                jobs.cancel()

        return measure_arms(dataclasses.replace(tools, report=report), arms_plan())

    jobs.start(study(cancelled), None)
    done = ended(jobs, machine)
    assert (done.record.status, len(done.record.rounds), done.progress.activity) == ("cancelled", 2, "Cancelled")
    assert len(store.studies) == 1
    jobs.start(study(), None)
    assert ended(jobs, machine).record.status == "finished", "the next one is not cancelled with it"


def test_a_study_cancelled_before_its_first_round_is_not_kept(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    jobs.start(study(), None)
    jobs.cancel()
    done = ended(jobs, machine)
    assert done.record is None
    assert "before the first" in done.error
    assert store.studies == []


def test_an_interrupted_run_goes_on_under_its_id(jobs: Jobs, machine: Gated) -> None:
    run_id = begin_sweep(jobs)
    first = ended(jobs, machine).record
    assert jobs.start(SWEEP, first.model_copy(update={"status": "interrupted"})) == run_id
    again = ended(jobs, machine).record
    assert len(again.rounds) > len(first.rounds)
    assert again.status == "finished"


def test_what_a_kind_refuses_is_not_begun(jobs: Jobs) -> None:
    bare = Run(
        id="imported-1",
        name="x",
        created_at="2026-01-01T00:00:00+00:00",
        label="recorded",
        status="finished",
        target_names=("a", "b"),
    )
    with pytest.raises(UserError, match="no plan"):
        jobs.start(SWEEP, bare)
    assert jobs.snapshot() is None


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (StudyFailed("Nothing could be measured."), "Nothing could be measured."),
        (WorkerLost("crashed", "The worker was killed."), "The worker was killed."),
        (ZeroDivisionError("division by zero"), "a study stopped: division by zero"),
    ],
)
def test_a_study_that_fails_says_why(
    jobs: Jobs, machine: Gated, store: MemoryStore, error: Exception, sentence: str
) -> None:
    def fails(*_: object) -> Experiment:
        raise error

    jobs.start(study(fails), None)
    done = ended(jobs, machine)
    assert (done.error, done.record) == (sentence, None)
    assert store.studies == []


def test_a_study_whose_first_way_fails_says_why(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    machine.faults = (Fault(0, 1, "out_of_memory"),)
    jobs.start(study(), None)
    assert "out_of_memory at batch" in ended(jobs, machine).error
    assert store.studies == []


@pytest.mark.parametrize("method", ["begin", "record", "add_study"])
def test_a_full_disk_costs_no_measurement_and_is_written_when_there_is_room(
    jobs: Jobs, machine: Gated, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(store_queue, "RETRY_S", 0.01)
    monkeypatch.setattr(store, method, full)
    if method == "add_study":
        jobs.start(study(), None)
    else:
        begin_sweep(jobs)
    done = ended(jobs, machine)
    assert (done.record.status, done.error) == ("finished", None)
    assert done.unwritten.startswith("The history lacks ")
    assert "No space left" in done.unwritten
    monkeypatch.undo()
    jobs.close()
    assert jobs.snapshot().unwritten is None
    assert store.studies or tuple(store.rounds) == done.record.rounds


@pytest.mark.parametrize("env", [{}, {"CUDA_VISIBLE_DEVICES": ""}])
def test_a_gpu_that_cannot_be_used_is_refused_before_a_worker_starts(
    jobs: Jobs, machine: Gated, monkeypatch: pytest.MonkeyPatch, env: dict[str, str]
) -> None:
    plug_in(monkeypatch, BLACKWELL, **env)
    with pytest.raises(UserError, match="hides every GPU" if env else "CUDA_ERROR_INVALID_PTX"):
        begin_sweep(jobs)
    assert (machine.starts, jobs.snapshot()) == (0, None)
    begin_sweep(jobs, targets=(Target(threads=1), Target(threads=2)))
    assert ended(jobs, machine).error is None


def test_the_source_of_interference_is_closed(machine: Gated, store: MemoryStore) -> None:
    closed: list[bool] = []
    watched: list[Any] = []

    class Source:
        def watch(self, targets: Any) -> None:
            watched.append(targets)

        def reset(self, *_: object) -> None: ...

        def sample(self, *_: object) -> Any:
            raise StudyFailed("broken")

        def close(self) -> None:
            closed.append(True)

    jobs = Jobs(store, launcher=machine.launch, clock=machine.clock, interference=Source, meter=lambda: None)
    begin_sweep(jobs)
    assert ended(jobs, machine).error == "broken"
    assert closed == [True]
    assert watched == [plan().targets]


def test_workers_are_warmed_up_unless_somebody_measures(store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("core.studies.jobs.warm_up", lambda: asked.append(1))
    jobs = Jobs(store, interference=lambda: None, meter=lambda: None)
    jobs.warm_up()
    assert len(asked) == 1
    monkeypatch.setattr("core.studies.jobs.holder", lambda: "Another process measures.")
    jobs.warm_up()
    Jobs(store, launcher=Machine(CROSSING).launch).warm_up()
    assert len(asked) == 1
    jobs.close()
