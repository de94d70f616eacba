"""A batch divided between two targets that run at once: the best split, and a bound on what it gains. Pure.

A split gives each target some samples of the batch, and its step takes as long as the slower of the two parts. Both
times come from the measured curves: log step time linear in log2(batch) between measured batches, never beyond them.
What the targets cost each other (synchronising, summing gradients, cores and memory that they share) is not in it, so
that the gain is a bound. Not to divide is one of the splits: the best one is never slower than the faster target alone.

With l the log step time of a target i that computes the whole batch B, and of a target s that computes its part b_s of
split k, the log gain is g = max over k of min over i and s of l_i(B) − l_s(b_s). Each difference is a number that every
process measured, so it has a t interval; and g rises with each of them. Its bounds are therefore the same maximum of
minima over the bounds of the differences (intersection-union, Berger 1982). That holds also where another difference
becomes the least, at a crossover or where whole numbers of samples lie far apart, where a bootstrap or a derivative
would not; elsewhere it is wider than it need be. Between measured batches the bend of the curve is added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.analysis.statistics import Array, estimate_columns
from core.studies.sweep.answer import SpeedUp
from core.studies.sweep.crossover import ALPHA, STEPS, Smooth, bend_of, smooth
from core.studies.sweep.observations import Observations, observe, observe_each
from core.studies.sweep.record import Run

MOST_SPLITS = 2_049
"""Of one batch that are compared: evenly spread, they miss the step time of the best by a 4,000th at most."""


@dataclass(frozen=True)
class Split:
    """One batch and its best split: ``samples`` of either target (one has none where not to divide is the best) and
    the step time (ms) that both curves predict. ``alone``: which of the two, 0 or 1, is faster with all of it.

    ``best`` and ``even`` are how many times as fast the best split and halves are as the faster target alone, at most.
    """

    batch: int
    samples: tuple[int, int]
    step_ms: float
    alone: int
    best: SpeedUp
    even: SpeedUp


@dataclass(frozen=True)
class Together:
    """``targets`` by number; ``splits`` of every measured batch of which each can have a measured share, rising.

    ``most`` is the largest speed-up of a best split, whose interval holds for the largest of them all.
    """

    targets: tuple[int, int]
    splits: tuple[Split, ...]
    most: SpeedUp

    @property
    def has_interval(self) -> bool:
        return self.most.low is not None


def together(run: Run) -> Together | None:
    """Of a CPU and an accelerator that one program could train or predict on at once; of several such pairs the one
    with the highest throughput at its largest batch. None where no such pair has two measured parts of a batch.

    Raises UserError where the rounds are more than any sweep makes.
    """
    found = [best_splits(run, *pair) for pair in pairs_of(run)]
    return max((one for one in found if one is not None), key=_samples_per_ms, default=None)


def pairs_of(run: Run) -> tuple[tuple[int, int], ...]:
    """A CPU target and one of other hardware, by number, that compute the same network alike: targets on the same
    hardware cannot run at once, one framework sums the gradients, and int8 gives other outputs.
    """
    if run.plan is None:
        return ()
    targets, training = list(enumerate(run.plan.targets)), run.plan.workload.training
    return tuple(
        (first, second)
        for first, on_cpu in targets
        for second, other in targets
        if on_cpu.on_cpu and not other.on_cpu
        if (on_cpu.precision == "int8") == (other.precision == "int8")
        if not training or on_cpu.framework == other.framework
    )


def best_splits(run: Run, first: int, second: int) -> Together | None:
    """The same of two targets by number, whatever hardware they are on. None where no batch can be divided into two
    measured parts.

    Raises UserError where the rounds are more than any sweep makes.
    """
    curves = tuple(_Curve.of(table) for table in observe_each(run, first, second))
    least = min(curves[0].table.batches, default=math.inf)
    batches = [int(batch) for batch in curves[0].table.batches if batch >= 2 * least]
    if not batches:
        return None
    every = [_Ways.of(curves, batch, _whole_splits(batch, int(least))) for batch in batches]
    halves = [_Ways.of(curves, batch, np.array([[batch - batch // 2], [batch // 2]])) for batch in batches]
    allowance = observe(run, first, second).allowance
    of_best, of_halves = (_Differences.of(curves, ways, allowance) for ways in (every, halves))
    best, even = of_best.speed_ups(every, ALPHA), of_halves.speed_ups(halves, ALPHA)
    lows = [one.low for one in of_best.speed_ups(every, ALPHA / len(batches))]
    splits = tuple(way.split(_or_alone(b), e) for way, b, e in zip(every, best, even, strict=True))
    return Together((first, second), splits, _largest([split.best for split in splits], lows))


def _whole_splits(batch: int, least: int) -> Array:
    """[target, way]: whole numbers of samples, ``least`` or more for either."""
    first = np.unique(np.round(np.linspace(least, batch - least, min(batch - 2 * least + 1, MOST_SPLITS))))
    return np.stack([first, batch - first])


def _or_alone(found: SpeedUp) -> SpeedUp:
    """Not to divide the batch is always possible."""
    low, high = (None if end is None else max(1.0, end) for end in (found.low, found.high))
    return SpeedUp(found.batch, max(1.0, found.ratio), low, high)


def _largest(best: Sequence[SpeedUp], lows: Sequence[float | None]) -> SpeedUp:
    """Of several estimates the largest. Its upper bound needs no correction: the truly largest one passes its own with
    2.5 % alone. ``lows`` hold for all of them together.
    """
    top = max(best, key=lambda one: one.ratio)
    low, highs = [one for one in lows if one is not None], [one.high for one in best if one.high is not None]
    if min(len(low), len(highs)) < len(best):
        return SpeedUp(top.batch, top.ratio, None, None)
    return SpeedUp(top.batch, top.ratio, max(1.0, *low), max(highs))


def _samples_per_ms(found: Together) -> float:
    return found.splits[-1].batch / found.splits[-1].step_ms


@dataclass(frozen=True)
class _Curve:
    """Log step times of one target by unit and batch, and their middle by batch."""

    table: Observations
    middle: Array

    @classmethod
    def of(cls, table: Observations) -> _Curve:
        return cls(table, estimate_columns(table.values, trimmed=table.unit == "round").center)

    def at(self, samples: Array) -> Array:
        return np.interp(np.log2(samples), self.table.x, self.middle)

    def bend(self, samples: Array) -> Array:
        return bend_of(self.table.x, self.middle, np.log2(samples))

    def of_units(self, samples: float) -> Array:
        """What each unit measured there, or what lies between two of its times; NaN where it has none."""
        x, values, at = self.table.x, self.table.values, math.log2(samples)
        right = min(int(np.searchsorted(x, at)), len(x) - 1)
        if x[right] == at:
            return np.asarray(values[:, right])
        weight = (at - x[right - 1]) / (x[right] - x[right - 1])
        return np.asarray((1 - weight) * values[:, right - 1] + weight * values[:, right])


Curves = tuple[_Curve, ...]


@dataclass(frozen=True)
class _Ways:
    """Ways to divide one batch. ``whole``: log step time of it all on either target; [target, way]: ``samples``, the
    log step times of those ``parts``, and how far these may be off between measured batches (``bends``).
    """

    batch: int
    whole: Array
    samples: Array
    parts: Array
    bends: Array

    @classmethod
    def of(cls, curves: Curves, batch: int, samples: Array) -> _Ways:
        rows = list(zip(curves, samples, strict=True))
        whole = np.concatenate([curve.at(np.array([batch])) for curve in curves])
        parts, bends = (np.stack([getattr(curve, what)(row) for curve, row in rows]) for what in ("at", "bend"))
        return cls(batch, whole, samples, parts, bends)

    @property
    def fastest(self) -> Array:
        """The samples of either target by the way whose slower part is the fastest."""
        return np.asarray(self.samples[:, np.argmin(self.parts.max(axis=0))])

    def speed_up(self, widths: Array) -> SpeedUp:
        """Over the faster target alone: the most over ways of the least over [whole, part]. ``widths`` are half widths
        of the differences.
        """
        gains = self.whole[:, None, None] - self.parts[None]
        half = np.hypot(widths[:, :, None], self.bends[None])
        middle, low, high = (float(each.min(axis=(0, 1)).max()) for each in (gains, gains - half, gains + half))
        if not np.isfinite(widths).all():
            return SpeedUp(self.batch, math.exp(middle), None, None)
        return SpeedUp(self.batch, math.exp(middle), math.exp(low), math.exp(high))

    def split(self, best: SpeedUp, even: SpeedUp) -> Split:
        alone = int(np.argmin(self.whole))
        first, second = (int(samples) for samples in self.fastest)
        if best.ratio == 1.0:
            first, second = (self.batch, 0) if alone == 0 else (0, self.batch)
        return Split(self.batch, (first, second), math.exp(self.whole[alone]) / best.ratio, alone, best, even)


@dataclass(frozen=True)
class _Differences:
    """[whole][part]: log(time of a batch on target ``whole`` / time of the part of target ``part`` in its fastest way)
    by batch, with what their intervals are made of.
    """

    pairs: tuple[tuple[Smooth, ...], ...]

    @classmethod
    def of(cls, curves: Curves, ways: Sequence[_Ways], allowance: float) -> _Differences:
        batches = np.array([way.batch for way in ways], dtype=float)
        parts = [[curve.of_units(way.fastest[number]) for way in ways] for number, curve in enumerate(curves)]
        wholes = [[curve.of_units(batch) for batch in batches] for curve in curves]
        unit = curves[0].table.unit
        return cls(tuple(
            tuple(
                smooth(Observations(batches, np.stack(whole, axis=1) - np.stack(part, axis=1), unit, 0, allowance))
                for part in parts
            )
            for whole in wholes
        ))  # fmt: skip

    def speed_ups(self, ways: Sequence[_Ways], alpha: float) -> list[SpeedUp]:
        widths = np.array([[one.scatter(alpha)[::STEPS] for one in row] for row in self.pairs])
        return [way.speed_up(widths[:, :, at]) for at, way in enumerate(ways)]
