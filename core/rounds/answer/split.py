"""A batch divided between two targets that run at once: the best split, and a bound on its gain. Pure.

A split gives each target some samples of the batch, and its step takes as long as the slower of the two parts. Both
times come from the measured curves: log step time linear in log2(batch) between measured batches, never beyond them.
The costs of running together (synchronising, summing gradients, shared cores and memory) are left out, so the gain is a
bound. Not dividing is one of the splits: the best one is never slower than the faster target alone.

With l the log step time of a target i that computes the whole batch B, and of a target s that computes its part b_s of
split k, the log gain is g = max over k of min over i and s of l_i(B) − l_s(b_s). It rises with each of the differences,
so its bounds are the same maximum of minima over theirs (intersection-union, Berger 1982). That holds also where
another difference becomes the least, at a crossover or where whole numbers of samples lie far apart, where a bootstrap
or a derivative would fail; elsewhere it is wider than necessary.

A difference has a t interval over the starts that measured both, if there are three or more. Otherwise the interval is
combined from those of both step times, as if none of their noise cancelled (MOVER, Zou and Donner 2008). Between
measured batches the bend of the curve is added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.analysis.statistics import MIN_UNITS, Array, estimate_columns
from core.base.numbers import bounded, counted, number
from core.base.text import sentence_case
from core.rounds.answer.answer import SpeedUp
from core.rounds.answer.crossover import bend_of
from core.rounds.answer.fastest import margin_of
from core.rounds.answer.observations import ALPHA, Observations, observe_both
from core.rounds.run import Run

MOST_SPLITS = 2_049
"""Most splits of one batch to compare: evenly spread, they miss the step time of the best by a 4,000th at most."""


@dataclass(frozen=True)
class Split:
    """One batch and its best split: ``samples`` of either target (0 if not dividing is best) and the predicted step
    time (ms).

    ``alone``: which of the two, 0 or 1, is faster with the whole batch. ``best`` and ``even`` bound the speed-up of the
    best split and of halves over the faster target alone.
    """

    batch: int
    samples: tuple[int, int]
    step_ms: float
    alone: int
    best: SpeedUp
    even: SpeedUp


@dataclass(frozen=True)
class Together:
    """Splits between two ``targets`` (indices), for every measured batch of which each can have a measured share,
    rising.

    ``most`` is the largest speed-up of the best splits that have an interval; its interval holds for the largest of
    them.
    """

    targets: tuple[int, int]
    splits: tuple[Split, ...]
    most: SpeedUp

    @property
    def with_interval(self) -> tuple[Split, ...]:
        return tuple(split for split in self.splits if split.best.low is not None)


def together(run: Run) -> Together | None:
    """Return the splits for a CPU and an accelerator that one program could use at once.

    Of several such pairs it takes the one with the highest throughput at its largest batch. None if no such pair has
    two measured parts of a batch. Raises UserError if the run has more rounds than any sweep makes.
    """
    pairs = [best_splits(run, *pair) for pair in pairs_of(run)]
    return max((pair for pair in pairs if pair is not None), key=_samples_per_ms, default=None)


def pairs_of(run: Run) -> tuple[tuple[int, int], ...]:
    """Return pairs of a CPU target and one of other hardware, by number, that compute the same network alike.

    Targets on the same hardware cannot run at once, one framework sums the gradients, and int8 gives other outputs.
    Each is one device: several divide every batch evenly among them.
    """
    if run.plan is None:
        return ()
    targets, training = list(enumerate(run.plan.targets)), run.plan.workload.training
    return tuple(
        (first, second)
        for first, on_cpu in targets
        for second, other in targets
        if on_cpu.on_cpu and not other.on_cpu and on_cpu.replicas == other.replicas == 1
        if (on_cpu.precision == "int8") == (other.precision == "int8")
        if not training or on_cpu.framework == other.framework
    )


def best_splits(run: Run, first: int, second: int) -> Together | None:
    """Return the splits of two targets by number, whatever their hardware; None if no batch can be divided into two
    measured parts.

    Raises UserError if the run has more rounds than any sweep makes.
    """
    curves = tuple(map(_Curve, observe_both(run, first, second)))
    batches = [int(batch) for batch in curves[0].batches if batch >= 2 * curves[0].batches[0]]
    if not batches:
        return None
    least = int(curves[0].batches[0])
    every = [_Ways.of(curves, batch, _whole_splits(batch, least)) for batch in batches]
    halves = [_Ways.of(curves, batch, np.array([[batch - batch // 2], [batch // 2]])) for batch in batches]
    best, even = ([way.speed_up(_half_widths(curves, way, ALPHA)) for way in ways] for ways in (every, halves))
    splits = tuple(way.split(_or_alone(b), e) for way, b, e in zip(every, best, even, strict=True))
    alpha = ALPHA / max(1, sum(estimate.low is not None for estimate in best))
    lower = [way.speed_up(_half_widths(curves, way, alpha)) for way in every]
    return Together((first, second), splits, _largest([split.best for split in splits], lower))


def _whole_splits(batch: int, least: int) -> Array:
    """Return [target, way]: whole numbers of samples, ``least`` or more for either."""
    first = np.unique(np.round(np.linspace(least, batch - least, min(batch - 2 * least + 1, MOST_SPLITS))))
    return np.stack([first, batch - first])


def _or_alone(speed_up: SpeedUp) -> SpeedUp:
    """Bound a speed-up below by 1, since not dividing the batch is always possible."""
    low, high = (None if end is None else max(1.0, end) for end in (speed_up.low, speed_up.high))
    return SpeedUp(speed_up.batch, max(1.0, speed_up.ratio), low, high)


def _largest(best: Sequence[SpeedUp], lower: Sequence[SpeedUp]) -> SpeedUp:
    """Return the largest of several estimates. Its upper bound needs no correction: the truly largest one exceeds its
    own with 2.5 % only. The bounds of ``lower`` hold simultaneously.
    """
    known = [estimate for estimate in best if estimate.high is not None]
    top = max(known or best, key=lambda estimate: estimate.ratio)
    lows, highs = ([end for estimate in of if (end := getattr(estimate, name)) is not None] for of, name in
                   ((lower, "low"), (known, "high")))  # fmt: skip
    return SpeedUp(top.batch, top.ratio, max(1.0, *lows) if known else None, max(highs) if known else None)


def _samples_per_ms(together: Together) -> float:
    return together.splits[-1].batch / together.splits[-1].step_ms


@dataclass(frozen=True)
class _Curve:
    """Log step times of one target, by start of the workers."""

    seen: Observations

    @property
    def batches(self) -> Array:
        return self.seen.batches

    @property
    def middle(self) -> Array:
        return self.seen.estimate.center

    def at(self, samples: Array) -> Array:
        return np.interp(np.log2(samples), self.seen.x, self.middle)

    def bend(self, samples: Array) -> Array:
        return bend_of(self.seen.x, self.middle, np.log2(samples))

    def of_starts(self, samples: float) -> Array:
        """Return each start's value at ``samples``, interpolated between its batches; NaN if it has none."""
        x, values, at = self.seen.x, self.seen.values, math.log2(samples)
        right = min(int(np.searchsorted(x, at)), len(x) - 1)
        if x[right] == at:
            return np.asarray(values[:, right])
        weight = (at - x[right - 1]) / (x[right] - x[right - 1])
        return np.asarray((1 - weight) * values[:, right - 1] + weight * values[:, right])

    def half_width(self, samples: float, alpha: float) -> float:
        """Return half of the 1 − alpha interval of the log step time at ``samples``, the wider of the neighbouring
        batches'.
        """
        half = self.seen.estimate.half_width(alpha)
        right = min(int(np.searchsorted(self.batches, samples)), len(half) - 1)
        exact = self.batches[right] == samples
        return float(half[right] if exact else half[right - 1 : right + 1].max())


