"""Batches at which a curve of log-ratios is clearly on one side of parity, and crossings of parity or of a level.

A batch is *clear* if its interval excludes parity simultaneously for all batches and looks at 95 % (Bonferroni). A
batch beside a clear one is clear if its own interval excludes parity: to pass the batch at which nothing differs the
test would have to reject there, whatever lies before it. A crossover lies between clear batches of different sides. Its
95 % interval is the set of batches at which the level cannot be rejected: at the true crossover the log-ratio *is* the
level, so the set holds it exactly as often as the t interval is right (Fieller 1954).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from core.analysis.numerics import rising_zeros, zero_between
from core.analysis.statistics import Array, Estimate
from core.rounds.answer.observations import ALPHA, Observations

STEPS = 24  # grid points per gap between neighbouring batches
KNEE = 0.24
"""The largest bend of a step time per octave², in its logarithm, where it goes from a fixed cost to a cost per sample:
q (ln 2)² / 4 of (fixed^q + (slope · batch)^q)^(1/q) with q = 2 (:mod:`core.rounds.answer.overhead`). The ratio of two
such step times bends by no more than one of them."""
MOST_CHANGES = 2
"""Curves of a fixed cost and a cost per sample cross once or twice; more changes need two clear batches per side."""


@dataclass(frozen=True)
class Curve:
    """Log-ratio over x = log2(batch); ``measured`` marks the measured batches among the points.

    ``low`` and ``high`` hold simultaneously for all measured batches and looks with 95 %, ``own_low`` and ``own_high``
    pointwise. ``clear`` is +1 or −1 at measured batches that are clearly on that side of parity, else 0. Bounds are
    ±inf if the replicates cannot support them.
    """

    x: Array
    center: Array
    low: Array
    high: Array
    own_low: Array
    own_high: Array
    clear: Array
    measured: Array

    @property
    def has_interval(self) -> bool:
        return bool(np.isfinite(self.low).any())

    @property
    def shows_from(self) -> float | None:
        """The difference (0.05 is 5 %) that half of the batches can resolve; None without intervals."""
        at = self.at_batches()
        middle = float(np.median((at.high - at.low) / 2)) if self.has_interval else math.inf
        return math.expm1(middle) if math.isfinite(middle) else None

    def mirrored(self) -> Curve:
        """Return the curve of the inverse ratio."""
        return Curve(
            self.x, -self.center, -self.high, -self.low, -self.own_high, -self.own_low, -self.clear, self.measured
        )

    def at_batches(self) -> Curve:
        """Return the same curve at the measured batches only."""
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
    """Crossing of parity; ``rising``: from below to above."""

    rising: bool


@dataclass(frozen=True)
class Smooth:
    """Log-ratio on a grid of ``STEPS`` points between measured batches, with the parts of its intervals.

    ``alpha`` is the error that this look may spend.
    """

    x: Array
    center: Array
    estimate: Estimate
    bend: Array
    alpha: float

    def half_width(self, alpha: float) -> Array:
        """Return half of the 1 − alpha interval: the replicates' scatter, and the bend between batches."""
        return np.hypot(self.estimate.half_width(alpha), self.bend)


def smooth(observations: Observations) -> Smooth:
    """Return the log-ratio between the measured batches, linear in log2(batch).

    The error between two batches is interpolated linearly, too, as if the errors of both were fully correlated.
    """
    x, own = observations.x, observations.estimate
    between = Estimate(
        spread_between(own.center),
        spread_between(own.error),
        np.minimum(held_between(own.df), held_between(own.df, following=True)),
    )
    grid = between_batches(x)
    return Smooth(grid, between.center, between, bend_of(x, own.center, grid), observations.alpha)


def between_batches(x: Array) -> Array:
    """Return the grid: ``x`` = log2 of the measured batches with ``STEPS`` − 1 points evenly between each two."""
    return spread_between(x)


def spread_between(values: Array) -> Array:
    """Interpolate values of the batches linearly, along the last axis, at all points of the grid."""
    place = np.arange(STEPS) / STEPS
    left, right = values[..., :-1, None], values[..., 1:, None]
    with np.errstate(invalid="ignore"):
        between = np.where(place == 0, left, left * (1 - place) + right * np.where(place == 0, 0.0, place))
    return np.concatenate([between.reshape(*values.shape[:-1], -1), values[..., -1:]], axis=-1)


def held_between(values: Array, following: bool = False) -> Array:
    """Return at each point the value of the batch before it, or of the ``following`` one; at a batch its own."""
    if following:
        moved = np.concatenate([values[..., 1:], values[..., -1:]], axis=-1)
        held = np.repeat(moved, STEPS, axis=-1)
        held[..., ::STEPS] = values
    else:
        held = np.repeat(values, STEPS, axis=-1)
    return held[..., : (values.shape[-1] - 1) * STEPS + 1]


def build_curve(observations: Observations) -> Curve:
    """Return the log-ratio with its bounds, and where it is clearly on one side of parity."""
    smoothed = smooth(observations)
    measured = np.zeros(len(smoothed.x), dtype=bool)
    measured[::STEPS] = True
    return curve_of(smoothed.x, smoothed.center, smoothed.half_width, measured, smoothed.alpha)


