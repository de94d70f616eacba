"""The gradient noise scale: the batch at which a gradient changes from mostly noise to mostly signal.

B_simple = tr(Σ) / |G|² (McCandlish, Kaplan, Amodei et al. 2018, “An Empirical Model of Large-Batch Training”, eq. 2.9
and appendix A.1), G the mean gradient and Σ the covariance of single samples' gradients. E|G_B|² = |G|² + tr(Σ) / B for
a batch of B samples, so two sizes give both without bias:

    |G|² ≈ (B_b |G_b|² − B_s |G_s|²) / (B_b − B_s)        tr(Σ) ≈ (|G_s|² − |G_b|²) / (1/B_s − 1/B_b)

A ratio of two unbiased estimates is not unbiased itself, and |G|² of one draw may be negative: both are averaged over
draws before they are divided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.analysis.statistics import CONFIDENCE, Array, t_quantile
from core.base.evidence import Label
from core.base.schema import UserError
from core.studies.noise.record import GradientDraw, NoiseStudy

MIN_DRAWS = 4
"""Fewer give a nearly meaningless standard deviation."""

SMALLEST = 1e-6  # samples: stands in if tr(Σ) is not shown to be above zero, so that it has a logarithm
GRID = 512  # points of integration over a training, even in log(step + 1)


@dataclass(frozen=True)
class NoiseScale:
    """B_simple in samples with its 95 % interval; ``high`` None: no upper bound, since |G|² may be zero ("at least").

    ``value`` is None if not even the mean of |G|² is above zero; then only ``low`` is known. ``step`` is the mean step
    of its ``draws``.
    """

    step: float
    value: float | None
    low: float
    high: float | None
    draws: int

    @property
    def resolved(self) -> bool:
        return self.value is not None and self.high is not None


@dataclass(frozen=True)
class TrainingNoise:
    """Noise scale along a training run, and its implications for the number of steps.

    ``scales`` by rising step. ``value`` (``low``, ``high``) is the average up to the target loss, weighted by the
    progress of each step (:func:`training_noise`). ``reference_batch`` trained ``steps`` steps to ``target_loss``;
    ``steps`` is None if it was not reached, and then so are ``minimal_steps`` (S_min) and ``minimal_samples`` (E_min).
    """

    label: Label
    scales: tuple[NoiseScale, ...]
    value: float | None
    low: float
    high: float | None
    reference_batch: int
    target_loss: float
    steps: float | None
    minimal_steps: float | None
    minimal_samples: float | None

    def step_factor(self, batch: float, noise: float | None) -> float:
        """Return the steps at a batch over those at the reference batch, S(B) / S(B_ref), for a noise scale (None:
        infinite).
        """
        if noise is None:
            return self.reference_batch / batch
        return (1 + noise / batch) / (1 + noise / self.reference_batch)


def noise_scale(draws: Sequence[GradientDraw]) -> NoiseScale:
    """Return the noise scale of the draws with Fieller's interval (1954): the ratios that a t test over draws cannot
    reject.

    Exact for normal estimates, also with |G|² hardly above zero; there it is unbounded above. Raises UserError for
    fewer than ``MIN_DRAWS`` draws.
    """
    if len(draws) < MIN_DRAWS:
        raise UserError(f"A noise scale needs {MIN_DRAWS} draws at least; there are {len(draws)}.")
    trace, squared, weights = _estimates(draws)
    step = float(weights @ np.array([draw.step for draw in draws]))
    middle, signal = float(weights @ trace), float(weights @ squared)
    low, high = _fieller(trace, squared, weights)
    if signal <= 0:
        return NoiseScale(step, None, low, None, len(draws))
    value = max(0.0, middle) / signal
    return NoiseScale(step, value, min(low, value), None if high is None else max(high, value), len(draws))


def _estimates(draws: Sequence[GradientDraw]) -> tuple[Array, Array, Array]:
    """Return tr(Σ) and |G|² of every draw, and its weight; weights sum to 1.

    If noise dominates, the precision of |G|² follows the number of pairs of independent small batches within the big
    one: its variance goes with 1 / (B_b (B_b − B_s)).
    """
    small = np.array([draw.small for draw in draws], dtype=float)
    big = np.array([draw.big for draw in draws], dtype=float)
    small_norm2 = np.array([draw.small_norm2 for draw in draws])
    big_norm2 = np.array([draw.big_norm2 for draw in draws])
    squared = (big * big_norm2 - small * small_norm2) / (big - small)
    trace = (small_norm2 - big_norm2) / (1 / small - 1 / big)
    weights = big * (big - small)
    return trace, squared, weights / weights.sum()


def _fieller(above: Array, below: Array, weights: Array) -> tuple[float, float | None]:
    """Return the range of ratios r ≥ 0 of the means with (mean(above) − r mean(below))² ≤ t² var(mean(above − r
    below)).

    This is a quadratic a r² − 2 b r + c ≤ 0. If a is not above zero the denominator is not shown to differ from zero,
    and the set reaches to infinity. Draws of unequal weight count as 1 / Σ w² equal ones, the effective sample size.
    """
    effective = 1 / float(weights @ weights)
    df = max(1, int(effective - 1))
    t2 = t_quantile((1 + CONFIDENCE) / 2, df) ** 2 / effective
    x, y = float(weights @ above), float(weights @ below)
    both = np.stack([above - x, below - y])
    covariance = (weights * both) @ both.T * effective / max(effective - 1, 1e-9)
    y = max(0.0, y)  # |G|² is not negative, whatever its estimate
    a = y**2 - t2 * float(covariance[1, 1])
    b = x * y - t2 * float(covariance[0, 1])
    c = x**2 - t2 * float(covariance[0, 0])
    root = math.sqrt(max(0.0, b**2 - a * c))
    if a > 0:
        return max(0.0, (b - root) / a), max(0.0, (b + root) / a)
    if a == 0 or c <= 0 or x <= 0:
        return 0.0, None  # tr(Σ) is not shown to be above zero either
    return (b - root) / a, None


def scales(draws: Sequence[GradientDraw]) -> tuple[NoiseScale, ...]:
    """Return the noise scale by rising step.

    Steps whose draws alone cannot bound it are merged with those after them, the last ones with those before; if it
    stays unbounded, all draws form one scale.
    """
    by_step: dict[int, list[GradientDraw]] = {}
    for draw in sorted(draws, key=lambda draw: draw.step):
        by_step.setdefault(draw.step, []).append(draw)
    groups: list[list[GradientDraw]] = []
    waiting: list[GradientDraw] = []
    for group in by_step.values():
        waiting = waiting + group
        if len(waiting) >= MIN_DRAWS and noise_scale(waiting).resolved:
            groups.append(waiting)
            waiting = []
    if waiting and groups:
        groups[-1] = groups[-1] + waiting
        while len(groups) > 1 and not noise_scale(groups[-1]).resolved:
            last = groups.pop()
            groups[-1] = groups[-1] + last
    elif len(waiting) >= MIN_DRAWS:
        groups = [waiting]
    return tuple(noise_scale(group) for group in groups)


def training_noise(study: NoiseStudy) -> TrainingNoise | None:
    """Return the average noise scale over the training up to the target loss, and the steps S(B) implied by it.

    An increment of progress that takes ds_min steps at an infinite batch takes ds_min (1 + B(s) / B) at batch B
    (McCandlish et al. 2018, eq. 2.6 and 2.12, D.1). So at the reference batch ds_min = ds / (1 + B(s) / B_ref), and
    over a whole training S(B) = S_min (1 + B_noise / B) with S_min = ∫ ds_min and B_noise = ∫ B(s) ds_min / S_min:
    steps count by the progress they make. Between measured steps log B(s) is interpolated over log(step + 1). None if
    the draws are too few.
    """
    measured = scales(study.draws)
    if not measured:
        return None
    steps, batch = study.steps_to_loss, study.plan.batch
    end = study.steps if steps is None else steps
    value, low, high = measured[0].value, measured[0].low, measured[0].high  # one scale of all draws, if unbounded
    if all(scale.resolved for scale in measured) and end > 0:
        value, low, high = _averaged(measured, end, batch)
    minimal = None if steps is None or value is None else steps / (1 + value / batch)
    return TrainingNoise(
        label=study.label,
        scales=measured,
        value=value,
        low=low,
        high=high,
        reference_batch=batch,
        target_loss=study.target_loss,
        steps=steps,
        minimal_steps=minimal,
        minimal_samples=None if minimal is None or value is None else minimal * value,
    )


def _averaged(measured: Sequence[NoiseScale], end: float, batch: int) -> tuple[float, float, float]:
    """Return the average with its interval: each scale is moved to its bounds alone, and the effects combined as a root
    of squares, since draws at different steps are independent.
    """
    middle = np.log([max(SMALLEST, scale.value or 0.0) for scale in measured])
    lows = np.log([max(SMALLEST, scale.low) for scale in measured])
    highs = np.log([max(SMALLEST, scale.high or 0.0) for scale in measured])
    steps = np.array([scale.step for scale in measured])
    average = _average(steps, middle, end, batch)

    def effect(bounds: Array) -> float:
        moved = (np.where(np.arange(len(measured)) == i, bounds, middle) for i in range(len(measured)))
        return math.sqrt(sum((_average(steps, logs, end, batch) - average) ** 2 for logs in moved))

    return math.exp(average), math.exp(average - effect(lows)), math.exp(average + effect(highs))


def _average(steps: Array, logs: Array, end: float, batch: int) -> float:
    """Return the logarithm of ∫ B ds_min / ∫ ds_min from step 0 to ``end``."""
    grid = np.expm1(np.linspace(0.0, math.log1p(end), GRID))
    noise = np.exp(np.interp(np.log1p(grid), np.log1p(steps), logs))
    progress = 1 / (1 + noise / batch)
    return math.log(float(np.trapezoid(noise * progress, grid) / np.trapezoid(progress, grid)))
