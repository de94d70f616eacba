"""Forecast of memory: the model's prediction fitted to measurements on a machine, with an interval from its errors.

Two steps. For one device, mode and execution, the :class:`core.workload.memory.Copies` are fitted to the peaks of all
studied workloads: robust least squares of log errors around the usual copies, which count as observations themselves,
so that one study moves them little and many move them far (maximum a posteriori). The error on an unseen workload comes
from cross-validation, leaving out each in turn (with many: a sixth). Then, for one workload, its own peaks: the log of
measured over predicted is a curve over log2(batch) (a Gaussian process with one part common to all batches and one
shared by near ones), so that the prediction is nearly certain beside a measured batch, and less so far from all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.analysis.numerics import bisect_whole, levenberg_marquardt, with_differences
from core.analysis.statistics import Array, t_quantile
from core.base.evidence import Environment
from core.studies.compiled.record import CompileStudy
from core.studies.compiled.shipped import compiled_steps
from core.studies.memory.record import MemoryStudy, Probe
from core.workload.execution import expected
from core.workload.memory import CONTEXT_BYTES, Copies, estimate_bytes, usual_copies
from core.workload.spec import MAX_BATCH, Target, Workload

FREE = ("fixed", "update", "kept", "passing", "feeding")
"""Fitted parameters: factors on the usual copies; model and layers share one."""
PRIOR_SD = np.array([0.5, 0.5, 0.25, 0.5, 0.2])  # sd of their logs: the usual copies hold within a factor of about two
# standard deviation of log measured/predicted for a family never seen (measured: benchmarks/memory.py), which counts
# as much as so many studied workloads
USUAL_SD, USUAL_WEIGHT = 0.2, 4
# scatter of one peak: between processes, and small costs in no part (measured: likewise)
NOISE_SHARE, NOISE_BYTES = 0.02, 15e6
BLOCK_BYTES = 1e6
SHARED, REACH_OCTAVES = 0.7, 3.0  # a workload's error at two batches: the common share, and the reach of the rest
MOST_WORKLOADS, FOLDS = 36, 6  # enough to estimate five copies and a spread well, and fitted in a fraction of a second
SETTLED = 1e-4  # negligible step of the fit's logs
MIN_ADDED_BYTES = 1e6
PLAN_SD = 0.1
"""Standard deviation of the log of a GPU's peak over its compiler's plan, common to all batches: libraries' workspaces
and fragmentation are in no plan. Assumed; no GPU was held against it yet.
"""


@dataclass(frozen=True)
class Peak:
    """Measured peak of one cell; ``added_bytes`` excludes the framework's own memory."""

    workload: Workload
    target: Target
    batch: int
    added_bytes: float


@dataclass(frozen=True)
class Bounds:
    """Predicted bytes with a 95 % interval."""

    bytes: float
    low: float
    high: float


@dataclass(frozen=True)
class Model:
    """Fitted copies, and the standard deviation of a new workload's log error with its degrees of freedom.

    ``workloads`` and ``peaks`` count what it was fitted to.
    """

    copies: Copies
    sd: float
    df: int
    workloads: int
    peaks: int


def same_machine(studies: Iterable[MemoryStudy], environment: Environment | None) -> tuple[MemoryStudy, ...]:
    """Return the studies measured on the machine of ``environment`` (all, if that is unknown)."""
    if environment is None:
        return tuple(studies)
    host = environment.hostname_hash
    return tuple(s for s in studies if s.environment is not None and s.environment.hostname_hash == host)


def peaks(studies: Iterable[MemoryStudy]) -> tuple[Peak, ...]:
    """Return the peaks of all studies, including those beyond the limit."""
    return tuple(peak for s in studies for peak in _peaks(s.plan.workload, s.plan.target, s.probes))


def _peaks(workload: Workload, target: Target, probes: Iterable[Probe]) -> Iterator[Peak]:
    for probe in probes:
        if probe.peak_bytes is not None and probe.baseline_bytes is not None:
            added_bytes = max(MIN_ADDED_BYTES, probe.peak_bytes - probe.baseline_bytes)
            yield Peak(workload, target, probe.batch, added_bytes)


