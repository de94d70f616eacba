"""A plan from a form, with one sentence beside each invalid field. Pure: no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from core.base.numbers import duration
from core.base.schema import UserError
from core.networks.families import Network
from core.rounds.plan import SweepPlan, check_fits
from core.studies.sweep.proposal import with_proposed_budget
from core.ui.checks import Checks, Outcome, checked_budget, checked_number, checked_targets, checked_workload
from core.workload.spec import (
    MAX_BATCH,
    MAX_CROSSOVER_WIDTH,
    MAX_PARALLEL_CALLS,
    MAX_PREPROCESS_US,
    MIN_BATCH,
    Pipeline,
    Target,
    Workload,
    geometric_grid,
    parse_batches,
)

USUAL_RANGE = (1, 1024)


@dataclass(frozen=True)
class Draft:
    """A form's current values. ``preset`` is None for own ``sizes``; None for a number is an emptied field.

    ``architecture`` is a network read from a file, or the sentence that refused the file. ``batches`` is ("range", low,
    high) or ("list", text). Sufficient interval widths, in percent: ``width_pct`` of the step time,
    ``crossover_width_pct`` of the crossover's batch size.
    """

    family: str
    preset: str | None
    sizes: dict[str, int | None]
    mode: str
    optimizer: str
    targets: tuple[dict[str, Any], ...]
    batches: tuple[Any, ...]
    refine: bool
    pipeline: dict[str, Any]
    budget_s: float | None
    crossover_width_pct: float | None
    width_pct: float | None
    architecture: Network | str | None = None


@dataclass(frozen=True, kw_only=True)
class SweepOutcome(Outcome[SweepPlan]):
    """Outcome of the form; ``workload`` and each of the ``targets`` are set as soon as they are valid."""

    workload: Workload | None
    targets: tuple[Target | None, ...]


def build(
    draft: Draft, available_bytes: int, limited: str = "", missing: Mapping[str, str] = MappingProxyType({})
) -> SweepOutcome:
    """Validate a draft against a machine's free memory, and what limits it (:func:`check_fits`).

    ``missing`` has a sentence for each framework that is not installed here. Fields: workload, each size, target 0,
    target 1, …, targets, batches, smallest, largest, memory, calls, cost, pipeline, budget, crossover width, width.
    """
    checks = Checks()
    chosen = (draft.family, draft.preset, draft.sizes, draft.mode, draft.optimizer, draft.architecture)
    workload = checked_workload(checks, *chosen)
    values = {
        "workload": workload,
        "targets": checked_targets(checks, draft.targets, workload, missing),
        "batches": _batches(checks, draft.batches),
        "refine": draft.refine,
        "pipeline": _pipeline(checks, draft.pipeline),
        **_budget(checks, draft.budget_s),
        "crossover_width": checks.attempt("crossover width", lambda: _crossover_width(draft.crossover_width_pct)),
        "step_width": checks.attempt("width", lambda: _width("The step time's", draft.width_pct, 100, "it")),
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


def _budget(checks: Checks, budget_s: float | None) -> dict[str, float | None]:
    """Return the budget of a filled field; an empty one selects the proposed budget."""
    return {} if budget_s is None else {"budget_s": checks.attempt("budget", lambda: checked_budget(budget_s))}


def _batches(checks: Checks, chosen: tuple[Any, ...]) -> tuple[int, ...] | None:
    kind, *values = chosen
    if kind == "list":
        return checks.attempt("batches", lambda: parse_batches(values[0]))
    low, high = (
        checks.attempt(field, partial(checked_number, f"The {field} batch size", value, MIN_BATCH, MAX_BATCH))
        for field, value in zip(("smallest", "largest"), values, strict=True)
    )
    if low is None or high is None:
        return None
    return checks.attempt("batches", lambda: geometric_grid(low, high))


def _pipeline(checks: Checks, chosen: Mapping[str, Any]) -> Pipeline | None:
    calls, cost_us = chosen.get("parallel_calls"), chosen.get("preprocess_us", 0.0)
    if calls is not None:
        checks.attempt("calls", lambda: checked_number("Parallel map calls", calls, 1, MAX_PARALLEL_CALLS))
    checks.attempt("cost", lambda: checked_number("Preprocessing", cost_us, 0, MAX_PREPROCESS_US, " µs a sample"))
    if {"calls", "cost"} & checks.errors.keys():
        return None
    return checks.attempt("pipeline", lambda: Pipeline(**chosen))


def _crossover_width(percent: float | None) -> float:
    return _width("The crossover's", percent, 100 * MAX_CROSSOVER_WIDTH, "its batch")


def _width(whose: str, percent: float | None, most: float, of: str) -> float:
    """Return the sufficient relative width of an interval."""
    if percent is None or not 0 < percent <= most:
        raise UserError(f"{whose} interval width must be above 0 and at most {most:.0f} % of {of}.")
    return percent / 100
