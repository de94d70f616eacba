"""The job of a process: started once, watched by many, cancelled, resumed, never fatal."""

import dataclasses
import threading
import time

import pytest

from core.experiment import Arm, Experiment
from core.measure.jobs import Busy, Jobs
from core.measure.lock import machine_lock
from core.measure.pair import SweepFailed
from core.measure.progress import Progress
from core.measure.protocol import WorkerLost
from core.measure.studies import ExperimentPlan, StudyFailed, StudyTools, measure_arms
from core.results import Run
from core.spec import Pipeline, Target, Workload
from core.store.studies import StudyKind
from tests.support.diagnoses import make_diagnosis
from tests.support.runs import make_run
from tests.support.simulation import Curve, Fault, Machine
from tests.support.sweeps import MemoryRecorder, plan

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))


class MemoryStore(MemoryRecorder):
    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[str, Run] = {}
        self.studies: list[tuple[StudyKind, str, str | None, str]] = []

    def begin(self, run: Run) -> None:
        super().begin(run)
        self.runs[run.id] = run

    def load(self, run_id: str) -> Run:
        return self.runs[run_id]

    def add_study(self, kind: StudyKind, study_id: str, run_id: str | None, body: str) -> None:
        self.studies.append((kind, study_id, run_id, body))


class Gated(Machine):
    """Waits for the test before its workers start."""

    def launch(self, targets, deadline_s):
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
    made = Jobs(store, launcher=machine.launch, clock=machine.clock, noise=lambda: None)
    yield made
    machine.gate.set()
    made.close()


