"""A card's step times by batch: recorded, modelled and corrected by recordings, or spanning unnamed conditions.

Recordings work in two ways, the closer one first. A recording of the same workload replaces the model at its batches,
and between them the model is bent to pass through both neighbours. Recordings of other workloads of the same family
correct it by region of batch: the log error of the model is taken as μ + g + w, with μ the class's median, g the card's
and w the workload's part, and with the variances seen in the errors of held-out cards. From the errors of n recorded
workloads the card's part is estimated by the best linear predictor (“credibility”: Bühlmann 1967), which moves the
model by w = n·c / (1 + (n − 1)·c) of their mean and leaves 1 − c·w of the variance, c = var g / (var g + var w).

If host or build are unnamed, the interval spans the plausible conditions: Keras's own code and a vendor's fused build
differ by half on some steps, a weak cloud machine and a desktop of today by a factor of four on others. Each condition
has the weights below; the interval of a step covers 95 % of their mixture, and its time is the mixture's median. A
measured host is always used.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import NormalDist, fmean, median
from typing import Literal

import numpy as np

from core.analysis.numerics import bisect
from core.analysis.statistics import Array
from core.base.numbers import counted, percent
from core.hardware.catalogue import GpuSpec, UnknownGpu, find_gpu
from core.hardware.constants import constants
from core.hardware.host import (
    BUILD_WORDS,
    KIND_WORDS,
    NAMED_BUILDS,
    Conditions,
    HostKind,
    HostOverhead,
    Modelling,
    costs_of_kind,
)
from core.hardware.interval import (
    ErrorClass,
    Modelled,
    Region,
    Withheld,
    class_of,
    errors,
    family_of,
    feed_part,
    modelled_step,
)
from core.hardware.model import Limit, predict
from core.rounds.answer.analyse import cell_statistics
from core.rounds.answer.answer import CellStats
from core.rounds.plan import SweepPlan
from core.rounds.ran_as import resolved_target
from core.rounds.run import Run
from core.workload.execution import expected, resolved
from core.workload.spec import Target, Workload

SPAN_95 = 3.92  # standard deviations between the 2.5 % and 97.5 % quantiles of a normal distribution

# Judgement: the hosts of each class of cards. Free notebooks have a T4 or P100 beside two virtual cores.
NOTEBOOK_CARDS = frozenset({"T4", "P100-PCIe", "P100-SXM2", "P4"})
DESKTOP_NAMES = ("GeForce", "RTX", "Quadro", "TITAN")
OLDER_ARCHITECTURES = frozenset({"Pascal", "Volta", "Turing"})
_BESIDE: dict[tuple[str, bool], dict[HostKind, float]] = {
    ("notebook", True): {"weak": 0.6, "server": 0.4},
    ("desktop", True): {"desktop": 0.7, "recent_desktop": 0.3},
    ("desktop", False): {"recent_desktop": 0.8, "desktop": 0.2},
    ("server", True): {"server": 0.7, "recent_server": 0.3},
    ("server", False): {"recent_server": 0.8, "server": 0.2},
}
NORMAL, LEVELS, FAR = NormalDist(), (0.025, 0.5, 0.975), 4.0
"""The standard normal, the levels of an interval's ends and middle, and deviations beyond which none of them lies."""


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

    def modelled_with(self, how: Modelling) -> Modelling:
        """Return the settings with which the model repeats the recording on the host of ``how``."""
        return Modelling(self.workload, self.target, how.costs, self.conditions)

    def is_of(self, how: Modelling) -> bool:
        """Check that it ran the same workload in the same way, so that it replaces the model."""
        recorded, wanted = (
            (each.precision, each.execution, each.steps_per_execution)
            for each in (resolved(self.workload, self.target), resolved(how.workload, how.target))
        )
        return self.workload == how.workload and recorded == wanted and self.conditions == how.conditions


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


def recordings_of(runs: Iterable[Run], cards: Mapping[str, GpuSpec]) -> tuple[Recording, ...]:
    """Return the targets of ended runs that ran on a known card, by the name that the framework or NVML reported."""
    recordings = []
    for run in runs:
        label = run.label
        if run.plan is None or run.environment is None or label not in ("measured", "recorded"):
            continue
        all_cells = cell_statistics(run)
        for index, target in enumerate(run.plan.targets):
            cells = tuple(cell for cell in all_cells if cell.target == index)
            number = target.gpus[0] if len(target.gpus) == 1 else -1
            if not cells or target.call != "step" or not 0 <= number < len(run.environment.gpus):
                continue
            device_name = next((p.device_name for p in run.processes if p.target == index), "")
            card = _card_name(device_name, cards) or _card_name(run.environment.gpus[number].name, cards)
            if card is not None:
                how = (run.plan.workload, resolved_target(run, index), conditions_of(run.plan))
                recordings.append(Recording(card, run.id, run.name, *how, cells, label))
    return tuple(recordings)


