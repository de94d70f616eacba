"""Analysis for the choice of batch: throughput, time to a loss and cost by batch on every target of a run.

At equal batch all targets need the same steps, so the batch at which two of them reach a loss equally soon *is* the
crossover in step time. A choice of batch needs another crossover: the batch from which a target reaches the loss faster
than the other does at its own best batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.analysis.numerics import Array, zero_between
from core.base.schema import UserError
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.studies.batch.cost import cost_answers, cost_of
from core.studies.batch.export import loss_sentence, sentences
from core.studies.batch.shapes import (
    MAX_EPOCH_SAMPLES,
    NEAR_BEST,
    BatchAnswer,
    BatchPoint,
    BestBatch,
    Choice,
    Edge,
    LossCrossover,
    MemoryLimit,
    Price,
    Quantity,
    TargetBatches,
    check_prices,
)
from core.studies.batch.times import Ratios, StepCurve, log_times, over_best, product, step_curve, steps_at
from core.studies.memory.forecast import forecast, same_machine
from core.studies.memory.record import MemoryStudy
from core.studies.noise.answer import TrainingNoise, training_noise
from core.studies.noise.record import NoiseStudy
from core.workload.spec import MAX_BATCH, MIN_BATCH


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
    bounds = (over_best(noise, curve, curves[other.name], _fitting(other)).high[at] for other in others)
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


MILLION = 1_000_000


@dataclass(frozen=True)
class _Target:
    """One target with the inputs of its points. ``allowed`` marks the batches that fit into memory."""

    index: int
    name: str
    title: str
    curve: StepCurve
    memory: MemoryLimit | None
    price: Price | None

    @property
    def allowed(self) -> Array:
        most = np.inf if self.memory is None else self.memory.largest
        return np.asarray(self.curve.batches <= most)


def batch_answer(
    run: Run,
    answer: Answer,
    noise: NoiseStudy | None = None,
    memory: Mapping[str, MemoryLimit] | None = None,
    prices: Sequence[Price] = (),
    epoch_samples: int | None = None,
) -> BatchAnswer:
    """Return the answer for a finished run.

    Targets without a measured batch are left out.

    Args:
        memory: memory limits by target name.
        epoch_samples: number of samples in an epoch.

    Raises UserError if no target has a measured batch, prices do not fit the run, or the noise study is of another
    workload.
    """
    check_prices(prices, run.target_names)
    if epoch_samples is not None and not 1 <= epoch_samples <= MAX_EPOCH_SAMPLES:
        raise UserError(f"An epoch of {epoch_samples:,} samples is not possible; accepted are 1 to 10^12.")
    if noise is not None and run.plan is not None and noise.plan.workload != run.plan.workload:
        raise UserError(f"This noise study is of {noise.plan.workload.title}, the run of {run.plan.workload.title}.")
    training = None if noise is None else training_noise(noise)
    every = [_target(run, answer, index, memory or {}, prices) for index in range(len(run.target_names))]
    known = [target for target in every if target is not None]
    if not known:
        raise UserError("No target has a measured batch in this run.")
    targets = tuple(_batches(target, training, epoch_samples) for target in known)
    crossovers = _loss_crossovers(training, known, targets)
    costs = cost_answers(run, prices)
    taught = noise is not None and noise.plan.data is None
    choice = choose(targets, {target.name: target.curve for target in known}, training)
    return BatchAnswer(
        targets=targets,
        step_verdict=answer.verdict,
        noise=training,
        loss_crossovers=crossovers,
        costs=costs,
        epoch_samples=epoch_samples,
        label=run.label,
        sentences=sentences(run, answer, targets, training, choice, crossovers, costs, taught=taught),
        choice=choice,
        warnings=() if noise is None else noise.warnings,
    )


def _target(
    run: Run, answer: Answer, index: int, memory: Mapping[str, MemoryLimit], prices: Sequence[Price]
) -> _Target | None:
    name = run.target_names[index]
    cells = [cell for cell in answer.cells if cell.target == index]
    curve = step_curve(cells, answer.fits[index], run.label)
    if curve is None:
        return None
    title = run.names[index]
    return _Target(
        index, name, title, curve, memory.get(name), next((price for price in prices if price.target == name), None)
    )


def _batches(target: _Target, noise: TrainingNoise | None, epoch_samples: int | None) -> TargetBatches:
    relative = None
    if noise is not None and noise.value is not None and target.allowed.any():
        relative = over_best(noise, target.curve, target.curve, target.allowed)
    points = tuple(_point(target, index, noise, relative, epoch_samples) for index in range(len(target.curve.batches)))
    return TargetBatches(
        index=target.index,
        name=target.name,
        title=target.title,
        points=points,
        memory=target.memory,
        best_throughput=_best(points, target, np.array([1 / point.samples_per_s.value for point in points])),
        best_time=None if relative is None else _best(points, target, np.exp(relative.center)),
        price=target.price,
    )


def _point(
    target: _Target, index: int, noise: TrainingNoise | None, relative: Ratios | None, epoch_samples: int | None
) -> BatchPoint:
    batch, step_ms = int(target.curve.batches[index]), target.curve.step_ms(index)
    us_per_sample = step_ms.times(1000 / batch)
    steps = None if noise is None else steps_at(noise, batch)
    time_s = None if steps is None else product(steps, step_ms.times(1e-3))
    price = target.price
    million_s = us_per_sample.times(MILLION * 1e-6)
    per_million = None if price is None else cost_of(million_s, price)
    per_epoch = None if per_million is None or epoch_samples is None else per_million.times(epoch_samples / MILLION)
    return BatchPoint(
        batch=batch,
        label=target.curve.labels[index],
        step_ms=step_ms,
        samples_per_s=us_per_sample.inverse(1e6),
        us_per_sample=us_per_sample,
        fits=None if target.memory is None else bool(target.allowed[index]),
        steps=steps,
        time_s=time_s,
        relative_time=None if relative is None else relative.at(index),
        cost_per_million=per_million,
        cost_per_epoch=per_epoch,
        cost_to_loss=None if price is None or time_s is None else cost_of(time_s, price),
    )


def _best(points: Sequence[BatchPoint], target: _Target, cost: Array) -> BestBatch | None:
    """Return the batch with the lowest ``cost`` within memory, and its neighbours within 5 %."""
    allowed = int(target.allowed.sum())  # points are sorted by batch, so these are the first ones
    if not allowed:
        return None
    best = int(np.argmin(cost[:allowed]))
    near = cost[:allowed] <= (1 + NEAR_BEST) * cost[best]
    first, last = best, best
    while first > 0 and near[first - 1]:
        first -= 1
    while last + 1 < allowed and near[last + 1]:
        last += 1
    edge: Edge | None = None
    if best == allowed - 1:
        edge = "largest" if allowed == len(points) else "memory"
    elif best == 0:
        edge = "smallest"
    return BestBatch(points[best].batch, points[first].batch, points[last].batch, points[best].label, edge)


def _loss_crossovers(
    noise: TrainingNoise | None, known: Sequence[_Target], targets: Sequence[TargetBatches]
) -> tuple[LossCrossover, ...]:
    """Compare each target with the baseline at its best; for two targets also the baseline with the other."""
    if noise is None or noise.value is None:
        return ()
    crossovers = []
    others = [(mine, 0) for mine in range(1, len(known))]
    for mine, other in [*others, (0, 1)] if len(known) == 2 else others:
        best = targets[other].best_time
        if best is not None and known[mine].allowed.any():
            crossovers.append(_loss_crossover(noise, known[mine], known[other], best.batch))
    return tuple(crossovers)


def _loss_crossover(noise: TrainingNoise, mine: _Target, other: _Target, other_best: int) -> LossCrossover:
    ratios = over_best(noise, mine.curve, other.curve, other.allowed)
    within = mine.allowed
    x = np.log2(mine.curve.batches[within])
    center, low, high = (values[within] for values in (ratios.center, ratios.low, ratios.high))
    start, end = _ahead(x, center)
    earliest, latest = _ahead(x, low)[0], _ahead(x, high)[0]
    batch, until = _batch(start), _batch(end)
    bounds = (None, None) if start is None else (_batch(earliest), _batch(latest))
    shown = LossCrossover(mine.name, other.name, other_best, batch, *bounds, until, "")
    reach = (float(mine.curve.batches[within][0]), float(mine.curve.batches[within][-1]))
    return dataclasses.replace(
        shown, sentence=loss_sentence(shown, (mine.title, other.title), reach, earliest is not None)
    )


def _batch(x: float | None) -> float | None:
    return None if x is None else 2.0**x


def _ahead(x: Array, y: Array) -> tuple[float | None, float | None]:
    """Return the points at which the piecewise linear y first is at or below zero and then rises above it (None:
    nowhere).
    """
    below = np.flatnonzero(y <= 0)
    if len(below) == 0:
        return None, None
    first = int(below[0])
    start = float(x[0]) if first == 0 else zero_between(x, y, first - 1)
    after = np.flatnonzero(y[first:] > 0)
    return start, None if len(after) == 0 else zero_between(x, y, first + int(after[0]) - 1)


def limit_of(study: MemoryStudy, earlier: Sequence[MemoryStudy]) -> MemoryLimit:
    """Return a tried target's limit, between the largest batch that fitted and the smallest that ran out of memory.

    If one of them is missing, it is predicted from the tried batches and the ``earlier`` studies.
    """
    fitted, refused, plan = study.largest_fitted, study.smallest_refused, study.plan
    if refused is not None and (fitted is not None or refused == MIN_BATCH):
        return MemoryLimit(fitted or 0, fitted or 0, refused - 1, study.label, plan.limit_bytes)
    if fitted == MAX_BATCH:
        return MemoryLimit(MAX_BATCH, label=study.label, limit_bytes=plan.limit_bytes)
    others = [other for other in same_machine(earlier, study.environment) if other != study]
    largest = forecast(plan.workload, plan.target, others, study.probes).largest(plan.limit_bytes)
    middle, low, high = (min((refused or MAX_BATCH + 1) - 1, max(fitted or 0, batch)) for batch in largest)
    return MemoryLimit(middle, low, high, limit_bytes=plan.limit_bytes)
