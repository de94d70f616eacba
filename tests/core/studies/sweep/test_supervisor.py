"""The supervisor on a simulated machine: the course of a sweep, its stop rules, and all possible failures."""

import threading
from itertools import groupby
from typing import Any

import pytest

from core.base.evidence import Interference
from core.rounds.answer.analyse import analyse
from core.rounds.plan import SweepPlan
from core.rounds.run import Cell, Run
from core.studies.progress import Progress
from core.studies.runner import Cancelled, Stop, StudyFailed
from core.studies.sweep.closing import NOT_REACHED
from core.studies.sweep.supervisor import run_sweep
from core.worker.protocol import WorkerLost
from simulated.simulation import Curve, Fault, Machine, NoiseModel
from simulated.sweeps import MemoryRecorder, new_run, plan, sweep
from simulated.tools import tools_for

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))
EQUAL = (Curve(0.5, 0.01), Curve(0.5, 0.01))


def test_a_quiet_machine_gives_the_true_crossover() -> None:
    machine = Machine(CROSSING)
    run = sweep(machine, plan())
    truth = machine.true_crossover(1, 1024)
    (found,) = analyse(run).verdict.crossovers
    assert run.status == "finished"
    assert found.low <= truth <= found.high
    assert found.batch == pytest.approx(truth, rel=0.02)


def test_rounds_alternate_their_order_and_pair_both_targets() -> None:
    run = sweep(Machine(CROSSING), plan())
    assert [r.index for r in run.rounds] == list(range(len(run.rounds)))
    assert all(len({block.process for block in item.blocks}) == 1 for item in run.rounds)
    orders = [tuple(block.target for block in item.blocks) for item in run.rounds]
    turns = [(order, len(list(group))) for order, group in groupby(orders)][:-1]  # time may end the last one
    assert [order for order, _ in turns] == ([(1, 0), (0, 1)] * len(turns))[: len(turns)]
    assert all(first == second for (_, first), (_, second) in zip(turns[::2], turns[1::2], strict=False))


def test_blocks_of_a_cell_are_alike_in_every_process() -> None:
    run = sweep(Machine(CROSSING), plan())
    steps = {}
    for item in run.rounds:
        for block in item.blocks:
            steps.setdefault((block.target, item.batch), set()).add(block.steps)
    assert all(len(found) == 1 for found in steps.values())
    assert steps[0, 1] == steps[1, 1] == {17}, "the mean of 4 ms over 0.3 ms and, on the GPU, 20 ms over 1 ms"


def test_workers_restart_and_rounds_spread_over_the_sweep() -> None:
    machine = Machine(CROSSING, NoiseModel())
    run = sweep(machine, plan(budget_s=120))
    starts = {p.index: p.start for p in run.processes}
    assert set(starts) == set(range(len(starts)))
    assert len(starts) >= 4
    assert len(starts) == machine.starts
    near = [b for b in run.batches if 8 <= b <= 128]
    replicates = {b: {blk.process for r in run.rounds if r.batch == b for blk in r.blocks} for b in near}
    assert max(map(len, replicates.values())) == len(starts)
    assert min(map(len, replicates.values())) >= 3


def test_a_budget_too_short_for_three_replicates_says_so() -> None:
    machine = Machine(CROSSING, NoiseModel())
    run = sweep(machine, plan(budget_s=25))
    assert min(len({r.process for r in run.rounds if r.batch == batch}) for batch in run.batches) < 3
    assert "few_replicates" in {w.code for w in analyse(run).verdict.warnings}


def test_the_budget_is_kept() -> None:
    for budget_s in (15.0, 45.0, 120.0):
        machine = Machine(EQUAL, NoiseModel(tail=0.1, process=0.2))
        sweep(machine, plan(budget_s=budget_s))
        assert machine.clock.now_s() <= budget_s + 2.0


def test_a_start_that_takes_the_whole_budget_leaves_every_cell_skipped_with_the_reason() -> None:
    recorder = MemoryRecorder()
    with pytest.raises(StudyFailed, match="budget ended first"):
        sweep(Machine(CROSSING, startup_s=18.0), plan(budget_s=12.0), recorder=recorder)
    assert (recorder.finished[0], recorder.rounds, recorder.deleted) == ("failed", [], False)
    cells = [record for record in recorder.others if isinstance(record, Cell)]
    assert {(cell.outcome, cell.reason) for cell in cells} == {("skipped", NOT_REACHED["budget"])}


def test_a_sweep_ends_early_when_the_answer_is_narrow_enough() -> None:
    machine = Machine(CROSSING)
    run = sweep(machine, plan(budget_s=600, crossover_width=0.25))
    assert machine.clock.now_s() < 150
    assert {c.stop_reason for c in run.cells} <= {"precise", "plateau", "answered"}
    (found,) = analyse(run).verdict.crossovers
    assert (found.high - found.low) / found.batch <= 0.25


