"""A frontier study on a page: the verdict, the map with its read-outs, table, how it was measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.base.numbers import counted, duration, number
from core.base.schema import UserError
from core.figures.style import environment_line
from core.studies.frontier.answer import FrontierAnswer, MeasuredPoint, frontier_answer, reading, slice_of
from core.studies.frontier.export import frontier_data, frontier_text
from core.studies.frontier.figures import fixed_words, frontier_figure, who_is_ahead
from core.studies.frontier.record import AXES, Axis, FrontierStudy, Setting
from core.ui import charts, evidence, frame, navigation, news, share
from core.ui.card import label_badge, result_card
from core.ui.downloads import study_files
from core.ui.frontier import page
from core.ui.notices import few_starts, stopped
from core.ui.tables import cleaned
from core.ui.words import OUTCOMES, plain
from core.workload.execution import chosen_line

SHOWN_FAILURES = 3
HELD, PLACE = "held", "at"
"""Parameters of the address: the axis that the map does not show, and depth, width and batch."""
QUESTION = "At which sizes is one target faster than another?"
INTERPOLATED = "Interpolated between the settings that were measured, with its 95 % interval."


def show(study_id: str, study: FrontierStudy, head: DeltaGenerator) -> None:
    """Show the page of one study; ``head`` is the place of its heading."""
    frame.show_parts(heading(study), partial(_Parts, study_id, study), head)


def heading(study: FrontierStudy) -> str:
    """Return a question that every answer fits."""
    return frame.which_is_faster("At which sizes", study.plan.names)


class _Parts:
    """The parts of a result's frame, for one study. Raises UserError if it supports no answer."""

    def __init__(self, study_id: str, study: FrontierStudy) -> None:
        self._id, self._answer = study_id, page.answer_of(study_id, study)
        self._fixed, self._place = _chosen(study_id, self._answer)

    def verdict(self) -> None:
        _card(self._answer)

    def picture(self) -> None:
        """Draw the map, and below it its read-outs unless embedded."""
        above = st.container()
        if not st.context.is_embedded:
            _choices(self._id, self._answer, self._fixed, self._place)
            _read_out(self._answer, self._fixed, self._place)
        with above:
            _map(self._id, self._answer, self._fixed, self._place)

    def notes(self) -> None:
        if sentences := notices(self._answer):
            st.info("  \n".join(plain(sentence) for sentence in sentences), icon=":material/info:")

    def evidence(self) -> dict[str, Callable[[], None]]:
        return {
            "Every setting that was visited": partial(_settings, self._answer),
            "How it was measured": partial(_how_measured, self._answer),
        }

    def share(self) -> None:
        name, answer = f"frontier-{self._id}", self._answer
        files = study_files(
            name, partial(frontier_data, answer), text=partial(frontier_text, answer),
            figure=partial(_slice, answer, self._fixed, self._place), rows=itemgetter("measured"),
        )  # fmt: skip
        share.panel(name, {"study": self._id} | _address(answer, self._fixed, self._place), files)


def _slice(answer: FrontierAnswer, fixed: Axis, place: Setting) -> go.Figure:
    return frontier_figure(answer, slice_of(answer, fixed, getattr(place, fixed)), place)


def _settings(answer: FrontierAnswer) -> None:
    st.caption(f"Step times are {answer.study.label}.")
    st.dataframe(cleaned(table(answer)), hide_index=True, key="frontier-settings", height=320,
                 alt="One row for each setting with which is faster, the interval and step times.")  # fmt: skip


def so_far() -> None:
    """Show the map of the running study so far."""
    news.redrawn("frontier", _so_far, changes=False)


def _so_far() -> None:
    running = page.PAGE.running()
    if running is None or running.record is None:
        return
    try:
        answer = frontier_answer(running.record)
    except UserError:
        st.caption("The first map appears with the first settings; starting TensorFlow takes some seconds.")
        return
    with st.container(border=True):
        st.markdown("**Estimate so far**")
        st.markdown(plain(answer.sentence))
    figure = partial(_slice, answer, answer.study.plan.held_axis, answer.at)
    charts.show("frontier-live", figure, f"Map so far. {answer.sentence}", "frontier-so-far",
                border=False)  # fmt: skip


