"""What samples cost on each target at the user's prices, and the batch at which the cheaper target changes.

Cost a sample is price · t / b, so log(cost_A / cost_B) is the curve of log(t_A / t_B) moved by log(price_A / price_B).
Its crossings are found as the crossover's own are: the same units, the same sign segments and intervals, another level.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from core.batch.prices import Price
from core.batch.shapes import CostAnswer, CostCrossover, Quantity
from core.numbers import number, rounded
from core.studies.sweep.crossover import Curve, build_curve, find_crossings
from core.studies.sweep.observations import observe
from core.studies.sweep.record import Run

SECONDS_AN_HOUR = 3600.0


def cost_of(seconds: Quantity, price: Price) -> Quantity:
    """Cost of so many seconds, in the price's currency."""
    return seconds.times(price.per_hour / SECONDS_AN_HOUR)


def cost_answer(run: Run, prices: Sequence[Price]) -> CostAnswer | None:
    """From which batch the more expensive target is cheaper for a sample; None unless both targets have a price."""
    by_name = {price.target: price for price in prices}
    if not set(run.target_names) <= set(by_name):
        return None
    both = (by_name[run.target_names[0]], by_name[run.target_names[1]])
    dearer = None if both[0].per_hour == both[1].per_hour else max(both, key=lambda price: price.per_hour).target
    curve = _curve(run, both)
    if curve is None:
        return CostAnswer(
            both, dearer, (), None, "The targets share no measured batch, so their costs cannot be compared."
        )
    crossovers = tuple(
        CostCrossover(*crossing.batches, cheaper_after=run.target_names[int(crossing.rising)])
        for crossing in find_crossings(curve)
    )
    cheaper = None if crossovers else _throughout(curve, run.target_names)
    return CostAnswer(both, dearer, crossovers, cheaper, _sentence(both, dearer, crossovers, cheaper, curve))


def _curve(run: Run, prices: tuple[Price, Price]) -> Curve | None:
    """log(cost_A / cost_B) of a sample; above zero the second target is the cheaper one."""
    seen = observe(run)
    if len(seen.batches) == 0:
        return None
    shift = math.log(prices[0].per_hour / prices[1].per_hour)
    return build_curve(dataclasses.replace(seen, values=seen.values + shift))


def _throughout(curve: Curve, names: Sequence[str]) -> str | None:
    at = curve.at_batches()
    low, high = (at.low, at.high) if curve.has_interval else (at.center, at.center)
    if (low > 0).all():
        return names[1]
    return names[0] if (high < 0).all() else None


def _sentence(
    prices: tuple[Price, Price],
    dearer: str | None,
    crossovers: tuple[CostCrossover, ...],
    cheaper: str | None,
    curve: Curve,
) -> str:
    rise = _prices_words(prices, dearer)
    if crossovers:
        parts = [
            f"from batch {rounded(one.batch)} on it is {one.cheaper_after} ({_interval(one)})" for one in crossovers
        ]
        names = [price.target for price in prices]
        before = names[1 - names.index(crossovers[0].cheaper_after)]
        return f"{rise} Cheaper for a sample: below batch {rounded(crossovers[0].batch)} {before}; {'; '.join(parts)}."
    first, last = (rounded(2.0**x) for x in (curve.x[0], curve.x[-1]))
    if cheaper is not None:
        return f"{rise} A sample is cheaper on {cheaper} at every batch measured, {first} to {last}."
    return f"{rise} Neither target has a significantly cheaper sample (95 %) between batch {first} and {last}."


def _prices_words(prices: tuple[Price, Price], dearer: str | None) -> str:
    if dearer is None:
        return "An hour costs the same on both targets."
    low, high = sorted(prices, key=lambda price: price.per_hour)
    return f"An hour on {dearer} costs {number(high.per_hour / low.per_hour)} times as much as on {low.target}."


def _interval(found: CostCrossover) -> str:
    if found.low is None or found.high is None:
        return "no interval: one value a batch"
    return f"95 % interval {rounded(found.low)} to {rounded(found.high)}"
