"""The additional time that a run needs, on simulated sweeps: with it the verdict is clear, or the interval narrower."""

from dataclasses import replace
from typing import Any

import pytest

from core.analysis.statistics import STEPS_S, round_time_s, units_for
from core.rounds.answer.analyse import analyse
from core.rounds.answer.more_time import LEAST_SHARE, extended, more_time
from core.rounds.run import Run
from core.studies.sweep.supervisor import run_sweep
from simulated.runs import make_run
from simulated.simulation import Curve, Machine, NoiseModel
from simulated.sweeps import plan, sweep
from simulated.tools import tools_for

CROSSING = (Curve(0.3, 0.02), Curve(0.9, 0.003))


def slower(share: float) -> tuple[Curve, Curve]:
    """Return curves of which the second is slower by that share at every batch."""
    return Curve(0.4, 0.01), Curve(0.4 * (1 + share), 0.01 * (1 + share))


def measured(curves: tuple[Curve, ...], budget_s: float, seed: int, **changes: Any) -> tuple[Machine, Run]:
    machine = Machine(curves, NoiseModel(), seed)
    return machine, sweep(machine, plan(count=len(curves), budget_s=budget_s, trace=False, **changes))


def gone_on(machine: Machine, run: Run) -> Run:
    """Continue the run with the time that its estimate asks for, later on the same machine."""
    machine.clock.advance(500.0)
    found = more_time(run, analyse(run))
    assert found.seconds is not None
    begin_s = machine.clock.now_s()
    longer = run_sweep(tools_for(machine), extended(run, found.seconds, found.width))
    assert machine.clock.now_s() - begin_s <= 1.1 * found.seconds + 10
    return longer


@pytest.mark.statistical
def test_a_short_sweep_goes_on_until_its_crossover_is_as_narrow_as_was_asked() -> None:
    machine, run = measured(CROSSING, 20.0, 3)
    before = analyse(run)
    longer = gone_on(machine, run)
    (found,) = analyse(longer).verdict.crossovers
    assert (found.high - found.low) / found.batch <= 0.25
    assert longer.rounds[: len(run.rounds)] == run.rounds, "what was measured stays"
    assert longer.elapsed_s > run.elapsed_s
    assert before.verdict.crossovers[0].low < 43 < before.verdict.crossovers[0].high


@pytest.mark.statistical
def test_of_a_narrow_crossover_the_interval_is_halved() -> None:
    left = []
    for seed in (2, 3, 4):
        machine, run = measured(CROSSING, 120.0, seed)
        (before,) = analyse(run).verdict.crossovers
        more = more_time(run, analyse(run))
        assert more.aim == "narrower"
        width = (before.high - before.low) / before.batch
        assert more.width == pytest.approx(0.25 if width > 0.25 else width / 2)
        (after,) = analyse(gone_on(machine, run)).verdict.crossovers
        left.append((after.high - after.low) / (before.high - before.low))
    assert sorted(left)[1] < 0.7, "in the median: of eight seeds 0.62"


def test_an_open_verdict_asks_for_time_and_is_clear_with_it() -> None:
    machine, run = measured(slower(0.055), 90.0, 3)
    assert analyse(run).verdict.kind == "inconclusive"
    assert more_time(run, analyse(run)).aim == "clear"
    assert analyse(gone_on(machine, run)).verdict.kind == "ahead"


@pytest.mark.statistical
def test_what_is_open_among_three_is_clear_with_the_time_it_asks_for() -> None:
    machine, run = measured((Curve(0.3, 0.02), Curve(0.9, 0.003), Curve(0.95, 0.0055)), 90.0, 3)
    found = analyse(gone_on(machine, run)).fastest
    assert all(len(band.targets) == 1 or band.level for band in found.bands)


def test_a_difference_far_below_the_noise_is_not_promised_within_an_hour() -> None:
    _, run = measured(slower(0.052), 120.0, 4)
    answer = analyse(run)
    tiny = replace(answer, verdict=replace(answer.verdict, kind="inconclusive", reason="straddles"))
    found = more_time(run, tiny)
    assert found.aim == "clear"
    assert found.seconds is None or found.seconds > run.elapsed_s


def test_without_an_interval_that_is_what_more_time_is_for() -> None:
    run = make_run(4)
    once = run.model_copy(update={"rounds": tuple({item.batch: item for item in run.rounds}.values())})
    found = more_time(once, analyse(once))
    assert found.aim == "interval"
    assert found.seconds in STEPS_S


def test_the_time_is_no_less_than_a_sweep_that_goes_on_takes() -> None:
    _, run = measured(CROSSING, 300.0, 3, refine=False)
    found = more_time(run, analyse(run))
    assert found.seconds is not None
    assert found.seconds >= LEAST_SHARE * run.elapsed_s


def test_the_extended_run_keeps_its_rounds_and_gets_the_time_and_the_width() -> None:
    run = make_run(4)
    longer = extended(run, 60.0, 0.1)
    assert run.plan is not None
    assert longer.plan is not None
    assert longer.rounds == run.rounds
    assert longer.plan.budget_s == max(run.plan.budget_s, run.elapsed_s + 60.0)
    assert (longer.plan.crossover_width, extended(run, 60.0).plan.crossover_width) == (0.1, run.plan.crossover_width)


def test_more_units_for_less_and_none_for_nothing() -> None:
    counts = [units_for(0.05, wanted) for wanted in (0.2, 0.05, 0.03, 0.02)]
    assert counts == sorted(counts)
    assert counts[0] == 3
    assert units_for(0.05, 0.001) is None
    assert units_for(0.05, 0.03, statements=10) > units_for(0.05, 0.03)
    assert round_time_s(lambda step: step >= 61) == 90.0
    assert round_time_s(lambda _: False) is None


@pytest.mark.statistical
def test_of_many_open_verdicts_most_are_clear_with_the_time_they_ask_for() -> None:
    asked = clear = 0
    for seed in range(48):
        machine, run = measured(slower(0.05 + 0.0015 * seed), 90.0, seed)
        found = more_time(run, analyse(run))
        if found.aim == "clear" and found.seconds is not None:
            asked += 1
            clear += analyse(gone_on(machine, run)).verdict.kind != "inconclusive"
    assert asked >= 6
    assert clear >= 0.55 * asked, f"{clear} of {asked}: about 70 % are, seen over many seeds"
