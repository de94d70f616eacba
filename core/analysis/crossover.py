"""Where a curve of log-ratios crosses parity or a level, with an interval by inverting a test.

At every point of log2(batch) the units give a t interval for the log-ratio. A crossover's 95 % interval is the set of
batches at which the level cannot be rejected: at the true crossover the log-ratio *is* the level, so the set holds it
exactly as often as the t interval is right (Fieller 1954; units few and unlike each other: Ibragimov and Müller 2010).
Resampling three to six processes would not do: the bootstrap of so few units is much too narrow
(measured: benchmarks/coverage.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from core.analysis.observations import Observations
from core.analysis.statistics import Array, Estimate, estimate_columns, moderate, normal_quantile

ALPHA = 0.05
WINDOWS = (1, 3, 5)  # batches in a stretch
STEPS = 24  # points of evaluation between two neighbouring batches


@dataclass(frozen=True)
class Curve:
    """Log-ratio over x = log2(batch) with pointwise 95 % bounds; ``measured`` marks the grid's measured batches.

    ``established`` is +1 or −1 at measured batches whose side of parity is beyond doubt, however many batches were
    looked at; 0 elsewhere. Bounds are ±inf where units cannot support them.
    """

    x: Array
    center: Array
    low: Array
    high: Array
    established: Array
    measured: Array

    @property
    def has_interval(self) -> bool:
        return bool(np.isfinite(self.low).any())

    def at_batches(self) -> Curve:
        """The same curve at the measured batches only."""
        at = self.measured.astype(bool)
        return Curve(*(getattr(self, name)[at] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Crossing:
    """x where the curve crosses; ``rising``: from below the level to above it. Bounds are None without replicates."""

    x: float
    low: float | None
    high: float | None
    rising: bool


def build_curve(observations: Observations) -> Curve:
    """Curve on a grid of ``STEPS`` points between measured batches, linear in log2(batch).

    The bounds hold the units' scatter, the allowance for processes not seen, and the bend between measured batches.
    """
    x, values = observations.x, observations.values
    weights = np.arange(STEPS) / STEPS
    grid = np.concatenate([x[j] + weights * (x[j + 1] - x[j]) for j in range(len(x) - 1)] + [x[-1:]])
    between = np.concatenate(
        [values[:, [j]] * (1 - weights) + values[:, [j + 1]] * weights for j in range(len(x) - 1)] + [values[:, -1:]],
        axis=1,
    )
    # 0 · NaN would hide the measured batch itself where its neighbour is missing
    between[:, ::STEPS] = values
    estimate = estimate_columns(between, trimmed=observations.unit == "round")
    if observations.unit != "round":
        estimate = moderate(estimate, STEPS, values)
    center = np.where(np.isnan(estimate.center), np.interp(grid, x, estimate.center[::STEPS]), estimate.center)
    half = np.hypot(_half_width(estimate, observations, ALPHA), _bend(x, center[::STEPS], grid))
    measured, established = np.zeros(len(grid)), np.zeros(len(grid))
    measured[::STEPS] = 1.0
    established[::STEPS] = _established(observations, center[::STEPS])
    return Curve(grid, center, center - half, center + half, established, measured)


def _half_width(estimate: Estimate, observations: Observations, alpha: float) -> Array:
    return np.hypot(estimate.half_width(alpha), normal_quantile(1 - alpha / 2) * observations.allowance)


def _established(observations: Observations, center: Array) -> Array:
    """Side of parity (±1) of each batch that lies in a stretch of neighbours shown to be on that side, else 0.

    A change of lead is a claim about some batches out of many, so it is tested with Bonferroni's correction over all
    stretches of 1, 3 and 5 batches. The mean of neighbours shows what none of them shows alone. The tests are
    one-sided: a claimed change is false only when one of its two sides is. Without replicates every value counts as
    it is.
    """
    found, replicated = np.zeros(len(center)), False
    sizes = [size for size in WINDOWS if size <= len(center)]
    alpha = 2 * ALPHA / sum(len(center) - size + 1 for size in sizes)
    for size in sizes:
        stretches = [slice(start, start + size) for start in range(len(center) - size + 1)]
        means = np.stack([observations.values[:, stretch].mean(axis=1) for stretch in stretches], axis=1)
        estimate = estimate_columns(means, trimmed=observations.unit == "round")
        if observations.unit != "round":
            estimate = moderate(estimate, 1, means)
        half = _half_width(estimate, observations, alpha)
        replicated |= bool(np.isfinite(half).any())
        for stretch, middle, width in zip(stretches, estimate.center, half, strict=True):
            if abs(middle) > width:
                agree = np.sign(center[stretch]) == np.sign(middle)
                found[stretch] = np.where(agree, np.sign(middle), found[stretch])
    return found if replicated else np.sign(center)


def _bend(x: Array, y: Array, grid: Array) -> Array:
    """How far the curve may bend away from the straight line between two measured batches.

    Linear interpolation errs by at most w(1 − w)/2 · h² · max|y″| (h the gap, w the place in it); y″ is taken from the
    measured batches. Zero at the batches themselves and where there are fewer than three.
    """
    if len(x) < 3:
        return np.zeros(len(grid))
    left, right = np.diff(x)[:-1], np.diff(x)[1:]
    slopes = np.diff(y) / np.diff(x)
    second = np.abs(2 * np.diff(slopes) / (left + right))
    second = np.concatenate([second[:1], second, second[-1:]])
    segment = np.minimum(np.searchsorted(x, grid, side="right") - 1, len(x) - 2)
    gap = np.diff(x)[segment]
    place = (grid - x[segment]) / gap
    return np.asarray(place * (1 - place) / 2 * gap**2 * np.maximum(second[segment], second[segment + 1]))


def find_crossings(curve: Curve) -> tuple[Crossing, ...]:
    """Every established crossing of parity, rising in x: between neighbouring batches established on different sides.

    The interval is searched from the last batch before it that is shown on its side pointwise to the first one after
    it; where there is none it reaches to the end of the range, or to the neighbouring crossing's side.
    """
    at = curve.at_batches()
    anchors = np.flatnonzero(at.established).tolist()
    changes = [(i, j) for i, j in pairwise(anchors) if at.established[i] != at.established[j]]
    found = []
    for number, (left, right) in enumerate(changes):
        first = changes[number - 1][1] if number else 0
        last = changes[number + 1][0] if number + 1 < len(changes) else len(at.x) - 1
        sign = at.established[right]
        while curve.has_interval and left > first and not _shown(at, left, -sign):
            left -= 1
        while curve.has_interval and right < last and not _shown(at, right, sign):
            right += 1
        inside = (curve.x >= at.x[left]) & (curve.x <= at.x[right])
        found.append(_crossing(curve, inside, sign))
    return tuple(found)


def _shown(at: Curve, index: int, sign: float) -> bool:
    return bool(at.low[index] > 0 if sign > 0 else at.high[index] < 0)


def _crossing(curve: Curve, inside: Array, sign: float) -> Crossing:
    x = curve.x[inside]
    crossings = _upward(x, sign * curve.center[inside])
    middle = crossings[len(crossings) // 2]
    if not curve.has_interval:
        return Crossing(middle, None, None, rising=sign > 0)
    early, late = (curve.high, curve.low) if sign > 0 else (curve.low, curve.high)
    earliest, latest = sign * early[inside], sign * late[inside]
    low = float(x[0]) if earliest[0] > 0 else _upward(x, earliest)[0]
    high = float(x[-1]) if latest[-1] <= 0 else _upward(x, latest)[-1]
    return Crossing(middle, min(low, middle), max(high, middle), rising=sign > 0)


def _upward(x: Array, y: Array) -> list[float]:
    """Where the piecewise linear y goes from at most 0 to above it; y starts below and ends above zero."""
    y = np.nan_to_num(y, posinf=1e300, neginf=-1e300)
    steps = np.flatnonzero((y[:-1] <= 0) & (y[1:] > 0))
    return [float(x[i] + (x[i + 1] - x[i]) * (-y[i] / (y[i + 1] - y[i]))) for i in steps]


@dataclass(frozen=True)
class LeadFrom:
    """x from which the curve stays above a level to the end of the range."""

    x: float
    low: float | None
    high: float | None


def find_lead(curve: Curve, level: float) -> LeadFrom | None:
    """From where the curve stays at or above ``level`` > 0 up to its last batch; None where it does not, or where the
    last batch's interval does not show it.

    Bounds: before ``low`` the curve is (somewhere) shown to be below the level, from ``high`` on it is shown above.
    """
    if curve.center[-1] < level or (curve.has_interval and curve.low[-1] < level):
        return None
    start = _last_start(curve.x, curve.center - level)
    if not curve.has_interval:
        return LeadFrom(start, None, None)
    low = _last_start(curve.x, curve.high - level)
    high = _last_start(curve.x, curve.low - level)
    return LeadFrom(start, min(low, start), max(high, start))


def _last_start(x: Array, y: Array) -> float:
    """The smallest x from which y stays at or above zero to the end."""
    below = np.flatnonzero(y < 0)
    if len(below) == 0:
        return float(x[0])
    i = below[-1]
    if not np.isfinite(y[i]) or not np.isfinite(y[i + 1]):
        return float(x[i + 1])
    return float(x[i] + (x[i + 1] - x[i]) * (-y[i] / (y[i + 1] - y[i])))
