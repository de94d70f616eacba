"""A plan from the Frontier form, with one sentence beside each invalid field. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from core.base.schema import UserError
from core.networks.families import Choice, families
from core.studies.frontier.record import AXES, MAX_VALUES, Axis, FrontierPlan, Setting, buildable_widths, log_spaced
from core.ui.checks import Checks, Outcome, checked_budget, checked_sizes, checked_targets
from core.workload.spec import MAX_BATCH, MIN_BATCH

USUAL_DEPTHS, USUAL_WIDTHS, USUAL_BATCHES = 4, 7, 6
LARGEST_USUAL_DEPTH, LARGEST_USUAL_BATCH = 8, 1024


@dataclass(frozen=True)
class AxisRange:
    """Smallest value, largest value, and number of values; None is an emptied field."""

    low: int | None
    high: int | None
    count: int | None


@dataclass(frozen=True)
class FrontierDraft:
    """The form's current values.

    ``sizes`` are the family's choices except depth and width, ``targets`` fields of Targets. ``point`` is the user's
    own depth, width and batch, each None if left empty.
    """

    family: str
    sizes: dict[str, int | None]
    ranges: dict[Axis, AxisRange]
    mode: str
    optimizer: str
    targets: tuple[dict[str, Any], dict[str, Any]]
    point: tuple[int | None, int | None, int | None]
    budget_s: float | None


@dataclass(frozen=True, kw_only=True)
class FrontierOutcome(Outcome[FrontierPlan]):
    """Outcome of the form; ``values`` are those of the axes in order."""

    values: dict[Axis, tuple[int, ...]]


def fixed_choices(family: str) -> tuple[Choice, ...]:
    """Return a family's choices that the map does not vary."""
    return tuple(choice for choice in families()[family].choices if choice.name not in AXES)


def axis_choice(family: str, axis: Axis) -> Choice:
    """Return label, limits and help of an axis for the family."""
    if axis == "batch":
        return Choice("batch", "Batch size", MIN_BATCH, MAX_BATCH, 32, "Samples in one step.")
    return next(choice for choice in families()[family].choices if choice.name == axis)


def usual_range(family: str, axis: Axis) -> AxisRange:
    """Return the form's default: powers of two around the family's default size."""
    if axis == "batch":
        return AxisRange(MIN_BATCH, LARGEST_USUAL_BATCH, USUAL_BATCHES)
    choice = axis_choice(family, axis)
    if axis == "depth":
        return AxisRange(choice.low, min(choice.high, LARGEST_USUAL_DEPTH), USUAL_DEPTHS)
    return AxisRange(max(choice.low, choice.default // 16), min(choice.high, 4 * choice.default), USUAL_WIDTHS)


def build_plan(draft: FrontierDraft) -> FrontierOutcome:
    """Validate a draft.

    Fields: each size, each axis and its low, high and count, target 0, target 1, targets, point, budget, plan.
    """
    checks = Checks()
    sizes = checked_sizes(checks, fixed_choices(draft.family), draft.sizes)
    attempted = {axis: _values(checks, draft, axis) for axis in AXES}
    values = {axis: value for axis, value in attempted.items() if value is not None}
    if sizes is not None and "depth" in values and "width" in values:
        values["width"] = buildable_widths(draft.family, sizes, values["depth"][0], values["width"])
    targets = checked_targets(checks, draft.targets)
    point = checks.attempt("point", lambda: _point(draft.point, values))
    budget_s = checks.attempt("budget", lambda: checked_budget(draft.budget_s))
    if not checks.errors and sum(len(value) > 1 for value in values.values()) < 2:
        checks.errors["plan"] = (
            "A map needs two axes with more than one value. For batch sizes alone there is the page Sweep."
        )
    if checks.errors or sizes is None:
        return FrontierOutcome(plan=None, errors=checks.errors, values=values)
    data: dict[str, Any] = {"family": draft.family, "sizes": tuple(sizes.items())}
    data |= {"mode": draft.mode, "optimizer": draft.optimizer}
    data |= {"depths": values["depth"], "widths": values["width"], "batches": values["batch"]}
    data |= {"targets": targets, "point": point, "budget_s": budget_s}
    plan = checks.attempt("plan", lambda: FrontierPlan.model_validate(data))
    return FrontierOutcome(plan=plan, errors=checks.errors, values=values)


def _values(checks: Checks, draft: FrontierDraft, axis: Axis) -> tuple[int, ...] | None:
    """Return the values of an axis. Fields: its low, high and count, and the axis if they conflict."""
    given, choice = draft.ranges[axis], axis_choice(draft.family, axis)
    limits = {"low": (choice.low, choice.high), "high": (choice.low, choice.high), "count": (1, MAX_VALUES)}
    made = {
        part: checks.attempt(f"{axis} {part}", partial(_end, choice.label, part, getattr(given, part), *limits[part]))
        for part in limits
    }
    low, high, count = made.values()
    if low is None or high is None or count is None:
        return None
    return checks.attempt(axis, lambda: log_spaced(low, high, count))


def _end(label: str, part: str, value: int | None, least: int, most: int) -> int:
    if value is None or not least <= value <= most:
        said = "An axis has" if part == "count" else f"{label} goes from"
        words = f"{least:,} to {most:,}"
        raise UserError(f"{said} {words} values." if part == "count" else f"{said} {words}.")
    return value


def _point(given: tuple[int | None, int | None, int | None], values: dict[Axis, tuple[int, ...]]) -> Setting | None:
    depth, width, batch = given
    if depth is None or width is None or batch is None:
        if any(value is not None for value in given):
            raise UserError("Your operating point needs depth, width and batch, or none of them.")
        return None
    point = Setting(depth, width, batch)
    for axis, value in zip(AXES, point, strict=True):
        along = values.get(axis)
        if along is not None and not along[0] <= value <= along[-1]:
            raise UserError(f"Your {axis} is {value:,}; the map goes from {along[0]:,} to {along[-1]:,}.")
    return point
