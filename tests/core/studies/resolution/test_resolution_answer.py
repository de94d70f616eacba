"""The answer of a resolution study: the smallest difference shown, the result for equal targets, occasions."""

import math

import numpy as np
import pytest

from core.analysis.statistics import chi_square_quantile
from core.base.schema import UserError
from core.rounds.answer.crossover import build_curve
from core.rounds.answer.observations import observe
from core.studies.resolution.answer import MIN_OCCASIONS, resolution, shown_from, steps_ms
from core.studies.resolution.kind import RESOLUTION
from core.studies.resolution.record import ResolutionPlan, ResolutionStudy, resolution_plan, spread_batches
from core.workload.spec import Target, Workload
from simulated.resolutions import CURVE, made_resolution, make_resolution, plan
from simulated.simulation import QUIET, NoiseModel

LOUD = NoiseModel(tail=0.08, process=0.06, cell=0.03)
STUDY = made_resolution()


def test_the_difference_is_half_of_the_verdicts_interval_at_the_median_batch() -> None:
    at = build_curve(observe(STUDY.run)).at_batches()
    half = float(np.median((at.high - at.low) / 2))
    found = resolution(STUDY)
    assert found.difference == pytest.approx(math.expm1(half))
    assert found.low <= min(one.difference for one in found.batches if one.difference is not None) <= found.difference
    assert found.difference <= found.high
    assert found.low < found.difference < found.high


@pytest.mark.statistical
def test_a_noisier_machine_shows_larger_differences_only() -> None:
    quiet, loud = (make_resolution(noise=noise, budget_s=40.0) for noise in (NoiseModel(), LOUD))
    assert 2 * resolution(quiet).difference < resolution(loud).difference


def test_differences_from_there_on_are_shown_and_a_quarter_of_it_is_not() -> None:
    """Compare, with the same noise, a worker slower by four times the difference, and by a quarter of it."""
    difference = resolution(STUDY).difference
    for factor, shows in ((1 + 4 * difference, True), (1 + difference / 4, False)):
        at = build_curve(observe(make_resolution(factor=factor, budget_s=20.0, batches=(1, 64)).run)).at_batches()
        assert bool((at.high < 0).all()) is shows, factor


@pytest.mark.statistical
def test_equal_targets_come_out_equal_and_different_ones_do_not() -> None:
    assert resolution(make_resolution(noise=QUIET, budget_s=20.0)).is_equal
    unequal = resolution(made_resolution(factor=1.3))
    assert unequal.claims
    assert not unequal.is_equal


def test_the_step_time_is_that_of_both_workers() -> None:
    steps = steps_ms(make_resolution(noise=QUIET, budget_s=20.0))
    assert steps == {batch: pytest.approx(CURVE.step_ms(batch), rel=0.01) for batch in (1, 32, 1024)}


def test_without_rounds_nothing_is_said() -> None:
    with pytest.raises(UserError):
        resolution(STUDY.model_copy(update={"run": STUDY.run.model_copy(update={"rounds": ()})}))


def _occasion(day: int, factor: float, **changes: object) -> ResolutionStudy:
    """Return the same study on another day, on which every step took ``factor`` times as long."""
    rounds = tuple(
        item.model_copy(
            update={"blocks": tuple(b.model_copy(update={"step_ms": factor * b.step_ms}) for b in item.blocks)}
        )
        for item in STUDY.run.rounds
    )
    run = STUDY.run.model_copy(update={"rounds": rounds})
    dated = {"run": run, "created_at": f"2026-01-{day:02}T09:00:00+00:00", **changes}
    return STUDY.model_copy(update=dated)


def test_occasions_lie_apart_by_what_the_target_took_on_each() -> None:
    logs = np.array([0.0, 0.1, -0.05, 0.2])
    earlier = [_occasion(day, math.exp(log)) for day, log in enumerate(logs[1:], start=1)]
    found = resolution(STUDY, earlier).occasions
    assert found is not None
    assert found.count == 4
    assert found.spread == pytest.approx(math.expm1(np.std(logs, ddof=1)))
    assert found.low < found.spread < found.high


def test_only_earlier_occasions_of_the_same_target_and_machine_count() -> None:
    other = STUDY.plan.model_copy(update={"targets": (Target(threads=1),) * 2})
    assert STUDY.environment is not None
    elsewhere = STUDY.environment.model_copy(update={"hostname_hash": "another"})
    strangers = [
        _occasion(9, 2.0), _occasion(1, 2.0, plan=other), _occasion(1, 2.0, environment=elsewhere), STUDY,
    ]  # fmt: skip
    own = [_occasion(day, 1.1) for day in range(1, MIN_OCCASIONS)]
    assert resolution(STUDY, (*strangers, *own[1:])).occasions is None
    found = resolution(STUDY, (*strangers, *own)).occasions
    assert found is not None
    assert found.count == MIN_OCCASIONS


def test_a_plan_is_of_one_target_twice() -> None:
    targets = (Target(threads=1), Target(threads=2))
    with pytest.raises(ValueError, match="against itself"):
        ResolutionPlan(workload=Workload(network="784-128-10"), targets=targets, batches=(1,))
    with pytest.raises(ValueError, match="batch"):
        resolution_plan(Workload(network="784-128-10"), Target(device="gpu:0+1"), (1, 3), 60.0)
    assert ResolutionPlan.model_validate_json(plan().model_dump_json()) == plan()


@pytest.mark.parametrize(
    ("range_", "multiple", "batches"),
    [((1, 1024), 1, (1, 10, 102, 1024)), ((1, 1024), 2, (2, 10, 102, 1024)), ((8, 8), 1, (8,)), ((1, 2), 1, (1, 2))],
)
def test_batches_spread_over_the_range(range_: tuple[int, int], multiple: int, batches: tuple[int, ...]) -> None:
    assert spread_batches(*range_, multiple) == batches


def test_the_whole_budget_is_measured_by_the_ordinary_engine() -> None:
    assert STUDY.elapsed_s == pytest.approx(STUDY.plan.budget_s, rel=0.1)
    assert STUDY.run.batches == STUDY.plan.batches
    assert not STUDY.run.traces
    assert len({process.index for process in STUDY.run.processes}) >= 3
    assert RESOLUTION.targets(STUDY.plan) == (Target(),)


def test_a_run_without_a_pair_shows_nothing() -> None:
    lonely = tuple(item.model_copy(update={"blocks": item.blocks[:1]}) for item in STUDY.run.rounds)
    assert shown_from(STUDY.run.model_copy(update={"rounds": lonely})) is None


def test_quantiles_of_chi_square_are_those_of_the_tables() -> None:
    """Compare with Abramowitz and Stegun, table 26.8."""
    known = {(0.025, 1): 0.00098, (0.975, 1): 5.02389, (0.025, 10): 3.24697, (0.975, 30): 46.9792}
    for (probability, df), value in known.items():
        assert chi_square_quantile(probability, df) == pytest.approx(value, rel=5e-3 if df == 1 else 1e-5)
    assert chi_square_quantile(0.5, 2000) == pytest.approx(2000 * (1 - 2 / 18000) ** 3, rel=1e-5)
