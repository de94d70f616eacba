"""Where a curve of log-ratios crosses parity or a level, with an interval by inverting a test.

At every point of log2(batch) the units give a t interval for the log-ratio. A crossover's 95 % interval is the set of
batches at which the level cannot be rejected: at the true crossover the log-ratio *is* the level, so the set holds it
exactly as often as the t interval is right (Fieller 1954; units few and unlike each other: Ibragimov and Müller 2010).
A bootstrap of so few processes covers somewhat less, one of rounds, which are not independent, far less
(measured: benchmarks/coverage.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from core.analysis.numerics import rising_zeros, runs, zero_between
from core.analysis.statistics import Array, Estimate, estimate_columns, moderate, normal_quantile, t_quantile
from core.studies.sweep.observations import Observations

ALPHA, SURE_ALPHA = 0.05, 0.01
STEPS = 24  # points of evaluation between two neighbouring batches
AT_ONCE = 2_000_000  # values of the curve's table held in memory together


@dataclass(frozen=True)
class Curve:
    """Log-ratio over x = log2(batch) with pointwise 95 % bounds; ``measured`` marks the grid's measured batches.

    ``established`` is +1 or −1 at measured batches in a sign segment whose side of parity is significant, ``shown`` the
    same where the batch's own 99 % interval excludes parity; 0 elsewhere. Bounds are ±inf where units cannot support
    them.
    """

    x: Array
    center: Array
    low: Array
    high: Array
    established: Array
    shown: Array
    measured: Array

    @property
    def has_interval(self) -> bool:
        return bool(np.isfinite(self.low).any())

    def mirrored(self) -> Curve:
        """The curve of the inverse ratio."""
        return Curve(self.x, -self.center, -self.high, -self.low, -self.established, -self.shown, self.measured)

    def at_batches(self) -> Curve:
        """The same curve at the measured batches only."""
        at = self.measured.astype(bool)
        return Curve(*(getattr(self, name)[at] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Place:
    """A position x = log2(batch) with its interval; bounds are None without replicates."""

    x: float
    low: float | None
    high: float | None

    @property
    def batches(self) -> tuple[float, float | None, float | None]:
        """The position and its bounds as batch sizes."""
        return 2.0**self.x, None if self.low is None else 2.0**self.low, None if self.high is None else 2.0**self.high


@dataclass(frozen=True)
class Crossing(Place):
    """Where the curve crosses parity; ``rising``: from below it to above it."""

    rising: bool


@dataclass(frozen=True)
class Smooth:
    """Log-ratio on a grid of ``STEPS`` points between measured batches, with what its intervals are made of."""

    x: Array
    center: Array
    estimate: Estimate
    allowance: float
    bend: Array

    def half_width(self, alpha: float) -> Array:
        """Half of the 1 − alpha interval: the units' scatter, processes not seen, the bend between batches."""
        return np.hypot(self.scatter(alpha), self.bend)

    def scatter(self, alpha: float) -> Array:
        """The same without the bend, which is none at the measured batches."""
        return np.hypot(self.estimate.half_width(alpha), normal_quantile(1 - alpha / 2) * self.allowance)


