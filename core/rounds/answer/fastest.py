"""The fastest of several targets at every batch: bands, and boundaries with simultaneous intervals.

:mod:`core.rounds.answer.fastest` gives the candidate sets at each batch; here they become bands. A band of several
targets is kept if it holds a measured batch, unless its neighbours share no target: then it is the interval of the
boundary between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from core.analysis.numerics import HUGE, rising_zeros, runs
from core.analysis.statistics import Array
from core.rounds.answer.answer import Band, Boundary, Fastest
from core.rounds.answer.crossover import STEPS, Smooth, between_batches, smooth
from core.rounds.answer.observations import Observations, observe
from core.rounds.run import Run

Sets = NDArray[Any]
"""One set of targets per point of a grid, as bits; beyond :data:`WORD` targets the elements are Python integers."""
Flags = NDArray[np.bool_]
WORD = 62


class Contest(Protocol):
    """Interface that :mod:`core.rounds.answer.fastest` turns into bands: several contestants over x = log2(batch)."""

    @property
    def x(self) -> Array: ...
    @property
    def has_interval(self) -> bool: ...
    @property
    def alpha(self) -> float: ...
    def candidates(self, alpha: float) -> Sets: ...
    def margin(self, bits: int, alpha: float, at: Sequence[int]) -> Array: ...
    def leaders(self) -> Sets: ...
    def gain(self, old: Sequence[int], new: Sequence[int], part: slice) -> Array: ...
    def is_level(self, members: Sequence[int], at: Sequence[int], alpha: float, margin: float) -> bool: ...


@dataclass(frozen=True)
class Race:
    """All pairs of ``count`` targets over x = log2(batch); each ``STEPS``-th point is a measured batch.

    ``pairs[k, l]``, k < l, is log(t_k / t_l) at the batches at which both were measured. ``out[k]``: target k failed at
    that batch or below, so it cannot be the fastest there.
    """

    x: Array
    count: int
    pairs: dict[tuple[int, int], Smooth]
    out: Flags

    @cached_property
    def ratios(self) -> Array:
        """Array of log(t_k / t_l) indexed [k, l, x]; NaN if the two have no common batch."""
        ratios = np.full((self.count, self.count, len(self.x)), np.nan)
        for (k, l), pair in self.pairs.items():  # noqa: E741
            ratios[k, l] = np.interp(self.x, pair.x, pair.center, left=np.nan, right=np.nan)
            ratios[l, k] = -ratios[k, l]
        return ratios

    def half_widths(self, alpha: float) -> Array:
        """Return half of the 1 − alpha interval of each ratio; infinite or NaN if there is none."""
        errors = np.full((self.count, self.count, len(self.x)), np.inf)
        for (k, l), pair in self.pairs.items():  # noqa: E741
            half = np.minimum(pair.half_width(alpha), HUGE)  # infinity has no slope
            errors[k, l] = errors[l, k] = np.interp(self.x, pair.x, half, left=np.inf, right=np.inf)
        return errors

    @property
    def has_interval(self) -> bool:
        return any(np.isfinite(pair.estimate.error).any() for pair in self.pairs.values())

    @property
    def alpha(self) -> float:
        """The error that this look may spend."""
        return min(pair.alpha for pair in self.pairs.values())

    def candidates(self, alpha: float) -> Sets:
        """Return the candidate set at each point by itself, at level ``alpha``; never empty."""
        alone = self._beaten(alpha).sum(axis=1) == self.count - 1
        beaten = self._beaten(alpha / (self.count - 1)).any(axis=0)
        return as_bits(np.where(alone.any(axis=0), alone, ~beaten))

    def margin(self, bits: int, alpha: float, at: Sequence[int]) -> Array:
        """Return how far (log) beyond its interval the lead of that set over the others is; above zero it is shown."""
        inside = list(members(bits))
        outside = [k for k in range(self.count) if k not in inside]
        level = alpha if len(inside) == 1 else alpha / (self.count - 1)
        by = -self.ratios - self.half_widths(level)
        by[np.broadcast_to(self.out[None, :] & ~self.out[:, None], by.shape)] = np.inf
        part = by[np.ix_(inside, outside, list(at))]
        return np.asarray(np.nanmax(part, axis=0, initial=-np.inf).min(axis=0, initial=np.inf))

    def _beaten(self, alpha: float) -> Flags:
        """Return [k, l, x]: whether l is slower than k beyond the interval, or could not run where k may have."""
        beaten = self.ratios + self.half_widths(alpha) < 0
        return np.asarray(beaten | (self.out[None, :] & ~self.out[:, None]))

    def leaders(self) -> Sets:
        """Return the target ahead of most others at each point, regardless of intervals."""
        wins = ((self.ratios < 0) | (self.out[None, :] & ~self.out[:, None])).sum(axis=1)
        return np.asarray(1 << np.argmax(wins, axis=0), dtype=np.int64)

    def gain(self, old: Sequence[int], new: Sequence[int], part: slice) -> Array:
        """Return a value above zero at each point at which one of the new targets is ahead of all the old ones."""
        return np.asarray(self.ratios[np.ix_(old, new)][:, :, part].min(axis=0).max(axis=0))

    def is_level(self, members: Sequence[int], at: Sequence[int], alpha: float, margin: float) -> bool:
        """Tell whether these targets are shown to be within ``margin`` of each other at all of these points."""
        own = np.ix_(members, members, at)
        off = np.abs(self.ratios[own]) + self.half_widths(alpha)[own]
        return bool((off[~np.eye(len(off), dtype=bool)] <= math.log1p(margin)).all())


def as_bits(members: Flags) -> Sets:
    """Convert membership flags [k, x] into sets."""
    if len(members) > WORD:
        packed = np.packbits(members, axis=0, bitorder="little")
        sets = np.empty(members.shape[1], dtype=object)
        sets[:] = [int.from_bytes(packed[:, at].tobytes(), "little") for at in range(members.shape[1])]
        return sets
    return np.asarray((members.astype(np.int64) << np.arange(len(members))[:, None]).sum(axis=0))


def members(bits: int) -> tuple[int, ...]:
    """Return the targets of a set, rising."""
    return tuple(k for k in range(int(bits).bit_length()) if bits >> k & 1)


def confident(race: Contest) -> tuple[Sets, float]:
    """Return the sets that hold the fastest target at all points simultaneously with 95 %, and the level of the tests
    used.

    Between two measured batches with the same set no other target is considered.
    """
    count, alpha = float(len(race.x[::STEPS])), race.alpha
    while True:
        at = race.candidates(alpha / count)[::STEPS]
        base = _between(at, len(race.x))
        left = max(1.0, float(np.sum(at & (at - 1) > 0)), _changes(base))
        if left >= count:
            break
        count = left
    changes = _changes(base)
    while True:
        reached = _reaching(base, race.candidates(alpha / max(1.0, changes)))
        if _changes(reached) >= changes or changes <= 1:
            return reached, alpha / max(1.0, changes)
        changes = _changes(reached)


def _between(at: Sets, points: int) -> Sets:
    """Return the sets of the measured batches, and between two of them the union of both."""
    stepped = np.repeat(at, STEPS)[:points]
    following = np.repeat(np.append(at[1:], at[-1:]), STEPS)[:points]
    inside = np.arange(points) % STEPS > 0
    return np.where(inside, stepped | following, stepped)


def _changes(sets: Sets) -> float:
    """Count the two-sided tests that may fail: a half for each smaller set that reaches into a larger neighbour."""
    starts = [start for start, _ in runs(sets)][1:]
    return sum(1.0 if sets[i - 1] & sets[i] == 0 else 0.5 for i in starts)


def _reaching(base: Sets, candidates: Sets) -> Sets:
    """Return ``base``, each set extended from batch to batch, to both sides, while ``candidates`` lies within it."""
    ahead, back = _kept(base, candidates), _kept(base[::-1], candidates[::-1])[::-1]
    both = ahead & back
    return np.where(both > 0, both, base)


def _kept(base: Sets, candidates: Sets) -> Sets:
    now, kept = int(base[0]), []
    for own, allowed in zip(base.tolist(), candidates.tolist(), strict=True):
        if own & ~now == 0 or allowed & ~now:
            now = own
        kept.append(now)
    return np.array(kept, dtype=base.dtype)


DEFAULT_MARGIN = 0.05


def margin_of(run: Run, margin: float | None) -> float:
    """Return the given margin, else the plan's, else 0.05."""
    if margin is not None:
        return margin
    return run.plan.margin if run.plan is not None else DEFAULT_MARGIN


