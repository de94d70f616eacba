"""The form that starts a fleet run on a Ray cluster, or combines files of runs from several machines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import streamlit as st

from core.base.fields import fields_of
from core.base.numbers import duration
from core.base.schema import UserError
from core.base.text import clean
from core.rounds.run import Run
from core.rounds.show.imports import check_size, read_run
from core.studies.fleet.collect import Found, collect
from core.studies.fleet.kind import FLEET
from core.studies.fleet.record import FleetPlan, FleetStudy, labels
from core.studies.fleet.run import RAY_ADDRESS
from core.studies.registry import read_any
from core.ui import registry, shown_run
from core.ui.navigation import link
from core.ui.places import Places
from core.ui.study_page import StudyPage
from core.ui.words import plain

EVERY, EACH, LABELS = "Every machine", "One of each kind", "By labels"
UPLOADS, SAID = "fleet_uploads", "fleet_said"
MAX_FILE_MB = 20
NO_CLUSTER = (
    f"No Ray cluster is named here ({RAY_ADDRESS}), so nothing can be started from this page. Measure on each machine "
    "with “breakeven sweep --plan plan.json --out run.json” and collect the files here; docs/fleet.md has job scripts."
)


def show(page: StudyPage[FleetPlan, FleetStudy], busy: str | None, top: Any) -> FleetPlan | None:
    """Draw the form, and the button at its ``top``; return the plan, or None while there is none.

    ``busy``: why nothing can be started.
    """
    plan = None
    with top:
        _said()
    if address := os.environ.get(RAY_ADDRESS, "").strip():
        plan = _start(page, busy, address, top)
    else:
        st.info(plain(NO_CLUSTER), icon=":material/dns:")
    _collect()
    return plan


def _start(page: StudyPage[FleetPlan, FleetStudy], busy: str | None, address: str, top: Any) -> FleetPlan | None:
    runs = [run for run in registry.summaries() if run.kind == "sweep"]
    if not runs:
        st.caption("A fleet run measures the plan of a sweep that is here. Measure one on this machine first.")
        link("sweep")
        return None
    names = {run.id: run.name for run in runs}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        opened = shown_run.opened()
        run_id = st.selectbox(
            "Sweep to repeat on each machine", list(names), key="fleet_plan", width=420,
            index=list(names).index(opened.id) if opened is not None and opened.id in names else 0,
            format_func=lambda key: clean(names[key]),
        )  # fmt: skip
        way = st.segmented_control("Machines", [EVERY, EACH, LABELS], default=EVERY, required=True, key="fleet_way")
    label, lines = None, ""
    if way == EACH:
        label = Places().plan_field(fields_of(FleetPlan)["each"], "fleet", placeholder="kind", width=240)
    elif way == LABELS:
        lines = st.text_area("Labels, one machine per line", key="fleet_labels", placeholder="kind=a100,zone=eu",
                             width=420)  # fmt: skip
    plan = None
    try:
        plan = _plan(registry.find_run(run_id), address, label, lines, str(way))
    except UserError as error:
        st.error(plain(str(error)), icon=":material/error:")
    with top:
        page.start_button(plan, busy)
    if plan is not None:
        st.caption(plain(
            f"On the cluster at {address}: {duration(plan.sweep.budget_s)} per machine, all of them at the same time."
        ))  # fmt: skip
    page.refusal()
    return plan


def _plan(run: Run, address: str, label: str | None, lines: str, way: str) -> FleetPlan:
    """Return the plan. Raises UserError if the choices make none."""
    if run.plan is None:
        raise UserError("Only points were imported for this run; it has no plan to repeat.")
    if way == EACH and not (label or "").strip():
        raise UserError("Name the label that tells the kinds of machines apart.")
    machines = tuple(labels(line) for line in lines.splitlines() if line.strip()) if way == LABELS else ()
    if way == LABELS and not machines:
        raise UserError("Name the labels of at least one machine.")
    each = (label or "").strip() if way == EACH else None
    return FleetPlan(sweep=run.plan, address=address, machines=machines, each=each, prices={})


def _collect() -> None:
    """Draw the upload field; a callback imports the file and empties the field, so that a rerun never imports twice."""
    count = st.session_state.get(UPLOADS, 0)
    st.file_uploader(
        "Collect files: a fleet run (fleet.json), or the runs of several machines (JSON), all of the same sweep",
        type=["json"], accept_multiple_files=True, max_upload_size=MAX_FILE_MB, key=f"fleet-upload-{count}",
        on_change=_take, args=(f"fleet-upload-{count}",),
    )  # fmt: skip


def _take(key: str) -> None:
    uploads = st.session_state.get(key)
    if not uploads:
        return
    st.session_state[UPLOADS] = st.session_state.get(UPLOADS, 0) + 1
    try:
        study = collected([(upload.name, upload.getvalue()) for upload in uploads])
        kept = registry.engine().store.import_study(FLEET.name, study)
    except UserError as error:
        st.session_state[SAID] = ("error", f"Nothing was collected. {error}")
        return
    there = "is here already" if not (kept.new or kept.restored) else "was collected"
    st.session_state[SAID] = ("success", f"“{study.title}” {there}.")
    st.query_params["study"] = kept.id


def collected(files: Sequence[tuple[str, bytes]]) -> FleetStudy:
    """Return the fleet run in a single file, else one made of all files' runs. Raises UserError."""
    runs: list[Found] = []
    unread: list[str] = []
    for name, data in files:
        try:
            check_size(len(data))
            kind, record = read_any(data)
        except UserError:
            try:
                kind, record = None, read_run(data, name)
            except UserError as error:
                unread.append(f"{clean(name)}: {error}")
                continue
        if isinstance(record, FleetStudy):
            if len(files) == 1:
                return record
            names = {machine.run_id: machine.name for machine in record.machines}
            runs += [Found(PurePath(name), run, names.get(run.id, "")) for run in record.runs]
        elif isinstance(record, Run):
            runs.append(Found(PurePath(name), record))
        else:
            unread.append(f"{clean(name)} holds a {kind.noun if kind else 'study'}, which has no part in a fleet run.")
    return collect(runs, unread=unread)


def _said() -> None:
    if message := st.session_state.pop(SAID, None):
        kind, text = message
        (st.error if kind == "error" else st.success)(plain(text))
