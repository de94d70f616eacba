"""Answer of a host study by itself: the step time of each tiny network.

:mod:`core.hardware.host` derives the cost of a step and of an operation from the same record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.analysis.statistics import bounded_median
from core.base.numbers import moment, table
from core.base.text import in_lines
from core.hardware.host_record import HostStudy


@dataclass(frozen=True)
class HostStep:
    """Median step time in ms with its 95 % interval; bounds are None if rounds are too few."""

    title: str
    step_ms: float
    low_ms: float | None
    high_ms: float | None


def host_steps(study: HostStudy) -> tuple[HostStep, ...]:
    """Return the step time of every cell that has a round."""
    return tuple(step for index in range(len(study.cells)) if (step := _step(study, index)) is not None)


def _step(study: HostStudy, index: int) -> HostStep | None:
    times = np.array([ms for item in study.rounds if (ms := item.step_ms(index)) is not None])
    return HostStep(study.cells[index].title, *bounded_median(times)) if len(times) else None


def host_text(study: HostStudy, steps: tuple[HostStep, ...]) -> str:
    """Return the steps as a table, and how they were measured."""
    rows = [(step.title, step.step_ms, step.low_ms, step.high_ms) for step in steps]
    lines = [study.title, "", *table(("step", "ms", "95 % from", "to"), rows), ""]
    lines.append(
        f"All times are {study.label}: {len(study.rounds)} rounds, {study.elapsed_s:.0f} s, {study.status}, "
        f"{moment(study.created_at)}"
    )
    return in_lines(lines)
