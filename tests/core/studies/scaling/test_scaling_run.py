"""The runner of scaling studies on a simulated machine: batches, starts, budget, traces, and failures."""

from collections import Counter

import pytest

from core.studies.progress import Progress
from core.studies.runner import Cancelled, StudyFailed
from core.studies.scaling.answer import scaling_answer
from core.studies.scaling.record import ScalingStudy
from simulated.scalings import BATCHES, FOUR, ONE, TWO, scaled, scaling_machine, scaling_plan
from simulated.simulation import LAUNCHED, QUIET, Fault
from simulated.sweeps import MemoryRecorder
from simulated.tools import StopsLater


def test_every_batch_is_measured_in_every_start_by_all_that_share_it_out() -> None:
    plan = scaling_plan(ONE, TWO, FOUR, batches=(2, 64, 256), trace=False)
    study = scaled(scaling_machine(), plan)
    seen = {(item.batch, tuple(sorted(b.target for b in item.blocks))) for item in study.rounds}
    assert seen == {(2, (0, 1)), (64, (0, 1, 2)), (256, (0, 1, 2))}
    assert study.status == "finished"
    assert study.starts >= 5
    rounds = Counter((item.batch, item.process) for item in study.rounds)
    assert len(rounds) == 3 * study.starts
    assert min(rounds.values()) >= 4
    assert {(cell.target, cell.batch) for cell in study.cells} == {(t, b) for b, ts in seen for t in ts}


def test_the_budget_is_kept_and_used_and_every_worker_closed() -> None:
    study = scaled(scaling_machine())
    assert 0.8 * 120 <= study.elapsed_s <= 121
    assert LAUNCHED[-1].open_workers == 0


def test_nothing_but_the_study_itself_is_kept() -> None:
    recorder = MemoryRecorder()
    scaled(scaling_machine(), scaling_plan(batches=(64, 256), budget_s=30.0), recorder=recorder)
    assert recorder.begun is None
    assert recorder.finished is None


def test_several_devices_are_traced_and_one_is_not() -> None:
    study = scaled(scaling_machine(noise=QUIET))
    assert {cell.target for cell in study.traces} == {1}
    batches = {cell.batch for cell in study.traces}
    assert {BATCHES[0], BATCHES[-1]} < batches
    assert batches & {256, 512}  # beside the crossover
    assert scaled(scaling_machine(), scaling_plan(trace=False)).traces == ()


def test_a_batch_that_one_device_cannot_run_is_still_measured_on_several() -> None:
    study = scaled(scaling_machine(faults=(Fault(0, 4096, "out_of_memory"),)))
    assert {cell.outcome for cell in study.cells if (cell.target, cell.batch) == (0, 4096)} == {"out_of_memory"}
    alone = [item for item in study.rounds if item.batch == 4096]
    assert alone
    assert all([block.target for block in item.blocks] == [1] for item in alone)
    (found,) = scaling_answer(study).several
    assert found.strong[-1].batch == 2048
    assert found.weak[-1].batch == 4096


def test_where_nothing_can_be_compared_it_is_one_sentence() -> None:
    with pytest.raises(StudyFailed, match="error at batch"):
        scaled(scaling_machine(faults=(Fault(1, 1, "error"),)))
    with pytest.raises(StudyFailed, match="crashed while starting"):
        scaled(scaling_machine(start_faults={1: "crashed", 2: "crashed"}))
    assert LAUNCHED[-1].open_workers == 0


def test_what_cannot_be_compared_any_more_ends_at_once_and_all_of_it_was_shown() -> None:
    seen: list[Progress] = []
    with pytest.raises(StudyFailed, match="error at batch"):
        scaled(scaling_machine(faults=(Fault(0, 1, "error"),)), report=seen.append)
    assert seen[-1].elapsed_s < 10  # of 120
    shown = seen[-1].record
    assert {item.batch for item in shown.rounds} == set(BATCHES)  # by the other target, in the first pass
    assert seen[-1].phase == "finishing"


def test_cancelled_it_keeps_what_was_measured_and_without_a_round_nothing() -> None:
    study = scaled(scaling_machine(), cancel=StopsLater(150))
    assert study.status == "cancelled"
    assert study.rounds
    assert study.traces == ()
    with pytest.raises(Cancelled):
        scaled(scaling_machine(), cancel=StopsLater(1))


def test_progress_holds_the_study_so_far_and_says_how_many_starts_are_done() -> None:
    seen: list[Progress] = []
    study = scaled(scaling_machine(), report=seen.append)
    records = [progress.record for progress in seen if progress.record is not None]
    assert all(isinstance(record, ScalingStudy) for record in records)
    assert len(records[-1].rounds) == len(study.rounds)
    assert max(progress.cells_done for progress in seen) == study.starts
    assert {progress.phase for progress in seen} == {"starting", "restarting", "measuring", "tracing"}
