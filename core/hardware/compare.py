"""Many cards against one measured CPU: crossover, speed-up, cost and limiting factor of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from core.base.schema import UserError
from core.hardware.catalogue import CardPrice, GpuSpec
from core.hardware.constants import EXECUTIONS, PEAKS, PRECISIONS
from core.hardware.crossing import (
    ModelledCrossover,
    ModelledSpeedUp,
    cross,
    if_named,
    named_sentence,
    speed_up,
)
from core.hardware.curve import CardCurve, RecordedStep, Recording, card_curve, unnamed_conditions
from core.hardware.host import HostCosts, Modelling
from core.hardware.interval import Modelled, errors, family_of
from core.hardware.model import Limit, attends_in_one_kernel, modelled_as, peaks_of, rate_of, runs_as
from core.hardware.work import step_table
from core.networks.families import Network
from core.networks.families.own import Own
from core.rounds.answer.answer import Answer
from core.rounds.answer.best_cpu import LOOK, rank_cpus
from core.rounds.run import Run
from core.workload.lengths import written_lengths
from core.workload.spec import Target, Workload, geometric_grid

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
    index: int,
    cards: Iterable[GpuSpec],
    how: Modelling,
    batch: int,
    prices: Mapping[str, CardPrice] | None = None,
    *,
    recordings: Sequence[Recording] = (),
    key: SortKey = "crossover",
    currency: str | None = None,
) -> tuple[CardReading, ...]:
    """Compare every card with the run's measured target ``index``, sorted by ``key``, withheld cards last.

    Args:
        batch: The chosen batch, at which step, speed-up and cost are taken.
        currency: If given, prices in any other currency yield no cost.
    """
    batches = batches_between(answer, index, batch)
    readings = []
    for spec in cards:
        price = (prices or {}).get(spec.name, spec.price)
        if currency is not None and price is not None and price.currency != currency:
            price = None
        curve = card_curve(spec, how, batches, recordings)
        readings.append(_reading(run, answer, spec, curve, batch, price, index))
    return sort_readings(readings, key)


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
    return tuple(sorted(readings, key=lambda r: (_rank(r, key), r.crossover.high or math.inf, r.spec.name)))


def _rank(reading: CardReading, key: SortKey) -> tuple[int, float]:
    if reading.withheld:
        return 3, 0.0
    if key == "speed_up":
        return (0, -reading.speed_up.ratio) if reading.speed_up is not None else (2, 0.0)
    if key == "cost":
        return (0, reading.cost.per_million) if reading.cost is not None else (2, 0.0)
    crossover = reading.crossover
    if crossover.kind == "gpu ahead throughout":
        return 0, 0.0
    if crossover.batch is not None:
        return 0, crossover.batch
    return (1, crossover.low or math.inf) if crossover.kind == "not resolved" else (2, 0.0)


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


def roofline(spec: GpuSpec, how: Modelling, curve: CardCurve) -> tuple[RooflinePoint, ...]:
    """Return one roofline point for each batch of ``curve`` that has a number."""
    roofline_points = []
    peak_tflops = roof_of(spec, how)
    build = how.conditions.build
    target, flash = runs_as(how.workload, how.target, build), attends_in_one_kernel(spec, how.conditions)
    for point in curve.known:
        ops = step_table(how.workload, target, point.batch, build, flash)
        flops, moved = float(ops.flops.sum()), float(ops.bytes.sum())
        if flops <= 0 or moved <= 0:
            continue
        bounds = [flops / ms * 1e-9 for ms in (point.step_ms, point.high_ms, point.low_ms) if ms is not None]
        reached, low, high = bounds if len(bounds) == 3 else (bounds[0],) * 3
        attainable = min(peak_tflops, flops / moved * spec.bandwidth_gb_s * 1e-3)
        roofline_points.append(RooflinePoint(point.batch, flops / moved, attainable, reached, low, high, point.label))
    return tuple(roofline_points)


def roof_of(spec: GpuSpec, how: Modelling) -> float:
    """Return the peak rate in TFLOP/s of the operation with the most arithmetic at a large batch."""
    ops = step_table(how.workload, how.target, LARGE_BATCH, "keras")
    peaks = peaks_of(spec, how.target.precision, ops)
    return rate_of(spec, PEAKS[peaks[int(ops.flops.argmax())]])


@dataclass(frozen=True)
class Against:
    """A modelled card shown beside a run's measured curves, never in their place.

    ``crossovers``: one per measured CPU target, the CPU that
    is fastest at large batches first. ``speed_ups``: of the card over the run's first target, which is the base of the
    run's own speed-up. ``at_end``: the speed-up over the CPU of the first crossover, at the largest batch that both
    have. ``named``: a sentence on how much naming the build would change, or empty.
    """

    spec: GpuSpec
    how: Modelling
    curve: CardCurve
    crossovers: tuple[ModelledCrossover, ...]
    speed_ups: tuple[ModelledSpeedUp, ...]
    at_end: ModelledSpeedUp | None
    named: str = ""
    label: Literal["modelled"] = "modelled"

    @property
    def settings(self) -> str:
        """The way in which the card is modelled to run, in words."""
        return modelled_as(self.spec, self.how.workload, self.how.target)

    @property
    def crossover(self) -> ModelledCrossover:
        """The crossover with the CPU that is fastest at large batches."""
        return self.crossovers[0]


def compared_with(run: Run, answer: Answer) -> int:
    """Return the index of the run's CPU target that a card is compared with.

    Raises:
        UserError: The run has no plan, or no measured CPU target.
    """
    if run.plan is None:
        raise UserError("Only points were imported for this run; without its plan there is no workload to model.")
    index = cpu_index(run, answer)
    if index is None:
        raise UserError("No CPU target of this run was measured, so there is nothing to set a modelled GPU against.")
    return index


def network_flag(network: Network) -> str:
    """Return the flag by which a command takes the network."""
    return "--architecture FILE" if isinstance(network, Own) else f"--preset {network.name}"


def not_modelled(workload: Workload) -> str | None:
    """Explain why no GPU step of a recurrent network is modelled and what to run instead; None for other networks."""
    if family_of(workload) != "recurrent" or any(name.startswith("recurrent/") for name in errors().classes):
        return None
    lengths = f" --lengths {written_lengths(workload.lengths)}" if workload.lengths else ""
    sweep = (
        f"python -m core sweep {network_flag(workload.network)}{'' if workload.training else ' --mode infer'}{lengths}"
    )
    return (
        "A GPU's step of recurrent layers (LSTM, GRU) is not modelled, since cuDNN's kernels run them there and how "
        f"far a model of those errs is not known: measure it on a machine with such a card by “{sweep} --out run.json” "
        f"(History imports the file), or this CPU alone here by “{sweep} --compare {LOOK}”."
    )


def card_target(cpu: Target) -> Target:
    """Return the card's target: run as ``cpu`` is, so that only the device differs.

    The model covers TensorFlow in floating point alone, so other frameworks, executions and precisions are replaced.
    """
    changes: dict[str, object] = {"device": "gpu:0", "threads": None, "framework": "tensorflow", "python": None}
    if cpu.execution not in EXECUTIONS:
        changes["execution"] = "keras"
    if cpu.precision not in PRECISIONS:
        changes["precision"] = "float32"
    return cpu.model_copy(update=changes)


def against(
    run: Run, answer: Answer, index: int, spec: GpuSpec, costs: HostCosts, recordings: Sequence[Recording] = ()
) -> Against:
    """Compare the card with the run's measured targets; ``index`` comes from :func:`compared_with`."""
    assert run.plan is not None
    target, batches = card_target(run.plan.targets[index]), batches_between(answer, index)
    how = Modelling(run.plan.workload, target, costs, unnamed_conditions(run.plan))
    curve = card_curve(spec, how, batches, recordings)
    named = if_named(run, answer, index, spec, how, batches, recordings)
    others = [i for i, other in enumerate(run.plan.targets) if i != index and other.device == "cpu"]
    crossovers = tuple(cross(run, answer, curve, i) for i in (index, *others))
    speed_ups = (speed_up(answer, curve, batch, 0) for batch in batches)
    last = crossovers[0].last
    return Against(
        spec,
        how,
        curve,
        crossovers,
        tuple(each for each in speed_ups if each is not None),
        None if last is None else speed_up(answer, curve, last, index),
        named_sentence(named),
    )
