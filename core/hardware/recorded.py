"""Recordings of a card, which replace the model at their batches and correct it elsewhere.

There are two ways, the closer one first. A recording of the same workload replaces the model at its batches, and
between them the model is bent to pass through both neighbours. Recordings of other workloads of the same family correct
it by region of batch: the log error of the model is taken as μ + g + w, with μ the class's median, g the card's and w
the workload's part, and with the variances seen in the errors of held-out cards. From the errors of n recorded
workloads the card's part is estimated by the best linear predictor (“credibility”: Bühlmann 1967), which moves the
model by w = n·c / (1 + (n − 1)·c) of their mean and leaves 1 − c·w of the variance, c = var g / (var g + var w).
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median
from typing import Literal

from core.base.numbers import counted
from core.hardware.catalogue import GpuSpec, UnknownGpu, find_gpu
from core.hardware.constants import constants
from core.hardware.host import USUAL, Conditions, HostCosts, HostOverhead
from core.hardware.interval import Modelled, Region, Withheld, class_of, errors, family_of, modelled_step
from core.hardware.model import Limit, predict
from core.rounds.answer.analyse import cell_statistics
from core.rounds.answer.answer import CellStats
from core.rounds.plan import SweepPlan
from core.rounds.ran_as import resolved_target
from core.rounds.run import Run
from core.workload.execution import resolved
from core.workload.spec import Target, Workload

SPAN_95 = 3.92  # standard deviations between the 2.5 % and 97.5 % quantiles of a normal distribution


@dataclass(frozen=True)
class Recording:
    """One target of a run as it ran, on a card of the catalogue. ``label``: measured here, or recorded elsewhere."""

    gpu: str
    run_id: str
    title: str
    workload: Workload
    target: Target
    conditions: Conditions
    cells: tuple[CellStats, ...]
    label: Literal["measured", "recorded"]


@dataclass(frozen=True)
class RecordedStep:
    """A step time actually measured on such a card; bounds are 95 %, None if there are too few rounds.

    ``limited_by`` is the model's answer for the batch.
    """

    gpu: str
    batch: int
    step_ms: float
    low_ms: float | None
    high_ms: float | None
    limited_by: Limit
    basis: str
    label: Literal["measured", "recorded"]


Point = Modelled | RecordedStep | Withheld


@dataclass(frozen=True)
class CardCurve:
    """A card's step times in order of batch; ``corrected_by`` names the recordings that replaced or moved any."""

    gpu: str
    points: tuple[Point, ...]
    corrected_by: str | None = None

    @property
    def known(self) -> tuple[Modelled | RecordedStep, ...]:
        """The points that have a number."""
        return tuple(point for point in self.points if not isinstance(point, Withheld))

    @property
    def stretch(self) -> tuple[Modelled | RecordedStep, ...]:
        """The longest run of consecutive points without a withheld one between them."""
        groups = groupby(self.points, key=lambda point: isinstance(point, Withheld))
        stretches = (tuple(point for point in group if not isinstance(point, Withheld)) for _, group in groups)
        return max(stretches, key=len, default=())

    @property
    def reason(self) -> str:
        """The reason why numbers are withheld; empty if none is."""
        return next((point.reason for point in self.points if isinstance(point, Withheld)), "")


def recordings_of(runs: Sequence[Run], spec: GpuSpec, cards: Mapping[str, GpuSpec]) -> tuple[Recording, ...]:
    """Return the targets of ended runs that ran on this card, by the name that the framework or NVML reported."""
    found = []
    for run in runs:
        label = run.label
        if run.plan is None or run.environment is None or label == "published" or label == "modelled":
            continue
        cells = cell_statistics(run)
        for index, target in enumerate(run.plan.targets):
            mine = tuple(cell for cell in cells if cell.target == index)
            number = target.gpus[0] if len(target.gpus) == 1 else -1
            if not mine or not 0 <= number < len(run.environment.gpus):
                continue
            seen = next((p.device_name for p in run.processes if p.target == index), "")
            if (_card(seen, cards) or _card(run.environment.gpus[number].name, cards)) == spec.name:
                conditions = conditions_of(run.plan)
                ran = resolved_target(run, index)
                found.append(Recording(spec.name, run.id, run.name, run.plan.workload, ran, conditions, mine, label))
    return tuple(found)


def conditions_of(plan: SweepPlan) -> Conditions:
    """Return the conditions of the run: every batch crosses the card's link unless the run's data are on the device."""
    return Conditions(fed=plan.pipeline.kind != "resident")