def conditions_of(plan: SweepPlan) -> Conditions:
    """Return the conditions of the run: every batch crosses the card's link unless the run's data are on the device."""
    return Conditions(fed=plan.pipeline.kind != "resident")


def unnamed_conditions(plan: SweepPlan) -> Conditions:
    """Return the conditions under which a card is modelled beside the run until its build is named."""
    return replace(conditions_of(plan), build="unnamed")


def _card_name(name: str, cards: Mapping[str, GpuSpec]) -> str | None:
    try:
        return find_gpu(name, cards).name
    except UnknownGpu:
        return None


def card_curve(
    spec: GpuSpec, how: Modelling, batches: Sequence[int], recordings: Sequence[Recording] = ()
) -> CardCurve:
    """Return the card's step times at each batch: recorded, modelled, or as a mixture over unnamed conditions.

    Recordings of such a card ran Keras's own code, which is then the build.
    """
    if how.conditions.build == "unnamed" and any(recording.gpu == spec.name for recording in recordings):
        how = how.with_build("keras")
    cases = cases_of(spec, how)
    curves = [_named_curve(spec, case.how, batches, recordings) for case in cases]
    if len(cases) == 1:
        return curves[0]
    weights = np.array([case.weight for case in cases])
    words = spanned_words(cases)
    points = zip(*(curve.points for curve in curves), strict=True)
    mixed = tuple(_mixed(at_batch, weights, words) for at_batch in points)
    return CardCurve(spec.name, mixed, curves[0].corrected_by)


def _named_curve(spec: GpuSpec, how: Modelling, batches: Sequence[int], recordings: Sequence[Recording]) -> CardCurve:
    """Return the card's step times under named conditions: recorded, else modelled and corrected by recordings.

    Intervals of modelled steps include the model's error and what the host's own costs leave open.
    """
    workload = how.workload
    on_card = [recording for recording in recordings if recording.gpu == spec.name]
    same = next((recording for recording in reversed(on_card) if recording.is_of(how)), None)
    others = [r for r in on_card if r.workload != workload and family_of(r.workload) == family_of(workload)]
    log_errors = _errors_by_region(spec, how, others)
    points: list[Point] = []
    used: set[str] = set()
    for batch in sorted(set(batches)):
        modelled = modelled_step(spec, how, batch)
        replaced = _replaced(spec, modelled, same, how) if same is not None else None
        if replaced is not None and same is not None:
            points.append(replaced)
            used.add(same.run_id)
            continue
        point = _corrected(_bounded(modelled), spec, workload, log_errors)
        if isinstance(point, Modelled) and point is not modelled:
            used |= {recording.run_id for recording in others}
        points.append(point if isinstance(point, Withheld) else _widened(point, spec, how))
    names = dict.fromkeys(f"{r.title} ({r.run_id})" for r in on_card if r.run_id in used)
    corrected_by = f"recorded on {spec.name}: {'; '.join(names)}" if names else None
    return CardCurve(spec.name, tuple(points), corrected_by)


def _bounded(point: Modelled | Withheld) -> Modelled | Withheld:
    """Withhold a point if the evidence bounds nothing: a single card does not show how cards differ."""
    if isinstance(point, Modelled) and not (point.low_ms > 0 and math.isfinite(point.high_ms)):
        return Withheld(point.gpu, point.batch, f"There is too little evidence for an interval: {point.basis}.")
    return point


def _widened(point: Modelled, spec: GpuSpec, how: Modelling) -> Modelled:
    """Add the uncertainty of the host's costs and of the copy to the interval, in quadrature in logs.

    Under ``fit`` all but the host's part is wider by a factor: published steps say less of what runs beside them.
    """
    wider = errors().under_fit if how.conditions.under_fit else 1.0
    fed = feed_part(point.parts.transfer_ms / point.step_ms)
    less, more = host_part(spec, how, point.batch)
    down = math.hypot(less, wider * math.hypot(math.log(point.step_ms / point.low_ms), fed[0]))
    up = math.hypot(more, wider * math.hypot(math.log(point.high_ms / point.step_ms), fed[1]))
    return _moved(point, 0.0, -down, up, f"{point.basis} and the {how.costs.label} host's")


