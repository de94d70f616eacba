"""The form of the Frontier page: family, ranges of depth, width and batch, two targets, own point; the one button."""

from __future__ import annotations

from typing import Any, get_args

import streamlit as st

from core.families import families
from core.frontier import AXES, DEFAULT_BUDGET_S, MAX_VALUES, Axis, FrontierPlan, growing_families
from core.measure.frontier import run_frontier
from core.measure.frontier_costs import BLOCK_S, FIRST_SETUP_S, ROUNDS
from core.measure.studies import StudyTools
from core.spec import Mode, Optimizer
from core.ui import machine, registry
from core.ui.form import Places, target_fields
from core.ui.frontier_choices import (
    AxisRange,
    FrontierChosen,
    FrontierDraft,
    axis_choice,
    build_plan,
    fixed_choices,
    usual_range,
)
from core.ui.network_form import FIRST_FAMILY, KEEP, own_sizes
from core.ui.states import progress_words
from core.ui.verdict import plain
from core.ui.words import MODES, OPTIMIZERS

PROBLEM = "frontier_problem"
BUSY = "Something else is being measured on this machine; try again when it is done."


def show(busy: str | None) -> FrontierPlan | None:
    """The whole form; the plan as chosen, or None while something is wrong. ``busy``: why nothing can be started."""
    found = machine.devices()
    top, wrong = st.container(), Places()
    machine.gpu_notice(found)
    family, sizes = _network(wrong)
    ranges, told = _ranges(family, wrong)
    mode, optimizer = _doing()
    targets = (_target(0, found, wrong), _target(1, found, wrong))
    wrong.here("targets")
    point = _point(family, wrong)
    budget = st.number_input(
        "Budget (seconds)", value=round(DEFAULT_BUDGET_S), step=60, key="frontier_budget", persist_state=KEEP,
        help="For the whole study. Workers are started up to four times, so that intervals can be given; a longer "
        "budget measures more settings.",
    )  # fmt: skip
    wrong.here("budget")
    wrong.here("plan")
    chosen = build_plan(FrontierDraft(family, sizes, ranges, mode, optimizer, targets, point, budget))
    wrong.fill({field: plain(sentence) for field, sentence in chosen.errors.items()})
    for axis, values in chosen.values.items():
        told[axis].caption(_listed(values))
    with top:
        _button(chosen, busy)
    return chosen.plan


def _network(wrong: Places) -> tuple[str, dict[str, int | None]]:
    """The family, and its sizes that stay as they are all over the map."""
    known = families()
    names = sorted(growing_families(), key=lambda name: known[name].title)
    family = st.selectbox(
        "Network family", names, index=names.index(FIRST_FAMILY), format_func=lambda name: known[name].title,
        key="frontier_family", persist_state=KEEP, help="Families that have a depth and a width.",
    )  # fmt: skip
    sizes = own_sizes(f"frontier_{family}", fixed_choices(family))
    wrong.here("sizes")
    return family, sizes


def _ranges(family: str, wrong: Places) -> tuple[dict[Axis, AxisRange], dict[Axis, Any]]:
    """The range of each axis, and the place below it for the values it comes to."""
    ranges: dict[Axis, AxisRange] = {}
    told: dict[Axis, Any] = {}
    for axis in AXES:
        choice, usual = axis_choice(family, axis), usual_range(family, axis)
        st.markdown(f"**{plain(choice.label)}**")
        key = f"frontier_{family}_{axis}"
        with st.grid(3, min_column_width=96, gap="small"):
            low = st.number_input(
                "Smallest", value=usual.low, step=1, key=f"{key}_low", persist_state=KEEP,
                help=f"{choice.help} {choice.low:,} to {choice.high:,}.",
            )  # fmt: skip
            high = st.number_input("Largest", value=usual.high, step=1, key=f"{key}_high", persist_state=KEEP)
            count = st.number_input(
                "How many", value=usual.count, step=1, key=f"{key}_count", persist_state=KEEP,
                help=f"1 to {MAX_VALUES}, evenly spaced in their logarithm; 1 takes the smallest alone.",
            )  # fmt: skip
        ranges[axis] = AxisRange(low, high, count)
        told[axis] = st.empty()
        wrong.here(axis)
    return ranges, told


def _doing() -> tuple[str, str]:
    with st.container(horizontal=True, gap="small"):
        mode = st.segmented_control(
            "Mode", get_args(Mode), default="train", required=True, format_func=MODES.__getitem__,
            key="frontier_mode", persist_state=KEEP,
        )  # fmt: skip
        optimizer = st.selectbox(
            "Optimizer", get_args(Optimizer), index=2, format_func=OPTIMIZERS.__getitem__, key="frontier_optimizer",
            disabled=mode != "train", persist_state=KEEP,
        )  # fmt: skip
    return str(mode), optimizer


def _target(index: int, found: machine.Machine, wrong: Places) -> dict[str, Any]:
    st.markdown(f"**{('First', 'Second')[index]} target**")
    values = target_fields(f"frontier_{index}", found.default_targets()[index], found)
    wrong.here(f"target {index}")
    return values


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
    return f"{len(values)} {'value' if len(values) == 1 else 'values'}: {', '.join(shown)}"


def grid_words(plan: FrontierPlan) -> str:
    """How many settings the map has, and what measuring each of them would take at least."""
    count, sizes = len(plan.grid), " × ".join(str(len(plan.values(axis))) for axis in AXES)
    visit_s = FIRST_SETUP_S + 2 * ROUNDS * BLOCK_S
    return (
        f"The map has {count:,} settings ({sizes}). To measure every one once would take about "
        f"{progress_words(count * visit_s)} or more (modelled); here the time goes to those where a tie is in doubt."
    )


def _button(chosen: FrontierChosen, busy: str | None) -> None:
    if busy:
        st.info(plain(busy), icon=":material/hourglass_top:")
    plan = chosen.plan
    st.button(
        "Measure the frontier", type="primary", icon=":material/play_arrow:", key="measure_frontier", width="stretch",
        disabled=plan is None or busy is not None, on_click=_start, args=(plan,),
    )  # fmt: skip
    if plan is None:
        st.caption(":material/error: One choice below is not possible yet; it says what is accepted.")
    else:
        words = f"{plan.title}, at most {progress_words(plan.budget_s)}. {grid_words(plan)}"
        st.caption(f"{plain(words)} Change any of it below.")
    if problem := st.session_state.pop(PROBLEM, None):
        st.warning(plain(problem), icon=":material/hourglass_top:")


def _start(plan: FrontierPlan) -> None:
    """Start the study; what refuses becomes a sentence on the next run. Its result replaces one in the address."""
    registry.quieten()
    st.query_params.pop("study", None)

    def work(tools: StudyTools) -> Any:
        return run_frontier(tools, plan)

    if not registry.engine().jobs.start_study("frontier", f"Measuring the frontier of {plan.title}", work):
        st.session_state[PROBLEM] = BUSY
