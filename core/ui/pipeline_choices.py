"""From what the Pipeline form holds to a study, with one sentence beside each field that is wrong. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from core.datasource import DataError, Source, check_fits
from core.pipeline_study import PipelineStudy
from core.spec import MAX_BATCH, MAX_PREPROCESS_US, MIN_BATCH, Pipeline, Target, Workload, explain
from core.ui.choices import checked_budget, make_workload

T = TypeVar("T")


@dataclass(frozen=True)
class PipelineDraft:
    """The form as it stands; None in a number means an emptied field, an empty ``data`` random samples.

    ``workload`` holds what :func:`core.ui.choices.make_workload` takes, ``target`` the fields of a Target.
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


@dataclass(frozen=True)
class StudyOutcome:
    """``study`` is None while ``errors`` (field: sentence) is not empty; ``source`` describes own data that fit."""

    study: PipelineStudy | None
    source: Source | None
    errors: dict[str, str]


def build_study(draft: PipelineDraft, look: Callable[[str], Source]) -> StudyOutcome:
    """Validate a draft. Fields: workload, target, batch, cost, pipeline, data, budget.

    ``look`` says what lies at a path, as :func:`core.datasource.check_data` does.
    """
    errors: dict[str, str] = {}

    def attempt(field: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except ValidationError as error:
            errors[field] = explain(error)
        except ValueError as error:
            errors[field] = str(error)
        return None

    workload = attempt("workload", lambda: make_workload(**draft.workload))
    target = attempt("target", lambda: Target(**draft.target))
    batch = attempt("batch", lambda: _batch(draft.batch))
    cost_us = attempt("cost", lambda: _cost(draft.preprocess_us))
    source = attempt("data", lambda: _source(draft.data.strip(), workload, look))
    budget_s = attempt("budget", lambda: checked_budget(draft.budget_s))
    if errors:
        return StudyOutcome(None, source, errors)
    base: dict[str, Any] = {"kind": "tfdata", "prefetch": draft.prefetch, "parallel_calls": draft.parallel_calls}
    base |= {"preprocess_us": cost_us, "preprocess_python": draft.preprocess_python}
    base |= {"data": source.path if source is not None else None}
    pipeline = attempt("pipeline", lambda: Pipeline.model_validate(base))
    if pipeline is None:
        return StudyOutcome(None, source, errors)
    values = {"workload": workload, "target": target, "batch": batch, "base": pipeline, "budget_s": budget_s}
    study = attempt("pipeline", lambda: PipelineStudy.model_validate(values))
    return StudyOutcome(study, source, errors)


def _batch(value: int | None) -> int:
    if value is None or not MIN_BATCH <= value <= MAX_BATCH:
        raise ValueError(f"The batch size must lie between {MIN_BATCH} and {MAX_BATCH:,}.")
    return value


def _cost(value: float | None) -> float:
    if value is None or not 0 <= value <= MAX_PREPROCESS_US:
        raise ValueError(f"The preprocessing cost must lie between 0 and {MAX_PREPROCESS_US:,.0f} µs a sample.")
    return value


def _source(path: str, workload: Workload | None, look: Callable[[str], Source]) -> Source | None:
    if not path:
        return None
    if not path.isprintable():
        raise DataError("The path holds characters that cannot be shown; type it anew.")
    source = look(path)
    if workload is not None:
        check_fits(source, workload)
    return source