def host_part(spec: GpuSpec, how: Modelling, batch: int) -> tuple[float, float]:
    """Return by how many logs the step is shorter and longer with the host's costs at their bounds.

    Each cost is changed by itself, and the changes are added in quadrature.
    """

    def log_step(host: HostOverhead) -> float:
        return math.log(predict(spec, how.workload, how.target, batch, host, constants(), how.conditions).step_ms)

    here = log_step(how.costs.host)
    bounds = how.costs.bounds(under_fit=how.conditions.under_fit)
    shifts = [(log_step(low) - here, log_step(high) - here) for low, high in bounds]
    return math.hypot(*(low for low, _ in shifts)), math.hypot(*(high for _, high in shifts))


def _replaced(spec: GpuSpec, modelled: Modelled | Withheld, same: Recording, how: Modelling) -> Point | None:
    """Return the recorded step, or between two recorded batches the model bent to meet both; None outside them."""
    batches = [cell.batch for cell in same.cells]
    batch = modelled.batch
    if batch in batches:
        cell = same.cells[batches.index(batch)]
        parts = predict(spec, same.workload, same.target, batch, how.costs.host, constants(), same.conditions)
        basis = f"{same.label}: {same.title}"
        return RecordedStep(
            spec.name, batch, cell.step_ms, cell.low_ms, cell.high_ms, parts.limited_by, basis, same.label
        )
    place = bisect_right(batches, batch)
    if isinstance(modelled, Withheld) or place in (0, len(batches)):
        return None
    return _between(spec, modelled, same, (same.cells[place - 1], same.cells[place]), how)


def _between(
    spec: GpuSpec, modelled: Modelled, same: Recording, ends: tuple[CellStats, CellStats], how: Modelling
) -> Modelled | None:
    """Bend the model through both recorded neighbours: its log error is interpolated in log2(batch).

    The interval covers the neighbours' own intervals and half the difference of their errors, for what the error may do
    between them.
    """
    left, right = (_log_error(spec, same, cell, how) for cell in ends)
    if left is None or right is None:
        return None
    first, second = left[0], right[0]
    share = math.log(modelled.batch / ends[0].batch) / math.log(ends[1].batch / ends[0].batch)
    half = math.hypot(max(_half_width(cell) for cell in ends), (second - first) / 2)
    basis = f"the model between two {same.label} batches of {same.title}"
    return _moved(modelled, (1 - share) * first + share * second, -half, half, basis)


def _log_error(spec: GpuSpec, recording: Recording, cell: CellStats, how: Modelling) -> tuple[float, Region] | None:
    """Return log(recorded / modelled) of a recorded cell and its region; None if the model gives no number."""
    step = modelled_step(spec, recording.modelled_with(how), cell.batch)
    return None if isinstance(step, Withheld) else (math.log(cell.step_ms / step.step_ms), step.region)


def _half_width(cell: CellStats) -> float:
    if cell.low_ms is None or cell.high_ms is None:
        return 0.0
    return max(math.log(cell.high_ms / cell.step_ms), math.log(cell.step_ms / cell.low_ms))


def _errors_by_region(spec: GpuSpec, how: Modelling, others: Sequence[Recording]) -> dict[Region, list[float]]:
    """Return the model's median log error in each region of batch, one value per recorded workload."""
    errors_of: dict[Region, dict[Workload, list[float]]] = defaultdict(lambda: defaultdict(list))
    for recording in others:
        for cell in recording.cells:
            if (log_error := _log_error(spec, recording, cell, how)) is not None:
                errors_of[log_error[1]][recording.workload].append(log_error[0])
    return {region: [median(values) for values in each.values()] for region, each in errors_of.items()}


def _corrected(
    modelled: Modelled | Withheld, spec: GpuSpec, workload: Workload, log_errors: Mapping[Region, Sequence[float]]
) -> Modelled | Withheld:
    """Move the model by the errors of recorded workloads in its region, and narrow its interval."""
    if isinstance(modelled, Withheld) or not log_errors.get(modelled.region):
        return modelled
    known = class_of(errors(), spec, workload, modelled.region, host_known=True)  # how cards and workloads differ
    if known is None:
        return modelled
    here = log_errors[modelled.region]
    weight, left = credibility(card_share(known), len(here))
    low = left * math.log(modelled.low_ms / modelled.step_ms)
    high = left * math.log(modelled.high_ms / modelled.step_ms)
    number = f"{counted(len(here), 'recorded workload')} on this card"
    return _moved(modelled, weight * fmean(here), low, high, f"{modelled.basis}, corrected by {number}")


