"""Which of several targets may be the fastest at each batch: sets that hold it everywhere at once with 95 %.

Two errors are possible: a target is taken for the fastest, or out of the race, where it is not.

Over targets. "k is the fastest" is claimed only where k beats every rival in the t test of two targets, each at the
full level: a wrong claim needs a wrong rejection against the target that really is the fastest, and only one sample
best can be claimed, so that no correction is due (Gutmann and Maymin 1987, *Is the selected population the best?*;
intersection-union, Berger 1982). Where nobody beats all others the set is that of multiple comparisons with the best
(Hsu 1981): a target leaves it once a rival beats it at the level divided by the number of rivals.

Over batches. First the measured batches are tested by Holm's step-down (1979): at the level divided by what is still
undecided. What is decided then reaches out, batch after batch, until the test no longer rejects: to pass the batch
where the fastest changes it must reject there, where nothing differs, whatever lies before it. So a change costs one
test from each side, not one at every batch, and the level is divided by the number of changes (two-sided each) alone.
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
"""A set of targets at each point of a grid, as bits; beyond :data:`WORD` targets they are integers of Python."""
Flags = NDArray[np.bool_]
WORD = 62


class Contest(Protocol):
    """What :mod:`core.studies.sweep.fastest` makes bands of: several contestants over x = log2(batch)."""

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
    """Every pair of ``count`` targets over x = log2(batch); each ``STEPS``-th point is a measured batch.

    ``pairs[k, l]``, k < l, is log(t_k / t_l) where both were measured. ``out[k]``: target k failed at that batch or
    below, so that it cannot be the fastest there.
    """

    x: Array
    count: int
    pairs: dict[tuple[int, int], Smooth]
    out: Flags

    @cached_property
    def ratios(self) -> Array:
        """log(t_k / t_l) as [k, l, x]; NaN where the two have no common batch."""
        found = np.full((self.count, self.count, len(self.x)), np.nan)
        for (k, l), pair in self.pairs.items():  # noqa: E741
            found[k, l] = np.interp(self.x, pair.x, pair.center, left=np.nan, right=np.nan)
            found[l, k] = -found[k, l]
        return found

    def half_widths(self, alpha: float) -> Array:
        """Half of the 1 − alpha interval of each ratio; infinite or NaN where there is none."""
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
        """The sets at each point for itself, at level ``alpha``; never empty."""
        alone = self._beaten(alpha).sum(axis=1) == self.count - 1
        beaten = self._beaten(alpha / (self.count - 1)).any(axis=0)
        return as_bits(np.where(alone.any(axis=0), alone, ~beaten))

    def margin(self, bits: int, alpha: float, at: Sequence[int]) -> Array:
        """How far beyond the interval (log) the fastest is shown to be in that set; above zero: shown."""
        inside = list(members(bits))
        outside = [k for k in range(self.count) if k not in inside]
        level = alpha if len(inside) == 1 else alpha / (self.count - 1)
        by = -self.ratios - self.half_widths(level)
        by[np.broadcast_to(self.out[None, :] & ~self.out[:, None], by.shape)] = np.inf
        part = by[np.ix_(inside, outside, list(at))]
        return np.asarray(np.nanmax(part, axis=0, initial=-np.inf).min(axis=0, initial=np.inf))

    def _beaten(self, alpha: float) -> Flags:
        """[k, l, x]: target l is slower than k beyond the interval, or could not run where k may have."""
        beaten = self.ratios + self.half_widths(alpha) < 0
        return np.asarray(beaten | (self.out[None, :] & ~self.out[:, None]))

    def leaders(self) -> Sets:
        """The target that is ahead of most others at each point, without regard to intervals."""
        wins = ((self.ratios < 0) | (self.out[None, :] & ~self.out[:, None])).sum(axis=1)
        return np.asarray(1 << np.argmax(wins, axis=0), dtype=np.int64)

    def gain(self, old: Sequence[int], new: Sequence[int], part: slice) -> Array:
        """Above zero where one of the new targets is ahead of all the old ones."""
        return np.asarray(self.ratios[np.ix_(old, new)][:, :, part].min(axis=0).max(axis=0))

    def is_level(self, members: Sequence[int], at: Sequence[int], alpha: float, margin: float) -> bool:
        """Whether these targets are shown to be within ``margin`` of each other at all of these points."""
        own = np.ix_(members, members, at)
        off = np.abs(self.ratios[own]) + self.half_widths(alpha)[own]
        return bool((off[~np.eye(len(off), dtype=bool)] <= math.log1p(margin)).all())


def as_bits(members: Flags) -> Sets:
    """[k, x] as sets."""
    if len(members) > WORD:
        packed = np.packbits(members, axis=0, bitorder="little")
        found = np.empty(members.shape[1], dtype=object)
        found[:] = [int.from_bytes(packed[:, at].tobytes(), "little") for at in range(members.shape[1])]
        return found
    return np.asarray((members.astype(np.int64) << np.arange(len(members))[:, None]).sum(axis=0))


def members(bits: int) -> tuple[int, ...]:
    """The targets of a set, rising."""
    return tuple(k for k in range(int(bits).bit_length()) if bits >> k & 1)


def confident(race: Contest) -> tuple[Sets, float]:
    """The sets that hold the fastest target at all points together with 95 %; and the level of the tests behind them.

    Between two measured batches with the same set nothing else is taken to be the fastest.
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
    """Sets of the measured batches, and between two of them what either has."""
    found = np.repeat(at, STEPS)[:points]
    following = np.repeat(np.append(at[1:], at[-1:]), STEPS)[:points]
    inside = np.arange(points) % STEPS > 0
    return np.where(inside, found | following, found)


def _changes(sets: Sets) -> float:
    """How many two-sided tests may fail: half a one for each smaller set beside a larger one, into which it reaches."""
    starts = [start for start, _ in runs(sets)][1:]
    return sum(1.0 if sets[i - 1] & sets[i] == 0 else 0.5 for i in starts)


def _reaching(base: Sets, found: Sets) -> Sets:
    """``base``, with each set kept on from batch to batch, to both sides, for as long as ``found`` lies within it."""
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
