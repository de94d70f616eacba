"""The History page: every run kept here; open, compare, rename, delete with undo, import, export."""

from __future__ import annotations

import streamlit as st

from core import figures
from core.imports import MAX_BYTES, check_size, read_run
from core.results import Run
from core.store import RunSummary, StoreError
from core.ui import charts, downloads, registry, verdict
from core.ui.tables import history_table

DELETED, SAID, UPLOADS = "deleted_runs", "history_said", "upload_count"
NAMES = {"label": "Label", "status": "Status", "first": "First target", "second": "Second target"}


def show() -> None:
    """The whole page."""
    _import()
    _said()
    found = registry.summaries()
    if not found:
        st.info(
            "No run is kept here yet. Measure this machine on the Sweep page, or import a run from another machine.",
            icon=":material/inbox:",
        )
        st.page_link("pages/sweep.py", label="Measure this machine", icon=":material/speed:")
        return
    chosen = [found[row] for row in _selected_rows(found) if row < len(found)]
    if not chosen:
        st.caption("Select one run to open, rename, export or delete it; select two to compare them.")
    elif len(chosen) == 1:
        _one(chosen[0])
    elif len(chosen) == 2:
        compare(chosen[0], chosen[1])
        _delete_button(chosen)
    else:
        st.caption(f"{len(chosen)} runs selected. Two can be compared; any number can be deleted.")
        _delete_button(chosen)


def _selected_rows(found: tuple[RunSummary, ...]) -> list[int]:
    number = st.column_config.NumberColumn
    # the key changes with the list, so that a selection never moves to another run
    state = st.dataframe(
        history_table(found), hide_index=True, on_select="rerun", selection_mode="multi-row",
        key=f"history-{hash(tuple(s.id for s in found))}", height=min(420, 38 + 35 * len(found)),
        alt="One row a run, newest first.",
        column_config={
            "name": st.column_config.TextColumn("Run", pinned=True, width="medium"),
            "created": st.column_config.DatetimeColumn("Measured", format="YYYY-MM-DD HH:mm", help="UTC."),
            "cells": number("Cells", format="localized"), "rounds": number("Rounds", format="localized"), **NAMES,
        },
    )  # fmt: skip
    return list(state["selection"]["rows"])


def _one(summary: RunSummary) -> None:
    run = _load(summary.id)
    if run is None:
        return
    verdict.card(run, registry.answer_of(run), heading=verdict.plain(summary.name), notices_shown=0)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.page_link(
            "pages/crossover.py", label="Open", icon=":material/open_in_new:", query_params={"run": summary.id}
        )
        with st.popover("Rename", icon=":material/edit:"):
            st.text_input("New name", value=summary.name, max_chars=200, key=f"name-{summary.id}")
            st.button("Save", key="save_name", on_click=_rename, args=(summary.id,), type="primary")
        downloads.buttons(run)
        _delete_button([summary])


def _load(run_id: str) -> Run | None:
    try:
        return registry.find_run(run_id)
    except (StoreError, ValueError) as error:
        st.error(str(error), icon=":material/error:")
        return None


def compare(first: RunSummary, second: RunSummary) -> None:
    """Two runs side by side, and their speed-ups on one chart; says so where they differ in what they measured."""
    runs = [run for run in (_load(first.id), _load(second.id)) if run is not None]
    answers = [answer for answer in map(registry.answer_of, runs) if answer is not None]
    if len(answers) < 2:
        st.warning("Both runs need at least one round to be compared.", icon=":material/warning:")
        return
    for sentence in differences(runs[0], runs[1]):
        st.warning(sentence, icon=":material/warning:")
    figure = figures.compare_figure(runs, answers)
    with st.container(border=True):
        st.plotly_chart(
            figures.on_dark(figure) if charts.is_dark() else figure, key="chart-compare", theme=None,
            config=figures.chart_config("svg", "breakeven-comparison"),
            alt=f"Speed-up of two runs. A: {answers[0].verdict.sentence} B: {answers[1].verdict.sentence}",
        )  # fmt: skip
    for column, letter, run, answer in zip(st.columns(2), "AB", runs, answers, strict=True):
        with column:
            verdict.card(run, answer, heading=f"{letter}: {verdict.plain(run.name)}", notices_shown=0)
            st.page_link("pages/crossover.py", label=f"Open {letter}", query_params={"run": run.id})


