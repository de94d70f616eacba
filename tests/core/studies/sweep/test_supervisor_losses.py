"""Sweeps in which workers are lost, losses turn NaN, or a batch would take longer than the budget."""

import pytest

from core.rounds.answer.analyse import analyse
from core.worker.protocol import CellFailed
from simulated.simulation import Curve, Fault, Machine
from simulated.sweeps import MemoryRecorder, plan, sweep

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))


@pytest.mark.parametrize("in_block", [False, True])
def test_a_lost_worker_leaves_its_reason_though_the_cell_was_measured_by_the_next(in_block: bool) -> None:
    fault = Fault(1, 64, "crashed", in_block, lost=True, times=1)
    run = sweep(Machine(CROSSING, faults=(fault,)), plan())
    assert {cell.outcome for cell in run.cells} == {"measured"}
    (lost,) = run.warnings
    assert lost.code.startswith("lost_1_")
    assert "GPU 0 was lost" in lost.text
    assert "Planted fault: crashed" in lost.text


def test_workers_lost_by_one_cause_leave_one_warning_that_says_how_often() -> None:
    run = sweep(Machine(CROSSING, faults=(Fault(1, 1, "crashed", in_block=True, lost=True),)), plan())
    (lost,) = run.warnings
    assert "batch 1: Planted" in lost.text


class TurnsNaN(Machine):
    """Machine on which both losses are NaN from the 20th second on."""

    def fault(self, target: int, batch: int, in_block: bool) -> None:  # noqa: ARG002
        if in_block and self.clock.now_s() > 20.0:
            raise CellFailed("nan_loss", "The training loss became nan.")


@pytest.mark.parametrize("batches", ["1,8", "1:1024"])
def test_losses_that_turn_nan_late_cost_what_follows_and_nothing_else(batches: str) -> None:
    machine, recorder = TurnsNaN(CROSSING, startup_s=3.0), MemoryRecorder()
    run = sweep(machine, plan(batches=batches, budget_s=60), recorder=recorder)
    assert run.status == "finished"
    assert len(run.rounds) >= 4
    assert recorder.rounds == list(run.rounds)
    lost = [w for w in run.warnings if w.code.startswith("lost_")]
    assert {w.code.split("_")[1] for w in lost} == {"0", "1"}
    assert all("became nan" in w.text for w in lost)
    assert {c.outcome for c in run.cells} <= {"measured", "nan_loss", "skipped"}
    assert analyse(run).cells
    assert machine.open_workers == 0


def test_a_target_whose_workers_keep_dying_is_given_up() -> None:
    machine = Machine(CROSSING, faults=(Fault(1, 1, "crashed", in_block=True, lost=True),))
    run = sweep(machine, plan())
    assert run.status == "finished"
    assert {c.outcome for c in run.cells if c.target == 0} == {"measured"}
    assert {c.outcome for c in run.cells if c.target == 1} == {"crashed", "skipped"}
    assert {c.stop_reason for c in run.cells if c.target == 1} == {"failed"}
    assert analyse(run).verdict.reason == "no_common_batch"


def test_a_batch_that_would_outlast_the_budget_is_skipped() -> None:
    machine = Machine((Curve(5.0, 5.0), Curve(1.0, 0.1)))
    run = sweep(machine, plan(budget_s=30))
    cells = {(c.target, c.batch): c for c in run.cells}
    assert cells[0, 1024].outcome == "skipped"
    assert any("more than the" in c.reason for c in run.cells if c.outcome == "skipped")
    assert machine.clock.now_s() < 45


@pytest.mark.parametrize("batches", ["8,4096", "8,16,65536"])
def test_a_step_that_is_mostly_floor_is_not_taken_to_grow_with_the_batch(batches: str) -> None:
    """Check a case in which, in proportion to the last one, 30 steps of the largest batch would exceed the budget."""
    machine = Machine((Curve(0.05, 0.0005), Curve(0.7, 0.0005)), startup_s=1.0, prepare_s=0.1)
    run = sweep(machine, plan(batches, budget_s=8, trace=False))
    assert {cell.outcome for cell in run.cells} == {"measured"}


def test_one_batch_is_no_reason_to_try_another_that_could_take_longer_than_the_budget() -> None:
    run = sweep(Machine((Curve(0.1, 1.0), Curve(1.0, 0.1))), plan("8,65536", budget_s=8, trace=False))
    cells = {(cell.target, cell.batch): cell for cell in run.cells}
    assert [cells[0, 65536].outcome, cells[0, 65536].stop_reason] == ["skipped", "budget"]


def test_a_loss_far_above_what_a_target_ran_does_not_give_it_up() -> None:
    """Crash the middle, which the scan tries early: it crashes again when it is reached from below."""
    run = sweep(Machine(CROSSING, faults=(Fault(1, 8, "crashed", lost=True),)), plan())
    cells = {(cell.target, cell.batch): cell for cell in run.cells}
    assert [cells[1, batch].outcome for batch in (4, 8, 16, 32)] == ["measured", "crashed", "skipped", "crashed"]
    assert cells[1, 4].stop_reason != "failed"
    assert max(block.process for r in run.rounds for block in r.blocks if block.target == 1) > 3