def smooth(observations: Observations) -> Smooth:
    """The log-ratio between the measured batches, linear in log2(batch)."""
    x, values = observations.x, observations.values
    weights, grid = np.arange(STEPS) / STEPS, between_batches(x)
    parts = [estimate_columns(part, trimmed=observations.unit == "round") for part in _between(values, weights)]
    estimate = Estimate(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    if observations.unit != "round":
        estimate = moderate(estimate, STEPS, values)
    center = np.where(np.isnan(estimate.center), np.interp(grid, x, estimate.center[::STEPS]), estimate.center)
    return Smooth(grid, center, estimate, observations.allowance, bend_of(x, center[::STEPS], grid))


def between_batches(x: Array) -> Array:
    """The grid: ``x`` = log2 of the measured batches with ``STEPS`` − 1 points evenly between each two."""
    weights = np.arange(STEPS) / STEPS
    return np.concatenate([x[j] + weights * (x[j + 1] - x[j]) for j in range(len(x) - 1)] + [x[-1:]])


def build_curve(observations: Observations) -> Curve:
    """The log-ratio with 95 % bounds, and where a side of parity is established."""
    found = smooth(observations)
    # whole degrees of freedom, a little wider, so that the answers of stored runs stay what they were
    found = replace(found, estimate=found.estimate._replace(df=np.floor(found.estimate.df)))
    center, half = found.center, found.half_width(ALPHA)
    shown = np.where(np.abs(center) > found.scatter(SURE_ALPHA), np.sign(center), 0.0)
    measured, established = np.zeros(len(center)), np.zeros(len(center))
    measured[::STEPS] = 1.0
    established[::STEPS] = _established(observations, center[::STEPS])
    return Curve(found.x, center, center - half, center + half, established, shown, measured)


def _between(values: Array, weights: Array) -> Iterator[Array]:
    """Columns of the table and those between each two, a stretch of batches at a time."""
    units, batches = values.shape
    stretch = max(1, AT_ONCE // (units * STEPS))
    for first in range(0, max(1, batches - 1), stretch):
        last = min(first + stretch, batches - 1)
        left, right = values[:, first:last, None], values[:, first + 1 : last + 1, None]
        columns = (left * (1 - weights) + right * weights).reshape(units, -1)
        # 0 · NaN would hide the measured batch itself where its neighbour is missing
        columns[:, ::STEPS] = values[:, first:last]
        yield columns if last < batches - 1 else np.concatenate([columns, values[:, -1:]], axis=1)


@dataclass(frozen=True)
class Segment:
    """Neighbouring batches ``start`` to ``stop`` (exclusive) on one side of parity, ``sign`` ±1."""

    start: int
    stop: int
    sign: float


def _established(observations: Observations, center: Array) -> Array:
    """By a t test over units. Without replicates every value counts as it is."""
    if len(observations.values) < 2:
        return np.sign(center)
    return established_by(center, lambda segment, alpha: _margin(observations, segment, alpha))


def established_by(center: Array, margin: Callable[[Segment, float], float]) -> Array:
    """Side of parity (±1) of each batch in a sign segment that is shown to be on that side, else 0.

    Every change of sign bounds one. The least certain segment is merged into its neighbours until each one left is
    shown by a one-sided test (``margin``, at a two-sided level, is above zero), corrected for the segments there were:
    a claimed change of lead is false only when one of its two segments is.
    """
    signs = np.where(center < 0, -1.0, 1.0)
    segments = [Segment(start, stop, float(signs[start])) for start, stop in runs(signs)]
    alpha = 2 * ALPHA * 2 / max(2, len(segments))
    known: dict[Segment, float] = {}  # a segment stays as it is while others are merged
    while True:
        known |= {segment: margin(segment, alpha) for segment in segments if segment not in known}
        margins = [known[segment] for segment in segments]
        if len(segments) == 1 or min(margins) > 0:
            break
        segments = _merged(segments, int(np.argmin(margins)))
    found = np.zeros(len(center))
    for segment, by in zip(segments, margins, strict=True):
        if by > 0:
            part = slice(segment.start, segment.stop)
            found[part] = np.where(segment.sign * center[part] > 0, segment.sign, 0.0)
    return found


def _merged(segments: list[Segment], index: int) -> list[Segment]:
    """Without the segment at ``index``: its batches go to its neighbour or neighbours, which lie on the same side."""
    first, last = max(0, index - 1), min(len(segments) - 1, index + 1)
    keeper = segments[first] if first < index else segments[last]
    return [*segments[:first], Segment(segments[first].start, segments[last].stop, keeper.sign), *segments[last + 1 :]]


def _margin(observations: Observations, segment: Segment, alpha: float) -> float:
    """How far, in half widths beyond the first, the segment lies on its side for certain; above 0: shown.

    A sign segment is where the data happen to lie on one side, so a unit's own values may not choose or weigh its
    batches: each unit is projected on the curve m of the *other* units, where that is on this side. With a = Σ v·m and
    w = Σ m² of each unit, Σa / Σw is 1 where units agree and 0 in noise; its error is that of a regression through the
    origin with units as clusters.
    """
    values = segment.sign * observations.values[:, segment.start : segment.stop]
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    count = known.sum(axis=0) - known
    others = np.where(known & (count > 0), (filled.sum(axis=0) - filled) / np.maximum(count, 1), 0.0)
    others = np.maximum(others, 0.0)
    a, w = (filled * others).sum(axis=1), (others**2).sum(axis=1)
    units = int((w > 0).sum())
    if units < 2:
        return -1.0
    slope = a.sum() / w.sum()
    error = math.sqrt(units / (units - 1) * float(((a - slope * w) ** 2).sum())) / w.sum()
    unseen = normal_quantile(1 - alpha / 2) * observations.allowance * others.sum() / w.sum()
    half = math.hypot(t_quantile(1 - alpha / 2, units - 1) * error, float(unseen))
    return float(slope / half) - 1.0 if half > 0 else float(np.sign(slope))


def bend_of(x: Array, y: Array, grid: Array) -> Array:
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

    The interval is searched from the last batch before it that is significantly on its side (99 %: near a shallow
    crossing one of several batches easily looks decided) to the first such one after it, else to the end of the range
    or to the neighbouring crossing.
    """
    at = curve.at_batches()
    anchors = np.flatnonzero(at.established).tolist()
    changes = [(i, j) for i, j in pairwise(anchors) if at.established[i] != at.established[j]]
    found = []
    for number, (left, right) in enumerate(changes):
        first = changes[number - 1][1] if number else 0
        last = changes[number + 1][0] if number + 1 < len(changes) else len(at.x) - 1
        sign = at.established[right]
        while curve.has_interval and left > first and at.shown[left] != -sign:
            left -= 1
        while curve.has_interval and right < last and at.shown[right] != sign:
            right += 1
        inside = (curve.x >= at.x[left]) & (curve.x <= at.x[right])
        found.append(_crossing(curve, inside, sign))
    return tuple(found)


def _crossing(curve: Curve, inside: Array, sign: float) -> Crossing:
    x = curve.x[inside]
    crossings = rising_zeros(x, sign * curve.center[inside])
    middle = crossings[len(crossings) // 2]
    if not curve.has_interval:
        return Crossing(middle, None, None, rising=sign > 0)
    early, late = (curve.high, curve.low) if sign > 0 else (curve.low, curve.high)
    earliest, latest = sign * early[inside], sign * late[inside]
    low = float(x[0]) if earliest[0] > 0 else rising_zeros(x, earliest)[0]
    high = float(x[-1]) if latest[-1] <= 0 else rising_zeros(x, latest)[-1]
    return Crossing(middle, min(low, middle), max(high, middle), rising=sign > 0)


def find_lead(curve: Curve, level: float) -> Place | None:
    """From where the curve stays at or above ``level`` > 0 up to its last batch; None where it does not, or where the
    last batch's interval does not show it.

    Bounds: before ``low`` the curve is (somewhere) shown to be below the level, from ``high`` on it is shown above.
    """
    if curve.center[-1] < level or (curve.has_interval and curve.low[-1] < level):
        return None
    start = _last_start(curve.x, curve.center - level)
    if not curve.has_interval:
        return Place(start, None, None)
    low = _last_start(curve.x, curve.high - level)
    high = _last_start(curve.x, curve.low - level)
    return Place(start, min(low, start), max(high, start))


def _last_start(x: Array, y: Array) -> float:
    """The smallest x from which y stays at or above zero to the end."""
    below = np.flatnonzero(y < 0)
    return zero_between(x, y, int(below[-1])) if len(below) else float(x[0])
