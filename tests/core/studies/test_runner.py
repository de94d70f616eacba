"""Common behaviour of all kinds of study: workers lost while they start, waits cut short, deadlines by experience."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from core.base.evidence import Outcome
from core.studies.diagnosis.run import DiagnosisPlan, run_diagnosis
from core.studies.experiment.run import ExperimentPlan, measure_arms
from core.studies.frontier.run import run_frontier
from core.studies.host.run import HostPlan, run_host_study
from core.studies.memory.record import MemoryPlan
from core.studies.memory.run import MemorySearch, run_memory_study
from core.studies.noise.record import NoisePlan
from core.studies.noise.run import run_noise_study
from core.studies.runner import Asking, Cancelled, StudyTools
from core.studies.sweep.supervisor import run_sweep
from core.studies.sweep.trace import trace_cell
from core.worker.protocol import CellFailed, Prepare, Ready, RunBlock, WorkerError, WorkerLost
from core.workload.spec import Pipeline, Target
from simulated import frontiers, noises
from simulated.causes import make_case
from simulated.hosts import host_machine
from simulated.memories import GB, MemoryMachine, linear
from simulated.runs import make_run
from simulated.simulation import Curve, Machine
from simulated.sweeps import new_run, plan
from simulated.tools import tools_for
from tests.support import experiments

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))
CASE = make_case("precision", 2)
BATCH = CASE.run.batches[len(CASE.run.batches) // 2]
LIMIT = MemoryPlan(workload=noises.WORKLOAD, target=Target(), limit_bytes=12 * GB // 10)
STUDIES: dict[str, tuple[Callable[[], Any], Callable[[StudyTools], Any]]] = {
    "sweep": (lambda: Machine(CROSSING), lambda tools: run_sweep(tools, new_run(plan(budget_s=60.0)))),
    "experiment": (
        experiments.machine,
        lambda tools: measure_arms(tools, ExperimentPlan(experiments.WORKLOAD, experiments.FOUR, 60.0)),
    ),
    "frontier": (
        lambda: frontiers.machine(frontiers.random_truth(0)),
        lambda tools: run_frontier(tools, frontiers.make_plan(**frontiers.SMALL)),
    ),
    "noise": (noises.SimulatedTrainer, lambda tools: run_noise_study(tools, NoisePlan(workload=noises.WORKLOAD))),
    "host": (host_machine, lambda tools: run_host_study(tools, HostPlan())),
    "memory": (
        lambda: MemoryMachine(linear(30e6, 20e3)),
        lambda tools: run_memory_study(tools, MemorySearch(LIMIT), lambda: 64 * GB),
    ),
    "diagnosis": (
        lambda: Machine(CROSSING, law=experiments.law),
        lambda tools: run_diagnosis(tools, DiagnosisPlan(CASE.run, 1, BATCH, 90.0)).experiment,
    ),
    "trace": (lambda: Machine(CROSSING), lambda tools: trace_cell(tools, make_run(), 0, 8)),
}
EACH = pytest.mark.parametrize("kind", STUDIES)


class Launches:
    """Launcher of a machine's workers after the starts that fail; ``asked_s`` are the deadlines."""

    def __init__(self, machine: Any, *faults: WorkerError) -> None:
        self.machine, self.faults = machine, list(faults)
        self.asked_s: list[float] = []

    def __call__(self, targets: tuple[Target, ...], deadline_s: float, *rest: Any, **limits: Any) -> Any:
        self.asked_s.append(deadline_s)
        if self.faults:
            raise self.faults.pop(0)
        return self.machine.launch(targets, deadline_s, *rest, **limits)


def lost(outcome: Outcome) -> WorkerLost:
    return WorkerLost(outcome, f"Planted: {outcome} while starting.")


@EACH
@pytest.mark.parametrize("outcome", ["crashed", "hung"])
def test_a_worker_lost_while_starting_is_started_once_more(kind: str, outcome: Outcome) -> None:
    make, run = STUDIES[kind]
    machine = make()
    found = run(tools_for(machine, launch=Launches(machine, lost(outcome))))
    assert getattr(found, "status", "finished") == "finished"
    if kind != "trace":
        (told,) = [w.text for w in found.warnings if w.code == "lost_start_1"]
        assert f"Planted: {outcome}" in told


@EACH
def test_and_no_more_than_once(kind: str) -> None:
    make, run = STUDIES[kind]
    machine = make()
    launches = Launches(machine, lost("crashed"), lost("hung"), lost("crashed"))
    with pytest.raises(ValueError, match="hung while starting"):
        run(tools_for(machine, launch=launches))
    assert len(launches.asked_s) == 2


@pytest.mark.parametrize("error", [lost("out_of_memory"), CellFailed("error", "There is no gpu:0.")])
def test_what_would_only_come_again_is_not_started_again(error: WorkerError) -> None:
    launches = Launches(Machine(CROSSING), error, lost("crashed"))
    with pytest.raises(type(error), match=error.reason):
        Asking(tools_for(launches.machine, launch=launches), 60.0).start((Target(),))
    assert len(launches.asked_s) == 1


