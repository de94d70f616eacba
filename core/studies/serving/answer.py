"""Conclusions of a serving study: at which rates a target keeps the promise, and which rate to try next. Pure.

Neighbouring latencies are not independent, so the parts of visits are the sample: the share of requests that missed has
Wilson's interval for as many independent requests as its scatter between parts is worth (Korn and Graubard, Survey
Methodology 24, 1998). It is one of 99 %, since a rate is judged after every visit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from core.analysis.statistics import CONFIDENCE, normal_quantile, t_quantile
from core.base.schema import UserError
from core.studies.batch.shapes import Quantity
from core.studies.serving.record import ServingStudy, Visit
from core.studies.serving.service import Service
from core.workload.names import shown_names

State = Literal["keeps", "misses", "unclear"]
JUDGED = 0.99
SHARES = (0.9, 1.1, 0.7)
"""Rates tried first, as shares of the predicted capacity."""
STEP = SHARES[1] / SHARES[0]
NARROW = 1.06
"""Ratio of the rates that miss and keep within which the capacity is known well enough."""
LEAST_VISITS = 2
"""Fewest visits of a rate that is clear: one shows the machine of two seconds, and its speed drifts by some percent."""
PART_LIMITS, SHORTEST_PART_S, LONGEST_PART_S, PARTS = 4.0, 0.25, 3.0, 6
"""Length of a part in limits, its ends in seconds, and parts per visit after the one in which the server fills."""
MOST_RATE_PER_S = 1e6


@dataclass(frozen=True)
class Judged:
    """A rate at which a target was visited.

    Attributes:
        missed: Share of requests that missed the limit, with its 99 % interval.
        latency_ms: Mean of the parts' promised percentiles; None if a part has none.
        size: Mean size of batches.
    """

    rate_per_s: float
    requests: int
    missed: Quantity
    state: State
    latency_ms: Quantity | None
    size: float
    visits: int


@dataclass(frozen=True)
class Served:
    """Conclusions on one target.

    ``keeps`` is the highest rate that clearly keeps the promise below ``misses``, the lowest one that clearly misses
    it; None where none does. ``needed_s`` is the time in which the rates that are not clear would be, if there are any.
    """

    title: str
    predicted: Quantity
    rates: tuple[Judged, ...]
    keeps: float | None
    misses: float | None
    needed_s: float | None

    @property
    def agrees(self) -> bool | None:
        """Tell if what is known of the capacity overlaps the predicted interval; None if nothing is known."""
        if self.keeps is None and self.misses is None:
            return None
        low, high = self.predicted.low, self.predicted.high
        return (self.misses or math.inf) > (low or 0.0) and (self.keeps or 0.0) < (high or math.inf)


@dataclass(frozen=True)
class ServedAnswer:
    """Answer of a serving study. ``late_ms`` is the largest delay of the batchers, ``disturbed`` counts visits in which
    other programs took CPU time.
    """

    service: Service
    targets: tuple[Served, ...]
    visits: int
    late_ms: float
    disturbed: int


def served_answer(study: ServingStudy) -> ServedAnswer:
    """Return the conclusions of a study. Raises UserError if no request was served."""
    if not any(visit.parts for visit in study.visits):
        raise UserError("No visit of requests was finished; give the study more time.")
    plan, targets = study.plan, list[Served]()
    for index, title in enumerate(shown_names(plan.targets)):
        rates = judged_rates([visit for visit in study.visits if visit.target == index], plan.service)
        low, high = bracket(rates)
        inside = [rate for rate in rates if rate.state == "unclear" and low < rate.rate_per_s < high]
        needed_s = sum(_needed_s(rate, plan.service) for rate in inside) if inside else None
        targets.append(
            Served(title, plan.predicted[index], rates, low or None, high if high < math.inf else None, needed_s)
        )
    late_ms = max(visit.late_ms for visit in study.visits)
    disturbed = sum(bool(visit.interference.disturbed) for visit in study.visits)
    return ServedAnswer(plan.service, tuple(targets), len(study.visits), late_ms, disturbed)


def part_s(service: Service) -> float:
    """Return the seconds of a part of a visit."""
    return min(LONGEST_PART_S, max(SHORTEST_PART_S, PART_LIMITS * service.limit_ms / 1000))


def visit_s(service: Service) -> float:
    return (PARTS + 1) * part_s(service)


def judged_rates(visits: Sequence[Visit], service: Service) -> tuple[Judged, ...]:
    """Return each rate of one target's visits, in rising order."""
    by_rate: dict[float, list[Visit]] = {}
    for visit in visits:
        if any(part.requests for part in visit.parts):
            by_rate.setdefault(visit.rate_per_s, []).append(visit)
    return tuple(_judged(rate, by_rate[rate], service) for rate in sorted(by_rate))