def _card(answer: FrontierAnswer) -> None:
    study = answer.study
    headline, _, more = answer.sentence.partition(". ")
    first, second = study.plan.names
    chosen = chosen_line(study.plan.workload(study.plan.settings[0]), *study.plan.targets)
    result_card("Frontier", [label_badge(study.label)], f"{headline.rstrip('.')}.",
                (f"{fixed_words(study.plan)}; {second} against {first}; {environment_line(study)}", *chosen),
                status=study.status, more=[more] if more else [])  # fmt: skip


def notices(answer: FrontierAnswer) -> tuple[str, ...]:
    """Return what qualifies the verdict, as sentences."""
    study = answer.study
    sentences = stopped(study.status, "study", f"what follows rests on its {len(study.rounds):,} rounds")
    if answer.code in ("first throughout", "second throughout"):
        sentences.append(
            "Inside this map the faster target does not change. It may do so outside: widen the ranges, or conclude "
            "that one target is faster here."
        )
    sentences += few_starts(study.starts)
    skipped = sum(failure.outcome == "skipped" for failure in answer.failed)
    if skipped:
        sentences.append(f"{skipped:,} settings were left out: they cannot fit, or a smaller one has failed.")
    failed = [failure for failure in answer.failed if failure.outcome != "skipped"]
    for failure in failed[:SHOWN_FAILURES]:
        who = f" on {study.plan.name_of(failure.target)}" if failure.target else ""
        sentences.append(
            f"{failure.setting.words.capitalize()}{who}: {OUTCOMES[failure.outcome]}. {failure.reason}".strip()
        )
    if len(failed) > SHOWN_FAILURES:
        sentences.append(f"{len(failed) - SHOWN_FAILURES:,} more settings failed; the table has them.")
    return (*sentences, *(warning.text for warning in study.warnings))


def _chosen(study_id: str, answer: FrontierAnswer) -> tuple[Axis, Setting]:
    """Return the held axis and the place: its value on that axis selects the map, the others its read-outs.

    They are those of the fields, else of the address, else of the verdict.
    """
    plan = answer.study.plan
    fixed = st.session_state.get(f"frontier_fixed-{study_id}", st.query_params.get(HELD))
    places = dict(zip(AXES, st.query_params.get(PLACE, "").split(","), strict=False))
    place: dict[Axis, int] = {}
    for axis in plan.free_axes:
        wanted = st.session_state.get(f"frontier_at_{axis}-{study_id}", places.get(axis))
        place[axis] = next((v for v in _values(answer, axis) if str(v) == str(wanted)), getattr(answer.at, axis))
    is_axis = fixed in AXES and len(plan.free_axes) == len(AXES)
    return fixed if is_axis else plan.held_axis, answer.at._replace(**place)


def _values(answer: FrontierAnswer, axis: Axis) -> list[int]:
    return sorted({*answer.study.plan.values(axis), getattr(answer.at, axis)})


def _address(answer: FrontierAnswer, fixed: Axis, place: Setting) -> dict[str, str]:
    """Return the parameters of the address for what is not the verdict's own."""
    other = {HELD: fixed} if fixed != answer.study.plan.held_axis else {}
    return other | ({PLACE: ",".join(map(str, place))} if place != answer.at else {})


def _choices(study_id: str, answer: FrontierAnswer, fixed: Axis, place: Setting) -> None:
    """Draw the fields of held axis and place, and put both into the address."""
    plan = answer.study.plan
    if len(plan.free_axes) == len(AXES):
        st.segmented_control(
            "Axes of the map", AXES, default=fixed, required=True, key=f"frontier_fixed-{study_id}",
            format_func=lambda axis: " and ".join(other for other in AXES if other != axis),
            help="The axis that is left out gets a slider.",
        )  # fmt: skip
    with st.grid(3, min_column_width=130, gap="small"):
        for axis in sorted(plan.free_axes, key=lambda axis: axis != fixed):
            st.select_slider(
                f"Map at {axis}" if axis == fixed else f"Read out at {axis}", _values(answer, axis),
                value=getattr(place, axis), key=f"frontier_at_{axis}-{study_id}",
                format_func=lambda value: f"{value:,}",
            )  # fmt: skip
    navigation.put(**{HELD: None, PLACE: None} | _address(answer, fixed, place))


