"""Comparison of several runs: their verdicts, and the settings in which they differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.evidence import same_machine
from core.figures.style import machine_parts
from core.names import notations, side_by_side
from core.studies.sweep.answer import Answer
from core.studies.sweep.record import Run

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
    found: list[str] = []
    for index, run in enumerate(runs):
        alike = [other for other in range(index) if words[other] == words[index]]
        same = next((other for other in alike if _is_same(runs[other], run)), None)
        others = len({found[other] for other in alike})
        found.append(words[index] + (f", machine {others + 1}" if others else "") if same is None else found[same])
    return found


def _is_same(first: Run, second: Run) -> bool:
    return same_machine(first.environment, second.environment) is not False
