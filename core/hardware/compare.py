"""Many cards against one measured CPU: crossover, speed-up, cost and limiting factor of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from core.hardware.catalogue import CardPrice, GpuSpec
from core.hardware.conditions import USUAL, Build, Conditions
from core.hardware.constants import PEAKS
from core.hardware.crossing import ModelledCrossover, ModelledSpeedUp, cross, speed_up
from core.hardware.host import HostCosts
from core.hardware.interval import Modelled
from core.hardware.model import Limit, attends_in_one_kernel, peaks_of, rate_of, runs_as
from core.hardware.op_table import step_table
from core.hardware.plausible import card_curve
from core.hardware.recorded import CardCurve, RecordedStep, Recording
from core.schema import UserError
from core.spec import Target, Workload, geometric_grid
from core.studies.sweep.answer import Answer
from core.studies.sweep.best_cpu import rank_cpus
from core.studies.sweep.record import Run

GPU = Target(device="gpu:0")
PER_OCTAVE = 2.0
SAMPLES = 1e6
MS_PER_HOUR = 3.6e6
LARGE_BATCH = 4096

SortKey = Literal["crossover", "speed_up", "cost"]


@dataclass(frozen=True)
class CardCost:
    """Cost of a million samples at one batch, with the interval of the step time, at a price per hour."""

    batch: int
    per_million: float
    low: float
    high: float
    price: CardPrice
    label: Literal["modelled", "measured", "recorded"]


@dataclass(frozen=True)
class Limited:
    """The part of the step that is the largest over a range of batches."""

    first: int
    last: int
    by: Limit


@dataclass(frozen=True)
class CardReading:
    """One row of the table. ``step`` is at the chosen batch; ``withheld`` explains a missing number, else empty."""

    spec: GpuSpec
    curve: CardCurve
    crossover: ModelledCrossover
    step: Modelled | RecordedStep | None
    speed_up: ModelledSpeedUp | None
    cost: CardCost | None
    limits: tuple[Limited, ...]
    withheld: str
    label: Literal["modelled"] = "modelled"


@dataclass(frozen=True)
class RooflinePoint:
    """One batch in the roofline chart (Williams et al. 2009): FLOP per byte of memory traffic, and TFLOP/s.

    ``attainable`` is the lower of peak rate and bandwidth times intensity; ``reached`` follows from the step time,
    whose label it carries, with its 95 % interval.
    """

    batch: int
    intensity: float
    attainable_tflops: float
    reached_tflops: float
    low_tflops: float
    high_tflops: float
    label: Literal["modelled", "measured", "recorded"]


def compare(
    run: Run,
    answer: Answer,
    cards: Iterable[GpuSpec],
    costs: HostCosts,
    batch: int,
    prices: Mapping[str, CardPrice] | None = None,
    *,
    index: int = 0,
    target: Target = GPU,
    conditions: Conditions = USUAL,
    recordings: Sequence[Recording] = (),
    key: SortKey = "crossover",
    currency: str | None = None,
) -> tuple[CardReading, ...]:
    """Compare every card with the run's measured target ``index``, sorted by ``key``, withheld cards last.

    Args:
        batch: The chosen batch, at which step, speed-up and cost are taken.
        currency: If given, prices in any other currency yield no cost.

    Raises:
        UserError: The run has no plan, so its workload is unknown.
    """
    if run.plan is None:
        raise UserError("Only points were imported for this run; without its plan there is no workload to model.")
    batches = batches_between(answer, index, batch)
    found = []
    for spec in cards:
        curve = card_curve(spec, run.plan.workload, target, batches, costs, conditions, recordings)
        price = (prices or {}).get(spec.name, spec.price)
        if currency is not None and price is not None and price.currency != currency:
            price = None
        found.append(_reading(run, answer, spec, curve, batch, price, index))
    return sort_readings(found, key)


def cpu_index(run: Run, answer: Answer) -> int | None:
    """Return the index of the CPU target that a card is compared with: the best of several, or None without any."""
    ranking = rank_cpus(run, answer)
    return None if ranking is None else ranking.best


def batches_between(answer: Answer, index: int, *more: int) -> tuple[int, ...]:
    """Return two batches per doubling over the range measured on a target, with those measured and ``more``."""
    measured = [cell.batch for cell in answer.cells if cell.target == index]
    if not measured:
        return tuple(sorted(set(more)))
    return tuple(sorted({*geometric_grid(min(measured), max(measured), PER_OCTAVE), *measured, *more}))


def sort_readings(readings: Iterable[CardReading], key: SortKey) -> tuple[CardReading, ...]:
    """Sort by rising crossover, falling speed-up or rising cost; cards without it follow, withheld ones come last."""
    return tuple(sorted(readings, key=lambda one: (_place(one, key), one.crossover.high or math.inf, one.spec.name)))


def _place(one: CardReading, key: SortKey) -> tuple[int, float]:
    if one.withheld:
        return 3, 0.0
    if key == "speed_up":
        return (0, -one.speed_up.ratio) if one.speed_up is not None else (2, 0.0)
    if key == "cost":
        return (0, one.cost.per_million) if one.cost is not None else (2, 0.0)
    crossing = one.crossover
    if crossing.kind == "gpu ahead throughout":
        return 0, 0.0
    if crossing.batch is not None:
        return 0, crossing.batch
    return (1, crossing.low or math.inf) if crossing.kind == "not resolved" else (2, 0.0)


def _reading(
    run: Run, answer: Answer, spec: GpuSpec, curve: CardCurve, batch: int, price: CardPrice | None, index: int
) -> CardReading:
    crossover = cross(run, answer, curve, index)
    step = next((point for point in curve.known if point.batch == batch), None)
    return CardReading(
        spec=spec,
        curve=curve,
        crossover=crossover,
        step=step,
        speed_up=speed_up(answer, curve, batch, index),
        cost=cost_of(step, price) if step is not None and price is not None else None,
        limits=limits_of(curve),
        withheld=crossover.sentence.removeprefix("Modelled: ") if crossover.kind == "withheld" else "",
    )


def cost_of(step: Modelled | RecordedStep, price: CardPrice) -> CardCost:
    """Return the cost of a million samples in the price's currency."""
    each = price.per_hour / MS_PER_HOUR * SAMPLES / step.batch
    low_ms, high_ms = step.low_ms or step.step_ms, step.high_ms or step.step_ms
    return CardCost(step.batch, each * step.step_ms, each * low_ms, each * high_ms, price, step.label)


