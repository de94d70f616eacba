"""Speed-up of each arm of an experiment over the first one, with an interval.

A round holds every arm, so the log-ratio of time per sample is paired within rounds; its median within one start of the
workers is that start's value, and starts are the independent units, as in a sweep
(:mod:`core.rounds.answer.observations`). With three starts or more the interval is a t interval over them. With fewer,
an allowance for the differences between starts is added to the scatter of rounds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from core.analysis.statistics import CONFIDENCE, MIN_UNITS, bounded_median, median_interval, normal_quantile, t_quantile
from core.studies.experiment.record import Experiment

ALLOWANCE = 0.035
"""Standard deviation assumed between fewer than three starts. Arms share their process, so they differ by their
preparations alone (0.9 to 2.4 %, single ones more)."""


@dataclass(frozen=True)
class Effect:
    """Effect of one arm against arm 0. ``speed_up`` is arm 0's time per sample over this arm's (above 1: this arm is
    faster).

    Bounds are 95 %, None if the rounds are too few. ``step_ms`` is the median of the arm's blocks.
    """

    arm: int
    step_ms: float
    low_ms: float | None
    high_ms: float | None
    speed_up: float
    speed_up_low: float | None
    speed_up_high: float | None
    rounds: int
    processes: int


def effects(experiment: Experiment, base: int = 0, together: bool = False) -> tuple[Effect, ...]:
    """Return the effect of every arm that has a round together with ``base``, in the arms' order.

    Each interval holds by itself, for a comparison chosen beforehand; with ``together`` they hold simultaneously, for
    the best of several (Bonferroni).
    """
    arms = range(len(experiment.arms))
    comparisons = max(1, len(arms) - 1) if together else 1
    measured = (_effect(experiment, arm, base, comparisons) for arm in arms)
    return tuple(effect for effect in measured if effect is not None)


def _effect(experiment: Experiment, arm: int, base: int, comparisons: int) -> Effect | None:
    steps: list[float] = []
    logs: dict[int, list[float]] = defaultdict(list)
    scale = experiment.arms[arm].batch / experiment.arms[base].batch
    for item in experiment.rounds:
        mine, other = item.step_ms(arm), item.step_ms(base)
        if mine is None or other is None:
            continue
        steps.append(mine)
        logs[item.blocks[0].process].append(math.log(other * scale / mine))
    if not steps:
        return None
    step_ms, low_ms, high_ms = bounded_median(np.array(steps))
    center, half = log_effect(logs, comparisons)
    known = math.isfinite(half)
    return Effect(
        arm=arm,
        step_ms=step_ms,
        low_ms=low_ms,
        high_ms=high_ms,
        speed_up=math.exp(center),
        speed_up_low=math.exp(center - half) if known else None,
        speed_up_high=math.exp(center + half) if known else None,
        rounds=len(steps),
        processes=len(logs),
    )


def log_effect(logs: dict[int, list[float]], comparisons: int = 1) -> tuple[float, float]:
    """Return centre and half width of paired log-ratios by start of the workers; infinite if they are too few.

    The interval holds with 95 % simultaneously with those of ``comparisons``.
    """
    medians = np.array([np.median(values) for values in logs.values()])
    n = len(medians)
    alpha = (1 - CONFIDENCE) / comparisons
    rounds = np.array([value for values in logs.values() for value in values])
    low, high = median_interval(rounds, 1 - alpha)
    scatter = (high - low) / 2  # of the median over all rounds, ignoring starts; infinite for too few
    if n >= MIN_UNITS:
        # starts are the units; never narrower than the rounds alone would give
        spread = t_quantile(1 - alpha / 2, n - 1) * float(np.std(medians, ddof=1)) / math.sqrt(n)
        return float(np.mean(medians)), max(spread, scatter if math.isfinite(scatter) else 0.0)
    allowed = normal_quantile(1 - alpha / 2) * ALLOWANCE / math.sqrt(n)
    return float(np.mean(medians)), math.hypot(scatter, allowed)
