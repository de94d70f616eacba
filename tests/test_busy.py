"""The benchmark beside neighbours: derivations from a run, choice of the next condition, neighbours that end."""

import random
from collections import Counter
from functools import partial
from itertools import groupby
from typing import Any

import psutil
import pytest

from benchmarks import busy, busy_table, neighbours
from benchmarks.alternating import alternating
from benchmarks.equal_server import same_targets_allowed
from core.rounds.plan import SweepPlan
from core.studies.runner import StudyFailed
from simulated.simulation import Curve, Machine, NoiseModel
from simulated.sweeps import new_run, plan, sweep
from simulated.tools import tools_for

CURVES = (Curve(0.3, 0.03), Curve(1.0, 0.004))
PRECISION = busy.Case("precision", "1 thread", "none", 120.0)
RUN = sweep(Machine(CURVES, NoiseModel(), seed=3), plan(budget_s=120.0))


def test_a_run_cut_at_a_moment_holds_nothing_later() -> None:
    half = busy.cut(RUN, RUN.elapsed_s / 2)
    assert 0 < len(half.rounds) < len(RUN.rounds)
    assert max(block.at_s for item in half.rounds for block in item.blocks) <= RUN.elapsed_s / 2
    assert {process.index for process in half.processes} == {item.process for item in half.rounds}
    assert half.status == "cancelled"


def test_starts_alternate_by_the_time_used_and_none_pays_for_the_other() -> None:
    machine = Machine(CURVES, NoiseModel(), seed=3)
    order: list[int] = []

    def launch(place: int, *arguments: Any, **options: Any) -> Any:
        order.append(place)
        return machine.launch(*arguments, **options)

    budgets_s = (90.0, 180.0)
    tools = [tools_for(machine, launch=partial(launch, place)) for place in (0, 1)]
    runs = alternating(tools, [new_run(plan(budget_s=budget_s, trace=False)) for budget_s in budgets_s])
    for place, run in enumerate(runs):
        assert order.count(place) == len({process.index for process in run.processes})
        assert run.status == "finished"
        assert run.elapsed_s <= budgets_s[place] + 1
    assert machine.clock.now_s() == pytest.approx(sum(run.elapsed_s for run in runs), abs=1)
    assert max(len(list(row)) for _, row in groupby(order)) <= 3


@pytest.mark.parametrize("fails", [0, 1])
def test_the_failure_of_a_sweep_ends_the_other(fails: int) -> None:
    machine = Machine(CURVES, NoiseModel(), seed=3)
    failing = Machine(CURVES, NoiseModel(), seed=3, start_faults=dict.fromkeys(range(1, 9), "crashed"))
    tools = [tools_for(failing if place == fails else machine) for place in (0, 1)]
    with pytest.raises(StudyFailed, match="Planted fault"):
        alternating(tools, [new_run(plan(budget_s=60.0)) for _ in tools])
    assert all(each.cancel.is_set() for each in tools)
    assert machine.open_workers == 0


def test_a_claim_about_equal_targets_is_false_unless_it_is_equivalence() -> None:
    assert not busy.is_false([])
    assert not busy.is_false(["equivalent"])
    assert busy.is_false(["equivalent", "crossover"])


def test_the_condition_seen_least_comes_next() -> None:
    wanted = busy.cases(("aa",), ("none", "bursts"), busy.EQUAL)
    done = Counter({case: 2 for case in wanted})
    done[wanted[4]] = 1
    assert busy.next_case(wanted, done) == wanted[4]
    random.seed(1)
    assert len({busy.next_case(wanted, Counter()) for _ in range(200)}) == len(wanted)


def test_equal_targets_are_measured_as_any_others() -> None:
    ours = busy.plan_of(busy.Case("aa", "1 thread", "none", 45.0))
    other = busy.plan_of(busy.Case("power", "graph, XLA", "none", 45.0))
    assert ours.targets[0] == ours.targets[1]
    assert ours.model_dump(exclude={"targets"}) == other.model_dump(exclude={"targets"})


def test_a_server_for_the_benchmark_takes_a_target_twice() -> None:
    plan_of_equals = busy.plan_of(busy.Case("aa", "1 thread", "none", 45.0)).model_dump()
    with same_targets_allowed():
        assert len(set(SweepPlan.model_validate(plan_of_equals).targets)) == 1
    with pytest.raises(ValueError, match="two targets"):
        SweepPlan.model_validate(plan_of_equals)


def test_precision_is_reached_and_kept() -> None:
    calm = NoiseModel(process=0.004, cell=0.0, own_drift=0.005)
    run = sweep(Machine((CURVES[0],) * 2, calm, seed=3, startup_s=0.1), busy.plan_of(PRECISION))
    took = busy.seconds_to_precise(run)
    assert set(took) == set(busy.PRECISION_BATCHES)
    assert any(seconds is not None for seconds in took.values())
    for batch, seconds in took.items():
        for look in (1, 2) if seconds is not None else ():
            later = busy.half_widths(busy.cut(run, seconds + look * busy.LOOK_S))
            assert later[batch] <= busy.PRECISE


def test_a_neighbour_ends_with_its_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BEGIN_S", 0.2)
    with neighbours.planted("bursts on two cores"):
        mine = psutil.Process().children(recursive=True)
        running = [process for process in mine if "def drawn()" in " ".join(process.cmdline())]
        assert len(running) == 2
    assert not any(process.is_running() for process in running)


def test_a_neighbour_that_ended_early_spoils_its_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "SCRIPTS", {"short": ("pass",)})
    with pytest.raises(RuntimeError), neighbours.planted("short"):
        psutil.Process().children()[-1].wait(10)


LINE = {
    "what": "aa", "pair": "1 thread", "neighbour": "none", "budget_s": 45.0, "resolution": 0.04, "starts": 3,
    "rounds": 100, "disturbed": 0.0, "claims": {"live": [], "cancelled": [], "end": ["equivalent"]}, "false": False,
}  # fmt: skip


def test_the_table_counts_what_was_false_at_which_look(capsys: pytest.CaptureFixture[str]) -> None:
    false = LINE | {"claims": {"live": ["crossover"], "cancelled": [], "end": [], "prolonged": []}, "false": True}
    busy_table.print_table([LINE] * 9 + [false])
    rows = {row.split("|")[1].strip(): row.split("|") for row in capsys.readouterr().out.splitlines() if "|" in row}
    assert [cell.strip() for cell in rows["**all**"][4:10]] == ["10", "1", "1", "0", "0", "0 of 1"]


def test_crossovers_agree_within_both_intervals() -> None:
    one = (100.0, 80.0, 125.0, "b")
    assert busy_table._agrees(one, (120.0, 118.0, 122.0, "b"))
    assert not busy_table._agrees(one, (130.0, 128.0, 132.0, "b"))
    assert busy_table._agrees(one, (130.0, 104.0, 162.0, "b"))
    assert busy_table._agrees((130.0, 104.0, 162.0, "b"), one)