def test_refinement_adds_batches_inside_the_bracket_only() -> None:
    coarse = plan(batches="1:1024:0.5")
    run = sweep(Machine(CROSSING), coarse)
    new = sorted(set(run.batches) - set(coarse.batches))
    assert new
    assert all(16 < b < 256 for b in new)
    assert set(sweep(Machine(CROSSING), plan(batches="1:1024:0.5", refine=False)).batches) == set(coarse.batches)


def test_every_cell_says_why_it_stopped() -> None:
    run = sweep(Machine(CROSSING, NoiseModel()), plan())
    assert {(c.target, c.batch) for c in run.cells} == {(t, b) for t in (0, 1) for b in run.batches}
    assert all(c.stop_reason for c in run.cells)


@pytest.mark.parametrize("outcome", ["out_of_memory", "crashed", "hung", "nan_loss", "misplaced", "error"])
@pytest.mark.parametrize("in_block", [False, True])
def test_a_failure_costs_its_cell_and_skips_larger_batches(outcome: str, in_block: bool) -> None:
    lost = outcome in ("crashed", "hung")
    fault = Fault(1, 256, outcome, in_block, lost)  # type: ignore[arg-type]
    machine = Machine(CROSSING, faults=(fault,))
    run = sweep(machine, plan(budget_s=150.0))  # a hang late in a sweep costs much of its time
    cells = {(c.target, c.batch): c for c in run.cells}
    assert run.status == "finished"
    assert cells[1, 256].outcome == outcome
    assert "Planted fault" in cells[1, 256].reason
    assert (cells[1, 512].outcome, cells[1, 1024].outcome) == ("skipped", "skipped")
    assert "batch 256 failed" in cells[1, 1024].reason
    assert cells[0, 1024].outcome == "measured", "the other target goes on alone"
    assert analyse(run).verdict.kind == "crossover"


def test_what_lies_between_a_batch_that_ran_and_one_that_failed_is_tried_last() -> None:
    run = sweep(Machine(CROSSING, faults=(Fault(1, 64, "out_of_memory"),)), plan(budget_s=150.0))
    first: dict[int, int] = {}
    for pair in run.rounds:
        first.setdefault(pair.batch, pair.index)
    assert first[1024] < first[64] < first[128]
    assert {c.batch: c.outcome for c in run.cells if c.target == 1}[64] == "out_of_memory"


def test_a_cell_above_a_failure_says_so_also_where_the_budget_ended_first() -> None:
    run = sweep(Machine(CROSSING, faults=(Fault(1, 256, "hung", lost=True),)), plan(budget_s=60.0))
    why = {c.batch: c.reason for c in run.cells if c.target == 1}
    assert "failed (hung)" in why[1024]
    assert {c.batch: c.reason for c in run.cells if c.target == 0}[1024] == NOT_REACHED["budget"]


@pytest.mark.parametrize("in_block", [False, True])
@pytest.mark.parametrize(("crashes", "outcome"), [(1, "measured"), (2, "crashed")])
def test_a_cell_whose_worker_crashes_is_tried_once_more(crashes: int, outcome: str, in_block: bool) -> None:
    machine = Machine(CROSSING, faults=(Fault(0, 1, "crashed", in_block, lost=True, times=crashes),))
    run = sweep(machine, plan())
    assert {c.outcome for c in run.cells if (c.target, c.batch) == (0, 1)} == {outcome}
    assert (outcome == "measured") == all(c.outcome == "measured" for c in run.cells)
    assert machine.starts > crashes
    assert machine.open_workers == 0


def test_a_start_that_hangs_is_given_up_by_the_budget_and_takes_nothing_from_the_measuring() -> None:
    machine = Machine(CROSSING, start_faults={1: "hung"})
    run = sweep(machine, plan(budget_s=15.0))
    assert run.status == "finished"
    assert len(run.rounds) == len(sweep(Machine(CROSSING), plan(budget_s=15.0)).rounds)
    assert machine.clock.now_s() < 60.0 + 16.0


def test_a_crash_that_leaves_no_time_to_try_again_is_the_cells_reason() -> None:
    machine = Machine(CROSSING, faults=(Fault(0, 1, "crashed", lost=True, times=1),), prepare_s=6.0)
    with pytest.raises(StudyFailed, match="Planted fault: crashed"):
        sweep(machine, plan(budget_s=15.0))


