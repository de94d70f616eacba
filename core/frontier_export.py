"""A frontier study as one JSON object: what it says, and what was measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.analysis.frontier_answer import FrontierAnswer, FrontierSlice, Line, slice_of


def frontier_data(answer: FrontierAnswer) -> dict[str, Any]:
    """What it says, derived, and under ``record`` what was measured, from which it follows.

    Speed-ups are log2(t_first / t_second): above zero the second target is ahead. Every entry says whether it is
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
        "readings": [_at(asdict(one)) for one in answer.readings],
        "measured": [_at(asdict(one)) for one in answer.points],
        "cells": [_at(asdict(one)) for one in answer.cells],
        "failed": [_at(asdict(one)) for one in answer.failed],
        "slices": [_slice(answer, value) for value in plan.values(plan.held_axis)],
        "record": study.model_dump(mode="json"),
    }


def _at(entry: dict[str, Any]) -> dict[str, Any]:
    """Settings as objects with named axes."""
    return {key: value._asdict() if hasattr(value, "_asdict") else value for key, value in entry.items()}


def _slice(answer: FrontierAnswer, value: int) -> dict[str, Any]:
    found = slice_of(answer, answer.study.plan.held_axis, value)
    return {
        found.fixed: value,
        "label": "interpolated",
        "contour": _lines(found, found.contour),
        "lower": _lines(found, found.lower),
        "upper": _lines(found, found.upper),
    }


def _lines(found: FrontierSlice, lines: tuple[Line, ...]) -> list[dict[str, list[float]]]:
    return [{found.x_axis: [round(v, 3) for v in one.x], found.y_axis: [round(v, 3) for v in one.y]} for one in lines]
