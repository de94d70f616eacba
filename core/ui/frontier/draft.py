"""A plan from the Frontier form, with one sentence beside each invalid field. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from core.base.fields import About, PlanField
from core.base.schema import UserError
from core.networks.families import Choice, families
from core.studies.frontier.record import AXES, MAX_VALUES, Axis, FrontierPlan, Setting, buildable_widths, log_spaced
from core.ui.checks import Checks, Outcome, checked_sizes, checked_targets
from core.workload.spec import MAX_BATCH, MIN_BATCH

USUAL_DEPTHS, USUAL_WIDTHS, USUAL_BATCHES = 4, 7, 6
LARGEST_USUAL_DEPTH, LARGEST_USUAL_BATCH = 8, 1024


class AxisRange(NamedTuple):
    """Smallest value, largest value, and number of values; None is an emptied field."""

    low: int | None
    high: int | None
    many: int | None


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


def axis_fields(family: str, axis: Axis) -> tuple[PlanField, PlanField, PlanField]:
    """Return the fields of an axis in the order of :class:`AxisRange`, with their defaults."""
    choice, usual = axis_choice(family, axis), usual_range(family, axis)
    ends = (("low", "Smallest", usual.low, choice.help), ("high", "Largest", usual.high, ""))
    low, high = (
        PlanField(f"{axis}_{end}", About(f"{words} {axis}", help), int, default, choice.low, high=choice.high)
        for end, words, default, help in ends
    )
    many = About(f"Number of {axis} values", "Evenly spaced in their logarithm; 1 takes the smallest alone.")
    return low, high, PlanField(f"{axis}_count", many, int, usual.many, 1, high=MAX_VALUES)


def usual_range(family: str, axis: Axis) -> AxisRange:
    """Return the form's default: powers of two around the family's default size."""
    if axis == "batch":
        return AxisRange(MIN_BATCH, LARGEST_USUAL_BATCH, USUAL_BATCHES)
    choice = axis_choice(family, axis)
    if axis == "depth":
        return AxisRange(choice.low, min(choice.high, LARGEST_USUAL_DEPTH), USUAL_DEPTHS)
    return AxisRange(max(choice.low, choice.default // 16), min(choice.high, 4 * choice.default), USUAL_WIDTHS)


def build_plan(inputs: Mapping[str, Any]) -> FrontierOutcome:
    """Return the plan of the form's values, by field.

    ``sizes`` are the family's choices except depth and width, ``ranges`` those of the axes, ``targets`` fields of
    Targets, ``point`` the user's own depth, width and batch, each None if left empty. Other places of errors: each
    size, each axis and its fields, target 0, target 1.
    """
    checks, family = Checks(), inputs["family"]
    sizes = checked_sizes(checks, fixed_choices(family), inputs["sizes"])
    attempted = {axis: _values(checks, family, axis, inputs["ranges"][axis]) for axis in AXES}
    values = {axis: value for axis, value in attempted.items() if value is not None}
    if sizes is not None and "depth" in values and "width" in values:
        values["width"] = buildable_widths(family, sizes, values["depth"][0], values["width"])
    data = {name: inputs[name] for name in ("family", "mode", "optimizer")}
    data |= {"targets": checked_targets(checks, inputs["targets"])} | checks.fields(FrontierPlan, inputs)
    data["point"] = checks.attempt("point", lambda: _point(inputs["point"], values))
    if not checks.errors and sum(len(value) > 1 for value in values.values()) < 2:
        checks.errors["plan"] = (
            "A map needs two axes with more than one value. For batch sizes alone there is the page Sweep."
        )
    if checks.errors or sizes is None:
        return FrontierOutcome(plan=None, errors=checks.errors, values=values)
    data |= {"depths": values["depth"], "widths": values["width"], "batches": values["batch"]}
    data["sizes"] = tuple(sizes.items())
    plan = checks.attempt("plan", lambda: FrontierPlan.model_validate(data))
    return FrontierOutcome(plan=plan, errors=checks.errors, values=values)


def _values(checks: Checks, family: str, axis: Axis, limits: AxisRange) -> tuple[int, ...] | None:
    """Return the values of an axis; its own place of errors is for those that conflict."""
    made = [checks.field(field, value) for field, value in zip(axis_fields(family, axis), limits, strict=True)]
    return None if None in made else checks.attempt(axis, lambda: log_spaced(*made))


def _point(place: tuple[int | None, int | None, int | None], values: dict[Axis, tuple[int, ...]]) -> Setting | None:
    depth, width, batch = place
    if depth is None or width is None or batch is None:
        if any(value is not None for value in place):
            raise UserError("Your operating point needs depth, width and batch, or none of them.")
        return None
    point = Setting(depth, width, batch)
    for axis, value in zip(AXES, point, strict=True):
        along = values.get(axis)
        if along is not None and not along[0] <= value <= along[-1]:
            raise UserError(f"Your {axis} is {value:,}; the map goes from {along[0]:,} to {along[-1]:,}.")
    return point
