"""Step times of machines by batch, compared unpaired: disturbances of one machine do not cancel.

Two runs on different machines share no round. The variance of the log-ratio of their step times is therefore the sum of
each machine's own, from the scatter of its worker processes, with degrees of freedom after Welch (1947); an interval is
wider than that of two targets in one run. What stays the same during a whole run (a slow neighbour, a cold room) is in
no interval: such a run describes the machine as it was then.

A machine counts with its fastest target at each batch, unless one target is asked for. The smallest of several
estimates is biased low if they tie: with c targets that may be the fastest on one machine and d on the other, each test
is made at the level times 2 / (c + d), which bounds the error whatever ties (a union bound over them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.analysis.statistics import Array, t_at
from core.rounds.answer.answer import Against, Crossover, Kind, SpeedUp, Verdict
from core.rounds.answer.condensed import TargetCurve
from core.rounds.answer.crossover import (
    STEPS,
    Crossing,
    Curve,
    bend_of,
    between_batches,
    curve_of,
    find_crossings,
    held_between,
    spread_between,
)
from core.rounds.answer.fastest import Flags, Sets, as_bits, members
from core.rounds.answer.observations import ALPHA

TIE_ALPHA = 0.001  # targets of a machine count as tied unless they differ at 99.9 %: a lucky one must not look alone
AT_ONCE = 100_000  # values per block of pairs
FEWEST_RIVALS = 6
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Times:
    """Log step times [machine, x] over x = log2(batch); NaN if a machine was not measured.

    ``measured`` marks the batches that at least two machines share; between two of those lie ``STEPS`` − 1 points.
    ``shape`` is the factor of a second difference: w(1 − w)/2 · h² at the relative place w of a gap h. ``error`` and
    ``df`` are those of the mean over replicates. ``before`` and ``after`` are the second differences at the batches
    around a point; ``gap``: how far a machine that skipped a batch may bend there. ``target`` is the one that counts,
    ``tied`` the number of targets that may be the fastest.
    """

    x: Array
    shape: Array
    measured: Flags
    center: Array
    error: Array
    df: Array
    before: Array
    after: Array
    gap: Array
    target: Whole
    tied: Array

    def of(self, machines: Sequence[int]) -> Times:
        """Return these machines alone, in this order."""
        return self._each(lambda rows: rows[list(machines)])

    def at_batches(self) -> Times:
        """Return the measured batches only."""
        return self.at(np.flatnonzero(self.measured).tolist())

    def at(self, points: Sequence[int]) -> Times:
        """Return these points only."""
        at = list(points)
        chosen = self._each(lambda rows: rows[:, at])
        return replace(chosen, x=self.x[at], shape=self.shape[at], measured=self.measured[at])

    def gathered(self, machine: Whole) -> Times:
        """Return a single machine made of another one at each point."""
        points = np.arange(len(self.x))
        return self._each(lambda rows: rows[machine, points][None])

    def _each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Times:
        return replace(self, **{name: change(getattr(self, name)) for name in MACHINE_ROWS})

    def shifted(self, logs: Array) -> Times:
        """Add a number to each machine's log step times, such as the log of its price."""
        return replace(self, center=self.center + logs[:, None])

    @property
    def batches(self) -> tuple[int, ...]:
        return tuple(round(2.0**x) for x in self.x[self.measured].tolist())

    @property
    def known(self) -> Flags:
        return ~np.isnan(self.center)

    def own_half_width(self, alpha: float) -> Array:
        """Return the half width of each machine's log step time by itself, at a level divided by the tied targets."""
        return np.hypot(t_at(1 - alpha / (2 * self.tied), self.df) * self.error, self.gap)


MACHINE_ROWS = ("center", "error", "df", "before", "after", "gap", "target", "tied")


@dataclass(frozen=True)
class Ratio:
    """log(t_first / t_second) with the parts of its intervals; any shape."""

    center: Array
    error: Array
    df: Array
    tied: Array
    bend: Array

    def at(self, points: Flags) -> Ratio:
        """Return these points, along the last axis."""
        return Ratio(*(getattr(self, field.name)[..., points] for field in fields(self)))

    def half_width(self, alpha: float) -> Array:
        """Return half of the 1 − alpha interval; infinite if there is none, NaN if there is no ratio."""
        return np.hypot(self.scatter(alpha), self.bend)

    def scatter(self, alpha: float) -> Array:
        """Return the same without the bend between batches."""
        return t_at(1 - alpha / self.tied, self.df) * self.error


