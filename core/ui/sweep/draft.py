"""From what a form holds to a plan, with one sentence beside each field that is wrong. Pure: no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from core.families import Network
from core.schema import UserError
from core.spec import MAX_CROSSOVER_WIDTH, Pipeline, Target, Workload, geometric_grid, parse_batches
from core.studies.sweep.fits import check_fits
from core.studies.sweep.plan import SweepPlan
from core.ui.checks import Checks, Outcome, checked_budget, checked_targets, make_workload

USUAL_RANGE = (1, 1024)


@dataclass(frozen=True)
class Draft:
    """A form as it stands. ``preset`` is None for own ``sizes``; None in a number means an emptied field.
    ``architecture`` is a network read from a file, or the sentence that refused the file.

    ``batches`` is ("range", low, high) or ("list", text). Interval widths that are enough, in percent: ``width_pct`` of
    the step time, ``crossover_width_pct`` of the crossover's batch size.
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
    """``workload`` and each of the ``targets`` are there as soon as they can be."""

    workload: Workload | None
    targets: tuple[Target | None, ...]


def build(
    draft: Draft, available_bytes: int, limited: str = "", missing: Mapping[str, str] = MappingProxyType({})
) -> SweepOutcome:
    """Validate a draft for a machine with so much memory free, and what limits it (:func:`check_fits`).

    ``missing`` has a sentence for each framework that is not installed here. Fields: workload, target 0, target 1, …,
    targets, batches, memory, pipeline, budget, crossover width, width.
    """
    checks = Checks()
    chosen = (draft.family, draft.preset, draft.sizes, draft.mode, draft.optimizer, draft.architecture)
    workload = checks.attempt("workload", lambda: make_workload(*chosen))
    values = {
        "workload": workload,
        "targets": checked_targets(checks, draft.targets, workload, missing),
        "batches": checks.attempt("batches", lambda: _batches(draft.batches)),
        "refine": draft.refine,
        "pipeline": checks.attempt("pipeline", lambda: Pipeline(**draft.pipeline)),
        "budget_s": checks.attempt("budget", lambda: checked_budget(draft.budget_s)),
        "crossover_width": checks.attempt("crossover width", lambda: _crossover_width(draft.crossover_width_pct)),
        "step_width": checks.attempt("width", lambda: _width("The step time's", draft.width_pct, 100, "it")),
    }
    return _planned(checks, values, available_bytes, limited)


def usual(workload: Workload, targets: tuple[Target, Target], available_bytes: int, limited: str = "") -> SweepOutcome:
    """What a form that nobody touched holds, but with this workload; fields and limits as :func:`build` has them."""
    values: dict[str, Any] = {"workload": workload, "targets": targets, "batches": geometric_grid(*USUAL_RANGE)}
    return _planned(Checks(), values, available_bytes, limited)


def _planned(checks: Checks, values: dict[str, Any], available_bytes: int, limited: str) -> SweepOutcome:
    known = {"workload": values["workload"], "targets": tuple(values["targets"])}
    if checks.errors:
        return SweepOutcome(plan=None, errors=checks.errors, **known)
    plan = checks.attempt("batches", lambda: SweepPlan.model_validate(values))
    if plan is not None:
        fitting = plan
        checks.attempt("memory", lambda: check_fits(fitting, available_bytes, limited))
    return SweepOutcome(plan=None if checks.errors else plan, errors=checks.errors, **known)


def _batches(chosen: tuple[Any, ...]) -> tuple[int, ...]:
    kind, *values = chosen
    if kind == "list":
        return parse_batches(values[0])
    low, high = values
    if low is None or high is None:
        raise UserError("The batch range needs a smallest and a largest batch size.")
    return geometric_grid(low, high)


def _crossover_width(percent: float | None) -> float:
    return _width("The crossover's", percent, 100 * MAX_CROSSOVER_WIDTH, "its batch")


def _width(whose: str, percent: float | None, most: float, of: str) -> float:
    """The relative width of an interval that is enough."""
    if percent is None or not 0 < percent <= most:
        raise UserError(f"{whose} interval width must be above 0 and at most {most:.0f} % of {of}.")
    return percent / 100