def _judged(rate_per_s: float, visits: Sequence[Visit], service: Service) -> Judged:
    parts = [part for visit in visits for part in visit.parts if part.requests]
    missed = missed_share([part.requests for part in parts], [part.missed for part in parts])
    allowed, state = 1 - service.level, cast(State, "unclear")
    if len(visits) >= LEAST_VISITS and missed.low is not None and missed.high is not None:
        state = "keeps" if missed.high <= allowed else "misses" if missed.low > allowed else "unclear"
    known = [part.latency_ms for part in parts if part.latency_ms is not None]
    latency = None if len(known) < len(parts) else _mean(known)
    batches, served = (sum(getattr(visit, name) for visit in visits) for name in ("batches", "served"))
    return Judged(
        rate_per_s, sum(part.requests for part in parts), missed, state, latency, served / max(1, batches), len(visits)
    )


def missed_share(requests: Sequence[int], missed: Sequence[int]) -> Quantity:
    """Return the share of requests that missed, by parts, with its 99 % interval; no bounds from a single part."""
    n, m, parts = np.array(requests, float), np.array(missed, float), len(requests)
    share, total = float(m.sum() / n.sum()), float(n.sum())
    if parts < 2:
        return Quantity(share, None, None)
    scatter = parts / (parts - 1) * float(((m - share * n) ** 2).sum()) / total**2
    alone = share * (1 - share) / total
    tail = (1 + JUDGED) / 2
    z, worth = normal_quantile(tail), max(1.0, scatter / alone) if alone else 1.0
    count = total / worth * (z / t_quantile(tail, parts - 1)) ** 2 if alone else total
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return Quantity(share, max(0.0, centre - half), min(1.0, centre + half))


def _mean(values: Sequence[float]) -> Quantity:
    mean = float(np.mean(values))
    if len(values) < 2:
        return Quantity(mean, None, None)
    half = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Quantity(mean, max(0.0, mean - half), mean + half)


def bracket(rates: Sequence[Judged]) -> tuple[float, float]:
    """Return the highest rate that clearly keeps the promise below the lowest that clearly misses it; 0 and infinity
    where there is none.
    """
    high = min((rate.rate_per_s for rate in rates if rate.state == "misses"), default=math.inf)
    keeps = (rate.rate_per_s for rate in rates if rate.state == "keeps" and rate.rate_per_s < high)
    return max(keeps, default=0.0), high


def next_rate(rates: Sequence[Judged], predicted_per_s: float) -> float | None:
    """Return the rate to visit next; None once the capacity is known well enough."""
    tried = {rate.rate_per_s: rate for rate in rates}
    for share in SHARES:
        if share * predicted_per_s not in tried:
            return share * predicted_per_s
    low, high = bracket(rates)
    unclear = [rate for rate in rates if rate.state == "unclear" and low < rate.rate_per_s < high]
    if low and high <= NARROW * low:
        return None
    if unclear:
        return min(unclear, key=lambda rate: rate.visits).rate_per_s
    if not low:
        return min(tried) / STEP
    if high == math.inf:
        return max(tried) * STEP if max(tried) * STEP <= MOST_RATE_PER_S else None
    return math.sqrt(low * high)


def _needed_s(rate: Judged, service: Service) -> float:
    """Return the further seconds after which that rate would be clear, if its share of misses stayed."""
    if rate.visits < LEAST_VISITS or rate.missed.low is None or rate.missed.high is None:
        return visit_s(service)
    apart = abs(rate.missed.value - (1 - service.level))
    half = (rate.missed.high - rate.missed.low) / 2
    return rate.visits * visit_s(service) * max(0.1, (half / apart) ** 2 - 1) if apart else math.inf