def curve_of(
    x: Array, center: Array, half_width: Callable[[float], Array], measured: Array, alpha: float = ALPHA
) -> Curve:
    """Return a curve with its bounds and clear batches.

    Args:
        x: log2 of the points' batches.
        center: the log-ratio there.
        half_width: half of the 1 − alpha interval at each point, for an alpha.
        measured: which points are measured batches.
        alpha: the error to spend.
    """
    own = half_width(alpha)
    known = max(1, int(np.isfinite(own[measured]).sum()))
    half = half_width(alpha / known)
    clear = np.zeros(len(x))
    clear[measured] = clear_sides(center[measured], half[measured], own[measured])
    return Curve(x, center, center - half, center + half, center - own, center + own, clear, measured.astype(float))


def clear_sides(center: Array, half: Array, own: Array) -> Array:
    """Return the side of parity (±1) of each clear batch, else 0.

    Args:
        center: log-ratios by rising batch.
        half: half widths of the simultaneous intervals.
        own: half widths of the pointwise intervals, by which a clear side extends to its neighbours.
    """
    if not np.isfinite(half).any():
        return np.where(center < 0, -1.0, 1.0)
    sides = np.where(np.abs(center) > half, np.sign(center), 0.0)
    likely = np.where(np.abs(center) > own, np.sign(center), 0.0)
    for order in (range(1, len(sides)), range(len(sides) - 2, -1, -1)):
        step = order.step
        for place in order:
            if sides[place] == 0 and likely[place] != 0 and likely[place] == sides[place - step]:
                sides[place] = likely[place]
    return sides


def bend_of(x: Array, y: Array, grid: Array) -> Array:
    """Return how far the curve may bend away from the straight line between two measured batches.

    Linear interpolation errs by at most w(1 − w)/2 · h² · max|y″| (h the gap, w the relative position in it); y″ is
    taken from the measured batches. Gaps wider than an octave may hide a knee, so there it is at least :data:`KNEE`.
    Zero at the batches themselves.
    """
    if len(x) < 2:
        return np.zeros(len(grid))
    gaps = np.diff(x)
    second = np.zeros(len(x))
    if len(x) > 2:
        inner = np.abs(2 * np.diff(np.diff(y) / gaps) / (gaps[:-1] + gaps[1:]))
        second = np.concatenate([inner[:1], inner, inner[-1:]])
    most = np.maximum(np.maximum(second[:-1], second[1:]), KNEE * np.clip(gaps - 1, 0, 1))
    segment = np.minimum(np.searchsorted(x, grid, side="right") - 1, len(x) - 2)
    place = (grid - x[segment]) / gaps[segment]
    return np.asarray(place * (1 - place) / 2 * gaps[segment] ** 2 * most[segment])


def sides_in_turn(clear: Array) -> list[list[int]]:
    """Return the indices of clear batches, grouped into stretches of the same side; unclear batches lie between."""
    stretches: list[list[int]] = []
    for place in np.flatnonzero(clear).tolist():
        if stretches and clear[stretches[-1][-1]] == clear[place]:
            stretches[-1].append(place)
        else:
            stretches.append([place])
    return stretches


def changes_too_often(clear: Array) -> bool:
    """Tell whether the faster target changes more than twice without two clear batches on either side each time."""
    stretches = sides_in_turn(clear)
    return len(stretches) - 1 > MOST_CHANGES and min(map(len, stretches)) < 2


def find_crossings(curve: Curve) -> tuple[Crossing, ...]:
    """Return every crossing of parity between neighbouring clear batches of different sides, rising in x; none if the
    changes are too many to be plausible.
    """
    at = curve.at_batches()
    if curve.has_interval and changes_too_often(at.clear):
        return ()
    stretches = sides_in_turn(at.clear)
    crossings = []
    for before, after in pairwise(stretches):
        inside = (curve.x >= at.x[before[-1]]) & (curve.x <= at.x[after[0]])
        crossings.append(_crossing(curve, inside, at.clear[after[0]]))
    return tuple(crossings)


def _crossing(curve: Curve, inside: Array, sign: float) -> Crossing:
    x = curve.x[inside]
    crossings = rising_zeros(x, sign * curve.center[inside])
    middle = crossings[len(crossings) // 2]
    if not curve.has_interval:
        return Crossing(middle, None, None, rising=sign > 0)
    early, late = (curve.own_high, curve.own_low) if sign > 0 else (curve.own_low, curve.own_high)
    earliest, latest = sign * early[inside], sign * late[inside]
    low = float(x[0]) if earliest[0] > 0 else rising_zeros(x, earliest)[0]
    high = float(x[-1]) if latest[-1] <= 0 else rising_zeros(x, latest)[-1]
    return Crossing(middle, min(low, middle), max(high, middle), rising=sign > 0)


def find_lead(curve: Curve, level: float) -> Place | None:
    """Return where the curve starts to stay at or above ``level`` > 0 up to its last batch.

    None if it does not, or if the simultaneous interval of the last batch does not show it. Bounds: before ``low`` the
    curve is (somewhere) shown to be below the level, from ``high`` on it is shown to be above.
    """
    if curve.center[-1] < level or (curve.has_interval and curve.low[-1] < level):
        return None
    start = _last_start(curve.x, curve.center - level)
    if not curve.has_interval:
        return Place(start, None, None)
    low = _last_start(curve.x, curve.own_high - level)
    high = _last_start(curve.x, curve.own_low - level)
    return Place(start, min(low, start), max(high, start))


def _last_start(x: Array, y: Array) -> float:
    """Return the smallest x from which y stays at or above zero to the end."""
    below = np.flatnonzero(y < 0)
    return zero_between(x, y, int(below[-1])) if len(below) else float(x[0])
