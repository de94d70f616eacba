"""The same sweep on several occasions: whether the crossovers agree, and their combined estimate. Pure.

A run's interval holds for the minutes of the run: it includes the differences between its worker processes, but not
those of the machine on another day, or after another program has come or gone (measured: benchmarks/seconds.py,
docs/tables/speed.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.analysis.numerics import Array, bisect
from core.analysis.statistics import CONFIDENCE, normal_quantile, t_quantile
from core.base.evidence import same_machine
from core.base.numbers import counted, interval_words
from core.rounds.answer.answer import Answer, Crossover
from core.rounds.run import Run

ENOUGH = 3
"""Occasions from which on their scatter predicts the next one."""
UPPER = 0.5 + CONFIDENCE / 2
WIDEST = 64.0
"""Octaves: more than any range of batches."""
LEAST = 1e-3
"""Least standard error in octaves: batch sizes are whole, so they resolve nothing finer."""


@dataclass(frozen=True)
class Occasion:
    """One run of a repeated sweep; ``crossover`` is None if it found none with an interval."""

    run: Run
    crossover: Crossover | None


@dataclass(frozen=True)
class Repeats:
    """Results of several occasions, newest first. ``agree`` is None if fewer than two have a crossover.

    ``together``: crossover over all occasions with its 95 % interval; ``next_range``: 95 % prediction range for another
    occasion. Both in batches, None with fewer than :data:`ENOUGH` crossovers.
    """

    occasions: tuple[Occasion, ...]
    agree: bool | None = None
    together: tuple[float, float, float] | None = None
    next_range: tuple[float, float] | None = None

    @property
    def named(self) -> tuple[Crossover, ...]:
        return tuple(occasion.crossover for occasion in self.occasions if occasion.crossover is not None)


def is_repeat(first: Run, second: Run) -> bool:
    """Tell whether two measured runs have the same request and machine; budget and batch sizes may differ."""
    if first.plan is None or second.plan is None or first.label != "measured" or second.label != "measured":
        return False
    questions = [(run.plan.workload, run.plan.targets, run.plan.pipeline) for run in (first, second) if run.plan]
    return questions[0] == questions[1] and same_machine(first.environment, second.environment) is True


def occasion(run: Run, answer: Answer | None) -> Occasion:
    """Return the occasion of a run; it has a crossover if two targets have exactly one with both bounds."""
    crossovers = answer.verdict.crossovers if answer is not None and len(run.target_names) == 2 else ()
    only = (
        crossovers[0]
        if len(crossovers) == 1 and crossovers[0].low is not None and crossovers[0].high is not None
        else None
    )
    return Occasion(run, only)


def repeats(occasions: Sequence[Occasion]) -> Repeats:
    """Combine several occasions. Crossovers with different targets ahead above them are not combined."""
    ordered = tuple(sorted(occasions, key=lambda occasion: occasion.run.created_at, reverse=True))
    named = [occasion.crossover for occasion in ordered if occasion.crossover is not None]
    if len(named) < 2:
        return Repeats(ordered)
    if len({change.ahead_after for change in named}) > 1:
        return Repeats(ordered, agree=False)
    y = np.log2([change.batch for change in named])
    error = np.array([_error(change) for change in named])
    agree = _excess(y, error, 0.0) <= 0
    if len(named) < ENOUGH:
        return Repeats(ordered, agree)
    return Repeats(ordered, agree, *_together(y, error))


def _error(crossover: Crossover) -> float:
    """Return the standard error in octaves that the interval implies."""
    assert crossover.low is not None
    assert crossover.high is not None
    return max(math.log2(crossover.high / crossover.low) / (2 * normal_quantile(UPPER)), LEAST)


def _weighted(y: Array, error: Array, between: float) -> tuple[float, Array]:
    """Return mean and weights for a variance ``between`` occasions."""
    weights = 1.0 / (error**2 + between)
    return float(weights @ y / weights.sum()), weights


def _excess(y: Array, error: Array, between: float) -> float:
    """Return Cochran's Q less the 95 % quantile of its distribution without a difference between occasions."""
    mean, weights = _weighted(y, error, between)
    return float(weights @ (y - mean) ** 2) - _chi_square_95(len(y) - 1)


def _chi_square_95(df: int) -> float:
    """Return the 95 % quantile of chi-square: exact for one degree of freedom, else Wilson and Hilferty 1931 (within 1
    %).
    """
    if df == 1:
        return normal_quantile(UPPER) ** 2
    return df * (1 - 2 / (9 * df) + normal_quantile(CONFIDENCE) * math.sqrt(2 / (9 * df))) ** 3


def _together(y: Array, error: Array) -> tuple[tuple[float, float, float], tuple[float, float]]:
    """Return the mean of a random-effects model (variance between occasions by Paule and Mandel 1982, interval by
    Hartung and Knapp 2001), and the prediction interval of Higgins, Thompson and Spiegelhalter 2009.
    """

    def too_small(between: float) -> bool:
        mean, weights = _weighted(y, error, between)
        return float(weights @ (y - mean) ** 2) > len(y) - 1

    between = bisect(too_small, 0.0, WIDEST) if too_small(0.0) else 0.0
    mean, weights = _weighted(y, error, between)
    known = 1.0 / float(weights.sum())
    variance = known * float(weights @ (y - mean) ** 2) / (len(y) - 1)
    # values close together by chance are no more precise than their own intervals
    half = max(t_quantile(UPPER, len(y) - 1) * math.sqrt(variance), normal_quantile(UPPER) * math.sqrt(known))
    reach = t_quantile(UPPER, len(y) - 2) * math.sqrt(between + max(variance, known))
    return (2.0**mean, 2.0 ** (mean - half), 2.0 ** (mean + half)), (2.0 ** (mean - reach), 2.0 ** (mean + reach))


def sentences(repeats: Repeats) -> tuple[str, ...]:
    """Describe the repeats for people; empty for a sweep that was measured once."""
    count, named = len(repeats.occasions), repeats.named
    if count < 2:
        return ()
    sentence = f"The same was measured {'twice' if count == 2 else f'{count} times'} on this machine"
    if not named:
        return (f"{sentence}; no run found one clear crossover.",)
    less = "" if len(named) == count else f", {counted(len(named), 'run')} with one clear crossover"
    if repeats.together is not None:
        batch, low, high = repeats.together
        over = f": over all of them the crossover is {interval_words(batch, low, high)}"
        if repeats.next_range is not None:
            over += (
                f", and another run would find it within {repeats.next_range[0]:,.0f} to {repeats.next_range[1]:,.0f}"
            )
        sentence += f"{less}{over}."
    else:
        sentence += f"{less}."
    return (sentence, *_differing(repeats))


def _differing(repeats: Repeats) -> tuple[str, ...]:
    if repeats.agree is not False:
        return ()
    return (
        "These runs differ by more than their intervals allow: an interval holds for the minutes of its run, and the "
        "machine was not alike in all of them.",
    )
