"""Confidence sets for the fastest of several targets at each batch, simultaneous with 95 %.

Two errors are possible: a target is wrongly declared the fastest, or wrongly excluded.

Over targets. "k is the fastest" is claimed only if k beats every rival in the t test of two targets, each at the full
level: a wrong claim needs a wrong rejection against the target that really is the fastest, and only one sample best can
be claimed, so no correction is due (Gutmann and Maymin 1987, *Is the selected population the best?*;
intersection-union, Berger 1982). If no target beats all others, the set is that of multiple comparisons with the best
(Hsu 1981): a target leaves it once a rival beats it at the level divided by the number of rivals.

Over batches. First the measured batches are tested by Holm's step-down (1979), at the level divided by the number of
undecided ones. Each decision then extends to neighbouring batches until the test no longer rejects: to pass the batch
at which the fastest changes it would have to reject there, where nothing differs, whatever lies before it. So a change
costs one test from each side, not one at every batch, and the level is divided by the number of changes (two-sided
each) alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from core.analysis.numerics import HUGE, runs
from core.analysis.statistics import Array
from core.studies.sweep.crossover import STEPS, Smooth

Sets = NDArray[Any]
"""One set of targets per point of a grid, as bits; beyond :data:`WORD` targets the elements are Python integers."""
Flags = NDArray[np.bool_]
WORD = 62


class Contest(Protocol):
    """Interface that :mod:`core.studies.sweep.fastest` turns into bands: several contestants over x = log2(batch)."""

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
        found = np.full((self.count, self.count, len(self.x)), np.nan)
        for (k, l), pair in self.pairs.items():  # noqa: E741
            found[k, l] = np.interp(self.x, pair.x, pair.center, left=np.nan, right=np.nan)
            found[l, k] = -found[k, l]
        return found

    def half_widths(self, alpha: float) -> Array:
        """Return half of the 1 − alpha interval of each ratio; infinite or NaN if there is none."""
        found = np.full((self.count, self.count, len(self.x)), np.inf)
        for (k, l), pair in self.pairs.items():  # noqa: E741
            half = np.minimum(pair.half_width(alpha), HUGE)  # infinity has no slope
            found[k, l] = found[l, k] = np.interp(self.x, pair.x, half, left=np.inf, right=np.inf)
        return found

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
        found = np.empty(members.shape[1], dtype=object)
        found[:] = [int.from_bytes(packed[:, at].tobytes(), "little") for at in range(members.shape[1])]
        return found
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
        found = _reaching(base, race.candidates(alpha / max(1.0, changes)))
        if _changes(found) >= changes or changes <= 1:
            return found, alpha / max(1.0, changes)
        changes = _changes(found)


def _between(at: Sets, points: int) -> Sets:
    """Return the sets of the measured batches, and between two of them the union of both."""
    found = np.repeat(at, STEPS)[:points]
    following = np.repeat(np.append(at[1:], at[-1:]), STEPS)[:points]
    inside = np.arange(points) % STEPS > 0
    return np.where(inside, found | following, found)


def _changes(sets: Sets) -> float:
    """Count the two-sided tests that may fail: a half for each smaller set that reaches into a larger neighbour."""
    starts = [start for start, _ in runs(sets)][1:]
    return sum(1.0 if sets[i - 1] & sets[i] == 0 else 0.5 for i in starts)


def _reaching(base: Sets, found: Sets) -> Sets:
    """Return ``base`` with each set extended from batch to batch, to both sides, while ``found`` lies within it."""
    ahead, back = _kept(base, found), _kept(base[::-1], found[::-1])[::-1]
    both = ahead & back
    return np.where(both > 0, both, base)


def _kept(base: Sets, found: Sets) -> Sets:
    now, kept = int(base[0]), []
    for own, allowed in zip(base.tolist(), found.tolist(), strict=True):
        if own & ~now == 0 or allowed & ~now:
            now = own
        kept.append(now)
    return np.array(kept, dtype=base.dtype)
