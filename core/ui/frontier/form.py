"""The form of the Frontier page: family, ranges of depth, width and batch, two targets, own point; one button."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.base.fields import fields_of
from core.base.numbers import counted, duration
from core.networks.families import families
from core.rounds.plan import SweepPlan
from core.studies.frontier.record import AXES, Axis, FrontierPlan, growing_families
from core.studies.frontier.run import BLOCK_S, FIRST_SETUP_S, ROUNDS
from core.ui import machine, shown_run
from core.ui.fields import mode_fields, put_target, two_targets
from core.ui.frontier.draft import AxisRange, axis_choice, axis_fields, build_plan, fixed_choices, usual_range
from core.ui.frontier.page import PAGE
from core.ui.network_form import FIRST_FAMILY, family_of, size_fields
from core.ui.places import KEEP, Places
from core.ui.study_page import takes
from core.ui.words import plain


def show(busy: str | None, top: Any) -> FrontierPlan | None:
    """Draw the form, and the button at its ``top``; return the plan, or None while anything is invalid.

    ``busy``: why nothing can be started.
    """
    here = machine.devices()
    wrong = Places()
    machine.gpu_notice(here)
    if (plan := shown_run.carried("frontier")) is not None:
        _take(plan, here)
    family, sizes = _network(wrong)
    ranges, below = _ranges(family, wrong)
    mode, optimizer = mode_fields("frontier", families()[family].trains)
    inputs: dict[str, Any] = {"family": family, "sizes": sizes, "ranges": ranges, "mode": mode, "optimizer": optimizer}
    inputs["targets"] = two_targets("frontier_", here, wrong)
    inputs["point"] = _point(family, wrong)
    inputs["budget_s"] = wrong.plan_field(fields_of(FrontierPlan)["budget_s"], "frontier")
    wrong.here("plan")
    outcome = build_plan(inputs)
    if outcome.plan is not None:
        st.caption(plain(grid_words(outcome.plan)))
    wrong.fill(outcome.errors)
    for axis, values in outcome.values.items():
        below[axis].caption(_listed(values))
    with top:
        PAGE.form_button(outcome, busy, _says)
    return outcome.plan


def _take(plan: SweepPlan, here: machine.Machine) -> None:
    """Put a run's network, mode and targets into the fields, and its middle batch as the operating point.

    A network without depth and width leaves the fields as they are, a point outside the usual ranges is none.
    """
    network, work, state = plan.workload.network, plan.workload, st.session_state
    family, sizes = family_of(network), network.as_choices()
    if family not in growing_families() or sizes is None:
        return
    state.update(frontier_family=family, frontier_mode=work.mode, frontier_optimizer=work.optimizer)
    for choice in fixed_choices(family):
        state[f"form_frontier_{family}_{choice.name}"] = sizes[choice.name]
    point = {"depth": sizes["depth"], "width": sizes["width"], "batch": plan.batches[len(plan.batches) // 2]}
    ranges = {axis: usual_range(family, axis) for axis in AXES}
    if all((ranges[axis].low or 0) <= point[axis] <= (ranges[axis].high or 0) for axis in AXES):
        state.update({f"frontier_{family}_point_{axis}": point[axis] for axis in AXES})
    for index, target in enumerate(plan.targets[:2] if len(plan.targets) > 1 else ()):
        put_target(f"frontier_{index}", target, here)


def _network(wrong: Places) -> tuple[str, dict[str, int | None]]:
    """Draw the family, and its sizes that stay fixed over the map; return both."""
    known = families()
    names = sorted(growing_families(), key=lambda name: known[name].title)
    family = st.selectbox(
        "Network family", names, index=names.index(FIRST_FAMILY), format_func=lambda name: known[name].title,
        key="frontier_family", persist_state=KEEP, help="Families that have a depth and a width.",
    )  # fmt: skip
    sizes = size_fields(f"frontier_{family}", fixed_choices(family), wrong)
    return family, sizes


def _ranges(family: str, wrong: Places) -> tuple[dict[Axis, AxisRange], dict[Axis, Any]]:
    """Draw the range of each axis; return the ranges, and the places below them for the resulting values."""
    ranges: dict[Axis, AxisRange] = {}
    below: dict[Axis, Any] = {}
    for axis in AXES:
        st.markdown(f"**{plain(axis_choice(family, axis).label)}**")
        with st.grid(3, min_column_width=96, gap="small"):
            ranges[axis] = AxisRange(
                *(wrong.plan_field(field, f"frontier_{family}") for field in axis_fields(family, axis))
            )
        below[axis] = st.empty()
        wrong.here(axis)
    return ranges, below


def _point(family: str, wrong: Places) -> tuple[int | None, int | None, int | None]:
    st.markdown("**Your operating point (optional)**", help="Measured in every start of the workers, whatever the map "
                "looks like there. It must lie inside the ranges.")  # fmt: skip
    with st.grid(3, min_column_width=96, gap="small"):
        depth, width, batch = (_coordinate(family, axis) for axis in AXES)
    wrong.here("point")
    return depth, width, batch


def _coordinate(family: str, axis: Axis) -> int | None:
    key = f"frontier_{family}_point_{axis}"
    return st.number_input(axis.capitalize(), value=None, step=1, placeholder="none", key=key, persist_state=KEEP)


def _listed(values: tuple[int, ...]) -> str:
    shown = [f"{value:,}" for value in values]
    return f"{counted(len(values), 'value')}: {', '.join(shown)}"


def grid_words(plan: FrontierPlan) -> str:
    """Return the number of the map's settings, and the minimum time to measure them all."""
    count, sizes = len(plan.grid), " × ".join(str(len(plan.values(axis))) for axis in AXES)
    visit_s = FIRST_SETUP_S + 2 * ROUNDS * BLOCK_S
    return (
        f"The map has {count:,} settings ({sizes}). To measure every one once would take about "
        f"{duration(count * visit_s)} or more (modelled); here the time goes to where it is least "
        "clear which is faster."
    )


def _says(plan: FrontierPlan) -> str:
    return f"{plan.title}, {takes(plan.budget_s)}."