def ratio(first: Times, second: Times, outer: bool = False) -> Ratio:
    """Return the ratio of ``first`` over ``second``, machine by machine; one of them may have a single machine. With
    ``outer``, every pair, as [first, second, x].
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
    gap, other_gap = both("gap")
    return Ratio(
        center=u - v,
        error=np.sqrt(a + b),
        df=np.where((n > 0) & (m > 0), np.nan_to_num(welch), 0.0),
        tied=s + t,
        bend=np.sqrt((first.shape * turn) ** 2 + gap**2 + other_gap**2),
    )


def _shape(x: Array) -> Array:
    place = np.arange(len(x)) % STEPS / STEPS
    batches = x[::STEPS]
    gaps = np.append(np.diff(batches), 1.0)[np.arange(len(x)) // STEPS]
    return np.asarray(place * (1 - place) / 2 * gaps**2)


@dataclass(frozen=True)
class Machines:
    """Contest of machines, from which :mod:`core.rounds.answer.fastest` makes bands. ``rivals`` divides the level of a
    comparison with many: the others in the whole fleet, including those excluded before.
    """

    times: Times
    rivals: int

    @property
    def x(self) -> Array:
        return self.times.x

    @property
    def has_interval(self) -> bool:
        return bool((self.times.df > 0).any())

    @property
    def alpha(self) -> float:
        return ALPHA

    def candidates(self, alpha: float) -> Sets:
        """Return the machines that may be the fastest at each point by itself, at level ``alpha``; never empty."""
        best = self._best()
        ahead = self.times.gathered(best)
        lead = ratio(ahead, self.times)
        beats = -lead.center > lead.half_width(alpha)
        own = np.arange(len(self.times.center))[:, None] == best
        alone = (beats | ~self.times.known | own).all(axis=0)
        return as_bits(np.where(alone, own, self.left_in(alpha)))

    def left_in(self, alpha: float) -> Flags:
        """Return [machine, x]: whether no rival beats it at the level divided by the number of rivals."""
        rivals = self.times.of(self._strongest(range(len(self.times.center))))
        ratios = ratio(rivals, self.times, outer=True)
        beaten = (-ratios.center > ratios.half_width(alpha / self.rivals)).any(axis=0)
        return np.asarray(~beaten & self.times.known)

    def margin(self, bits: int, alpha: float, at: Sequence[int]) -> Array:
        """Return how far (log) beyond its interval the lead of that set over the others is; above zero it is shown."""
        inside = members(bits)
        outside = sorted(set(range(len(self.times.center))) - set(inside))
        if not outside:
            return np.full(len(at), np.inf)
        level = alpha if len(inside) == 1 else alpha / self.rivals
        times = self.times.at(at)
        others = times.of(outside)
        ratios = ratio(times.of(self._strongest(inside)), others, outer=True)
        by = -ratios.center - ratios.half_width(level)
        best = np.nanmax(np.where(np.isnan(by), -np.inf, by), axis=0)
        return np.asarray(np.where(others.known, best, np.inf).min(axis=0))

    def leaders(self) -> Sets:
        return as_bits(np.arange(len(self.times.center))[:, None] == self._best())

    def gain(self, old: Sequence[int], new: Sequence[int], part: slice) -> Array:
        """Return a value above zero at each point at which one of the new machines is ahead of all the old ones."""
        before, after = (self._filled[list(some)][:, part].min(axis=0) for some in (old, new))
        return np.asarray(np.nan_to_num(before - after))

    def is_level(self, members: Sequence[int], at: Sequence[int], alpha: float, margin: float) -> bool:
        """Tell whether these machines are shown to be within ``margin`` of each other at all of these points."""
        chosen = self.times.of(members).at(at)
        widest = np.argsort(-np.abs(chosen.center - np.nanmean(chosen.center, axis=0)).max(axis=1)).tolist()
        some = max(1, AT_ONCE // chosen.center.size)
        for start in range(0, len(widest), some):  # if it is no tie, the first rows settle it
            rows = widest[start : start + some]
            ratios = ratio(chosen.of(rows), chosen, outer=True)
            off = np.abs(ratios.center) + ratios.half_width(alpha)
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
        """Return the machines that others are tested against: all if that is cheap, else the fastest at each batch.

        Fewer tests leave more machines in, which is conservative.
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
    """Return the machines that may be the fastest at some measured batch, at the strictest level of any test: no other
    is ever in a set.
    """
    at = times.at_batches()
    left = Machines(at, max(1, len(times.center) - 1)).left_in(alpha / len(at.x))
    return np.flatnonzero(left.any(axis=1)).tolist()