def test_a_sweep_runs_in_the_background(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    run_id = jobs.start(plan(), "My sweep")
    assert jobs.snapshot().run.id == run_id
    assert jobs.snapshot().active
    machine.gate.set()
    jobs.wait(30)
    done = jobs.snapshot()
    assert not done.active
    assert done.run.status == "finished"
    assert done.run.name == "My sweep"
    assert done.run.environment is not None
    assert done.answer.verdict.kind == "crossover"
    assert store.finished[0] == "finished"


def test_a_second_start_is_refused_with_a_sentence(jobs: Jobs, machine: Gated) -> None:
    jobs.start(plan())
    with pytest.raises(Busy, match="already running here"):
        jobs.start(plan())
    assert jobs.run_task("pitfalls", lambda: 1) is False
    machine.gate.set()
    jobs.wait(30)
    jobs.start(plan())


def test_busy_elsewhere_is_said(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "Another Breakeven process (pid 1) is measuring: x."
    monkeypatch.setattr("core.measure.jobs.holder", lambda: sentence)
    assert jobs.busy_elsewhere() == sentence
    with pytest.raises(Busy, match="pid 1"):
        jobs.start(plan())


def test_cancelling_ends_the_sweep_and_keeps_it(jobs: Jobs, machine: Gated) -> None:
    jobs.start(plan())
    jobs.cancel()
    machine.gate.set()
    jobs.wait(30)
    assert jobs.snapshot().run.status == "cancelled"
    assert machine.open_workers == 0


def test_an_interrupted_run_is_resumed_under_its_id(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    machine.gate.set()
    run_id = jobs.start(plan())
    jobs.wait(30)
    store.runs[run_id] = jobs.snapshot().run.model_copy(update={"status": "interrupted"})
    before = len(store.runs[run_id].rounds)
    assert jobs.resume(run_id) == run_id
    jobs.wait(30)
    assert len(jobs.snapshot().run.rounds) > before
    assert jobs.snapshot().run.status == "finished"


def test_bare_points_cannot_be_resumed(jobs: Jobs, store: MemoryStore) -> None:
    store.runs["x"] = Run(
        id="imported-1",
        name="x",
        created_at="2026-01-01T00:00:00+00:00",
        label="recorded",
        status="finished",
        target_names=("a", "b"),
    )
    with pytest.raises(ValueError, match="no plan"):
        jobs.resume("x")
    assert jobs.snapshot() is None


def test_whatever_breaks_is_shown_and_not_fatal(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    def record(*_: object) -> None:
        raise OSError("No space left on device")

    store.record = record
    machine.gate.set()
    jobs.start(plan())
    jobs.wait(30)
    assert "No space left" in jobs.snapshot().error
    assert jobs.snapshot().run.status == "failed"
    assert machine.open_workers == 0
    del store.record
    jobs.start(plan())
    jobs.wait(30)
    assert jobs.snapshot().error is None


def test_a_task_holds_the_machine_and_reports(jobs: Jobs) -> None:
    gate = threading.Event()

    def work() -> int:
        gate.wait(20)
        return 42

    assert jobs.run_task("the demonstration", work)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not jobs.task_snapshot().active:
        time.sleep(0.01)
    with pytest.raises(Busy):
        jobs.start(plan())
    gate.set()
    jobs.wait(10)
    assert (jobs.task_snapshot().result, jobs.task_snapshot().active) == (42, False)


def test_a_failing_task_says_why(jobs: Jobs) -> None:
    def work() -> None:
        raise ValueError("TensorFlow is missing.")

    assert jobs.run_task("the demonstration", work)
    jobs.wait(10)
    assert jobs.task_snapshot().error == "TensorFlow is missing."
    with machine_lock("free again"):
        pass


def study_plan(budget_s: float = 30.0) -> ExperimentPlan:
    arms = tuple(
        Arm(code=code, title=code, target=Target(), pipeline=pipeline, batch=32)
        for code, pipeline in (("resident", Pipeline()), ("host", Pipeline(kind="host")))
    )
    return ExperimentPlan(Workload(network="784-128-10"), arms, budget_s)


def work(tools: StudyTools) -> Experiment:
    return measure_arms(tools, study_plan())


def test_a_study_runs_in_the_background_under_the_machines_lock(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    held: list[bool] = []

    def watched(tools: StudyTools) -> Experiment:
        with pytest.raises(Busy), machine_lock("something else"):
            pass
        held.append(True)
        return work(tools)

    assert jobs.study_snapshot() is None
    assert jobs.start_study("pipeline", "a pipeline study", watched)
    running = jobs.study_snapshot()
    assert (running.kind, running.description) == ("pipeline", "a pipeline study")
    assert running.active
    assert running.result is None
    machine.gate.set()
    jobs.wait(30)
    done = jobs.study_snapshot()
    assert not done.active
    assert done.error is None
    assert done.result.status == "finished"
    assert done.result.rounds
    assert done.progress.activity == "Finished"
    assert held == [True]
    with machine_lock("free again"):
        pass
    ((kind, study_id, run_id, body),) = store.studies
    assert (kind, run_id) == ("pipeline", None)
    assert study_id
    assert Experiment.from_json(body) == done.result
    assert machine.open_workers == 0


def test_a_diagnosis_is_stored_with_its_run(jobs: Jobs, store: MemoryStore) -> None:
    run = make_run()
    diagnosis = make_diagnosis(run)
    assert jobs.start_study("diagnosis", "a diagnosis", lambda _: diagnosis)
    jobs.wait(10)
    assert [(kind, run_id) for kind, _, run_id, _ in store.studies] == [("diagnosis", run.id)]
    assert jobs.study_snapshot().result == diagnosis


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (StudyFailed("Nothing could be measured within the budget."), "Nothing could be measured within the budget."),
        (SweepFailed("TensorFlow is not installed."), "TensorFlow is not installed."),
        (WorkerLost("crashed", "The worker was killed."), "The worker was killed."),
        (ZeroDivisionError("division by zero"), "The study stopped: division by zero"),
    ],
)
def test_a_study_that_fails_says_why(jobs: Jobs, store: MemoryStore, error: Exception, sentence: str) -> None:
    def fails(_: StudyTools) -> Experiment:
        raise error

    assert jobs.start_study("pipeline", "a study", fails)
    jobs.wait(10)
    assert (jobs.study_snapshot().error, jobs.study_snapshot().active) == (sentence, False)
    assert jobs.study_snapshot().result is None
    assert store.studies == []
    with machine_lock("free again"):
        pass


def test_a_study_that_cannot_be_stored_still_shows_its_result(
    jobs: Jobs, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_study(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(store, "add_study", add_study)
    diagnosis = make_diagnosis(make_run())
    jobs.start_study("diagnosis", "a diagnosis", lambda _: diagnosis)
    jobs.wait(10)
    assert "No space left" in jobs.study_snapshot().error
    assert jobs.study_snapshot().result == diagnosis


def test_studies_and_sweeps_keep_out_of_each_others_way(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    jobs.start(plan())
    assert jobs.start_study("pipeline", "a study", work) is False
    assert jobs.study_snapshot() is None
    machine.gate.set()
    jobs.wait(30)
    machine.gate.clear()
    assert jobs.start_study("pipeline", "a study", work)
    assert jobs.start_study("pipeline", "another study", work) is False
    assert jobs.run_task("pitfalls", lambda: 1) is False
    with pytest.raises(Busy, match="already running here"):
        jobs.start(plan())
    machine.gate.set()
    jobs.wait(30)
    assert jobs.study_snapshot().description == "a study"
    assert len(store.studies) == 1


def test_a_study_is_refused_while_another_process_measures(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.measure.jobs.holder", lambda: "Another process is measuring.")
    assert jobs.start_study("pipeline", "a study", work) is False
    assert jobs.study_snapshot() is None


def test_cancelling_reaches_a_study_and_what_it_measured_is_kept(
    jobs: Jobs, machine: Gated, store: MemoryStore
) -> None:
    said: list[str] = []

    def cancelled(tools: StudyTools) -> Experiment:
        def report(progress: Progress) -> None:
            said.append(progress.activity)
            tools.report(progress)
            if said.count("Measuring all variants in turn") == 3:
                jobs.cancel()

        return work(dataclasses.replace(tools, report=report))

    machine.gate.set()
    jobs.start_study("pipeline", "a study", cancelled)
    jobs.wait(30)
    done = jobs.study_snapshot()
    assert done.result.status == "cancelled"
    assert len(done.result.rounds) == 2
    assert done.progress.activity == "Cancelled"
    assert len(store.studies) == 1
    assert machine.open_workers == 0
    jobs.start_study("pipeline", "a study", work)
    jobs.wait(30)
    assert jobs.study_snapshot().result.status == "finished", "the next one is not cancelled with it"


def test_a_study_cancelled_before_its_first_round_is_not_stored(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    jobs.start_study("pipeline", "a study", work)
    jobs.cancel()
    machine.gate.set()
    jobs.wait(30)
    assert jobs.study_snapshot().error == "Cancelled before the first round; nothing was measured."
    assert store.studies == []
    assert machine.open_workers == 0


def test_a_pipeline_study_whose_first_way_fails_is_a_sentence(jobs: Jobs, machine: Gated, store: MemoryStore) -> None:
    machine.faults = (Fault(0, 1, "out_of_memory"),)
    machine.gate.set()
    jobs.start_study("pipeline", "a study", work)
    jobs.wait(30)
    assert jobs.study_snapshot().error == "Planted fault: out_of_memory at batch 32."
    assert store.studies == []