def card_share(errors: ErrorClass) -> float:
    """Return the share of the errors' variance that the workloads of a card have in common."""
    between, within = errors.between, (errors.high_95 - errors.low_95) / SPAN_95
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
    return replace(
        point, step_ms=step_ms, low_ms=step_ms * math.exp(low), high_ms=step_ms * math.exp(high), basis=basis
    )


@dataclass(frozen=True)
class Case:
    """One plausible way of driving the card, with its weight; the weights of all cases add up to 1."""

    weight: float
    how: Modelling


def hosts_beside(spec: GpuSpec) -> dict[HostKind, float]:
    """Return the kinds of hosts in which such a card is found, with their weights."""
    older = spec.architecture in OLDER_ARCHITECTURES
    if spec.name in NOTEBOOK_CARDS:
        return _BESIDE["notebook", True]
    return _BESIDE["desktop" if any(word in spec.title for word in DESKTOP_NAMES) else "server", older]


def cases_of(spec: GpuSpec, how: Modelling) -> tuple[Case, ...]:
    """Return every plausible combination of the unnamed conditions; one case of weight 1 if all are named."""
    build = how.conditions.build
    builds = NAMED_BUILDS if build == "unnamed" else {build: 1.0}
    cases = []
    for build, share in builds.items():
        named = how.with_build(build)
        named = replace(named, target=named.conditions.as_built(how.target))
        execution = expected(how.workload.network, named.target).execution
        kinds = hosts_beside(spec) if how.costs.kind == "unnamed" else {how.costs.kind: 1.0}
        for kind, weight in kinds.items():
            costs = how.costs if kind is None else costs_of_kind(kind, execution)
            cases.append(Case(share * weight, replace(named, costs=costs)))
    return tuple(cases)


def spanned_words(cases: Sequence[Case]) -> str:
    """List the conditions that the interval spans, most likely first."""
    builds: dict[str, float] = defaultdict(float)
    hosts: dict[str, float] = defaultdict(float)
    for case in cases:
        kind = case.how.costs.kind
        builds[BUILD_WORDS[case.how.conditions.build]] += case.weight
        hosts[KIND_WORDS[kind] if kind is not None else "the measured host"] += case.weight
    return "; ".join(
        " or ".join(f"{name} ({percent(share)})" for name, share in sorted(each.items(), key=lambda item: -item[1]))
        for each in (builds, hosts)
        if len(each) > 1
    )


def _mixed(points: tuple[Point, ...], weights: Array, words: str) -> Point:
    """Return the median and the 95 % bounds of the points' mixture, each a two-piece normal in log time.

    A recorded point needs no mixture, and a withheld one rules it out.
    """
    known = [point for point in points if isinstance(point, Modelled)]
    if len(known) < len(points):
        withheld = [point for point in points if isinstance(point, Withheld)]
        return withheld[0] if withheld else points[int(np.argmax(weights))]
    center = np.log([point.step_ms for point in known])
    down = np.maximum(center - np.log([point.low_ms for point in known]), 1e-6)
    up = np.maximum(np.log([point.high_ms for point in known]) - center, 1e-6)
    low, middle, high = mixture_quantiles(center, down / (SPAN_95 / 2), up / (SPAN_95 / 2), weights)
    main = known[int(np.argmax(weights))]
    basis = f"the conditions that nobody named: {words}; {main.basis}"
    step_ms, low_ms, high_ms = np.exp([middle, low, high]).tolist()
    return replace(main, step_ms=step_ms, low_ms=low_ms, high_ms=high_ms, basis=basis)


def mixture_quantiles(center: Array, down: Array, up: Array, weights: Array) -> tuple[float, float, float]:
    """Return the 2.5 %, 50 % and 97.5 % quantiles of a mixture of two-piece normals (a deviation for each side)."""
    ends = float(np.min(center - FAR * down)), float(np.max(center + FAR * up))
    parts = list(zip(center.tolist(), down.tolist(), up.tolist(), weights.tolist(), strict=True))

    def share_below(log_ms: float) -> float:
        return sum(
            weight * NORMAL.cdf((log_ms - middle) / (below if log_ms < middle else above))
            for middle, below, above, weight in parts
        )

    low, middle, high = (bisect(lambda x, level=level: share_below(x) < level, *ends) for level in LEVELS)  # type: ignore[misc]
    return low, middle, high
