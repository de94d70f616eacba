"""Choice of target and batch, and a test that no other target does better at its own best batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from core.analysis.statistics import Array
from core.batch.shapes import BestBatch, Choice, Quantity, TargetBatches
from core.batch.times import StepCurve, log_times, over_best, product
from core.studies.gradient_noise.answer import TrainingNoise


def choose(
    targets: Sequence[TargetBatches], curves: Mapping[str, StepCurve], noise: TrainingNoise | None
) -> Choice | None:
    """Choose by the time to a loss if a noise study provides it, else by throughput; None if no batch fits.

    ``curves`` by target name.
    """
    timed = [target for target in targets if target.best_time is not None]
    if noise is not None and timed:
        return _fastest_to_loss(timed, curves, noise)
    known = [target for target in targets if target.best_throughput is not None]
    return _most_samples(known) if known else None


def _fastest_to_loss(targets: Sequence[TargetBatches], curves: Mapping[str, StepCurve], noise: TrainingNoise) -> Choice:
    def log_time(target: TargetBatches) -> float:
        curve = curves[target.name]
        return float(log_times(noise, curve)[0][_index(curve, target.best_time)])

    winner, *others = sorted(targets, key=log_time)
    curve = curves[winner.name]
    at = _index(curve, winner.best_time)
    bounds = (over_best(noise, curve, curves[one.name], _fitting(one)).high[at] for one in others)
    clear = all(bound < 0 for bound in bounds)
    assert winner.best_time is not None
    return Choice(winner.name, winner.best_time.batch, "time", clear)


def _most_samples(targets: Sequence[TargetBatches]) -> Choice:
    def rate(target: TargetBatches) -> float:
        return samples_per_s(target).value

    winner, *others = sorted(targets, key=rate, reverse=True)
    mine = samples_per_s(winner)
    ratios = [product(mine, samples_per_s(other).inverse()) for other in others]
    clear = all(ratio.low is not None and ratio.low > 1 for ratio in ratios)
    assert winner.best_throughput is not None
    return Choice(winner.name, winner.best_throughput.batch, "throughput", clear)


def samples_per_s(target: TargetBatches) -> Quantity:
    """Return the throughput at the target's best batch, which must exist."""
    best = target.best_throughput
    return next(point.samples_per_s for point in target.points if best and point.batch == best.batch)


def _fitting(target: TargetBatches) -> Array:
    return np.asarray([point.fits is not False for point in target.points])


def _index(curve: StepCurve, best: BestBatch | None) -> int:
    assert best is not None
    return int(np.flatnonzero(curve.batches == best.batch)[0])
