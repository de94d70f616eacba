"""The cost that Keras's own loop adds to a step: truth recovered, the words, and its place at the end of a sweep."""

import functools
import re
import threading
from pathlib import Path

import pytest

from core.base.schema import UserError
from core.rounds.answer import loop
from core.rounds.answer.analyse import analyse
from core.rounds.answer.loop import added, loop_lines, loop_notes
from core.rounds.run import LoopCost, Run
from core.rounds.show.export import run_json, verdict_text
from core.rounds.show.imports import read_run
from core.rounds.show.report import html_report
from core.studies.sweep.supervisor import run_sweep
from core.worker.protocol import CellFailed, WorkerError, WorkerLost
from simulated.commands import holds
from simulated.runs import make_run
from simulated.simulation import Curve, Fault, Machine, NoiseModel
from simulated.sweeps import MemoryRecorder, plan, sweep
from simulated.tools import tools_for
from tests.support.loops import loop_cost, with_loops

CROSSING = (Curve(0.3, 0.02), Curve(1.0, 0.003))
OLD_RUN = Path(__file__).parents[3] / "fixtures" / "8e67b6e" / "run.json"


# -- the numbers -------------------------------------------------------------------------------------------------------


def test_what_a_step_and_a_call_cost_come_apart() -> None:
    found = added(loop_cost(added_ms=0.2, step_ms=0.5, call_ms=8.0))
    assert found is not None
    assert (found.step_ms, found.call_ms) == (pytest.approx(0.2), pytest.approx(8.0))
    assert found.pairs == 9


def test_its_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = 0
    for seed in range(400):
        found = added(loop_cost(added_ms=0.05, noise=0.03, seed=seed))
        assert found is not None
        held += found.low_ms < 0.05 < found.high_ms
    assert 0.935 <= held / 400 <= 0.985, "nine pairs: 96 % by the binomial distribution"


# -- the words ---------------------------------------------------------------------------------------------------------


def lines(*costs: LoopCost, mode: str = "train", **options: object) -> tuple[str, ...]:
    run = with_loops(make_run(1, **options), *costs)
    run = run.model_copy(update={"plan": run.plan.model_copy(update={
        "workload": run.plan.workload.model_copy(update={"mode": mode})})})  # fmt: skip
    return loop_lines(run, analyse(run))


def test_it_stands_beside_the_step_time_with_interval_label_and_batch() -> None:
    run = make_run(1)
    step_ms = analyse(run).cell(0, 4).step_ms
    (line,) = lines(loop_cost(added_ms=0.2, noise=0.001))
    assert line.startswith(f"1 thread: a step takes {step_ms:.3g} ms; fit adds 0.2")
    assert line.endswith(" recorded at batch 4")
    assert "(95 % interval 0." in line
    assert "modelled at batch 4" in lines(loop_cost(), label="modelled")[0]


@pytest.mark.parametrize("added_ms", [0.0, -0.01])
def test_what_is_not_clearly_above_zero_is_nothing_measurable(added_ms: float) -> None:
    (line,) = lines(loop_cost(added_ms=added_ms, noise=0.01))
    assert "adds nothing measurable" in line


def test_inference_is_predicts() -> None:
    assert "predict adds 0.2" in lines(loop_cost(), mode="infer")[0]


def test_what_was_not_measured_says_why_once_where_it_is_the_same() -> None:
    one, other = (LoopCost(target=t, batch=4, reason="No time.") for t in (0, 1))
    (line,) = lines(one, other)
    assert "No time." in line
    named = lines(one, loop_cost(1))
    assert named[0].startswith("1 thread:")
    assert "No time." in named[0]
    assert "adds 0.2 ms" in named[1]


def test_a_run_without_it_says_not_recorded() -> None:
    old = read_run(OLD_RUN.read_bytes(), "run.json")
    assert old.loops == ()
    assert loop_lines(old, analyse(old)) == ()
    assert "not recorded" in loop_notes(old)[0]
    assert "not recorded" in html_report(old, analyse(old))
    assert "itself adds" not in verdict_text(old, analyse(old))


def test_text_and_report_hold_it() -> None:
    run = with_loops(make_run(1), loop_cost(0), loop_cost(1, added_ms=0.0, noise=0.01))
    text, report = verdict_text(run, analyse(run)), html_report(run, analyse(run))
    for shown in (text, report):
        holds(shown, "adds 0.2 ms", "adds nothing measurable")
    holds(report, "(8 to 8)", "progress bar included", "same feed",
          "and 9 pairs)")  # fmt: skip


def test_a_file_keeps_it_and_holds_each_target_once() -> None:
    run = with_loops(make_run(1), loop_cost(0), loop_cost(1))
    assert read_run(run_json(run).encode(), "run.json") == run
    twice = with_loops(run, loop_cost(1), loop_cost(1))
    with pytest.raises(UserError, match="target 1 twice"):
        read_run(run_json(twice).encode(), "run.json")


# -- in a sweep --------------------------------------------------------------------------------------------------------


