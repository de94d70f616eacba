"""What a frontier study says, on a page: the verdict, read-outs, the map, table, how it was measured, the file."""

from __future__ import annotations

import json
from functools import partial
from urllib.parse import urlsplit, urlunsplit

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core import figures
from core.analysis.frontier_answer import (
    FrontierAnswer,
    FrontierSlice,
    MeasuredPoint,
    frontier_answer,
    reading,
    slice_of,
)
from core.figures.frontier_charts import frontier_figure
from core.figures.frontier_marks import fixed_words, who_is_ahead
from core.figures.style import environment_line, number
from core.frontier import AXES, Axis, FrontierStudy, Setting
from core.frontier_export import frontier_data
from core.measure.frontier import FrontierProgress
from core.ui import charts, frontier
from core.ui.states import progress_words
from core.ui.tables import environment_table
from core.ui.verdict import LABEL_COLOURS, plain
from core.ui.words import LABEL_ICONS, LABELS, OUTCOMES

SHOWN_FAILURES = 3
REDRAW_S = (
    20.0  # a map takes half a second of a core (measured: two cores, 48 visits); seldom, so that it disturbs little
)
INTERPOLATED = "Interpolated between the settings that were measured, with its 95 % interval."


def show(study_id: str, study: FrontierStudy) -> None:
    """The verdict, read-outs, the map, table, how it was measured, and the file."""
    try:
        answer = frontier.answer_of(study_id, study)
    except ValueError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    _card(answer)
    if st.context.is_embedded:
        _map(study_id, answer, study.plan.held_axis, answer.at)
        return
    fixed, place = _choices(study_id, answer)
    _read_out(answer, fixed, place)
    _map(study_id, answer, fixed, place)
    _table(answer)
    _how_measured(answer)
    _take_along(study_id, answer)


@st.fragment(run_every=REDRAW_S)
def so_far() -> None:
    """The map of the running study as far as it is known."""
    running = frontier.running()
    at = running.progress if running is not None else None
    if not isinstance(at, FrontierProgress) or at.so_far is None:
        return
    try:
        answer = frontier_answer(at.so_far)
    except ValueError:
        st.caption("The first map appears with the first settings; starting TensorFlow takes some seconds.")
        return
    with st.container(border=True):
        st.markdown("**Estimate so far**")
        st.markdown(plain(answer.sentence))
    held = answer.study.plan.held_axis
    found = slice_of(answer, held, getattr(answer.at, held))
    figure = frontier_figure(answer, found)
    st.plotly_chart(figures.on_dark(figure) if charts.is_dark() else figure, theme=None, key="chart-frontier-live",
                    config=figures.CONFIG, alt=f"Map so far. {answer.sentence}")  # fmt: skip


def _card(answer: FrontierAnswer) -> None:
    study = answer.study
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**Frontier**", width="content")
            st.badge(study.label, icon=LABEL_ICONS[study.label], color=LABEL_COLOURS[study.label],
                     help=LABELS[study.label])  # fmt: skip
            if study.status != "finished":
                st.badge(study.status, icon=":material/flag:", color="orange")
        headline, _, more = answer.sentence.partition(". ")
        st.subheader(plain(f"{headline.rstrip('.')}."), anchor=False)
        st.markdown(plain(f"{more} {answer.reason}".strip()))
        names = study.plan.target_names
        about = f"{fixed_words(study.plan)}; {names[1]} against {names[0]}"
        st.caption(f"{plain(about)}  \n{plain(environment_line(study))}")
    if found := notices(answer):
        st.info("  \n".join(plain(sentence) for sentence in found), icon=":material/info:")