@pytest.mark.parametrize("in_block", [False, True])
def test_a_cell_that_hangs_costs_no_more_than_the_budget_allows(in_block: bool) -> None:
    fault = Fault(1, 1, "hung", in_block, lost=True)
    machine = Machine(CROSSING, faults=(fault,))
    with pytest.raises(StudyFailed, match="Planted fault: hung"):
        sweep(machine, plan(budget_s=15.0))
    assert machine.clock.now_s() < (40.0 if in_block else 70.0)
    run = sweep(Machine(CROSSING, faults=(fault,)), plan(budget_s=120.0))
    assert {c.outcome for c in run.cells if c.target == 1} == {"hung", "skipped"}
    assert (0, "measured") in {(c.target, c.outcome) for c in run.cells}


class DiesLate(Machine):
    """Machine that loses its first target's worker once, in the block after forty."""

    count = 0

    def fault(self, target: int, batch: int, in_block: bool) -> None:  # noqa: ARG002
        if in_block and target == 0:
            self.count += 1
            if self.count == 40:
                raise WorkerLost("crashed", "The worker was killed (signal 9).")


def test_a_worker_killed_once_does_not_spoil_the_sweep() -> None:
    run = sweep(DiesLate(CROSSING), plan())
    assert run.status == "finished"
    assert all(c.outcome == "measured" for c in run.cells)
    assert any("signal 9" in w.text for w in run.warnings)
    assert analyse(run).verdict.kind == "crossover"


def test_cancelling_keeps_what_was_measured() -> None:
    cancel, seen = threading.Event(), []

    def watch(progress: Progress) -> None:
        seen.append(progress)
        if len(progress.record.rounds) >= 12:
            cancel.set()

    recorder = MemoryRecorder()
    machine = Machine(CROSSING)
    run = sweep(machine, plan(), recorder=recorder, cancel=cancel, report=watch)
    assert run.status == "cancelled"
    assert 12 <= len(run.rounds) < 60
    assert recorder.finished == ("cancelled", pytest.approx(run.elapsed_s))
    assert seen[-1].phase == "done"
    assert "cancelled" in {c.stop_reason for c in run.cells}


def test_cancelling_before_the_first_round_leaves_nothing() -> None:
    recorder, cancel = MemoryRecorder(), threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        sweep(Machine(CROSSING), plan(), recorder=recorder, cancel=cancel)
    assert recorder.deleted


def test_a_sweep_interrupted_before_its_first_round_can_be_resumed() -> None:
    recorder, stop = MemoryRecorder(), Stop()
    stop.interrupt()
    with pytest.raises(Cancelled):
        sweep(Machine(CROSSING), plan(), recorder=recorder, cancel=stop)
    assert not recorder.deleted
    assert recorder.finished is not None
    assert recorder.finished[0] == "interrupted"


def stopped_after(rounds: int, stop: threading.Event) -> Run:
    """Return the sweep, stopped after that many rounds."""
    ask = stop.interrupt if isinstance(stop, Stop) else stop.set
    return sweep(
        Machine(CROSSING), plan(), cancel=stop, report=lambda at: ask() if len(at.record.rounds) >= rounds else None
    )


def test_cells_that_were_not_reached_say_what_ended_the_sweep() -> None:
    for stop, status in ((threading.Event(), "cancelled"), (Stop(), "interrupted")):
        run = stopped_after(3, stop)
        assert run.status == status
        not_reached = {(c.outcome, c.reason, c.stop_reason) for c in run.cells if c.batch > 8}
        assert not_reached == {("skipped", f"The sweep was {status} first.", status)}
        assert {c.stop_reason for c in run.cells if c.outcome != "measured"} == {status}


def test_cells_of_a_failed_sweep_do_not_claim_that_its_budget_ended() -> None:
    class NoSecondStart(Machine):
        def launch(self, *asked: Any) -> tuple:
            if self.starts:
                raise WorkerLost("crashed", "No second start.")
            return super().launch(*asked)

    recorder = MemoryRecorder()
    machine = NoSecondStart(CROSSING, faults=(Fault(0, 4, "out_of_memory", in_block=True, lost=True),))
    with pytest.raises(StudyFailed, match="No second start"):
        sweep(machine, plan(), recorder=recorder)
    cells = {(c.target, c.batch): c for c in recorder.others if isinstance(c, Cell)}
    assert cells[0, 32].reason.startswith("Planted fault")
    assert (cells[1, 1024].outcome, cells[1, 1024].reason) == ("skipped", NOT_REACHED["failed"])
    assert {c.stop_reason for c in cells.values() if c.outcome != "measured"} == {"failed"}
    assert "budget" not in {c.stop_reason for c in cells.values()}