def as_nobody_named(plan: SweepPlan) -> Conditions:
    """Return the conditions under which a card is modelled beside the run until its build is named."""
    return dataclasses.replace(conditions_of(plan), build="unnamed")


def _card(name: str, cards: Mapping[str, GpuSpec]) -> str | None:
    try:
        return find_gpu(name, cards).name
    except UnknownGpu:
        return None


def named_curve(
    spec: GpuSpec,
    workload: Workload,
    target: Target,
    batches: Sequence[int],
    costs: HostCosts,
    conditions: Conditions = USUAL,
    recordings: Sequence[Recording] = (),
) -> CardCurve:
    """Return the card's step times at each batch under named conditions: recorded, else modelled and corrected by
    recordings.

    Intervals of modelled steps include the model's error and what the host's own costs leave open.
    """
    host = costs.host
    mine = [one for one in recordings if one.gpu == spec.name]
    same = next((one for one in reversed(mine) if _is_same(one, workload, target, conditions)), None)
    others = [one for one in mine if one.workload != workload and family_of(one.workload) == family_of(workload)]
    seen = _errors_by_region(spec, host, others)
    points: list[Point] = []
    used: set[str] = set()
    for batch in sorted(set(batches)):
        modelled = modelled_step(spec, workload, target, batch, host, conditions)
        replaced = _replaced(spec, modelled, same, host) if same is not None else None
        if replaced is not None and same is not None:
            points.append(replaced)
            used.add(same.run_id)
            continue
        point = _corrected(_bounded(modelled), spec, workload, seen)
        if isinstance(point, Modelled) and point is not modelled:
            used |= {one.run_id for one in others}
        points.append(
            point if isinstance(point, Withheld) else _widened(point, spec, workload, target, costs, conditions)
        )
    return CardCurve(spec.name, tuple(points), _named(spec, mine, used))


def _bounded(point: Modelled | Withheld) -> Modelled | Withheld:
    """Withhold a point if the evidence bounds nothing: a single card does not show how cards differ."""
    if isinstance(point, Modelled) and not (point.low_ms > 0 and math.isfinite(point.high_ms)):
        return Withheld(point.gpu, point.batch, f"There is too little evidence for an interval: {point.basis}.")
    return point


def _widened(
    point: Modelled,
    spec: GpuSpec,
    workload: Workload,
    target: Target,
    costs: HostCosts,
    conditions: Conditions,
) -> Modelled:
    """Add the uncertainty of the host's costs to the interval, in quadrature in logs."""
    less, more = host_part(spec, workload, target, point.batch, costs, conditions)
    down = math.hypot(math.log(point.step_ms / point.low_ms), less)
    up = math.hypot(math.log(point.high_ms / point.step_ms), more)
    basis = f"{point.basis} and the {costs.label} host's"
    return _moved(point, 0.0, -down, up, basis)


def host_part(
    spec: GpuSpec, workload: Workload, target: Target, batch: int, costs: HostCosts, conditions: Conditions
) -> tuple[float, float]:
    """Return by how many logs the step is shorter and longer with the host's costs at their bounds.

    Each cost is changed by itself, and the changes are added in quadrature.
    """

    def log_step(host: HostOverhead) -> float:
        return math.log(predict(spec, workload, target, batch, host, constants(), conditions).step_ms)

    here = log_step(costs.host)
    bounds = costs.bounds(under_fit=conditions.under_fit)
    shifts = [(log_step(low) - here, log_step(high) - here) for low, high in bounds]
    return math.hypot(*(low for low, _ in shifts)), math.hypot(*(high for _, high in shifts))


def _is_same(one: Recording, workload: Workload, target: Target, conditions: Conditions) -> bool:
    recorded, asked = (
        (each.precision, each.execution, each.steps_per_execution)
        for each in (resolved(one.workload, one.target), resolved(workload, target))
    )
    return one.workload == workload and recorded == asked and one.conditions == conditions


def _named(spec: GpuSpec, mine: Sequence[Recording], used: set[str]) -> str | None:
    names = dict.fromkeys(f"{one.title} ({one.run_id})" for one in mine if one.run_id in used)
    return f"recorded on {spec.name}: {'; '.join(names)}" if names else None