def common_batches(machines: Sequence[Sequence[TargetCurve]]) -> Array:
    """Return the batches that at least two machines measured, rising."""
    seen = [np.unique([batch for curve in curves for batch in curve.batches]) for curves in machines]
    batches, counts = np.unique(np.concatenate([np.zeros(0), *seen]), return_counts=True)
    return np.asarray(batches[counts > 1], dtype=float)


def times_of(machines: Sequence[Sequence[TargetCurve]], batches: Array) -> Times:
    """Merge each machine's targets into one curve, that of the fastest at each point, at the ``batches`` from
    :func:`common_batches` (at least one).

    A machine has no step time where one of its targets was skipped that may be the fastest there; where it failed the
    others count.
    """
    at = np.log2(batches)
    x = between_batches(at)
    most = max(map(len, machines))
    columns = [_columns(curve, at) for curves in machines for curve in [*curves, *[NOTHING] * (most - len(curves))]]
    center, error, df, gap, failed, tried = (
        np.stack(part).reshape(len(machines), most, -1) for part in zip(*columns, strict=True)
    )
    turns = _second_differences(at, center)
    rows = {
        "center": spread_between(center),
        "error": spread_between(error),
        "df": np.minimum(held_between(df), held_between(df, following=True)),
        "before": held_between(turns),
        "after": held_between(turns, following=True),
        "gap": spread_between(gap),
    }
    filled = np.where(np.isnan(rows["center"]), np.inf, rows["center"])
    best = np.argmin(filled, axis=1)
    chosen = {name: np.take_along_axis(row, best[:, None], axis=1)[:, 0] for name, row in rows.items()}
    skipped = (np.isnan(rows["center"]) & (x < failed - 1e-9) & (tried > 0)).any(axis=1)
    tied = _tied(rows, chosen, filled)
    chosen["center"] = np.where(skipped, np.nan, chosen["center"])
    return Times(x, _shape(x), np.arange(len(x)) % STEPS == 0, **chosen, target=best, tied=tied)


NOTHING = TargetCurve()


def _tied(rows: Mapping[str, Array], chosen: Mapping[str, Array], filled: Array) -> Array:
    """Count the targets of each machine that may be its fastest."""
    if filled.shape[1] == 1:
        return np.ones((len(filled), filled.shape[2]))
    apart = np.sqrt(rows["error"] ** 2 + chosen["error"][:, None] ** 2)
    level = t_at(1 - TIE_ALPHA / 2, np.minimum(rows["df"], chosen["df"][:, None])) * apart
    with np.errstate(invalid="ignore"):
        near = filled - chosen["center"][:, None] <= level
    return np.maximum(1, (near & np.isfinite(filled)).sum(axis=1)).astype(float)


def _columns(curve: TargetCurve, at: Array) -> tuple[Array, ...]:
    """Return for a target at log2 of the shared batches: center, error, degrees of freedom, possible bend where it
    skipped one; then log2 of the batch from which it failed, and whether it was tried.
    """
    failed = np.array([math.log2(curve.failed_from) if curve.failed_from else np.inf])
    if not curve.batches:
        nothing = np.full(len(at), np.nan), np.full(len(at), np.inf), np.zeros(len(at)), np.zeros(len(at))
        return (*nothing, failed, np.zeros(1))
    own, logs = np.log2(np.array(curve.batches, dtype=float)), np.array(curve.log_ms)
    error = np.array([np.inf if value is None else value for value in curve.error])
    df, more = np.array(curve.df), (failed, np.ones(1))
    place = np.minimum(np.searchsorted(own, at - 1e-9), len(own) - 1)
    exact = np.abs(own[place] - at) < 1e-9
    if exact.all():
        return logs[place], error[place], df[place], np.zeros(len(at)), *more
    inside = (at > own[0] - 1e-9) & (at < own[-1] + 1e-9)
    left = np.where(exact, place, np.maximum(place - 1, 0))  # the worse of two neighbours
    gap = np.zeros(len(at))
    if inside.any() and len(own) > 1:
        gap[inside] = bend_of(own, logs, np.clip(at[inside], own[0], own[-1]))
    center = np.where(inside, np.interp(at, own, logs), np.nan)
    return center, np.maximum(error[left], error[place]), np.minimum(df[left], df[place]), gap, *more


