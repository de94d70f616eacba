"""Host studies on simulated workers: known costs are found, and what cannot run is left out or reported."""

import pytest

from core.hardware.host_record import host_cells
from core.hardware.host_study import host_lines
from core.studies.host.run import BUDGET_S, MAX_STARTS, ROUNDS, HostPlan, run_host_study
from core.studies.runner import StudyFailed
from core.worker.protocol import CellFailed, WorkerLost
from simulated.hosts import TRUE_OP_US, TRUE_STEP_US, host_machine, tools_of
from simulated.simulation import Fault, NoiseModel, SimulatedWorker


def test_the_known_costs_of_every_execution_are_found():
    machine = host_machine(NoiseModel(tail=0.01, common_drift=0.03, process=0.01, stall_share=0.02))
    study = run_host_study(tools_of(machine), HostPlan())
    assert (study.status, study.label, study.warnings) == ("finished", "measured", ())
    lines = host_lines(study)
    assert {(line.execution, line.mode) for line in lines} == {(c.execution, c.mode) for c in host_cells()}
    for line in lines:
        assert line.step.us == pytest.approx(TRUE_STEP_US[line.execution], rel=0.15)
        assert line.step.low_us <= line.step.us <= line.step.high_us
        if line.mode == "train":  # hundreds of operations; inference has few beside the step's own cost
            assert line.op.us == pytest.approx(TRUE_OP_US[line.execution], rel=0.1)


@pytest.mark.parametrize(("startup_s", "prepare_s", "starts"), [(3.0, 0.6, 1), (2.0, 0.2, 2), (0.2, 0.01, MAX_STARTS)])
def test_as_many_starts_as_the_budget_has_room_for(startup_s: float, prepare_s: float, starts: int):
    machine = host_machine(startup_s=startup_s, prepare_s=prepare_s)
    study = run_host_study(tools_of(machine), HostPlan())
    assert machine.starts == starts
    assert len(study.rounds) == starts * ROUNDS
    assert {block.process for item in study.rounds for block in item.blocks} == set(range(starts))
    assert study.elapsed_s <= 1.1 * BUDGET_S


def test_rounds_hold_every_cell_and_turn_around():
    study = run_host_study(tools_of(host_machine()), HostPlan())
    orders = [[block.cell for block in item.blocks] for item in study.rounds]
    every = list(range(len(host_cells())))
    assert orders[0] == every
    assert orders[1] == every[::-1]
    assert all(sorted(order) == every for order in orders)


def test_a_machine_without_xla_has_the_other_costs_and_a_warning(monkeypatch: pytest.MonkeyPatch):
    real = SimulatedWorker.prepare

    def without_xla(self, request, deadline_s):
        if request.variant.execution == "xla":
            raise CellFailed("error", "There is no compiler.")
        return real(self, request, deadline_s)

    monkeypatch.setattr(SimulatedWorker, "prepare", without_xla)
    study = run_host_study(tools_of(host_machine()), HostPlan())
    assert study.status == "finished"
    assert {line.execution for line in host_lines(study)} == {"graph", "eager"}
    assert len(study.warnings) == 4
    assert all("no compiler." in warning.text and "xla" in warning.text for warning in study.warnings)


@pytest.mark.parametrize("all_of_them", [False, True])
def test_what_turns_nan_in_a_block_costs_its_cell(all_of_them: bool, monkeypatch: pytest.MonkeyPatch):
    real, asked = SimulatedWorker.block, []

    def turns_nan(self, request, deadline_s):
        asked.append(request)
        if len(asked) > 3 * len(host_cells()) and (all_of_them or request.slot == 1):
            raise CellFailed("nan_loss", "The loss became nan.")
        return real(self, request, deadline_s)

    monkeypatch.setattr(SimulatedWorker, "block", turns_nan)
    study = run_host_study(tools_of(host_machine()), HostPlan())
    assert study.status == "finished"
    assert [len(item.blocks) for item in study.rounds[:3]] == [len(host_cells())] * 3
    assert len(study.rounds) == 3 if all_of_them else all(item.step_ms(1) is None for item in study.rounds[3:])
    assert len(study.warnings) == (len(host_cells()) if all_of_them else 1)


def test_without_any_cell_there_is_no_study_but_the_reason():
    machine = host_machine(faults=(Fault(target=0, batch=1, outcome="error"),))
    with pytest.raises(StudyFailed, match="Planted fault"):
        run_host_study(tools_of(machine), HostPlan())


def test_a_worker_that_dies_later_leaves_what_was_measured(monkeypatch: pytest.MonkeyPatch):
    machine = host_machine()
    real, asked = SimulatedWorker.block, []

    def dying(self, *arguments):
        asked.append(arguments)
        if len(asked) > 3 * len(host_cells()):
            raise WorkerLost("crashed", "It is gone.")
        return real(self, *arguments)

    monkeypatch.setattr(SimulatedWorker, "block", dying)
    study = run_host_study(tools_of(machine), HostPlan())
    assert (study.status, len(study.rounds)) == ("failed", 3)
    assert "after 3 rounds" in study.warnings[0].text


def test_a_worker_lost_before_the_first_round_leaves_its_reason(monkeypatch: pytest.MonkeyPatch):
    real, asked = SimulatedWorker.block, []

    def dying(self, *arguments):
        asked.append(arguments)
        if len(asked) == 1:
            raise WorkerLost("crashed", "It is gone.")
        return real(self, *arguments)

    monkeypatch.setattr(SimulatedWorker, "block", dying)
    study = run_host_study(tools_of(host_machine()), HostPlan())
    assert study.status == "finished"
    assert "cpu was lost" in study.warnings[0].text


@pytest.mark.parametrize(("after", "kept"), [(1, False), (40, True)])
def test_cancelling_keeps_whole_rounds_or_says_that_there_are_none(after: int, kept: bool):
    told: list = []
    tools = tools_of(host_machine(), told)

    def report(progress):
        told.append(progress)
        if len(told) == after:
            tools.cancel.set()

    tools = type(tools)(tools.launcher, tools.clock, tools.cancel, tools.interference, report)
    if not kept:
        with pytest.raises(StudyFailed, match="nothing was measured"):
            run_host_study(tools, HostPlan())
        return
    study = run_host_study(tools, HostPlan())
    assert study.status == "cancelled"
    assert all(len(item.blocks) == len(host_cells()) for item in study.rounds)


@pytest.mark.parametrize("slow", ["block", "prepare"])
def test_slow_replies_end_it_soon_after_its_budget(slow: str, monkeypatch: pytest.MonkeyPatch):
    real = getattr(SimulatedWorker, slow)

    def slowly(self, request, deadline_s):
        self._machine.clock.advance(4.0)
        return real(self, request, deadline_s)

    monkeypatch.setattr(SimulatedWorker, slow, slowly)
    tools = tools_of(host_machine())
    if slow == "block":
        study = run_host_study(tools, HostPlan())
        (cut,) = study.rounds
        assert 0 < len(cut.blocks) < len(host_cells())
        assert len(study.warnings) == len(host_cells()) - len(cut.blocks)
        assert all("no time for" in warning.text for warning in study.warnings)
    else:
        with pytest.raises(StudyFailed, match="within the budget"):
            run_host_study(tools, HostPlan())
    assert tools.clock.now_s() < BUDGET_S * 1.25 + 4.0 + 5.0  # a reply, and the start
