"""Step times of machines over the batch, compared unpaired: nothing that hits one machine alone cancels.

Two runs on different machines share no round. The variance of the log-ratio of their step times is therefore the sum of
each machine's own, judged by how much its worker processes differ, with degrees of freedom after Welch (1947); an
interval is wider than that of two targets in one run. What is the same during a whole run (a slow neighbour, a cold
room) is in no interval: such a run says how the machine was then.

A machine counts with its fastest target at each batch, unless one target is asked for. The smallest of several
estimates is too small where they tie: of c targets that may be the fastest on one machine and d on the other, each test
is made at the level times 2 / (c + d), which bounds the error whatever ties (a union bound over them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.analysis.statistics import Array, normal_quantile, t_at
from core.studies.sweep.candidates import Flags, Sets, as_bits, members
from core.studies.sweep.condensed import TargetCurve
from core.studies.sweep.crossover import STEPS, bend, between_batches

TIE_ALPHA = 0.001  # targets of a machine count as tied unless they differ at 99.9 %: a lucky one must not look alone
AT_ONCE = 400_000  # values of a block of pairs
FEWEST_RIVALS = 6
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Times:
    """Log step times [machine, x] over x = log2(batch); ``measured`` marks the batches that at least two machines were
    measured at, and between two of those lie ``STEPS`` − 1 points. NaN where a machine was not.

    ``shape`` is what a second difference is multiplied by: w(1 − w)/2 · h² at the place w of a gap h.
    ``error`` and ``df`` are those of the mean over processes, ``unseen`` is added for what processes cannot show.
    ``before`` and ``after`` are the second differences at the batches around a point; ``gap``: how far a machine that
    skipped a batch may bend there. ``target`` is the one that counts, ``tied`` how many may be the fastest.
    """

    x: Array
    shape: Array
    measured: Flags
    center: Array
    error: Array
    df: Array
    unseen: Array
    before: Array
    after: Array
    gap: Array
    target: Whole
    tied: Array

    def of(self, machines: Sequence[int]) -> Times:
        """Of these machines alone, in this order."""
        return self._each(lambda rows: rows[list(machines)])

    def at_batches(self) -> Times:
        """At the measured batches only."""
        return self.at(np.flatnonzero(self.measured).tolist())

    def at(self, points: Sequence[int]) -> Times:
        """At these points only."""
        at = list(points)
        found = self._each(lambda rows: rows[:, at])
        return replace(found, x=self.x[at], shape=self.shape[at], measured=self.measured[at])

    def gathered(self, machine: Whole) -> Times:
        """As one machine, at each point another one."""
        points = np.arange(len(self.x))
        return self._each(lambda rows: rows[machine, points][None])

    def _each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Times:
        return replace(self, **{name: change(getattr(self, name)) for name in MACHINE_ROWS})

    def shifted(self, logs: Array) -> Times:
        """With a number added to each machine's log step times, such as the log of its price."""
        return replace(self, center=self.center + logs[:, None])

    @property
    def batches(self) -> tuple[int, ...]:
        return tuple(round(2.0**x) for x in self.x[self.measured].tolist())

    @property
    def known(self) -> Flags:
        return ~np.isnan(self.center)

    def own_half_width(self, alpha: float) -> Array:
        """Of each machine's log step time by itself, at a level that is divided by the targets that may be it."""
        quantile = t_at(1 - alpha / (2 * self.tied), self.df)
        unseen = normal_quantile(1 - alpha / 2) * self.unseen
        return np.sqrt((quantile * self.error) ** 2 + unseen**2 + self.gap**2)


MACHINE_ROWS = ("center", "error", "df", "unseen", "before", "after", "gap", "target", "tied")