def planned_bytes(
    workload: Workload, target: Target, environment: Environment | None, compiled: Iterable[CompileStudy] = ()
) -> dict[int, int]:
    """Return the memory of a step by batch as XLA plans it for the target's GPU; empty for CPUs and unknown steps.

    ``compiled`` are studies besides those that ship.
    """
    cards = () if environment is None or target.on_cpu else environment.gpus[min(target.gpus) :]
    steps = compiled_steps(workload, target, cards[0].name, compiled) if cards and target.replicas == 1 else ()
    return {step.batch: step.program.memory_bytes for step in steps}


def context_bytes(studies: Sequence[MemoryStudy], target: Target) -> int:
    """Return the framework's own memory on a target: the median over studies, else the usual for a CPU and 0 for a GPU
    (whose allocator holds nothing before a model is built).
    """
    baselines = [
        probe.baseline_bytes
        for study in studies
        for probe in study.probes
        if study.plan.target.device == target.device and probe.baseline_bytes is not None
    ]
    if baselines:
        return round(float(np.median(baselines)))
    return 0 if target.is_gpu else CONTEXT_BYTES


def alike(peak: Peak, workload: Workload, target: Target) -> bool:
    """Tell whether copies fitted to one hold for the other: same device, mode and execution."""
    condition = (peak.target.device, peak.workload.mode, expected(peak.workload.network, peak.target).execution)
    return condition == (target.device, workload.mode, expected(workload.network, target).execution)


def fit_model(measured: Sequence[Peak], workload: Workload, target: Target) -> Model:
    """Fit the model for workloads and targets like these from their peaks; without any, return the usual one.

    Of very many workloads only the first count, so studies are best given newest first.
    """
    by_workload: dict[tuple[Workload, Target], list[Peak]] = {}
    for peak in measured:
        if alike(peak, workload, target):
            by_workload.setdefault((peak.workload, peak.target), []).append(peak)
    groups = list(by_workload.values())[:MOST_WORKLOADS]
    usual = usual_copies(workload, target)
    errors = []
    for fold in range(min(FOLDS, len(groups))):
        without = _copies([group for i, group in enumerate(groups) if i % FOLDS != fold], usual)
        errors += [float(np.mean([_log_error(peak, without) for peak in group])) for group in groups[fold::FOLDS]]
    df = USUAL_WEIGHT + len(errors)
    variance = (USUAL_WEIGHT * USUAL_SD**2 + sum(error**2 for error in errors)) / df
    return Model(_copies(groups, usual), math.sqrt(variance), df, len(groups), sum(map(len, groups)))


def _copies(groups: Sequence[Sequence[Peak]], usual: Copies) -> Copies:
    """Fit copies to groups of peaks, one group per workload; a group counts as one observation of its common error."""
    flat = [peak for group in groups for peak in group]
    if not flat:
        return usual
    weights = np.array(
        [
            1 / math.sqrt(len(group) * USUAL_SD**2 + noise_variance(peak.target, peak.added_bytes))
            for group in groups
            for peak in group
        ]
    )

    def residuals(logs: Array) -> Array:
        errors = np.array([_log_error(peak, _scaled(usual, logs)) for peak in flat])
        return np.concatenate([_softened(weights * errors), -logs / PRIOR_SD])

    fit = levenberg_marquardt(with_differences(residuals), np.zeros(len(FREE)), tolerance=SETTLED)
    return _scaled(usual, fit.parameters)


def noise_variance(target: Target, size: float) -> float:
    """Return the variance of the log of one peak; a GPU's allocator counts whole blocks, no process around them."""
    return NOISE_SHARE**2 + ((NOISE_BYTES if target.on_cpu else BLOCK_BYTES) / size) ** 2


def _softened(values: Array) -> Array:
    """Transform residuals so that their squares grow only linearly beyond one and an unusual workload moves little (the
    pseudo-Huber loss: Charbonnier et al. 1997).
    """
    return np.sign(values) * np.sqrt(2 * (np.sqrt(1 + values**2) - 1))


def _scaled(usual: Copies, logs: Array) -> Copies:
    fixed, update, kept, passing, feeding = (float(value) for value in np.exp(np.clip(logs, -3, 3)))
    return replace(
        usual,
        model_bytes=fixed * usual.model_bytes,
        layer_bytes=fixed * usual.layer_bytes,
        update=update * usual.update,
        kept=kept * usual.kept,
        passing=passing * usual.passing,
        feeding=feeding * usual.feeding,
    )


def _log_error(peak: Peak, copies: Copies) -> float:
    return math.log(peak.added_bytes / estimate_bytes(peak.workload, peak.target, peak.batch, copies).total_bytes)