def test_nothing_is_started_again_for_a_user_who_has_gone() -> None:
    cancel = threading.Event()
    launches = Launches(Machine(CROSSING), lost("crashed"))
    cancel.set()
    with pytest.raises(Cancelled):
        Asking(tools_for(launches.machine, launch=launches, cancel=cancel), 60.0).start((Target(),))
    assert len(launches.asked_s) == 1


def test_starts_are_waited_for_as_long_as_this_program_has_seen_them_to_take() -> None:
    launches = Launches(Machine(CROSSING), lost("hung"))
    tools = tools_for(launches.machine, launch=launches)
    for target in (Target(), Target(), Target(threads=1)):  # the last is of another kind
        (worker,) = Asking(tools, 15.0).start((target,))
        worker.close()
    assert launches.asked_s == [60.0, 30.0, 20.0, 60.0]


def test_preparations_are_waited_for_as_long_as_like_ones_took() -> None:
    asked_s = []

    class Noting:
        ready = Ready(pid=1, startup_ms=1.0, device="CPU:0")

        def ask(self, _: Prepare | RunBlock, deadline_s: float) -> Any:
            asked_s.append(deadline_s)
            clock.advance(3.0)

    class OnGpu(Noting):
        ready = Ready(pid=1, startup_ms=1.0, device="GPU:0")

    machine = Machine(CROSSING)
    clock, asking, worker = machine.clock, Asking(tools_for(machine), 15.0), Noting()
    request = Prepare(workload=noises.WORKLOAD, pipeline=Pipeline(), batch=1)
    for like, expected_s in (("graph", 0.0), ("graph", 0.0), ("xla", 0.0), ("graph", 100.0)):
        asking.prepare(worker, request, like, expected_s)  # type: ignore[arg-type]
    asking.prepare(worker, request.model_copy(update={"pipeline": Pipeline(kind="host")}), "graph")  # type: ignore[arg-type]
    assert asked_s == [60.0, 30.0, 60.0, 200.0, 60.0]
    asked_s.clear()
    for _ in range(2):
        asking.prepare(OnGpu(), request, "gpu")  # type: ignore[arg-type]
    asking.block(OnGpu(), RunBlock(batch=1, steps=1), 0.1)  # type: ignore[arg-type]
    assert asked_s == [60.0, 50.0, 30.0]  # of which 20 s for memory that is short


def test_a_crash_is_forgiven_once_and_nothing_else_is() -> None:
    asking = Asking(tools_for(Machine(CROSSING)), 15.0)
    assert not asking.forgives(1, lost("hung"))
    assert not asking.forgives(1, lost("out_of_memory"))
    assert not asking.forgives(1, CellFailed("crashed", "?"))
    assert [asking.forgives(cell, lost("crashed")) for cell in (1, 1, 2)] == [True, False, True]


@EACH
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95])
def test_stopping_ends_every_wait_at_once_and_keeps_what_was_measured(kind: str, share: float) -> None:
    """Stop while waiting for a worker, at its start or at a share of all requests."""
    make, run = STUDIES[kind]
    counted = Stopping(make(), None)
    run(tools_for(counted.machine, launch=counted.launch))
    stopping = Stopping(make(), int(share * counted.asked))
    try:
        found = run(tools_for(stopping.machine, launch=stopping.launch, cancel=stopping.cancel))
    except Cancelled:
        found = None
    assert stopping.cancel.is_set()
    assert stopping.asked == stopping.stop_at
    assert stopping.open == 0
    if found is None:
        assert share < 0.5 or kind == "trace"
    else:
        assert found.status == "cancelled" or (kind, share) == ("diagnosis", 0.95)  # its experiment is whole


class Stopping:
    """Workers of a machine whose user stops in the ``stop_at``-th wait."""

    def __init__(self, machine: Any, stop_at: int | None) -> None:
        self.machine, self.stop_at = machine, stop_at
        self.cancel, self.asked, self.open = threading.Event(), 0, 0

    def _waits(self, check: Callable[[], None]) -> None:
        if self.cancel.is_set():
            raise AssertionError("a worker is asked although the user wants to stop")
        if self.asked == self.stop_at:
            self.cancel.set()
            check()
        self.asked += 1

    def launch(self, targets: Any, deadline_s: float, check: Callable[[], None], **limits: Any) -> Any:
        self._waits(check)
        workers = self.machine.launch(targets, deadline_s, **limits)
        return tuple(Watched(self, worker, check) for worker in workers)


class Watched:
    def __init__(self, stopping: Stopping, worker: Any, check: Callable[[], None]) -> None:
        self._stopping, self._worker, self._check = stopping, worker, check
        stopping.open += 1

    def ask(self, request: Any, deadline_s: float) -> Any:
        self._stopping._waits(self._check)
        return self._worker.ask(request, deadline_s)

    def close(self) -> None:
        self._worker.close()
        self._stopping.open -= 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)