def test_a_sweep_measures_it_once_on_both_targets_at_the_smallest_batch() -> None:
    recorder = MemoryRecorder()
    run = sweep(Machine(CROSSING, loop_ms=(0.06, 0.25), call_ms=9.0, seed=1), plan("2:1024"), recorder=recorder)
    assert [(cost.target, cost.batch) for cost in run.loops] == [(0, 2), (1, 2)]
    assert [r for r in recorder.others if isinstance(r, LoopCost)] == list(run.loops)
    for cost, true_ms in zip(run.loops, (0.06, 0.25), strict=True):
        found = added(cost)
        assert found.low_ms <= true_ms <= found.high_ms
        assert found.step_ms == pytest.approx(true_ms, rel=0.2)
        assert found.call_ms == pytest.approx(9.0, rel=0.1)
    without = sweep(Machine(CROSSING, loop_ms=(60.0, 250.0)), plan("2:1024"))
    assert analyse(without).cell(1, 2).step_ms == pytest.approx(CROSSING[1].step_ms(2), rel=0.02), "never inside"


def test_the_batch_is_one_that_both_targets_have() -> None:
    lost = Fault(target=0, batch=1, outcome="crashed", in_block=True, lost=True, times=2)
    run = sweep(Machine(CROSSING, faults=(lost,)), plan("1:1024"))
    both = {r.batch for r in run.rounds if len(r.blocks) == 2}
    assert {cost.batch for cost in run.loops} <= {min(both, default=None)}
    assert loop.batch_to_time(make_run(1, with_failures=True)) == 1
    assert loop.batch_to_time(make_run(1).model_copy(update={"rounds": ()})) is None


def test_noise_of_a_real_machine_leaves_the_truth_in_its_interval() -> None:
    held = [
        found.low_ms <= true_ms <= found.high_ms
        for seed in range(12)
        for cost, true_ms in zip(
            sweep(Machine(CROSSING, NoiseModel(), seed=seed), plan("1:64", budget_s=30.0, trace=False)).loops,
            (0.05, 0.2),
            strict=True,
        )
        if (found := added(cost)) is not None
    ]
    assert len(held) == 24
    assert sum(held) >= 21


@pytest.mark.parametrize(("budget_s", "reserve_s"), [(14.9, 0.0), (15.0, 1.5), (60.0, 3.0), (90.0, 4.5), (9999.0, 6.0)])
def test_a_few_percent_of_the_budget_are_kept_for_it(budget_s: float, reserve_s: float) -> None:
    assert loop.reserve_s(plan(budget_s=budget_s)) == pytest.approx(reserve_s)


def test_a_short_budget_leaves_it_out_and_says_so() -> None:
    run = sweep(Machine(CROSSING), plan(budget_s=10.0))
    assert [cost.times for cost in run.loops] == [None, None]
    (line,) = loop_lines(run, analyse(run))
    assert "of 15 s" in line


def test_a_slow_target_leaves_it_out_and_says_so() -> None:
    machine = Machine((Curve(300.0, 1.0), Curve(0.5, 0.003)))
    run = sweep(machine, plan("1:4", budget_s=60.0, trace=False))
    slow, quick = run.loops
    assert "63 steps" in slow.reason
    assert re.search(r"\b(29|30)\d ms", slow.reason)
    assert quick.times is not None


@pytest.mark.parametrize("budget_s", [15.0, 30.0, 60.0])
def test_it_stays_within_the_budget(budget_s: float) -> None:
    machine = Machine(CROSSING, NoiseModel())
    run = sweep(machine, plan(budget_s=budget_s))
    assert machine.clock.now_s() <= budget_s + 1.0
    assert all(cost.times is not None for cost in run.loops)
    assert run.traces


class Failing(Machine):
    """Machine on which the loop of the first target fails."""

    error: WorkerError = CellFailed("error", "Keras refused.")

    def launch(self, *given):
        workers = super().launch(*given)
        workers[0].loop = functools.partial(self._fail)
        return workers

    def _fail(self, *_):
        raise self.error


@pytest.mark.parametrize("kind", [CellFailed, WorkerLost])
def test_a_failure_costs_its_own_number_and_no_more(kind: type[WorkerError]) -> None:
    machine = Failing(CROSSING)
    machine.error = kind("error", "Keras refused.")
    run = sweep(machine, plan())
    assert run.status == "finished"
    assert {c.outcome for c in run.cells} == {"measured"}
    assert (run.loops[0].times, run.loops[0].reason) == (None, "Keras refused.")
    assert (run.loops[1].times is None) is (kind is WorkerLost)
    assert machine.open_workers == 0
    assert any("CPU" in line and "Keras refused." in line for line in loop_lines(run, analyse(run)))


def test_a_cancelled_sweep_has_none_and_a_resumed_one_measures_it_once() -> None:
    cancel = threading.Event()
    seen: list[Run] = []

    def stop(progress):
        seen.append(progress.record)
        if len(progress.record.rounds) > 30:
            cancel.set()

    first = sweep(Machine(CROSSING), plan(), cancel=cancel, report=stop)
    assert (first.status, first.loops) == ("cancelled", ())
    resumed = run_sweep(tools_for(Machine(CROSSING)), first)
    assert [cost.times is not None for cost in resumed.loops] == [True, True]
    again = run_sweep(tools_for(Machine(CROSSING, loop_ms=(5.0, 5.0))), resumed)
    assert again.loops == resumed.loops