def test_a_hung_first_cell_is_why_nothing_was_measured() -> None:
    class Hangs(Machine):
        def fault(self, target: int, batch: int, in_block: bool) -> None:
            self.clock.advance(180.0)
            raise WorkerLost("hung", f"Hung after 180 s: {target}, {batch}, {in_block}.")

    with pytest.raises(StudyFailed, match=r"Hung after 180"):
        sweep(Hangs(CROSSING), plan(budget_s=20))


def test_the_recorder_has_every_round_as_it_arrives() -> None:
    recorder = MemoryRecorder()
    run = sweep(Machine(CROSSING), plan(), recorder=recorder)
    assert recorder.rounds == list(run.rounds)
    assert recorder.begun.status == "running"


def test_snapshots_tell_the_truth() -> None:
    seen: list[Progress] = []
    sweep(Machine(CROSSING), plan(), report=seen.append)
    assert seen[0].phase == "starting"
    assert {s.phase for s in seen} == {"starting", "measuring", "restarting", "finishing", "tracing", "done"}
    rounds = [len(s.record.rounds) for s in seen]
    assert rounds == sorted(rounds)
    for progress in seen:
        assert 0 <= progress.cells_done <= progress.cells_total
        assert (progress.answer is None) == (not progress.record.rounds)
    assert seen[-1].cells_done == seen[-1].cells_total


@pytest.mark.parametrize("ask", [threading.Event, Stop], ids=["cancelled", "interrupted"])
@pytest.mark.parametrize("rounds", [3, 30])
def test_a_stopped_sweep_is_taken_up_where_it_ended(ask: type[threading.Event], rounds: int) -> None:
    first = stopped_after(rounds, ask())
    machine = Machine(CROSSING, seed=1)
    again = run_sweep(tools_for(machine), first)
    assert again.status == "finished"
    assert again.rounds[: len(first.rounds)] == first.rounds
    assert [r.index for r in again.rounds] == list(range(len(again.rounds)))
    assert again.elapsed_s > first.elapsed_s
    assert min(p.index for p in again.processes[len(first.processes) :]) > max(p.index for p in first.processes)
    assert {c.outcome for c in again.cells} == {"measured"}


def test_a_resumed_sweep_says_anew_why_cells_were_not_reached() -> None:
    first = stopped_after(3, threading.Event())
    again = run_sweep(tools_for(Machine(CROSSING, startup_s=1000.0)), first)
    assert {c.reason for c in again.cells if c.outcome == "skipped"} == {NOT_REACHED["budget"]}


def test_workers_that_cannot_start_fail_the_sweep_with_a_sentence() -> None:
    def launch(*_: object) -> tuple:
        raise WorkerLost("crashed", "TensorFlow is not installed.")

    recorder, seen, machine = MemoryRecorder(), [], Machine(CROSSING)
    with pytest.raises(StudyFailed, match="is not installed"):
        run_sweep(tools_for(machine, seen.append, recorder=recorder, launch=launch), new_run(plan()))
    assert recorder.finished[0] == "failed"
    assert (seen[-1].phase, seen[-1].activity) == ("done", "Failed")


def test_a_run_without_a_plan_cannot_be_measured() -> None:
    run = new_run(plan()).model_copy(update={"plan": None})
    machine = Machine(CROSSING)
    with pytest.raises(StudyFailed, match="no plan"):
        run_sweep(tools_for(machine), run)


def test_a_broken_store_ends_the_workers() -> None:
    class Full(MemoryRecorder):
        def record(self, run_id: str, records: tuple) -> None:
            if len(self.rounds) > 5:
                raise OSError("disk full")
            super().record(run_id, records)

    machine = Machine(CROSSING)
    with pytest.raises(OSError, match="disk full"):
        sweep(machine, plan(), recorder=Full())


def test_the_plan_may_hold_one_batch() -> None:
    run = sweep(Machine(CROSSING), plan(batches="64"))
    assert analyse(run).verdict.kind == "ahead"
    assert isinstance(run, Run)
    assert isinstance(run.plan, SweepPlan)


def test_what_starting_and_preparing_took_is_not_a_rounds_noise() -> None:
    machine = Machine(CROSSING)

    class SinceLast:
        """Sampler that reports the seconds since its last call as if they were other processes' use."""

        last_s = 0.0

        def reset(self, *_: object) -> None:
            self.last_s = machine.clock.now_s()

        def sample(self, *_: object) -> Interference:
            since_s, self.last_s = machine.clock.now_s() - self.last_s, machine.clock.now_s()
            return Interference(other_cpu_pct=since_s)

    run = sweep(machine, plan(), interference=SinceLast())
    assert machine.starts > 1
    assert max(r.interference.other_cpu_pct for r in run.rounds) < machine.prepare_s