Curves = tuple[_Curve, ...]


@dataclass(frozen=True)
class _Ways:
    """Ways to divide one batch. ``whole``: its log step time on either target; [target, way]: ``samples``, the log step
    times of those ``parts``, and their possible error between measured batches (``bends``).
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
        """Samples of either target in the split whose slower part is the fastest."""
        return np.asarray(self.samples[:, np.argmin(self.parts.max(axis=0))])

    def speed_up(self, widths: Array) -> SpeedUp:
        """Return the speed-up over the faster target alone: the most over ways of the least over [whole, part].
        ``widths`` are half widths of the differences.
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


def _half_widths(curves: Curves, way: _Ways, alpha: float) -> Array:
    """Return [whole, part]: half the 1 − alpha interval of log(time of all on one / time of a part) for the fastest
    way.
    """
    parts = list(zip(curves, way.fastest, strict=True))
    return np.array([
        [_half_width(whole, way.batch, part, float(samples), alpha) for part, samples in parts] for whole in curves
    ])  # fmt: skip


def _half_width(whole: _Curve, batch: int, part: _Curve, samples: float, alpha: float) -> float:
    differences = whole.of_starts(batch) - part.of_starts(samples)
    known = differences[~np.isnan(differences)]
    if len(known) < MIN_UNITS:
        return math.hypot(whole.half_width(batch, alpha), part.half_width(samples, alpha))
    own = estimate_columns(known[:, None], trimmed=False)
    # the curves also use other starts, so their difference may deviate from these
    other = float(whole.at(np.array([batch]))[0] - part.at(np.array([samples]))[0] - own.center[0])
    return float(own.half_width(alpha)[0]) + abs(other)


WHY_A_BOUND = (
    "A bound, predicted from the two curves, which were measured one at a time: waiting for each other and summing "
    "gradients costs more, and so do the cores and the memory that a GPU's program shares with the CPU."
)
BEFORE = "before what synchronising costs"
NOTHING = 1.0005
"""Speed-ups below it are shown as 0 %."""


