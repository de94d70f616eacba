"""The History page: every study kept here; open, compare, rename, delete with undo, import, export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pandas as pd
import streamlit as st

from core.schema import UserError
from core.store import StoreError, Summary
from core.studies.registry import read_any
from core.studies.sweep.compare_figures import comparison_figure
from core.studies.sweep.comparison import MAX_COMPARED, comparison_rows, differences
from core.studies.sweep.imports import MAX_BYTES, check_size, read_run
from core.studies.sweep.kind import SWEEP
from core.studies.sweep.record import Run
from core.text import clean
from core.ui import charts, downloads, kept, registry, verdict
from core.ui.navigation import link
from core.ui.study_page import busy_sentence
from core.ui.sweep.live import can_resume, resume
from core.ui.tables import cleaned, history_table, written
from core.ui.words import plain

COMPARED = ("", "Run", "Machine", "Measured", "Targets", "Verdict")
DAMAGED_SHOWN = 5  # rows; in one file there are seldom more
DELETED, SAID, UPLOADS, RESUMED = "deleted_runs", "history_said", "upload_count", "resumed_sweep"


def show() -> None:
    """The whole page."""
    if st.session_state.pop(RESUMED, False):
        st.switch_page("pages/sweep.py")  # which shows its progress, or why it was refused
    _import()
    _said()
    registry.mark_interrupted()
    for problem in registry.engine().store.damaged()[:DAMAGED_SHOWN]:
        st.warning(plain(problem), icon=":material/error:")
    summaries = registry.engine().store.summaries()
    if not summaries:
        st.info(
            "Nothing is kept here yet. Measure this machine on the Sweep page, or import a run from another machine.",
            icon=":material/inbox:",
        )
        link("sweep")
        return
    chosen = [summaries[row] for row in _selected_rows(summaries) if row < len(summaries)]
    if not chosen:
        st.caption("Select one row to open, rename, export or delete it; select several sweeps to compare them.")
    elif len(chosen) == 1:
        _one(chosen[0])
    else:
        if len(chosen) <= MAX_COMPARED and all(summary.kind == SWEEP.name for summary in chosen):
            compare(chosen)
        else:
            st.caption(
                f"{len(chosen)} rows selected. Two to {MAX_COMPARED:d} sweeps can be compared; any number of rows can "
                "be deleted."
            )
        _delete_button(chosen)


def _selected_rows(found: tuple[Summary, ...]) -> list[int]:
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    # the key changes with the list, so that a selection never moves to another run
    state = st.dataframe(
        cleaned(history_table(found, [kept.title_of(s) for s in found])), hide_index=True, on_select="rerun",
        selection_mode="multi-row",
        key=f"history-{hash(tuple(s.id for s in found))}", height=min(420, 38 + 35 * len(found)),
        alt="One row a study, newest first.", placeholder="",
        column_config={
            "kind": text("Kind", width=150), "name": text("Name", pinned=True, width=330),
            "created": st.column_config.DatetimeColumn("Measured", format="YYYY-MM-DD HH:mm", width=130, help="UTC."),
            "label": text("Label", width=90), "status": text("Status", width=90),
            "targets": "Targets",
            "cells": number("Cells", format="localized", width=65),
            "rounds": number("Rounds", format="localized", width=75),
        },
    )  # fmt: skip
    return list(state["selection"]["rows"])


def _one(summary: Summary) -> None:
    run = _load(summary.id) if summary.kind == SWEEP.name else None
    readable = run is not None or (summary.kind != SWEEP.name and kept.show(summary))
    if run is not None:
        verdict.card(run, registry.answer_of(run), heading=summary.name, notices_shown=0)
    with st.container(horizontal=True, vertical_alignment="center"):
        if readable:
            kept.link(summary)
        if can_resume(summary):
            st.button("Resume", icon=":material/restart_alt:", key="resume", on_click=_resume, args=(summary.id,),
                      disabled=busy_sentence() is not None)  # fmt: skip
        with st.popover("Rename", icon=":material/edit:"):
            st.text_input("New name", value=clean(summary.name), max_chars=200, key=f"name-{summary.id}")
            st.button("Save", key="save_name", on_click=_rename, args=(summary.id,), type="primary")
        if run is not None:
            downloads.buttons(run)
        elif readable:
            kept.file(summary)
        _delete_button([summary])


def _load(run_id: str) -> Run | None:
    try:
        return registry.find_run(run_id)
    except UserError as error:
        st.error(plain(str(error)), icon=":material/error:")
        return None


def compare(chosen: Sequence[Summary]) -> None:
    """Runs over each other on one chart, what differs between them, and what each of them says."""
    read = [run for run in (_load(summary.id) for summary in chosen) if run is not None]
    runs = [run for run in read if run.rounds]
    for run in read:
        if not run.rounds:
            st.warning(f"“{plain(run.name)}” has no rounds, so there is nothing to compare.", icon=":material/warning:")
    if len(runs) < 2:
        return
    answers = [answer for answer in map(registry.answer_of, runs) if answer is not None]
    if found := differences(runs):
        st.warning("  \n".join(plain(sentence) for sentence in found), icon=":material/difference:")
    rows = comparison_rows(runs, answers)
    said = " ".join(f"{row.letter}: {row.verdict}" for row in rows)
    charts.show(
        "compare", partial(comparison_figure, runs, answers), f"{len(runs)} runs compared. {said}", "comparison"
    )
    st.table(written(pd.DataFrame(rows, columns=COMPARED)), border="horizontal", hide_index=True)
    with st.container(horizontal=True):
        for (letter, *_), run in zip(rows, runs, strict=True):
            st.page_link("pages/crossover.py", label=f"Open {letter}", query_params={"run": run.id})


def _delete_button(chosen: list[Summary]) -> None:
    words = "Delete" if len(chosen) == 1 else f"Delete {len(chosen)} rows"
    st.button(words, icon=":material/delete:", key="delete", on_click=_delete, args=(chosen,))


def _said() -> None:
    """What the last action did, and the way back after a deletion."""
    if said := st.session_state.pop(SAID, None):
        kind, text, study_id = said
        (st.error if kind == "error" else st.success)(
            text, icon=f":material/{'error' if kind == 'error' else 'check'}:"
        )
        for summary in registry.engine().store.summaries():
            if summary.id == study_id:
                kept.link(summary)
    if deleted := st.session_state.get(DELETED):
        with st.container(horizontal=True, vertical_alignment="center", border=True):
            what = f"“{deleted[0][1]}”" if len(deleted) == 1 else f"{len(deleted)} studies"
            st.markdown(f"Deleted {plain(what)}.", width="content")
            st.button("Undo", icon=":material/undo:", key="undo", on_click=_undo)


@contextmanager
def _errors_said() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        _say("error", str(error))


def _resume(run_id: str) -> None:
    resume(run_id)
    st.session_state[RESUMED] = True


def _rename(run_id: str) -> None:
    with _errors_said():
        registry.engine().store.rename(run_id, st.session_state[f"name-{run_id}"])


def _delete(chosen: list[Summary]) -> None:
    deleted: list[tuple[str, str]] = []
    for summary in chosen:
        with _errors_said():
            registry.engine().store.delete(summary.id)
            deleted.append((summary.id, summary.name))
    st.session_state[DELETED] = deleted


def _undo() -> None:
    with _errors_said():
        for run_id, _ in st.session_state.pop(DELETED, []):
            registry.engine().store.restore(run_id)


def _say(kind: str, text: str, study_id: str = "") -> None:
    """Let the next run say it, with the way to a study."""
    st.session_state[SAID] = (kind, plain(text), study_id)


def _import() -> None:
    """The upload field; taken in a callback, then emptied, so that a rerun never imports twice."""
    count = st.session_state.get(UPLOADS, 0)
    with st.expander("Import a run or study from a file", icon=":material/upload_file:"):
        st.file_uploader(
            "What was exported as JSON, or a CSV file with the columns target, batch, step_ms and, optionally, round",
            type=["json", "csv"], max_upload_size=MAX_BYTES // 1_000_000,
            key=f"upload-{count}", on_change=_take, args=(f"upload-{count}",),
        )  # fmt: skip


def _take(key: str) -> None:
    upload = st.session_state.get(key)
    if upload is None:
        return
    st.session_state[UPLOADS] = st.session_state.get(UPLOADS, 0) + 1
    try:
        check_size(upload.size)
        what, study_id = _kept(upload.getvalue(), upload.name)
    except UserError as error:
        _say("error", f"Not imported. {error}")
        return
    label = next(summary.label for summary in registry.engine().store.summaries() if summary.id == study_id)
    if label == "measured":
        _say("done", f"Not imported again: {what} was measured here.", study_id)
    else:
        _say("done", f"Imported {what}. It is kept as {label}, not as measured here.", study_id)


def _kept(data: bytes, filename: str) -> tuple[str, str]:
    """Keep a run, or a study of another kind: what it is, and its id."""
    store = registry.engine().store
    try:
        run = read_run(data, filename)
    except UserError as error:
        try:
            kind, record = read_any(data)
        except UserError:
            raise error from None
        if kind is not SWEEP:
            return f"the {kind.noun} “{record.title}”", store.import_study(kind.name, record)
        run = record
    return f"“{run.name}” with {len(run.rounds):,} rounds", store.add(run)
