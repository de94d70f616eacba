"""The job of a process: started once, watched by many, cancelled, resumed, never fatal."""

import threading
import time

import pytest

from core.measure.jobs import Busy, Jobs
from core.measure.lock import machine_lock
from core.results import Run
from tests.support.simulation import Curve, Machine
from tests.support.sweeps import MemoryRecorder, plan

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))


class MemoryStore(MemoryRecorder):
    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[str, Run] = {}

    def begin(self, run: Run) -> None:
        super().begin(run)
        self.runs[run.id] = run

    def load(self, run_id: str) -> Run:
        return self.runs[run_id]


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