def _second_differences(x: Array, y: Array) -> Array:
    """Return second differences of curves along the last axis, the ends copied from their neighbours; 0 if unknown."""
    if len(x) < 3:
        return np.zeros(y.shape)
    slopes = np.diff(y) / np.diff(x)
    second = 2 * np.diff(slopes) / (x[2:] - x[:-2])
    return np.nan_to_num(np.concatenate([second[..., :1], second, second[..., -1:]], axis=-1))


def against_baseline(times: Times, baseline: int, margin: float, names: Sequence[str]) -> list[Against | None]:
    """Return the comparison of each machine; None for the baseline and for machines that share no batch with it.

    Each comparison holds by itself, as that of two targets; the bands of the fastest hold simultaneously.
    """
    ratios = ratio(times.of([baseline]), times)
    at = ratios.at(times.measured)
    half, sure = at.half_width(ALPHA), at.scatter(2 * ALPHA)
    # A change of lead must show both sides, at least at this level: only such curves need be computed
    may_cross = np.any(at.center > sure, axis=1) & np.any(at.center < -sure, axis=1)
    curves = _Curves(times, ratios) if may_cross.any() else None
    answers: list[Against | None] = []
    for machine, name in enumerate(names):
        known = ~np.isnan(at.center[machine])
        if machine == baseline or not known.any():
            answers.append(None)
            continue
        crossings = find_crossings(curves.of(machine)) if curves is not None and may_cross[machine] else ()
        pair = (names[baseline], name)
        verdict = _verdict(pair, at.center[machine][known], half[machine][known], crossings, margin)
        batches = [batch for batch, has in zip(times.batches, known.tolist(), strict=True) if has]
        answers.append(Against(machine, verdict, _speed_ups(batches, at.center[machine][known], half[machine][known])))
    return answers


class _Curves:
    """Curves of each machine against the baseline, as for two targets, with shared work done once."""

    def __init__(self, times: Times, ratios: Ratio) -> None:
        self._times, self._center = times, ratios.center
        self._ratios = ratios
        self._levels: dict[float, Array] = {}

    def of(self, machine: int) -> Curve:
        """Return the curve over the batches that both machines have."""
        has = ~np.isnan(self._center[machine])
        x, center, measured = self._times.x[has], self._center[machine][has], self._times.measured[has]
        return curve_of(x, center, lambda alpha: self._half_width(alpha)[machine][has], measured)

    def _half_width(self, alpha: float) -> Array:
        if alpha not in self._levels:
            self._levels[alpha] = self._ratios.half_width(alpha)
        return self._levels[alpha]


def _verdict(
    pair: tuple[str, str], center: Array, half: Array, crossings: tuple[Crossing, ...], margin: float
) -> Verdict:
    low, high = center - half, center + half
    signs = np.where(low > 0, 1, np.where(high < 0, -1, 0))
    known = bool(np.isfinite(half).any())
    level = (low >= -math.log1p(margin)) & (high <= math.log1p(margin))
    kind: Kind = "inconclusive"
    ahead = None
    if crossings:
        kind = "crossover"
    elif (signs == signs[0]).all() and signs[0]:
        kind, ahead = "ahead", pair[int(signs[0] > 0)]
    elif level.all():
        kind = "tie"
    return Verdict(
        kind=kind, targets=pair, reason=f"unpaired_{kind}" if known else "unpaired_no_interval", sentence="",
        ahead=ahead, crossovers=tuple(Crossover(*c.batches, pair[int(c.rising)]) for c in crossings),
    )  # fmt: skip


def _speed_ups(batches: Sequence[int], center: Array, half: Array) -> tuple[SpeedUp, ...]:
    sure = np.isfinite(half)
    middle, low, high = np.exp(center), np.exp(center - half), np.exp(center + half)
    return tuple(
        SpeedUp(batch, float(middle[i]), float(low[i]) if sure[i] else None, float(high[i]) if sure[i] else None)
        for i, batch in enumerate(batches)
    )