def differences(first: Run, second: Run) -> list[str]:
    """Sentences about what makes two runs answer different questions."""
    found = []
    if first.target_names != second.target_names:
        found.append(
            f"The runs compare different targets: {first.target_names[1]} over {first.target_names[0]}, and "
            f"{second.target_names[1]} over {second.target_names[0]}."
        )
    if first.plan and second.plan and first.plan.workload != second.plan.workload:
        found.append(
            f"The runs measure different workloads: {first.plan.workload.title}, and {second.plan.workload.title}."
        )
    if first.plan and second.plan and first.plan.pipeline != second.plan.pipeline:
        found.append(f"The pipelines differ: {first.plan.pipeline.title}, and {second.plan.pipeline.title}.")
    return found


def _delete_button(chosen: list[RunSummary]) -> None:
    words = "Delete" if len(chosen) == 1 else f"Delete {len(chosen)} runs"
    st.button(words, icon=":material/delete:", key="delete", on_click=_delete, args=(chosen,))


def _said() -> None:
    """What the last action did, and the way back after a deletion."""
    if said := st.session_state.pop(SAID, None):
        kind, text, run_id = said
        (st.error if kind == "error" else st.success)(
            text, icon=f":material/{'error' if kind == 'error' else 'check'}:"
        )
        if run_id:
            st.page_link("pages/crossover.py", label="Open it", query_params={"run": run_id})
    if deleted := st.session_state.get(DELETED):
        with st.container(horizontal=True, vertical_alignment="center", border=True):
            what = verdict.plain(f"“{deleted[0][1]}”") if len(deleted) == 1 else f"{len(deleted)} runs"
            st.markdown(f"Deleted {what}.", width="content")
            st.button("Undo", icon=":material/undo:", key="undo", on_click=_undo)


def _rename(run_id: str) -> None:
    try:
        registry.engine().store.rename(run_id, st.session_state[f"name-{run_id}"])
    except StoreError as error:
        _say("error", str(error))


def _delete(chosen: list[RunSummary]) -> None:
    deleted = []
    for summary in chosen:
        try:
            registry.engine().store.delete(summary.id)
            deleted.append((summary.id, summary.name))
        except StoreError as error:
            _say("error", str(error))
    st.session_state[DELETED] = deleted


def _undo() -> None:
    try:
        for run_id, _ in st.session_state.pop(DELETED, []):
            registry.engine().store.restore(run_id)
    except StoreError as error:
        _say("error", str(error))


def _say(kind: str, text: str, run_id: str | None = None) -> None:
    st.session_state[SAID] = (kind, verdict.plain(text), run_id)


def _import() -> None:
    """The upload field; taken in a callback, then emptied, so that a rerun never imports twice."""
    count = st.session_state.get(UPLOADS, 0)
    with st.expander("Import a run from a file", icon=":material/upload_file:"):
        st.file_uploader(
            f"A run exported as JSON, or a CSV file with the columns target, batch, step_ms and, optionally, round; "
            f"up to {MAX_BYTES / 1e6:.0f} MB",
            type=["json", "csv"], key=f"upload-{count}", on_change=_take, args=(f"upload-{count}",),
        )  # fmt: skip


def _take(key: str) -> None:
    upload = st.session_state.get(key)
    if upload is None:
        return
    st.session_state[UPLOADS] = st.session_state.get(UPLOADS, 0) + 1
    try:
        check_size(upload.size)
        run = read_run(upload.getvalue(), upload.name)
        run_id = registry.engine().store.add(run)
    except (ValueError, StoreError) as error:
        _say("error", f"Not imported. {error}")
    else:
        _say(
            "done",
            f"Imported “{run.name}” with {len(run.rounds):,} rounds. It is kept as recorded, not as measured here.",
            run_id,
        )
