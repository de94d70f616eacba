"""The runner of checks on a simulated machine: starts, order, budget, and failures on one side."""

from collections import Counter

import pytest

from core.studies.check.answer import check_answer
from core.studies.check.export import check_text
from core.studies.check.record import CheckRecord
from core.studies.runner import StudyFailed
from core.worker.protocol import Prepare
from simulated.checks import NEW, OLD, check_machine, check_plan, checked
from simulated.simulation import LAUNCHED, QUIET, Fault
from simulated.tools import StopsLater


def starts(record: CheckRecord) -> int:
    return len({process.index for process in record.run.processes})


def test_every_round_holds_both_sides_which_take_turns() -> None:
    machine = check_machine()
    record = checked(machine)
    assert record.run.status == "finished"
    for batch in record.plan.batches:
        firsts = [item.blocks[0].target for item in record.run.rounds if item.batch == batch]
        assert all(len(item.blocks) == 2 for item in record.run.rounds)
        assert firsts[:4] == [0, 1, 0, 1]
        in_starts = Counter(item.process for item in record.run.rounds if item.batch == batch)
        assert len(in_starts) == starts(record) == machine.starts >= 6
        assert min(in_starts.values()) >= 4


@pytest.mark.parametrize(("budget_s", "startup_s"), [(60.0, 5.0), (60.0, 0.2), (200.0, 12.0), (30.0, 20.0)])
def test_the_budget_is_kept_and_used(budget_s: float, startup_s: float) -> None:
    record = checked(check_machine(startup_s=startup_s), check_plan(budget_s=budget_s))
    assert 0.7 * budget_s <= record.run.elapsed_s <= budget_s + 0.5
    assert starts(record) <= max(1, budget_s / startup_s)
    assert LAUNCHED[-1].open_workers == 0


def test_how_many_starts_there_are_does_not_depend_on_which_side_is_slower() -> None:
    assert starts(checked(check_machine(1.0))) == starts(checked(check_machine(0.5))) == 6


def test_each_side_has_its_own_workload() -> None:
    seen: set[tuple[int, str]] = set()
    machine = check_machine()
    usual = machine.step_ms

    def step_ms(index: int, target: object, request: Prepare) -> float:
        seen.add((index, request.workload.network.name))
        return usual(index, target, request)  # type: ignore[arg-type]

    machine.step_ms = step_ms  # type: ignore[method-assign]
    other = OLD.workload.model_copy(update={"network": type(OLD.workload)(network="784-64-10").network})
    checked(machine, check_plan(sides=(OLD.model_copy(update={"workload": other}), NEW), budget_s=20.0))
    assert seen == {(0, "784-64-10"), (1, "784-128-10")}


def test_a_batch_that_one_side_cannot_run_is_left_out() -> None:
    record = checked(check_machine(faults=(Fault(1, 256, "nan_loss"),)))
    assert {item.batch for item in record.run.rounds if len(item.blocks) == 2} == {1}
    answer = check_answer(record)
    assert answer.verdict == "inconclusive"
    assert "at batch 256." in check_text(record, answer).splitlines()[0]


def test_a_side_that_can_run_nothing_is_one_sentence() -> None:
    machine = check_machine(faults=(Fault(1, 1, "nan_loss"),))
    with pytest.raises(StudyFailed, match="nan_loss at batch"):
        checked(machine)
    assert machine.open_workers == 0


def test_a_lost_worker_is_a_note_and_the_check_goes_on() -> None:
    fault = Fault(0, 256, "crashed", in_block=True, lost=True, times=1)
    record = checked(check_machine(noise=QUIET, faults=(fault,), seed=1))
    assert record.run.status == "finished"
    assert check_answer(record).verdict == "unchanged"
    assert "was lost, at" in check_text(record, check_answer(record))


def test_workers_that_are_lost_again_and_again_end_it() -> None:
    machine = check_machine(faults=(Fault(1, 1, "crashed", in_block=True, lost=True),))
    with pytest.raises(StudyFailed, match="Planted fault"):
        checked(machine)


def test_a_start_that_fails_later_leaves_what_was_measured() -> None:
    record = checked(check_machine(start_faults={5: "crashed", 6: "crashed"}))
    assert record.run.status == "failed"
    assert "Cut short after" in check_text(record, check_answer(record))


def test_cancelled_later_what_was_measured_is_said() -> None:
    record = checked(check_machine(2.0), cancel=StopsLater(150))
    assert record.run.status == "cancelled"
    answer = check_answer(record)
    assert "was cancelled after" in check_text(record, answer)
    assert answer.verdict in ("slower", "inconclusive")