def _replaced(spec: GpuSpec, modelled: Modelled | Withheld, same: Recording, host: HostOverhead) -> Point | None:
    """Return the recorded step, or between two recorded batches the model bent to meet both; None outside them."""
    batches = [cell.batch for cell in same.cells]
    batch = modelled.batch
    if batch in batches:
        cell = same.cells[batches.index(batch)]
        limit = predict(spec, same.workload, same.target, batch, host, constants(), same.conditions).limited_by
        basis = f"{same.label}: {same.title}"
        return RecordedStep(spec.name, batch, cell.step_ms, cell.low_ms, cell.high_ms, limit, basis, same.label)
    place = bisect_right(batches, batch)
    if isinstance(modelled, Withheld) or place in (0, len(batches)):
        return None
    return _between(spec, modelled, same, (same.cells[place - 1], same.cells[place]), host)


def _between(
    spec: GpuSpec, modelled: Modelled, same: Recording, ends: tuple[CellStats, CellStats], host: HostOverhead
) -> Modelled | None:
    """Bend the model through both recorded neighbours: its log error is interpolated in log2(batch).

    The interval covers the neighbours' own intervals and half the difference of their errors, for what the error may do
    between them.
    """
    errors = []
    for cell in ends:
        there = modelled_step(spec, same.workload, same.target, cell.batch, host, same.conditions)
        if isinstance(there, Withheld):
            return None
        errors.append(math.log(cell.step_ms / there.step_ms))
    share = math.log(modelled.batch / ends[0].batch) / math.log(ends[1].batch / ends[0].batch)
    middle = (1 - share) * errors[0] + share * errors[1]
    own = max(_half_width(cell) for cell in ends)
    half = math.hypot(own, (errors[1] - errors[0]) / 2)
    return _moved(modelled, middle, -half, half, f"the model between two {same.label} batches of {same.title}")


def _half_width(cell: CellStats) -> float:
    if cell.low_ms is None or cell.high_ms is None:
        return 0.0
    return max(math.log(cell.high_ms / cell.step_ms), math.log(cell.step_ms / cell.low_ms))


def _errors_by_region(spec: GpuSpec, host: HostOverhead, others: Sequence[Recording]) -> dict[Region, list[float]]:
    """Return the model's median log error in each region of batch, one value per recorded workload."""
    found: dict[Region, dict[Workload, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in others:
        for cell in one.cells:
            there = modelled_step(spec, one.workload, one.target, cell.batch, host, one.conditions)
            if isinstance(there, Modelled):
                found[there.region][one.workload].append(math.log(cell.step_ms / there.step_ms))
    return {region: [median(values) for values in each.values()] for region, each in found.items()}


def _corrected(
    modelled: Modelled | Withheld,
    spec: GpuSpec,
    workload: Workload,
    seen: Mapping[Region, Sequence[float]],
) -> Modelled | Withheld:
    if isinstance(modelled, Withheld) or not seen.get(modelled.region):
        return modelled
    found = class_of(errors(), spec, workload, modelled.region, host_known=True)  # how cards and workloads differ
    if found is None:
        return modelled
    here = seen[modelled.region]
    weight, left = credibility(card_share(found.between, (found.high_95 - found.low_95) / SPAN_95), len(here))
    low = left * math.log(modelled.low_ms / modelled.step_ms)
    high = left * math.log(modelled.high_ms / modelled.step_ms)
    number = f"{counted(len(here), 'recorded workload')} on this card"
    return _moved(modelled, weight * fmean(here), low, high, f"{modelled.basis}, corrected by {number}")


def card_share(between: float, within: float) -> float:
    """Return the share of the error's variance that the workloads of a card have in common."""
    total = between**2 + within**2
    return between**2 / total if total > 0 else 0.0


def credibility(share: float, recorded: int) -> tuple[float, float]:
    """Return the weight of the recorded workloads' mean error for another one, and the factor on the interval's width.

    For n errors with common variance share c, the weight is w = n·c / (1 + (n − 1)·c) and the factor (1 − c·w)^½.
    """
    if recorded == 0:
        return 0.0, 1.0
    weight = recorded * share / (1 + (recorded - 1) * share)
    return weight, math.sqrt(1 - share * weight)


def _moved(point: Modelled, log_by: float, low: float, high: float, basis: str) -> Modelled:
    """Move the point to exp(log_by) times its step time, with bounds ``low`` and ``high`` logs from there."""
    step_ms = point.step_ms * math.exp(log_by)
    return dataclasses.replace(
        point, step_ms=step_ms, low_ms=step_ms * math.exp(low), high_ms=step_ms * math.exp(high), basis=basis
    )
