"""Where a curve of log-ratios crosses a level, with an interval by inverting a test.

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

from core.analysis.observations import MIN_UNITS, Observations
from core.analysis.statistics import Array, Estimate, estimate_columns, normal_quantile

ALPHA = 0.05
STEPS = 24  # points of evaluation between two neighbouring batches
MAX_WORTH = 1.5  # batches' spreads differ, so others count for half as much as a batch's own at most
RICH_SHARE = 0.75  # of the most-visited batch's units: batches with fewer are noisier and no measure for it


@dataclass(frozen=True)
class Curve:
    """Log-ratio over x = log2(batch) with pointwise 95 % bounds; ``measured`` marks the grid's measured batches.

    ``strict_low`` and ``strict_high`` are bounds for claims about any of the measured batches (Bonferroni).
    All bounds are ±inf where units cannot support them.
    """

    x: Array
    center: Array
    low: Array
    high: Array
    strict_low: Array
    strict_high: Array
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
        estimate = _moderated(estimate, STEPS, values)
    center = np.where(np.isnan(estimate.center), np.interp(grid, x, estimate.center[::STEPS]), estimate.center)
    bend = _bend(x, center[::STEPS], grid)
    half, strict = (
        np.hypot(np.hypot(estimate.half_width(alpha), normal_quantile(1 - alpha / 2) * observations.allowance), bend)
        for alpha in (ALPHA, ALPHA / len(x))
    )
    measured = np.zeros(len(grid))
    measured[::STEPS] = 1.0
    return Curve(grid, center, center - half, center + half, center - strict, center + strict, measured)


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


def _moderated(estimate: Estimate, step: int, values: Array) -> Estimate:
    """Standard errors steadied by the other batches, which see the same processes.

    A handful of units gives a wild standard deviation; too small by luck, it makes false crossovers and too narrow
    intervals. As in moderated t tests (Smyth 2004) each column's variance is averaged with the one pooled over batches,
    weighted by degrees of freedom. Batches share their processes' offsets, so m of them are worth
    m / (1 + (m − 1) r²) (the variance of a mean of correlated variances), r² being the mean squared correlation
    between batches. A column with fewer than three units (a batch measured in one process only) has the pooled one.
    """
    counts = np.sum(~np.isnan(values), axis=0)
    rich = np.flatnonzero(counts >= max(MIN_UNITS, RICH_SHARE * counts.max()))
    if len(rich) == 0:
        return estimate
    own_df = int(np.min(counts[rich])) - 1
    pooled = float(np.mean(np.nanvar(values[:, rich], axis=0, ddof=1)))
    worth = len(rich) / (1 + (len(rich) - 1) * _shared(values[:, rich]))
    df = own_df * min(worth, MAX_WORTH)
    owners = np.minimum(np.arange(len(estimate.center)) // step, len(counts) - 1)
    units = np.maximum(1, np.minimum(counts[owners], counts[np.minimum(owners + 1, len(counts) - 1)]))
    units[::step] = np.maximum(1, counts)
    poor = estimate.df < MIN_UNITS - 1
    own = np.where(poor, 0.0, np.where(np.isfinite(estimate.error), estimate.error, 0.0) ** 2 * units)
    weight = np.where(poor, 0.0, np.minimum(estimate.df, df))
    variance = (weight * own + (df - weight) * pooled) / df
    return Estimate(estimate.center, np.sqrt(variance / units), np.full(len(poor), max(own_df, int(df))))


def _shared(values: Array) -> float:
    """Mean squared correlation between the batches' columns, over units that have both; 1 for a single batch.

    Freed of the part that chance alone gives n units, 1 / (n − 1).
    """
    squares, chance = [], []
    for i in range(values.shape[1]):
        for j in range(i):
            both = ~np.isnan(values[:, i]) & ~np.isnan(values[:, j])
            if both.sum() >= MIN_UNITS:
                a, b = values[both, i] - values[both, i].mean(), values[both, j] - values[both, j].mean()
                scale = float(a @ a * (b @ b))
                squares.append(float(a @ b) ** 2 / scale if scale > 0 else 1.0)
                chance.append(1 / (both.sum() - 1))
    if not squares:
        return 1.0
    expected = float(np.mean(chance))
    return max(0.0, (float(np.mean(squares)) - expected) / (1 - expected))


def find_crossings(curve: Curve, level: float = 0.0) -> tuple[Crossing, ...]:
    """Every established crossing of ``level``, rising in x.

    Established: between two measured batches that lie on different sides of the level beyond the strict bounds.
    Without any interval (no replicates) every sign change of the values counts, without bounds.
    """
    batches = curve.at_batches()
    if curve.has_interval:
        signs = np.where(batches.strict_low > level, 1, np.where(batches.strict_high < level, -1, 0))
    else:
        signs = np.sign(batches.center - level).astype(int)
    anchors = np.flatnonzero(signs)
    found = []
    for left, right in pairwise(anchors):
        if signs[left] != signs[right]:
            inside = (curve.x >= batches.x[left]) & (curve.x <= batches.x[right])
            found.append(_crossing(curve, inside, level, rising=bool(signs[right] > 0)))
    return tuple(found)


def _crossing(curve: Curve, inside: Array, level: float, rising: bool) -> Crossing:
    sign = 1.0 if rising else -1.0
    x, center = curve.x[inside], sign * (curve.center[inside] - level)
    crossings = _upward(x, center)
    middle = crossings[len(crossings) // 2]
    if not curve.has_interval:
        return Crossing(middle, None, None, rising)
    early, late = (curve.high, curve.low) if rising else (curve.low, curve.high)
    low = _upward(x, sign * (early[inside] - level))[0]
    high = _upward(x, sign * (late[inside] - level))[-1]
    return Crossing(middle, min(low, middle), max(high, middle), rising)


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