@dataclass(frozen=True)
class Ratio:
    """log(t_first / t_second) with what its intervals are made of; any shape."""

    center: Array
    error: Array
    df: Array
    tied: Array
    unseen: Array
    bend: Array

    def half_width(self, alpha: float) -> Array:
        """Half of the 1 − alpha interval; infinite where there is none, NaN where there is no ratio."""
        return np.hypot(self.scatter(alpha), self.bend)

    def scatter(self, alpha: float) -> Array:
        """The same without what may bend between batches."""
        quantile = t_at(1 - alpha / self.tied, self.df)
        return np.hypot(quantile * self.error, normal_quantile(1 - alpha / 2) * self.unseen)


def ratio(first: Times, second: Times, outer: bool = False) -> Ratio:
    """Of ``first`` over ``second``, machine by machine; one of them may have a single machine. With ``outer`` of each
    with each, as [first, second, x].
    """

    def both(name: str) -> tuple[Array, Array]:
        a, b = getattr(first, name), getattr(second, name)
        return (a[:, None], b[None]) if outer else (a, b)

    (u, v), (error, other_error), (n, m), (s, t) = both("center"), both("error"), both("df"), both("tied")
    a, b = error**2, other_error**2
    with np.errstate(divide="ignore", invalid="ignore"):
        welch = np.where(a + b > 0, (a + b) ** 2 / (a**2 / n + b**2 / m), n + m)
    (early, other_early), (late, other_late) = both("before"), both("after")
    turn = np.maximum(np.abs(early - other_early), np.abs(late - other_late))
    (unseen, other_unseen), (gap, other_gap) = both("unseen"), both("gap")
    return Ratio(
        center=u - v,
        error=np.sqrt(a + b),
        df=np.where((n > 0) & (m > 0), np.nan_to_num(welch), 0.0),
        tied=s + t,
        unseen=np.hypot(unseen, other_unseen),
        bend=np.sqrt((first.shape * turn) ** 2 + gap**2 + other_gap**2),
    )


