"""Costs by batch: the batch from which the dearer target is the cheaper one, against a closed form."""

import math

import pytest

from core.rounds.answer.analyse import analyse
from core.studies.batch.cost import cost_answers, cost_of
from core.studies.batch.shapes import Price, Quantity
from simulated.runs import make_run

NAMES = ("cpu,threads=1", "cpu,threads=2")
SHOWN = dict(zip(NAMES, ("1 thread", "2 threads"), strict=True))
FLOORS, SLOPES = (0.3, 0.8), (0.02, 0.01)


def prices(first: float, second: float) -> list[Price]:
    amounts = zip(NAMES, (first, second), strict=True)
    return [Price(target=name, per_hour=amount, dated="2026-11-01") for name, amount in amounts]


def true_crossover(first: float, second: float) -> float:
    """Solve p₀ T₀(b) = p₁ T₁(b) for T(b)² = floor² + (slope·b)²."""
    above = (second * FLOORS[1]) ** 2 - (first * FLOORS[0]) ** 2
    return math.sqrt(above / ((first * SLOPES[0]) ** 2 - (second * SLOPES[1]) ** 2))


@pytest.mark.parametrize("amounts", [(0.2, 0.3), (1.0, 1.0), (0.5, 0.3)])
def test_the_crossing_is_where_the_costs_are_equal(amounts):
    (found,) = cost_answers(make_run(3), prices(*amounts))
    (one,) = found.crossovers
    truth = true_crossover(*amounts)
    assert one.low <= truth <= one.high
    assert one.batch == pytest.approx(truth, rel=0.12)
    assert one.high / one.low < 1.4
    assert one.cheaper_after == NAMES[1]
    assert found.cheaper is None
    assert "2 threads (95" in found.sentence


def test_equal_prices_are_the_crossover_in_step_time_and_both_targets_need_one():
    run = make_run(5)
    ((one,),) = [found.crossovers for found in cost_answers(run, prices(2.0, 2.0))]
    (other,) = analyse(run).verdict.crossovers
    assert (one.batch, one.low, one.high) == pytest.approx((other.batch, other.low, other.high))
    assert cost_answers(run, prices(2.0, 2.0))[0].dearer is None
    assert cost_answers(make_run(), prices(1.0, 2.0)[:1]) == ()
    assert cost_answers(make_run(), []) == ()
    price = prices(1.8, 1.0)[0]
    assert cost_of(Quantity(3600.0, 1800.0, None), price) == Quantity(1.8, 0.9, None)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    truth = true_crossover(0.2, 0.3)
    found = [cost_answers(make_run(seed, noise=0.05), prices(0.2, 0.3))[0].crossovers for seed in range(60)]
    inside = [len(one) == 1 and one[0].low <= truth <= one[0].high for one in found]
    claimed = sum(map(bool, found))
    assert claimed >= 50
    assert sum(inside) >= 0.93 * claimed


@pytest.mark.parametrize(("amounts", "cheaper"), [((0.2, 5.0), NAMES[0]), ((5.0, 0.2), NAMES[1])])
def test_one_target_may_be_cheaper_throughout(amounts, cheaper):
    (found,) = cost_answers(make_run(1), prices(*amounts))
    assert found.crossovers == ()
    assert found.cheaper == cheaper
    assert f"cheaper on {SHOWN[cheaper]}" in found.sentence
    assert found.dearer == NAMES[amounts[1] > amounts[0]]
    assert f"{SHOWN[found.dearer]} costs 25" in found.sentence


def test_what_is_not_clear_is_not_claimed():
    """Check equal costs: at twice the price the faster target costs the same per sample at large batches."""
    (found,) = cost_answers(make_run(2, noise=0.1), prices(1.0, 2.0))
    assert found.crossovers == ()
    assert found.cheaper is None
    assert "clearly cheaper sample" in found.sentence
