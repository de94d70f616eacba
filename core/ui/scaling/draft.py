"""A study from the Scaling form, with one sentence beside each invalid field. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from core.base.frameworks import FRAMEWORKS, MAX_REPLICAS
from core.studies.scaling.record import LOGICAL, MIN_SCALING_S, ScalingPlan, doubling, of_counts, shared_grid
from core.ui.checks import Checks, Outcome, checked_budget, checked_number, checked_workload
from core.workload.spec import MAX_BATCH, MIN_BATCH, Target, geometric_grid

OFFERED = tuple(name for name, framework in FRAMEWORKS.items() if framework.several is not None)
TRY_OUT = 0
"""Replaces a number of devices: two logical CPUs."""


@dataclass(frozen=True)
class ScalingDraft:
    """The form's current values; None for a number is an emptied field.

    ``workload`` holds the arguments of :func:`core.ui.checks.checked_workload`, ``gpus`` are this machine's usable
    ones, ``devices`` is the maximum number measured.
    """

    workload: dict[str, Any]
    gpus: tuple[str, ...]
    devices: int
    framework: str
    precision: str
    execution: str
    low: int | None
    high: int | None
    budget_s: float | None


def choices(gpus: Sequence[str]) -> tuple[int, ...]:
    """Return the options for the maximum number of devices: two or more GPUs, and the try-out."""
    most = min(len(gpus), MAX_REPLICAS)
    return (*(count for count in doubling(most) if count > 1), TRY_OUT)


def targets_of(gpus: Sequence[str], devices: int) -> tuple[Target, ...]:
    """Return targets with one device, then doubling."""
    return LOGICAL if devices == TRY_OUT else of_counts(gpus, doubling(devices))


def build_study(draft: ScalingDraft, missing: Mapping[str, str] = MappingProxyType({})) -> Outcome[ScalingPlan]:
    """Validate a draft. ``missing`` has a sentence for each framework that is not installed here.

    Fields: workload, each size, devices, framework, low, high, batches, budget.
    """
    checks = Checks()
    workload = checked_workload(checks, **draft.workload)
    way = {"framework": draft.framework, "precision": draft.precision, "execution": draft.execution}
    if draft.framework in missing:
        checks.errors["framework"] = missing[draft.framework]
    targets = checks.attempt("devices", lambda: _targets(draft, way))
    ends = {
        "low": checks.attempt("low", lambda: checked_number("The smallest batch", draft.low, MIN_BATCH, MAX_BATCH)),
        "high": checks.attempt("high", lambda: checked_number("The largest batch", draft.high, MIN_BATCH, MAX_BATCH)),
    }
    low, high = ends["low"], ends["high"]
    batches = None
    if targets is not None and low is not None and high is not None:
        batches = checks.attempt("batches", lambda: shared_grid(geometric_grid(low, high), targets))
    budget_s = checks.attempt("budget", lambda: checked_budget(draft.budget_s, MIN_SCALING_S))
    if checks.errors:
        return Outcome(None, checks.errors)
    data = {"workload": workload, "targets": targets, "batches": batches, "budget_s": budget_s}
    return Outcome(checks.attempt("batches", lambda: ScalingPlan.model_validate(data)), checks.errors)


def _targets(draft: ScalingDraft, way: dict[str, str]) -> tuple[Target, ...]:
    return tuple(Target.model_validate(target.model_dump() | way) for target in targets_of(draft.gpus, draft.devices))