def _shape(x: Array) -> Array:
    place = np.arange(len(x)) % STEPS / STEPS
    batches = x[::STEPS]
    gaps = np.append(np.diff(batches), 1.0)[np.arange(len(x)) // STEPS]
    return np.asarray(place * (1 - place) / 2 * gaps**2)


@dataclass(frozen=True)
class Machines:
    """A contest of machines, as :mod:`core.studies.sweep.fastest` makes bands of. ``rivals`` is what the level of a
    comparison with many is divided by: the others in the whole fleet, also those that take no part any more.
    """

    times: Times
    rivals: int

    @property
    def x(self) -> Array:
        return self.times.x

    @property
    def has_interval(self) -> bool:
        return bool((self.times.df > 0).any())

    def candidates(self, alpha: float) -> Sets:
        """The machines that may be the fastest at each point for itself, at level ``alpha``; never empty."""
        best = self._best()
        ahead = self.times.gathered(best)
        found = ratio(ahead, self.times)
        beats = -found.center > found.half_width(alpha)
        own = np.arange(len(self.times.center))[:, None] == best
        alone = (beats | ~self.times.known | own).all(axis=0)
        return as_bits(np.where(alone, own, self.left_in(alpha)))

    def left_in(self, alpha: float) -> Flags:
        """[machine, x]: no rival beats it at the level divided by the number of rivals."""
        rivals = self.times.of(self._strongest(range(len(self.times.center))))
        found = ratio(rivals, self.times, outer=True)
        beaten = (-found.center > found.half_width(alpha / self.rivals)).any(axis=0)
        return np.asarray(~beaten & self.times.known)

    def margin(self, bits: int, alpha: float) -> Array:
        """How far beyond the interval (log) the fastest is shown to be in that set; above zero: shown."""
        inside = members(bits)
        outside = sorted(set(range(len(self.times.center))) - set(inside))
        if not outside:
            return np.full(len(self.x), np.inf)
        level = alpha if len(inside) == 1 else alpha / self.rivals
        others = self.times.of(outside)
        found = ratio(self.times.of(self._strongest(inside)), others, outer=True)
        by = -found.center - found.half_width(level)
        best = np.nanmax(np.where(np.isnan(by), -np.inf, by), axis=0)
        return np.asarray(np.where(others.known, best, np.inf).min(axis=0))

    def leaders(self) -> Sets:
        return as_bits(np.arange(len(self.times.center))[:, None] == self._best())

    def gain(self, old: Sequence[int], new: Sequence[int], part: slice) -> Array:
        """Above zero where one of the new machines is ahead of all the old ones."""
        before, after = (self._filled[list(some)][:, part].min(axis=0) for some in (old, new))
        return np.asarray(np.nan_to_num(before - after))

    def is_level(self, members: Sequence[int], at: Sequence[int], alpha: float, margin: float) -> bool:
        """Whether these machines are shown to be within ``margin`` of each other at all of these points."""
        chosen = self.times.of(members).at(at)
        widest = np.argsort(-np.abs(chosen.center - np.nanmean(chosen.center, axis=0)).max(axis=1)).tolist()
        some = max(1, AT_ONCE // chosen.center.size)
        for start in range(0, len(widest), some):  # the first of them settle it where it is no tie
            rows = widest[start : start + some]
            found = ratio(chosen.of(rows), chosen, outer=True)
            off = np.abs(found.center) + found.half_width(alpha)
            others = np.array(rows)[:, None] != np.arange(len(chosen.center))
            if not (off[others] <= math.log1p(margin)).all():
                return False
        return True

    @property
    def _filled(self) -> Array:
        return np.where(self.times.known, self.times.center, np.inf)

    def _best(self) -> Whole:
        return np.asarray(np.argmin(self._filled, axis=0))

    def _strongest(self, machines: Sequence[int]) -> list[int]:
        """Those that others are tested against: all of them where that is little work, else the fastest at each batch.
        Fewer tests leave more machines in, which errs on the safe side.
        """
        some = list(machines)
        room = max(FEWEST_RIVALS, AT_ONCE // self.times.center.size)
        if len(some) <= room:
            return some
        at = self.times.measured
        slow = self._filled[some][:, at] + self.times.error[some][:, at]
        order = np.argsort(slow, axis=0).ravel()
        return [some[place] for place in dict.fromkeys(order.tolist())][:room]


def contenders(times: Times, alpha: float) -> list[int]:
    """The machines that may be the fastest at one of the measured batches at least, at the harshest level of any test:
    no other is ever in a set.
    """
    at = times.at_batches()
    left = Machines(at, max(1, len(times.center) - 1)).left_in(alpha / len(at.x))
    return np.flatnonzero(left.any(axis=1)).tolist()


def common_batches(machines: Sequence[Sequence[TargetCurve]]) -> Array:
    """What at least two machines were measured at, rising."""
    seen = [np.unique([batch for curve in curves for batch in curve.batches]) for curves in machines]
    batches, counts = np.unique(np.concatenate([np.zeros(0), *seen]), return_counts=True)
    return np.asarray(batches[counts > 1], dtype=float)


def times_of(machines: Sequence[Sequence[TargetCurve]], batches: Array) -> Times:
    """Each machine's targets as one curve, that of the fastest at each point; ``batches`` as
    :func:`common_batches` gives them, at least one.
    """
    x = between_batches(np.log2(batches))
    rows = zip(*(_machine(curves, x) for curves in machines), strict=True)
    return Times(x, _shape(x), np.arange(len(x)) % STEPS == 0, *map(np.stack, rows))


def _machine(curves: Sequence[TargetCurve], x: Array) -> tuple[Array, ...]:
    """The rows of :class:`Times` of one machine. It has no step time where one of its targets was skipped that may be
    the fastest there; where it failed the others count.
    """
    rows = [np.stack(part) for part in zip(*(_target(curve, x) for curve in curves), strict=True)]
    center, error, df, unseen, before, after, gap = rows
    filled = np.where(np.isnan(center), np.inf, center)
    failed = np.array([x >= np.log2(curve.failed_from or np.inf) - 1e-9 for curve in curves])
    tried = np.array([bool(curve.batches) for curve in curves])[:, None]
    skipped = (np.isnan(center) & ~failed & tried).any(axis=0)
    at, points = np.argmin(filled, axis=0), np.arange(len(x))
    chosen = [row[at, points] for row in (center, error, df, unseen, before, after, gap)]
    apart = np.sqrt(error**2 + chosen[1] ** 2)
    level = t_at(np.full(apart.shape, 1 - TIE_ALPHA / 2), np.minimum(df, chosen[2])) * apart
    near = filled - chosen[0] <= np.hypot(level, normal_quantile(1 - TIE_ALPHA / 2) * np.hypot(unseen, chosen[3]))
    tied = np.maximum(1, (near & ~np.isnan(center)).sum(axis=0)).astype(float)
    return (np.where(skipped, np.nan, chosen[0]), *chosen[1:], at, tied)


def _target(curve: TargetCurve, x: Array) -> tuple[Array, ...]:
    """Center, error, degrees of freedom, what is unseen, second differences before and after, and the gap's bend."""
    if not curve.batches:
        return tuple(np.full(len(x), fill) for fill in (np.nan, np.inf, 0.0, 0.0, 0.0, 0.0, 0.0))
    own, logs = np.log2(np.array(curve.batches, dtype=float)), np.array(curve.log_ms)
    error = np.array([np.inf if value is None else value for value in curve.error])
    at = x[::STEPS]
    inside = (at > own[0] - 1e-9) & (at < own[-1] + 1e-9)
    center = np.where(inside, np.interp(at, own, logs), np.nan)
    gap = np.zeros(len(at))
    if inside.any():
        gap[inside] = bend(own, logs, np.clip(at[inside], own[0], own[-1])) if len(own) > 1 else 0.0
    turns = _second_differences(at, center)
    return (
        _spread(center),
        _spread(_interpolated(at, own, error)),
        _spread_lowest(_interpolated(at, own, np.array(curve.df), lowest=True)),
        np.full(len(x), curve.allowance),
        np.repeat(turns, STEPS)[: len(x)],
        np.repeat(np.append(turns[1:], turns[-1:]), STEPS)[: len(x)],
        _spread(gap),
    )


def _interpolated(at: Array, own: Array, values: Array, lowest: bool = False) -> Array:
    """Values of a machine's own batches at others; of two neighbours the worse one."""
    right = np.clip(np.searchsorted(own, at - 1e-9), 0, len(own) - 1)
    left = np.clip(np.searchsorted(own, at + 1e-9) - 1, 0, len(own) - 1)
    pick = np.minimum if lowest else np.maximum
    return np.asarray(pick(values[left], values[right]))


def _spread(values: Array) -> Array:
    """From the batches to all points of the grid, linear between two."""
    place = np.arange(STEPS) / STEPS
    left, right = values[:-1, None], values[1:, None]
    with np.errstate(invalid="ignore"):
        between = np.where(place == 0, left, left * (1 - place) + right * np.where(place == 0, 0.0, place))
    return np.append(between.ravel(), values[-1:])


def _spread_lowest(values: Array) -> Array:
    """The same for what the smaller of two neighbours decides."""
    following = np.repeat(np.append(values[1:], values[-1:]), STEPS)[: (len(values) - 1) * STEPS + 1]
    found = np.repeat(values, STEPS)[: len(following)]
    return np.where(np.arange(len(found)) % STEPS == 0, found, np.minimum(found, following))


def _second_differences(x: Array, y: Array) -> Array:
    """Of a curve at its points, those at the ends as their neighbours; 0 where it is not known."""
    if len(x) < 3:
        return np.zeros(len(x))
    slopes = np.diff(y) / np.diff(x)
    second = 2 * np.diff(slopes) / (x[2:] - x[:-2])
    return np.nan_to_num(np.concatenate([second[:1], second, second[-1:]]))
