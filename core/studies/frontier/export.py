"""Export of a frontier study as JSON and as lines of text with its map."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.base.evidence import note_lines
from core.base.numbers import moment, table
from core.base.text import in_lines
from core.studies.frontier.answer import FrontierAnswer, FrontierSlice, Line, slice_of
from core.workload.execution import chosen_line


def frontier_data(answer: FrontierAnswer) -> dict[str, Any]:
    """Return the derived answer, and under ``record`` the raw measurements behind it.

    Speed-ups are log2(t_first / t_second): above zero the second target is faster. Every entry says whether it is
    measured or interpolated. ``slices`` hold the break-even contour and the two lines that bound it at 95 %, for each
    value of the axis that is held.
    """
    study, plan = answer.study, answer.study.plan
    return {
        "verdict": answer.sentence,
        "code": answer.code,
        "reason": answer.reason,
        "label": study.label,
        "targets": plan.target_names,
        "point": None if answer.point is None else _at(asdict(answer.point)),
        "readings": [_at(asdict(part)) for part in answer.readings],
        "measured": [_at(asdict(part)) for part in answer.points],
        "cells": [_at(asdict(part)) for part in answer.cells],
        "failed": [_at(asdict(part)) for part in answer.failed],
        "slices": [_slice(answer, value) for value in plan.values(plan.held_axis)],
        "record": study.model_dump(mode="json"),
    }


def _at(entry: dict[str, Any]) -> dict[str, Any]:
    """Convert settings into objects with named axes."""
    return {key: value._asdict() if hasattr(value, "_asdict") else value for key, value in entry.items()}


def _slice(answer: FrontierAnswer, value: int) -> dict[str, Any]:
    plane = slice_of(answer, answer.study.plan.held_axis, value)
    return {
        plane.fixed: value,
        "label": "interpolated",
        "contour": _lines(plane, plane.contour),
        "lower": _lines(plane, plane.lower),
        "upper": _lines(plane, plane.upper),
    }


def _lines(plane: FrontierSlice, lines: tuple[Line, ...]) -> list[dict[str, list[float]]]:
    return [
        {plane.x_axis: [round(v, 3) for v in line.x], plane.y_axis: [round(v, 3) for v in line.y]} for line in lines
    ]


def frontier_text(answer: FrontierAnswer) -> str:
    """Return the verdict and readings, the map at the setting of the readings, failures, and how it was measured."""
    study, plan = answer.study, answer.study.plan
    held = plan.held_axis
    plane = slice_of(answer, held, getattr(answer.at, held))
    further = [part.sentence for part in answer.readings if part.sentence not in answer.sentence]
    first, second = plan.names
    lines = [answer.sentence, *further, ""]
    lines.append(f"Speed-up of {second} over {first} at {held} {plane.value:,.0f}; above 1 means faster.")
    lines.append("* measured there, the others interpolated; ? not clear which is faster.")
    lines += [*_map(answer, plane), ""]
    skipped = [part for part in answer.failed if part.outcome == "skipped"]
    for part in answer.failed:
        if part.outcome != "skipped":
            who = f" on {plan.name_of(part.target)}" if part.target else ""
            lines.append(f"{part.setting.words}{who}: {part.outcome.replace('_', ' ')}. {part.reason}".rstrip())
    if skipped:
        lines.append(f"{len(skipped):,} settings were skipped. {skipped[0].reason}")
    lines += [answer.reason, *chosen_line(plan.workload(plan.settings[0]), *plan.targets)]
    lines.append(
        f"All times are {study.label}: {plan.title}; {len(study.rounds):,} rounds, {study.elapsed_s:.0f} s, "
        f"{study.status}, {moment(study.created_at)}"
    )
    lines += note_lines(study.warnings)
    return in_lines(lines)


def _map(answer: FrontierAnswer, plane: FrontierSlice) -> list[str]:
    columns = (f"{plane.y_axis} \\ {plane.x_axis}", *(f"{x:,}" for x in plane.x))
    rows = []
    for i, y in enumerate(plane.y):
        cells = []
        for j in range(len(plane.x)):
            mean, sd = float(plane.mean[i, j]), float(plane.sd[i, j])
            if mean != mean:  # NaN: cannot run
                cells.append("-")
                continue
            marks = ("*" if plane.measured[i, j] else "") + ("?" if abs(mean) <= answer.band * sd else "")
            cells.append(f"{2**mean:.2f}{marks}")
        rows.append((f"{y:,}", *cells))
    return table(columns, rows)
