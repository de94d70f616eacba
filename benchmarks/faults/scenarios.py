"""A study of every kind on a simulated machine without noise, so that every number it may report is known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from simulated.kinds import cases

MAKE = {name: case.scenario for name, case in cases().items() if case.scenario is not None}
"""Makers of scenarios by kind of study."""

MEASURED = {"rounds": "step_ms", "draws": "small_norm2", "probes": "peak_bytes"}


def numbers_of(record: Any) -> list[float]:
    """Return the workers' measurements as a record of any kind stores them."""
    return list(_numbers(record.model_dump(mode="json"), ""))


def _numbers(value: Any, key: str) -> Iterator[float]:
    if isinstance(value, dict):
        number = value.get(key)
        if isinstance(number, int | float) and math.isfinite(number):
            yield number
        for name, part in value.items():
            yield from _numbers(part, MEASURED.get(name, "" if name in ("traces", "setups") else key))
    elif isinstance(value, list):
        for part in value:
            yield from _numbers(part, key)
