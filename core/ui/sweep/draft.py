"""A plan from a form, with one sentence beside each invalid field. Pure: no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from core.base.numbers import duration
from core.rounds.plan import SweepPlan, check_fits
from core.studies.sweep.proposal import with_proposed_budget
from core.ui.checks import Checks, Outcome, checked_targets, checked_workload, range_fields
from core.workload.spec import Pipeline, Target, Workload, geometric_grid, parse_batches

USUAL_RANGE = (1, 1024)
RANGE = range_fields(*USUAL_RANGE)
WORKLOAD = ("family", "preset", "sizes", "mode", "optimizer", "architecture", "lengths")


@dataclass(frozen=True, kw_only=True)
class SweepOutcome(Outcome[SweepPlan]):
    """Outcome of the form; ``workload`` and each of the ``targets`` are set as soon as they are valid."""

    workload: Workload | None
    targets: tuple[Target | None, ...]


def build(
    inputs: Mapping[str, Any],
    available_bytes: int,
    limited: str = "",
    missing: Mapping[str, str] = MappingProxyType({}),
) -> SweepOutcome:
    """Return the plan of the form's values, by field, checked against a machine's free memory (:func:`check_fits`).

    Beside the plan's fields ``inputs`` holds the arguments of :func:`core.ui.checks.checked_workload`; ``batches`` is
    ("range", low, high) or ("list", text). ``missing`` has a sentence for each framework that is not installed here.
    Other places of errors: target 0, target 1, …, low, high, memory, and those of workload and pipeline.
    """
    checks = Checks()
    workload = checked_workload(checks, **{name: inputs[name] for name in WORKLOAD if name in inputs})
    proposed = {"budget_s"} if inputs["budget_s"] is None else set()
    values = checks.fields(SweepPlan, {name: value for name, value in inputs.items() if name not in proposed})
    pipeline = _pipeline(checks, inputs["pipeline"])
    values |= {
        "workload": workload,
        "targets": checked_targets(checks, inputs["targets"], workload, missing, pipeline),
        "batches": _batches(checks, inputs["batches"]),
        "pipeline": pipeline,
    }
    return _planned(checks, values, available_bytes, limited)


def fitting(plan: SweepPlan, available_bytes: int, limited: str = "") -> SweepOutcome:
    """Return the outcome of a plan that a page proposes; fields and limits as for :func:`build`."""
    checks = Checks()
    checks.attempt("memory", lambda: check_fits(plan, available_bytes, limited))
    known = {"workload": plan.workload, "targets": plan.targets}
    return SweepOutcome(plan=None if checks.errors else plan, errors=checks.errors, **known)  # type: ignore[arg-type]


def says(plan: SweepPlan) -> str:
    """Return what a plan measures, in one sentence."""
    return f"{plan.title}, batch {plan.batches[0]:,} to {plan.batches[-1]:,}, at most {duration(plan.budget_s)}."


def untouched(workload: Workload, targets: tuple[Target, ...]) -> SweepPlan:
    """Return the plan of the default form with this workload and these targets."""
    return with_proposed_budget(SweepPlan(workload=workload, targets=targets, batches=geometric_grid(*USUAL_RANGE)))


def _planned(checks: Checks, values: dict[str, Any], available_bytes: int, limited: str) -> SweepOutcome:
    known = {"workload": values["workload"], "targets": tuple(values["targets"])}
    if checks.errors:
        return SweepOutcome(plan=None, errors=checks.errors, **known)
    plan = checks.attempt("batches", lambda: SweepPlan.model_validate(values))
    if plan is not None:
        fitting = plan = plan if "budget_s" in values else with_proposed_budget(plan)
        checks.attempt("memory", lambda: check_fits(fitting, available_bytes, limited))
    return SweepOutcome(plan=None if checks.errors else plan, errors=checks.errors, **known)


def _batches(checks: Checks, chosen: tuple[Any, ...]) -> tuple[int, ...] | None:
    kind, *values = chosen
    if kind == "list":
        return checks.attempt("batches", lambda: parse_batches(values[0]))
    return checks.grid(RANGE, *values)


def _pipeline(checks: Checks, chosen: Mapping[str, Any]) -> Pipeline | None:
    values = checks.fields(Pipeline, chosen)
    if values.keys() & checks.errors.keys():
        return None
    return checks.attempt("preprocess_python", lambda: Pipeline(kind=chosen["kind"], **values))
