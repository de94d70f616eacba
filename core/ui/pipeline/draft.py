"""A study from the Pipeline form, with one sentence beside each invalid field. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core.studies.pipeline.plan import PipelinePlan
from core.ui.checks import Checks, Outcome, checked_budget, checked_number, checked_path, checked_workload
from core.userdata.source import Source, check_fits
from core.workload.spec import MAX_BATCH, MAX_PREPROCESS_US, MIN_BATCH, Pipeline, Target, Workload


@dataclass(frozen=True)
class PipelineDraft:
    """The form's current values; None for a number is an emptied field, an empty ``data`` means random samples.

    ``workload`` holds the arguments of :func:`core.ui.checks.checked_workload`, ``target`` the fields of a Target.
    """

    workload: dict[str, Any]
    target: dict[str, Any]
    batch: int | None
    prefetch: int | str
    parallel_calls: int | str | None
    preprocess_us: float | None
    preprocess_python: bool
    data: str
    budget_s: float | None


def build_study(draft: PipelineDraft, look: Callable[[str], Source]) -> Outcome[PipelinePlan]:
    """Validate a draft. Fields: workload, each size, target, batch, cost, pipeline, data, budget.

    ``look`` inspects the data at a path, as :func:`core.userdata.source.check_data` does.
    """
    checks = Checks()
    workload = checked_workload(checks, **draft.workload)
    values = {
        "workload": workload,
        "target": checks.attempt("target", lambda: Target(**draft.target)),
        "batch": checks.attempt("batch", lambda: checked_number("The batch size", draft.batch, MIN_BATCH, MAX_BATCH)),
        "budget_s": checks.attempt("budget", lambda: checked_budget(draft.budget_s)),
    }
    cost_us = checks.attempt("cost", lambda: _cost(draft.preprocess_us))
    source = checks.attempt("data", lambda: _source(draft.data, workload, look))
    if checks.errors:
        return Outcome(None, checks.errors, source)
    base = {
        "kind": "tfdata",
        "prefetch": draft.prefetch,
        "parallel_calls": draft.parallel_calls,
        "preprocess_us": cost_us,
        "preprocess_python": draft.preprocess_python,
        "data": source.path if source is not None else None,
    }
    plan = checks.attempt(
        "pipeline", lambda: PipelinePlan.model_validate(values | {"base": Pipeline.model_validate(base)})
    )
    return Outcome(plan, checks.errors, source)


def _cost(value: float | None) -> float:
    return checked_number("The preprocessing cost", value, 0, MAX_PREPROCESS_US, " µs a sample")


def _source(text: str, workload: Workload | None, look: Callable[[str], Source]) -> Source | None:
    if not (path := checked_path(text)):
        return None
    source = look(path)
    if workload is not None:
        check_fits(source, workload)
    return source
