"""Step time by batch with intervals, also between measured batches, and the resulting time to a loss.

time(B) = S(B) · t(B): steps from the noise scale (:mod:`core.studies.noise.answer`), step time from the run.
Errors of both are independent and multiply, so their logarithms add in squares. S depends on the noise scale in the
same way at every batch, so a ratio of two times is bounded by the ends of the noise scale's interval, not by two
intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from core.analysis.statistics import CONFIDENCE, Array, normal_quantile
from core.base.evidence import Label
from core.rounds.answer.answer import CellStats, Fit
from core.studies.batch.shapes import PointLabel, Quantity
from core.studies.noise.answer import TrainingNoise

PER_OCTAVE = 8  # points per doubling between measured batches
TRAINING_ALLOWANCE = 0.08
"""Standard deviation of log steps to a loss between seeds, of which a study sees one (measured:
benchmarks/noise_scale.py)."""

LAW_ALLOWANCE = 0.05
"""Additional deviation per doubling of the batch, for the error of the law S(B) itself (measured likewise)."""


@dataclass(frozen=True)
class StepCurve:
    """log(step time / ms) of one target at its measured batches and between them.

    ``below`` and ``above`` are the distances to the bounds of the 95 % interval, infinite if unknown.
    """

    batches: Array
    logs: Array
    below: Array
    above: Array
    labels: tuple[PointLabel, ...]

    def step_ms(self, index: int) -> Quantity:
        return from_log(float(self.logs[index]), float(self.below[index]), float(self.above[index]))


def from_log(middle: float, below: float, above: float) -> Quantity:
    """Return exp(middle) with its bounds."""
    low = math.exp(middle - below) if math.isfinite(below) else None
    high = math.exp(middle + above) if math.isfinite(above) else None
    return Quantity(math.exp(middle), low, high)


def step_curve(cells: Sequence[CellStats], fit: Fit | None, label: Label) -> StepCurve | None:
    """Return the curve of one target's cells, None without any.

    Between measured batches the fit gives the shape; its residuals are interpolated over log(batch). Half the
    difference between neighbouring residuals widens the interval, most in the middle.
    """
    mine = sorted(cells, key=lambda cell: cell.batch)
    if not mine:
        return None
    measured = np.array([cell.batch for cell in mine], dtype=float)
    logs = np.log([cell.step_ms for cell in mine])
    below = np.array([_half(cell.step_ms, cell.low_ms) for cell in mine])
    above = np.array([_half(cell.high_ms, cell.step_ms) for cell in mine])
    batches = _grid(measured)
    x, at = np.log(measured), np.log(batches)
    missed = logs - _shape(measured, fit)
    place = np.interp(at, x, np.arange(len(x), dtype=float)) % 1.0
    left = np.minimum(np.searchsorted(measured, batches, side="right") - 1, max(0, len(x) - 2))
    apart = np.abs(np.diff(missed))[left] if len(x) > 1 else np.zeros(len(batches))
    bend = 4 * place * (1 - place) * apart / 2
    known = set(measured)
    return StepCurve(
        batches=batches,
        logs=_shape(batches, fit) + np.interp(at, x, missed),
        below=np.hypot(_between(at, x, below), bend),
        above=np.hypot(_between(at, x, above), bend),
        labels=tuple(cast(PointLabel, label if batch in known else "interpolated") for batch in batches),
    )


def _half(upper: float | None, lower: float | None) -> float:
    return math.inf if upper is None or lower is None else math.log(upper / lower)


def _between(at: Array, x: Array, values: Array) -> Array:
    """Interpolate values; infinite next to an infinite one."""
    finite = np.where(np.isfinite(values), values, 1e9)
    interpolated = np.interp(at, x, finite)
    return np.where(interpolated > 1e6, np.inf, interpolated)


def _shape(batches: Array, fit: Fit | None) -> Array:
    return np.zeros(len(batches)) if fit is None else np.log([fit.step_ms(float(batch)) for batch in batches])


def _grid(measured: Array) -> Array:
    """Return measured batches and whole ones between them, rising."""
    count = max(2, math.ceil(math.log2(measured[-1] / measured[0]) * PER_OCTAVE) + 1)
    between = np.round(np.geomspace(measured[0], measured[-1], count))
    near = np.abs(np.log2(between[:, None] / measured[None, :])).min(axis=1) < 0.5 / PER_OCTAVE
    return np.union1d(measured, between[~near])


def steps_at(noise: TrainingNoise, batch: float) -> Quantity | None:
    """Return the steps to the target loss, S(B) (McCandlish et al. 2018, eq. 2.12); None if it was not reached."""
    if noise.steps is None or noise.value is None:
        return None
    factors = np.log([noise.step_factor(batch, scale) for scale in (noise.value, noise.low, noise.high)])
    half = normal_quantile((1 + CONFIDENCE) / 2) * math.hypot(
        TRAINING_ALLOWANCE, LAW_ALLOWANCE * math.log2(batch / noise.reference_batch)
    )
    below, above = (
        math.hypot(half, float(apart)) for apart in (factors[0] - factors.min(), factors.max() - factors[0])
    )
    return from_log(math.log(noise.steps) + float(factors[0]), below, above)


def product(first: Quantity, second: Quantity) -> Quantity:
    """Return the product of two quantities with independent errors."""
    below = math.hypot(_half(first.value, first.low), _half(second.value, second.low))
    above = math.hypot(_half(first.high, first.value), _half(second.high, second.value))
    return from_log(math.log(first.value * second.value), below, above)


def log_times(noise: TrainingNoise, curve: StepCurve) -> Array:
    """Return the log of the time to the loss, up to a constant shared by all batches and targets.

    Three rows: for the noise scale, its lower and its upper bound.
    """
    scales = (noise.value, noise.low, noise.high)
    factors = [[noise.step_factor(float(batch), scale) for batch in curve.batches] for scale in scales]
    return np.asarray(np.log(factors) + curve.logs)


@dataclass(frozen=True)
class Ratios:
    """log of one target's time to the loss over the best of another (or its own): value and 95 % bounds by batch."""

    center: Array
    low: Array
    high: Array

    def at(self, index: int) -> Quantity:
        center = float(self.center[index])
        return from_log(center, center - float(self.low[index]), float(self.high[index]) - center)


def over_best(noise: TrainingNoise, curve: StepCurve, other: StepCurve, allowed: Array) -> Ratios:
    """Return times on ``curve`` over the shortest on ``other`` at its ``allowed`` batches (a mask).

    Covers every noise scale in its interval. At its own best batch a target is compared with itself, so its step time
    adds no error there.
    """
    mine, theirs = log_times(noise, curve), log_times(noise, other)
    theirs = np.where(allowed, theirs, np.inf)
    best = int(np.argmin(theirs[0]))
    differences = mine - theirs.min(axis=1, keepdims=True)
    same = curve is other
    law = normal_quantile((1 + CONFIDENCE) / 2) * LAW_ALLOWANCE * np.log2(curve.batches / other.batches[best])
    below = np.hypot(np.hypot(curve.below, other.above[best]), law)
    above = np.hypot(np.hypot(curve.above, other.below[best]), law)
    if same:
        below[best] = above[best] = 0.0
    return Ratios(differences[0], differences.min(axis=0) - below, differences.max(axis=0) + above)
