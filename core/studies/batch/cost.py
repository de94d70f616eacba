"""Cost of samples on each target at the user's prices, and the batch at which the cheaper target changes.

The cost of a sample is price · t / b, so log(cost_A / cost_B) is the curve of log(t_A / t_B) shifted by log(price_A /
price_B). Its crossings are found like the crossover itself: same units, sign segments and intervals, at another level.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.base.money import cost_of_seconds
from core.base.numbers import number, rounded
from core.base.text import sentence_case
from core.rounds.answer.crossover import Curve, build_curve, find_crossings
from core.rounds.answer.observations import observe
from core.rounds.run import Run
from core.studies.batch.shapes import CostAnswer, CostCrossover, Price, Quantity


def cost_of(seconds: Quantity, price: Price) -> Quantity:
    """Return the cost of a duration, in the price's currency."""
    return seconds.times(cost_of_seconds(1.0, price.per_hour))


def cost_answers(run: Run, prices: Sequence[Price]) -> tuple[CostAnswer, ...]:
    """Compare each priced target with the baseline, which is the first; none if that has no price."""
    by_name = {price.target: price for price in prices}
    known = [index for index, name in enumerate(run.target_names) if name in by_name]
    if not known or known[0] != 0:
        return ()
    first = by_name[run.target_names[0]]
    return tuple(_answer(run, (0, other), (first, by_name[run.target_names[other]])) for other in known[1:])


def _answer(run: Run, targets: tuple[int, int], both: tuple[Price, Price]) -> CostAnswer:
    """Compare the cost per sample of two targets by batch."""
    dearer = None if both[0].per_hour == both[1].per_hour else max(both, key=lambda price: price.per_hour).target
    curve, named = _curve(run, targets, both), _Named(run, both)
    if curve is None:
        who = "The targets" if len(run.names) == 2 else f"{named.first} and {named.second}"
        why = f"{who} share no measured batch, so their costs cannot be compared."
        return CostAnswer(both, dearer, (), None, sentence_case(why))
    crossovers = tuple(
        CostCrossover(*crossing.batches, cheaper_after=both[int(crossing.rising)].target)
        for crossing in find_crossings(curve)
    )
    cheaper = None if crossovers else _throughout(curve, [price.target for price in both])
    return CostAnswer(both, dearer, crossovers, cheaper, _sentence(named, dearer, crossovers, cheaper, curve))


@dataclass(frozen=True)
class _Named:
    """Two prices with the display names of their targets."""

    run: Run
    prices: tuple[Price, Price]

    @property
    def first(self) -> str:
        return self.run.name_of(self.prices[0].target)

    @property
    def second(self) -> str:
        return self.run.name_of(self.prices[1].target)


def _curve(run: Run, targets: tuple[int, int], prices: tuple[Price, Price]) -> Curve | None:
    """Return log(cost_A / cost_B) per sample; above zero the second target is the cheaper one."""
    seen = observe(run, *targets)
    if len(seen.batches) == 0:
        return None
    shift = math.log(prices[0].per_hour / prices[1].per_hour)
    return build_curve(dataclasses.replace(seen, values=seen.values + shift, picture=seen.picture + shift))


def _throughout(curve: Curve, names: Sequence[str]) -> str | None:
    at = curve.at_batches()
    low, high = (at.low, at.high) if curve.has_interval else (at.center, at.center)
    if (low > 0).all():
        return names[1]
    return names[0] if (high < 0).all() else None


def _sentence(
    named: _Named,
    dearer: str | None,
    crossovers: tuple[CostCrossover, ...],
    cheaper: str | None,
    curve: Curve,
) -> str:
    rise = _prices_words(named, dearer)
    if crossovers:
        parts = [
            f"from batch {rounded(c.batch)} on it is {named.run.name_of(c.cheaper_after)} ({_interval(c)})"
            for c in crossovers
        ]
        after = crossovers[0].cheaper_after
        before = named.second if after == named.prices[0].target else named.first
        start = rounded(crossovers[0].batch)
        return f"{rise} Cheaper for a sample: below batch {start} it is {before}; {'; '.join(parts)}."
    first, last = (rounded(2.0**x) for x in (curve.x[0], curve.x[-1]))
    if cheaper is not None:
        return f"{rise} A sample is cheaper on {named.run.name_of(cheaper)} at every batch measured, {first} to {last}."
    neither = "Neither target" if len(named.run.names) == 2 else f"Neither {named.first} nor {named.second}"
    return f"{rise} {neither} has a clearly cheaper sample (95 %) between batch {first} and {last}."


def _prices_words(named: _Named, dearer: str | None) -> str:
    name_of = named.run.name_of
    if dearer is None:
        both = "both targets" if len(named.run.names) == 2 else f"{named.first} and {named.second}"
        return f"An hour costs the same on {both}."
    low, high = sorted(named.prices, key=lambda price: price.per_hour)
    rise = number(high.per_hour / low.per_hour)
    return f"An hour on {name_of(dearer)} costs {rise} times as much as on {name_of(low.target)}."


def _interval(crossover: CostCrossover) -> str:
    if crossover.low is None or crossover.high is None:
        return "no interval: one value per batch"
    return f"95 % interval {rounded(crossover.low)} to {rounded(crossover.high)}"
