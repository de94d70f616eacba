"""Comparison of several runs: their verdicts, and the settings in which they differ. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from core.base.evidence import same_machine
from core.base.numbers import interval_words, number
from core.figures.style import machine_parts
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.workload.names import notations, side_by_side

MAX_COMPARED = 6
LETTERS = "ABCDEF"
"""Names of the runs of a comparison in its chart, table and sentences."""


class Row(NamedTuple):
    """One run of a comparison as text."""

    letter: str
    run: str
    machine: str
    day: str
    targets: str
    verdict: str


def comparison_rows(runs: Sequence[Run], answers: Sequence[Answer]) -> tuple[Row, ...]:
    """Return one row per run, in the order given."""
    machines, targets = _machines(runs), _targets(runs)
    return tuple(
        Row(letter, run.name, machines[index], run.created_at[:10], targets[index], answer.verdict.sentence)
        for index, (letter, run, answer) in enumerate(zip(LETTERS, runs, answers, strict=False))
    )


def differences(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return a sentence for each of network, targets, machine and pipeline that differs between the runs."""
    plans = [run.plan for run in runs]
    kinds: tuple[tuple[str, Sequence[str]], ...] = (
        ("networks", [plan.workload.title if plan else "unknown" for plan in plans]),
        ("targets", _targets(runs)),
        ("machines", _machines(runs)),
        ("pipelines", [plan.pipeline.title if plan else "unknown" for plan in plans]),
    )
    return tuple(f"Different {what}. {_grouped(values)}." for what, values in kinds if len(set(values)) > 1)


def _grouped(values: Sequence[str]) -> str:
    """Return ``A and C: x; B: y``."""
    groups: dict[str, list[str]] = {}
    for letter, value in zip(LETTERS, values, strict=False):
        groups.setdefault(value, []).append(letter)
    return "; ".join(f"{' and '.join(letters)}: {value}" for value, letters in groups.items())


def _targets(runs: Sequence[Run]) -> list[str]:
    """Return the targets of each run, named by what differs among all of them."""
    every = list(dict.fromkeys(name for run in runs for name in run.target_names))
    names = dict(zip(every, notations(every), strict=True))
    return [side_by_side([names[target] for target in run.target_names]) for run in runs]


def _machines(runs: Sequence[Run]) -> list[str]:
    """Return the machine of each run; different machines with the same description are numbered."""
    parts = [machine_parts(run.environment) if run.environment is not None else [] for run in runs]
    words = [", ".join(part) or "unknown" for part in parts]
    differences: list[str] = []
    for index, run in enumerate(runs):
        alike = [other for other in range(index) if words[other] == words[index]]
        same = next((other for other in alike if _is_same(runs[other], run)), None)
        others = len({differences[other] for other in alike})
        differences.append(
            words[index] + (f", machine {others + 1}" if others else "") if same is None else differences[same]
        )
    return differences


def _is_same(first: Run, second: Run) -> bool:
    return same_machine(first.environment, second.environment) is not False


class Estimate(NamedTuple):
    """A positive value with its 95 % bounds."""

    value: float
    low: float
    high: float


def ratio(first: Estimate, second: Estimate) -> Estimate:
    """Return the ratio ``second`` / ``first`` of independent estimates."""
    a, b = (Estimate(*map(math.log, estimate)) for estimate in (first, second))
    middle = b.value - a.value
    below = math.hypot(b.value - b.low, a.high - a.value)
    above = math.hypot(b.high - b.value, a.value - a.low)
    return Estimate(*map(math.exp, (middle, middle - below, middle + above)))


def stated(runs: Sequence[Run], answers: Sequence[Answer], batch: int | None = None) -> tuple[str, ...]:
    """Return a sentence for each run but the first, A, on how it differs from A; those of A's network come first.

    It compares crossovers if each run has one, else speed-ups, else step times: over all common batches if each of them
    is clearly different to the same side, else at ``batch``, by default the largest.
    """
    first = runs[0], answers[0]
    others = list(zip(LETTERS, runs, answers, strict=False))[1:]
    alike = [each for each in others if _network(each[1]) == _network(runs[0])]
    apart = [each for each in others if each not in alike]
    return (
        *(f"{letter} against {LETTERS[0]}: {_against(first, other, batch)}" for letter, *other in alike),
        *(f"{letter} is of another network than {LETTERS[0]}, so they are not set against each other."
          for letter, *_ in apart),
    )  # fmt: skip


def common_batches(answers: Sequence[Answer]) -> tuple[int, ...]:
    """Return the batches at which the first target of every run has an interval."""
    return tuple(sorted(set.intersection(*({*_times(answer)} for answer in answers)))) if answers else ()


def _network(run: Run) -> str | None:
    return run.plan.workload.title if run.plan is not None else None


def _against(first: Sequence[Any], second: Sequence[Any], batch: int | None) -> str:
    a, b = _crossover(*first), _crossover(*second)
    if batch is None and a is not None and b is not None and a[1] == b[1]:
        here, there = (interval_words(*change[0]) for change in (b, a))
        return f"the crossover is at batch {here} instead of {there}, 95 % intervals ({_clear(ratio(a[0], b[0]))})."
    for what, values in (("the speed-up is {} times as high", _speed_ups), ("a step takes {} times as long", _times)):
        of_a, of_b = values(first[1]), values(second[1])
        if both := sorted(of_a.keys() & of_b.keys()):
            changes = {size: ratio(of_a[size], of_b[size]) for size in both}
            sides = {_clear(change) == "clear" and change.value > 1 for change in changes.values()}
            if batch is None and len(both) > 1 and len(sides) == 1 and {*map(_clear, changes.values())} == {"clear"}:
                ends = [number(end(change.value for change in changes.values())) for end in (min, max)]
                return (
                    f"from batch {both[0]:,} to {both[-1]:,} {what.format(' to '.join(ends))} (clear at each of them)."
                )
            at = batch if batch in changes else both[-1]
            words = what.format(number(changes[at].value))
            interval = f"95 % interval {number(changes[at].low)} to {number(changes[at].high)}"
            return f"at batch {at:,} {words}, {interval} ({_clear(changes[at])})."
    return "no batch has an interval in both, so nothing is said of their difference."


def _crossover(run: Run, answer: Answer) -> tuple[Estimate, int] | None:
    """Return the crossover and the target that is faster above it; None unless there is exactly one."""
    crossovers = answer.verdict.crossovers
    bounds = _estimate(crossovers[0].batch, crossovers[0].low, crossovers[0].high) if len(crossovers) == 1 else None
    return None if bounds is None else (bounds, run.target_names.index(crossovers[0].ahead_after))


def _speed_ups(answer: Answer) -> dict[int, Estimate]:
    """Return the speed-ups of the second target over the first, by batch."""
    estimates = {s.batch: _estimate(s.ratio, s.low, s.high) for s in answer.speed_ups}
    return {batch: estimate for batch, estimate in estimates.items() if estimate is not None}


def _times(answer: Answer) -> dict[int, Estimate]:
    """Return the step times of the first target, by batch."""
    estimates = {
        cell.batch: _estimate(cell.step_ms, cell.low_ms, cell.high_ms) for cell in answer.cells if not cell.target
    }
    return {batch: estimate for batch, estimate in estimates.items() if estimate is not None}


def _clear(estimate: Estimate) -> str:
    return "not clear" if estimate.low <= 1 <= estimate.high else "clear"


def _estimate(value: float, low: float | None, high: float | None) -> Estimate | None:
    return None if low is None or high is None or low <= 0 else Estimate(value, low, high)