def split_lines(run: Run, together: Together) -> tuple[str, ...]:
    """Tell whether dividing a batch between two targets is worth it, with the bound on the gain and its interval, and
    the gain of halves. The plan's margin decides.
    """
    if not together.with_interval:
        return (f"Too few rounds for an interval, so nothing is said of {_both(run, together)} at once.",)
    return _worth(run, together), *_halves(run, together), *_narrower(run, together)


def _worth(run: Run, together: Together) -> str:
    margin, most, both = margin_of(run, None), together.most, _both(run, together)
    assert most.low is not None
    assert most.high is not None
    where = " to ".join(dict.fromkeys(f"{together.with_interval[end].batch:,}" for end in (0, -1)))
    if len(together.with_interval) < len(together.splits):
        where += "; too few rounds at others"
    if most.high < 1 + margin:
        by, interval = "faster", "95 %"
        if most.high >= NOTHING:
            by = f"more than {_percent(most.high)} faster"
            interval = f"estimated {_percent(most.ratio)}, 95 % interval {_interval(most)}"
        return (
            f"Not worth it: at no measured batch size ({where}) could {both} together be {by} than the faster of them "
            f"alone ({interval}), {BEFORE}."
        )
    split = next(split for split in together.splits if split.batch == most.batch)
    at = f" at batch {split.batch:,} with {samples_words(run, together, split)}" if min(split.samples) else ""
    alone = run.names[together.targets[split.alone]]
    gain = (
        f"{both} together could be at most {_percent(most.ratio)} faster than {alone} "
        f"alone (95 % interval {_interval(most)}){at}, {BEFORE}"
    )
    if most.low >= 1 + margin:
        return f"{sentence_case(gain)}."
    return f"Not clear whether it is worth it: {gain}; {_percent(1 + margin)} is the margin."


def _halves(run: Run, together: Together) -> tuple[str, ...]:
    """Describe the gain of halves at the largest batch that has an interval, which is not selected by its result."""
    bounded_splits = (split for split in reversed(together.splits) if split.even.low is not None)
    split = next(bounded_splits, together.splits[-1])
    if split.even.low is None or split.even.high is None:
        return ()
    times = bounded(1 / split.even.ratio, 1 / split.even.high, 1 / split.even.low)
    value, bracket, bounds = times.partition(" (")
    return (
        f"Halves, as MirroredStrategy and DataParallel divide a batch, would take {value}×{bracket}{bounds} as long as "
        f"{run.names[together.targets[split.alone]]} alone at batch {split.batch:,}, {BEFORE}.",
    )


def _narrower(run: Run, together: Together) -> tuple[str, ...]:
    """Recommend a measurement if the gain is unclear: a sweep with a crossover hardly returns to other batch sizes."""
    low, worth, high = together.most.low or 1.0, 1 + margin_of(run, None), together.most.high or 1.0
    below = [split.batch for split in together.splits if split.alone != together.splits[-1].alone]
    above = [split.batch for split in together.splits if split.batch > max(below, default=math.inf)]
    if not low < worth <= high or not above:
        return ()
    return (
        f"A sweep of batch sizes above the crossover alone, from {above[0]:,} on, would narrow the interval: this one "
        "spent its time near the crossover.",
    )


def split_fields(run: Run, together: Together) -> dict[str, object]:
    """Return targets by their notation and speed-ups over the faster target alone, with bounds None without an
    interval.
    """
    return {
        "targets": [run.target_names[target] for target in together.targets],
        "speed_up": {"batch": together.most.batch, **_value(together.most)},
        "splits": [
            {"batch": s.batch, "samples": list(s.samples), "speed_up": _value(s.best), "halves": _value(s.even)}
            for s in together.splits
        ],
    }


def samples_words(run: Run, together: Together, split: Split) -> str:
    """Return ``12 samples on the CPU and 116 on GPU 0``, or ``all of it on GPU 0``."""
    (first, second), (first_name, second_name) = split.samples, (run.names[target] for target in together.targets)
    if not first or not second:
        return f"all of it on {first_name if first else second_name}"
    return f"{counted(first, 'sample')} on {first_name} and {second:,} on {second_name}"


def _both(run: Run, together: Together) -> str:
    return " and ".join(run.names[target] for target in together.targets)


def _value(speed_up: SpeedUp) -> dict[str, float | None]:
    return {"value": speed_up.ratio, "low": speed_up.low, "high": speed_up.high}


def _percent(ratio: float) -> str:
    return f"{number(round(100 * (ratio - 1), 1))} %"


def _interval(speed_up: SpeedUp) -> str:
    assert speed_up.low is not None
    assert speed_up.high is not None
    return f"{number(round(100 * (speed_up.low - 1), 1))} to {_percent(speed_up.high)}"