def fastest(run: Run, margin: float | None = None) -> Fastest:
    """Return bands and boundaries over the batches that at least two targets share; none without such a batch.

    Raises UserError if the run has more rounds than any sweep makes.
    """
    return find_fastest(tables_of(run), len(run.target_names), margin_of(run, margin), failed_from(run))


def tables_of(run: Run) -> dict[tuple[int, int], Observations]:
    """Return the observations of every pair of targets. Raises UserError as :func:`observe` does."""
    return {pair: observe(run, *pair) for pair in combinations(range(len(run.target_names)), 2)}


def failed_from(run: Run) -> dict[int, int]:
    """Return the smallest batch at which a target failed, for each target that failed above all batches with rounds."""
    largest: dict[int, int] = {}
    for item in run.rounds:
        for block in item.blocks:
            largest[block.target] = max(largest.get(block.target, 0), item.batch)
    failed: dict[int, int] = {}
    for cell in run.cells:
        if cell.outcome not in ("measured", "pending", "skipped") and cell.batch > largest.get(cell.target, 0):
            failed[cell.target] = min(cell.batch, failed.get(cell.target, cell.batch))
    return failed


def find_fastest(
    pairs: dict[tuple[int, int], Observations], count: int, margin: float, failed: dict[int, int] | None = None
) -> Fastest:
    """Return bands and boundaries from the tables of all pairs of ``count`` targets; ``failed`` maps targets to the
    batch from which they failed.
    """
    known = {pair: table for pair, table in pairs.items() if len(table.batches)}
    if not known:
        return Fastest((), ())
    x = between_batches(np.log2(np.unique(np.concatenate([table.batches for table in known.values()]))))
    first_out = [math.log2((failed or {}).get(target, math.inf)) for target in range(count)]
    race = Race(x, count, {pair: smooth(table) for pair, table in known.items()}, x >= np.array(first_out)[:, None])
    return bands_of(race, margin)