def notices(answer: FrontierAnswer) -> tuple[str, ...]:
    """What qualifies the verdict, as sentences."""
    study, found = answer.study, []
    if study.status == "cancelled":
        found.append(f"This study was cancelled; what follows rests on its {len(study.rounds):,} rounds.")
    if answer.code in ("first throughout", "second throughout"):
        found.append(
            "No break-even in this map. It may lie outside: widen the ranges, or conclude that one target wins here."
        )
    if study.starts < 3:
        found.append(
            f"The workers were started {'once' if study.starts == 1 else 'twice'} only, so intervals allow for how "
            "much processes differ elsewhere. A longer budget makes them narrower."
        )
    skipped = sum(one.outcome == "skipped" for one in answer.failed)
    if skipped:
        found.append(f"{skipped:,} settings were left out: they cannot fit, or a smaller one has failed.")
    failed = [one for one in answer.failed if one.outcome != "skipped"]
    for one in failed[:SHOWN_FAILURES]:
        who = f" on {one.target}" if one.target else ""
        found.append(f"{one.setting.words.capitalize()}{who}: {OUTCOMES[one.outcome]}. {one.reason}".strip())
    if len(failed) > SHOWN_FAILURES:
        found.append(f"{len(failed) - SHOWN_FAILURES:,} more settings failed; the table has them.")
    return (*found, *(warning.text for warning in study.warnings))


def _choices(study_id: str, answer: FrontierAnswer) -> tuple[Axis, Setting]:
    """Which axis is held, and the place: its value on that axis chooses the map, the others where it is read out."""
    plan = answer.study.plan
    st.subheader("Read the map", anchor=False)
    fixed = plan.held_axis
    if len(plan.free_axes) == len(AXES):
        fixed = st.segmented_control(
            "Axes of the map", AXES, default=fixed, required=True, key=f"frontier_fixed-{study_id}",
            format_func=lambda axis: " and ".join(other for other in AXES if other != axis),
            help="The axis that is left out gets a slider.",
        )  # fmt: skip
    place: dict[Axis, int] = {}
    with st.grid(3, min_column_width=130, gap="small"):
        for axis in sorted(plan.free_axes, key=lambda axis: axis != fixed):
            usual: int = getattr(answer.at, axis)
            place[axis] = st.select_slider(
                f"Map at {axis}" if axis == fixed else f"Read out at {axis}",
                sorted({*plan.values(axis), usual}), value=usual, key=f"frontier_at_{axis}-{study_id}",
                format_func=lambda value: f"{value:,}",
            )  # fmt: skip
    return fixed, answer.at._replace(**place)


def _read_out(answer: FrontierAnswer, fixed: Axis, place: Setting) -> None:
    """From where the second target pays along each axis of the map, at the chosen place."""
    axes: tuple[Axis, ...] = ("width", "batch", "depth")
    with st.container(border=True):
        for axis in axes:
            if axis != fixed and axis in answer.study.plan.free_axes:
                st.markdown(f":material/arrow_right_alt: {plain(reading(answer, axis, place).sentence)}")
        st.caption(INTERPOLATED)


def _map(study_id: str, answer: FrontierAnswer, fixed: Axis, place: Setting) -> None:
    if len(answer.study.plan.free_axes) < 2:
        st.caption("One axis alone varies in this study, so there is no map; the read-outs and the table say it all.")
        return
    found = frontier.slice_at(study_id, fixed, getattr(place, fixed), answer)
    if not found.contour:
        st.caption(f"No break-even line at {fixed} {getattr(place, fixed):,}.")
    with st.container(border=True):
        st.plotly_chart(
            _figure(charts.is_dark(), study_id, fixed, place, answer, found), theme=None, key="chart-frontier",
            config=figures.chart_config("svg", f"breakeven-frontier-{study_id}-{fixed}-{getattr(place, fixed)}"),
            alt=f"Map of the speed-up at {fixed} {getattr(place, fixed):,}. {answer.sentence}",
        )  # fmt: skip


@st.cache_resource(max_entries=24, show_spinner=False)
def _figure(
    dark: bool, study_id: str, fixed: Axis, place: Setting, _answer: FrontierAnswer, _found: FrontierSlice  # noqa: ARG001
) -> go.Figure:  # fmt: skip
    figure = frontier_figure(_answer, _found, place)
    return figures.on_dark(figure) if dark else figure