def limits_of(curve: CardCurve) -> tuple[Limited, ...]:
    """Return the ranges of batches over which the same part of the step is the largest."""
    groups = ((by, list(points)) for by, points in groupby(curve.known, key=lambda point: point.limited_by))
    return tuple(Limited(points[0].batch, points[-1].batch, by) for by, points in groups)


def roofline(
    spec: GpuSpec, workload: Workload, target: Target, curve: CardCurve, build: Build
) -> tuple[RooflinePoint, ...]:
    """Return one roofline point for each batch of ``curve`` that has a number."""
    found = []
    peak_tflops = roof_of(spec, workload, target)
    for point in curve.known:
        flash = attends_in_one_kernel(spec, build)
        ops = step_table(workload, runs_as(workload, target, build), point.batch, build, flash)
        flops, moved = float(ops.flops.sum()), float(ops.bytes.sum())
        if flops <= 0 or moved <= 0:
            continue
        bounds = [flops / ms * 1e-9 for ms in (point.step_ms, point.high_ms, point.low_ms) if ms is not None]
        reached, low, high = bounds if len(bounds) == 3 else (bounds[0],) * 3
        attainable = min(peak_tflops, flops / moved * spec.bandwidth_gb_s * 1e-3)
        found.append(RooflinePoint(point.batch, flops / moved, attainable, reached, low, high, point.label))
    return tuple(found)


def roof_of(spec: GpuSpec, workload: Workload, target: Target) -> float:
    """Return the peak rate in TFLOP/s of the operation with the most arithmetic at a large batch."""
    ops = step_table(workload, target, LARGE_BATCH, "keras")
    peaks = peaks_of(spec, target.precision, ops)
    return rate_of(spec, PEAKS[peaks[int(ops.flops.argmax())]])
