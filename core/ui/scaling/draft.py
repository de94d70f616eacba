"""A study from the Scaling form, with one sentence beside each invalid field. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from core.base.frameworks import FRAMEWORKS, MAX_REPLICAS
from core.studies.scaling.record import LOGICAL, ScalingPlan, doubling, of_counts, shared_grid
from core.ui.checks import Checks, Outcome, checked_workload, range_fields
from core.workload.spec import Target

OFFERED = tuple(name for name, framework in FRAMEWORKS.items() if framework.several is not None)
RANGE = range_fields(
    32,
    4096,
    "Each batch size is measured on one device and, shared out evenly, on several. Large ones show what the devices "
    "can come to.",
)
TRY_OUT = 0
"""Replaces a number of devices: two logical CPUs."""


def choices(gpus: Sequence[str]) -> tuple[int, ...]:
    """Return the options for the maximum number of devices: two or more GPUs, and the try-out."""
    most = min(len(gpus), MAX_REPLICAS)
    return (*(count for count in doubling(most) if count > 1), TRY_OUT)


def targets_of(gpus: Sequence[str], devices: int) -> tuple[Target, ...]:
    """Return targets with one device, then doubling."""
    return LOGICAL if devices == TRY_OUT else of_counts(gpus, doubling(devices))


def build_study(given: Mapping[str, Any], missing: Mapping[str, str] = MappingProxyType({})) -> Outcome[ScalingPlan]:
    """Return the plan of the form's values, by field.

    Args:
        given: Beside the plan's fields ``workload`` (arguments of :func:`core.ui.checks.checked_workload`), ``way``
            (fields that all targets share), ``gpus`` (this machine's usable ones) and ``devices`` (the maximum number
            measured). ``batches`` are the smallest and the largest.
        missing: A sentence for each framework that is not installed here.
    """
    checks, way = Checks(), given["way"]
    values = checks.fields(ScalingPlan, given) | {"workload": checked_workload(checks, **given["workload"])}
    if way["framework"] in missing:
        checks.errors["framework"] = missing[way["framework"]]
    targets = checks.attempt("devices", lambda: _targets(targets_of(given["gpus"], given["devices"]), way))
    grid = checks.grid(RANGE, *given["batches"])
    if targets is not None and grid is not None:
        values |= {"targets": targets, "batches": checks.attempt("batches", lambda: shared_grid(grid, targets))}
    return checks.outcome("batches", lambda: ScalingPlan.model_validate(values))


def _targets(targets: Sequence[Target], way: Mapping[str, str]) -> tuple[Target, ...]:
    return tuple(Target.model_validate({**target.model_dump(), **way}) for target in targets)
