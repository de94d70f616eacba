"""Difference between two runs, with an interval. Pure.

Runs are measured at different times, so their noise does not cancel as it does between targets of one run: the interval
of a ratio is combined from the intervals of its two parts (MOVER, Zou and Donner 2008, on logarithms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from core.numbers import interval_words, number
from core.studies.sweep.answer import Answer
from core.studies.sweep.comparison import LETTERS
from core.studies.sweep.record import Run


class Estimate(NamedTuple):
    """A positive value with its 95 % bounds."""

    value: float
    low: float
    high: float


def ratio(first: Estimate, second: Estimate) -> Estimate:
    """Return the ratio ``second`` / ``first`` of independent estimates."""
    a, b = (Estimate(*map(math.log, one)) for one in (first, second))
    middle = b.value - a.value
    below = math.hypot(b.value - b.low, a.high - a.value)
    above = math.hypot(b.high - b.value, a.value - a.low)
    return Estimate(*map(math.exp, (middle, middle - below, middle + above)))


def stated(runs: Sequence[Run], answers: Sequence[Answer]) -> tuple[str, ...]:
    """Return a sentence for each run but the first, A, on how it differs from A.

    It compares crossovers if each run has one, else speed-ups, else step times at the largest common batch.
    """
    first = runs[0], answers[0]
    return tuple(
        f"{letter} against {LETTERS[0]}: {_against(first, other)}"
        for letter, *other in list(zip(LETTERS, runs, answers, strict=False))[1:]
    )


def _against(first: Sequence[Any], second: Sequence[Any]) -> str:
    a, b = _crossover(*first), _crossover(*second)
    if a is not None and b is not None and a[1] == b[1]:
        here, there = (interval_words(*one[0]) for one in (b, a))
        return f"the crossover is at batch {here} instead of {there}, 95 % intervals ({_clear(ratio(a[0], b[0]))})."
    for what, values in (("the speed-up is {} times as high", _speed_ups), ("a step takes {} times as long", _times)):
        of_a, of_b = values(first[1]), values(second[1])
        if both := of_a.keys() & of_b.keys():
            batch = max(both)
            found = ratio(of_a[batch], of_b[batch])
            words = what.format(number(found.value))
            interval = f"95 % interval {number(found.low)} to {number(found.high)}"
            return f"at batch {batch:,} {words}, {interval} ({_clear(found)})."
    return "no batch has an interval in both, so nothing is said of their difference."


def _crossover(run: Run, answer: Answer) -> tuple[Estimate, int] | None:
    """Return the crossover and the target that is faster above it; None unless there is exactly one."""
    found = answer.verdict.crossovers
    bounds = _estimate(found[0].batch, found[0].low, found[0].high) if len(found) == 1 else None
    return None if bounds is None else (bounds, run.target_names.index(found[0].ahead_after))


def _speed_ups(answer: Answer) -> dict[int, Estimate]:
    """Return the speed-ups of the second target over the first, by batch."""
    found = {one.batch: _estimate(one.ratio, one.low, one.high) for one in answer.speed_ups}
    return {batch: one for batch, one in found.items() if one is not None}


def _times(answer: Answer) -> dict[int, Estimate]:
    """Return the step times of the first target, by batch."""
    found = {cell.batch: _estimate(cell.step_ms, cell.low_ms, cell.high_ms) for cell in answer.cells if not cell.target}
    return {batch: one for batch, one in found.items() if one is not None}


def _clear(found: Estimate) -> str:
    return "not clear" if found.low <= 1 <= found.high else "clear"


def _estimate(value: float, low: float | None, high: float | None) -> Estimate | None:
    return None if low is None or high is None or low <= 0 else Estimate(value, low, high)