def table(answer: FrontierAnswer) -> pd.DataFrame:
    """One row for each setting that was measured, then those that failed with the reason."""
    names = answer.study.plan.target_names
    rows = [_row(point, names) for point in answer.points]
    measured = {point.setting for point in answer.points}
    for one in answer.failed:
        if one.setting not in measured:
            reason = f"{OUTCOMES[one.outcome]}: {one.reason}" if one.reason else OUTCOMES[one.outcome]
            rows.append(_axes(one.setting) | {"Outcome": reason})
    columns = [*(axis.capitalize() for axis in AXES), "Lead", "95 %", "Ahead", *names, "Rounds", "Outcome"]
    return pd.DataFrame([{column: row.get(column, "") for column in columns} for row in rows], columns=columns)


def _axes(setting: Setting) -> dict[str, int | str]:
    return {axis.capitalize(): getattr(setting, axis) for axis in AXES}


def _row(point: MeasuredPoint, names: tuple[str, str]) -> dict[str, int | str]:
    who = who_is_ahead(point.log2_speed_up, point.low, point.high, names)
    return _axes(point.setting) | {
        "Lead": who.value,
        "95 %": who.bounds,
        "Ahead": who.target or "",
        names[0]: f"{number(point.first_ms)} ms",
        names[1]: f"{number(point.second_ms)} ms",
        "Rounds": f"{point.rounds:,} in {point.starts} {'start' if point.starts == 1 else 'starts'}",
        "Outcome": point.label,
    }


def _table(answer: FrontierAnswer) -> None:
    st.subheader(f"Every setting that was visited ({answer.study.label})", anchor=False)
    st.dataframe(table(answer), hide_index=True, key="frontier-settings", height=320,
                 alt="One row for each setting with who is ahead, the interval and step times.")  # fmt: skip


def full_grid_s(study: FrontierStudy) -> float:
    """Seconds that all settings of the map would have taken as those measured did: in every start, with as many rounds.

    Modelled: the mean time of a visit, starts of the workers included, times the settings times the starts.
    """
    visits = len({(item.setting, item.blocks[0].process) for item in study.rounds})
    return study.elapsed_s / max(1, visits) * len(study.plan.grid) * study.starts


def _how_measured(answer: FrontierAnswer) -> None:
    st.subheader("How it was measured", anchor=False)
    study = answer.study
    grid = set(study.plan.grid)
    inside = sum(point.setting in grid for point in answer.points)
    facts = (
        ("Settings measured", f"{inside:,} of {len(grid):,}", "Of the map's settings; the others are interpolated."),
        ("Starts of the workers", f"{study.starts}", "Settings of one start share an offset, as processes differ."),
        ("Rounds", f"{len(study.rounds):,}", "One block of each target, in an order that turns."),
        ("Time", progress_words(study.elapsed_s), f"Of a budget of {progress_words(study.plan.budget_s)}."),
    )
    with st.container(horizontal=True):
        for name, value, meaning in facts:
            st.metric(name, value, help=meaning, border=True)
    st.caption(
        f"Every setting of the map in every start would have taken about {progress_words(full_grid_s(study))} "
        "(modelled: as long for each as for those measured). The map is a Gaussian process over log2 of depth, width "
        "and batch; what is measured next is where a tie is most in doubt for the time it takes."
    )
    if study.environment is not None:
        with st.expander("The machine", icon=":material/memory:"):
            st.dataframe(
                environment_table(study.environment), hide_index=True, key="frontier-machine", height="content",
                column_config={"fact": "Fact", "value": "Value"},
            )  # fmt: skip


def _take_along(study_id: str, answer: FrontierAnswer) -> None:
    st.subheader("Take it along", anchor=False)
    if address := st.context.url:
        st.caption("Link to this evidence")
        st.code(urlunsplit((*urlsplit(address)[:3], f"study={study_id}", "")), language=None, wrap_lines=True)
    st.download_button(
        "JSON", data=partial(_file, answer), file_name=f"breakeven-frontier-{study_id}.json", mime="application/json",
        icon=":material/download:", on_click="ignore", key="download-frontier",
        help="What the study says and every block that was measured.",
    )  # fmt: skip


def _file(answer: FrontierAnswer) -> bytes:
    text = json.dumps(frontier_data(answer), ensure_ascii=False, allow_nan=False, indent=1)
    return text.encode()