def _read_out(answer: FrontierAnswer, fixed: Axis, place: Setting) -> None:
    """Show from where on the second target is faster along each axis of the map, at the chosen place."""
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
    at = f"{fixed} {getattr(place, fixed):,}"
    section = page.slice_at(study_id, fixed, getattr(place, fixed), answer)
    if not section.contour:
        st.caption(f"The faster target does not change at {at}.")
    charts.show("frontier", partial(frontier_figure, answer, section, place),
                f"Map of the speed-up at {at}. {answer.sentence}",
                f"frontier-{study_id}-{fixed}-{getattr(place, fixed)}", (study_id, fixed, place),
                omit=(fixed_words(answer.study.plan),))  # fmt: skip


def table(answer: FrontierAnswer) -> pd.DataFrame:
    """Return one row per measured setting, then the failed ones with the reason."""
    names = answer.study.plan.names
    rows = [_row(point, names) for point in answer.points]
    measured = {point.setting for point in answer.points}
    for failure in answer.failed:
        if failure.setting not in measured:
            why = f": {failure.reason}" if failure.reason else ""
            rows.append(_axes(failure.setting) | {"Outcome": f"{OUTCOMES[failure.outcome]}{why}"})
    columns = [*(axis.capitalize() for axis in AXES), "Speed-up", "95 %", "Faster", *names, "Rounds", "Outcome"]
    return pd.DataFrame([{column: row.get(column, "") for column in columns} for row in rows], columns=columns)


def _axes(setting: Setting) -> dict[str, int | str]:
    return {axis.capitalize(): getattr(setting, axis) for axis in AXES}


def _row(point: MeasuredPoint, names: tuple[str, str]) -> dict[str, int | str]:
    who = who_is_ahead(point.log2_speed_up, point.low, point.high, names)
    return _axes(point.setting) | {
        "Speed-up": who.value,
        "95 %": who.bounds,
        "Faster": who.target or "",
        names[0]: f"{number(point.first_ms)} ms",
        names[1]: f"{number(point.second_ms)} ms",
        "Rounds": f"{point.rounds:,} in {counted(point.starts, 'start')}",
        "Outcome": point.label,
    }


def full_grid_s(study: FrontierStudy) -> float:
    """Return the seconds that all settings of the map would have taken in every start, with as many rounds each.

    Modelled: the mean time of a visit, including starts of the workers, times the settings, times the starts.
    """
    visits = len({(item.setting, item.blocks[0].process) for item in study.rounds})
    return study.elapsed_s / max(1, visits) * len(study.plan.grid) * study.starts


def _how_measured(answer: FrontierAnswer) -> None:
    study = answer.study
    grid = set(study.plan.grid)
    inside = sum(point.setting in grid for point in answer.points)
    facts = (
        ("Settings measured", f"{inside:,} of {len(grid):,}", "Of the map's settings; the others are interpolated."),
        ("Starts of the workers", f"{study.starts}", "Settings of one start share an offset, as processes differ."),
        ("Rounds", f"{len(study.rounds):,}", "One block of each target, in an order that turns."),
        ("Time", duration(study.elapsed_s), f"Of a budget of {duration(study.plan.budget_s)}."),
    )
    note = (
        f"Every setting of the map in every start would have taken about {duration(full_grid_s(study))} "
        "(modelled: as long for each as for those measured). The map is a Gaussian process over log2 of depth, width "
        "and batch; what is measured next is where it is least clear which is faster, for the time it takes."
    )
    evidence.how_measured(facts, study.environment, answer.reason, note)