@dataclass(frozen=True)
class Forecast:
    """Predicted peaks of one workload on one target by batch, including the framework's own memory.

    ``own`` are peaks of this workload, whose logs share an error of ``own_sd``.
    """

    workload: Workload
    target: Target
    model: Model
    context_bytes: int
    own: tuple[Peak, ...] = ()
    own_sd: float = 0.0

    def at(self, batch: int) -> Bounds:
        """Return the predicted peak at a batch."""
        modelled = self.modelled(batch)
        shift, variance = self._learnt(batch)
        middle = modelled * math.exp(shift)
        reach = t_quantile(0.975, self.model.df) * math.sqrt(variance + noise_variance(self.target, middle))
        base = self.context_bytes
        return Bounds(base + middle, base + middle * math.exp(-reach), base + middle * math.exp(reach))

    def modelled(self, batch: int) -> float:
        """Return the model's bytes beyond the framework's own, before this workload's own peaks are used."""
        return float(estimate_bytes(self.workload, self.target, batch, self.model.copies).total_bytes)

    def largest(self, limit_bytes: float) -> tuple[int, int, int]:
        """Return the largest batch whose predicted peak, upper bound and lower bound are within the limit; 0: not even
        batch 1.
        """
        middle = _largest(lambda b: self.at(b).bytes <= limit_bytes)
        sure = _largest(lambda b: self.at(b).high <= limit_bytes)
        return middle, min(sure, middle), max(middle, _largest(lambda b: self.at(b).low <= limit_bytes))

    def _learnt(self, batch: int) -> tuple[float, float]:
        """Return mean and variance of log(true/modelled) at a batch, given the workload's own peaks."""
        prior = self.model.sd**2
        if not self.own:
            return 0.0, prior
        batches = np.log2([peak.batch for peak in self.own])
        modelled = np.array([self.modelled(peak.batch) for peak in self.own])
        seen = np.log([peak.added_bytes for peak in self.own]) - np.log(modelled)
        level = 1.0 if self.own_sd else 0.0  # a plan decides the level, whatever the model says
        between = level + prior * _likeness(batches[:, None] - batches[None, :])
        between += self.own_sd**2 + np.diag([noise_variance(self.target, peak.added_bytes) for peak in self.own])
        here = level + prior * _likeness(batches - math.log2(batch))
        gain = np.linalg.solve(between, here)
        return float(gain @ seen), max(0.0, float(level + prior - gain @ here))


def _likeness(octaves: Array) -> Array:
    """Return the correlation of one workload's errors at two batches, by their distance in octaves."""
    return SHARED + (1 - SHARED) * np.exp(-np.abs(octaves) / REACH_OCTAVES)


def _largest(fits: Callable[[int], bool]) -> int:
    """Return the largest batch up to MAX_BATCH below the first that does not fit: by quarters of an octave, then
    bisection.

    It searches from below, because a forecast bent by measured peaks need not rise everywhere.
    """
    ladder = sorted({round(2 ** (step / 4)) for step in range(4 * round(math.log2(MAX_BATCH)) + 1)})
    high = next((batch for batch in ladder if not fits(batch)), MAX_BATCH + 1)
    low = max((batch for batch in ladder if batch < high), default=0)
    return bisect_whole(fits, low, high)


def forecast(
    workload: Workload,
    target: Target,
    studies: Sequence[MemoryStudy] = (),
    probes: Sequence[Probe] = (),
    planned: Mapping[int, int] | None = None,
) -> Forecast:
    """Forecast from a machine's studies, and from probes of this very workload and target that were just made.

    Where nothing of this workload was measured, ``planned`` counts: bytes by batch in a compiler's plans of its steps.
    """
    known = peaks(studies)
    own = [peak for peak in known if (peak.workload, peak.target) == (workload, target)]
    baselines = [probe.baseline_bytes for probe in probes if probe.baseline_bytes is not None]
    context = baselines[-1] if baselines else context_bytes(studies, target)
    own += _peaks(workload, target, probes)
    model = fit_model(known, workload, target)
    if planned and not own:
        plans = tuple(Peak(workload, target, batch, float(size)) for batch, size in planned.items())
        return Forecast(workload, target, model, context, plans, PLAN_SD)
    return Forecast(workload, target, model, context, tuple(own))