def bands_of(race: Contest, margin: float) -> Fastest:
    """Return bands and boundaries; ``margin`` defines a tie."""
    if not race.has_interval:
        return replace(_answer(race, _stretches(race.leaders()), None, margin), has_interval=False)
    sets, alpha = confident(race)
    return _answer(race, _reduced(_stretches(sets)), alpha, margin)


@dataclass(frozen=True)
class _Stretch:
    """Stretch of grid points ``first`` to ``last`` (inclusive) with the same set."""

    first: int
    last: int
    bits: int

    @property
    def is_single(self) -> bool:
        return self.bits & (self.bits - 1) == 0

    def joined(self, other: _Stretch) -> _Stretch:
        return _Stretch(min(self.first, other.first), max(self.last, other.last), self.bits | other.bits)


def _stretches(sets: Sets) -> list[_Stretch]:
    """Return the stretches of the same set that hold a measured batch."""
    stretches: list[_Stretch] = []
    for start, stop in runs(sets):
        stretch = _Stretch(start, stop - 1, int(sets[start]))
        if -(-start // STEPS) * STEPS >= stop:
            continue
        if stretches and stretches[-1].bits == stretch.bits:
            stretch = stretches.pop().joined(stretch)
        stretches.append(stretch)
    return stretches


def _reduced(stretches: list[_Stretch]) -> list[_Stretch]:
    """Drop stretches of several targets that are only transitions between two bands.

    A stretch that shares targets with both its neighbours, which share none, lies in the interval of the boundary
    between them. Of two neighbouring stretches of several targets, one a subset of the other, the larger set replaces
    both.
    """
    while True:
        over = next((i for i in range(1, len(stretches) - 1) if _leads_over(*stretches[i - 1 : i + 2])), None)
        if over is not None:
            stretches = [*stretches[:over], *stretches[over + 1 :]]
            continue
        nested = next((i for i in range(len(stretches) - 1) if _nested(*stretches[i : i + 2])), None)
        if nested is None:
            return stretches
        joined = stretches[nested].joined(stretches[nested + 1])
        stretches = [*stretches[:nested], joined, *stretches[nested + 2 :]]


def _leads_over(before: _Stretch, here: _Stretch, after: _Stretch) -> bool:
    apart = before.bits & after.bits == 0
    return apart and not here.is_single and here.bits & before.bits > 0 and here.bits & after.bits > 0


def _nested(here: _Stretch, after: _Stretch) -> bool:
    return not here.is_single and not after.is_single and here.bits | after.bits in (here.bits, after.bits)


def _answer(race: Contest, stretches: Sequence[_Stretch], alpha: float | None, margin: float) -> Fastest:
    """Turn stretches into bands and boundaries; ``alpha`` is the level of the tests behind them, None without
    intervals.
    """
    boundaries = tuple(_boundary(race, before, after, alpha) for before, after in pairwise(stretches))
    edges = [2.0 ** race.x[0], *(boundary.batch for boundary in boundaries), 2.0 ** race.x[-1]]
    bands = tuple(
        Band(float(start), float(stop), members(stretch.bits), _is_level(race, stretch, alpha, margin))
        for stretch, (start, stop) in zip(stretches, pairwise(edges), strict=True)
    )
    return Fastest(bands, boundaries)


def _is_level(race: Contest, stretch: _Stretch, alpha: float | None, margin: float) -> bool:
    """Tell whether all targets of a stretch are shown to be within ``margin`` at each of its measured batches."""
    if stretch.is_single or alpha is None:
        return False
    at = [i for i in range(stretch.first, stretch.last + 1) if i % STEPS == 0]
    return race.is_level(members(stretch.bits), at, alpha, margin)


def _boundary(race: Contest, before: _Stretch, after: _Stretch, alpha: float | None) -> Boundary:
    old, new = members(before.bits), members(after.bits)
    low, high = float(race.x[before.last]), float(race.x[after.first])
    if before.bits & after.bits:
        place = low if before.is_single else high if after.is_single else (low + high) / 2
        return Boundary(2.0**place, None, None, old, new)
    part = slice(before.last, after.first + 1)
    changes = rising_zeros(race.x[part], race.gain(old, new, part))
    place = changes[len(changes) // 2] if changes else (low + high) / 2
    if alpha is None:
        return Boundary(2.0**place, None, None, old, new)
    low = min(place, _end(race, before.bits, before.last, before.last + 1, alpha))
    high = max(place, _end(race, after.bits, after.first, after.first - 1, alpha))
    return Boundary(2.0**place, 2.0**low, 2.0**high, old, new)


def _end(race: Contest, bits: int, inside: int, outside: int, alpha: float) -> float:
    """Return where, between two points, the fastest is no longer shown to be in the set."""
    a, b = np.clip(race.margin(bits, alpha, (inside, outside)), -HUGE, HUGE)
    x = race.x
    return float(x[inside] + (x[outside] - x[inside]) * (a / (a - b))) if a > 0 >= b else float(x[inside])
