"""The Fleet page: a fleet run in the frame of every result; its machines while it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.base.schema import UserError
from core.studies.fleet.kind import FLEET
from core.studies.fleet.record import FleetPlan, FleetStudy
from core.studies.progress import Snapshot
from core.ui import frame, news, registry
from core.ui.fleet import form, result
from core.ui.fleet.result import Asked, Parts, asked, compared, curves_of
from core.ui.study_page import StudyPage
from core.ui.words import plain

QUESTION = "Which machine is the fastest at which batch?"


def _counts(snapshot: Snapshot) -> str:
    at = snapshot.progress
    return f"{at.cells_done:,} of {at.cells_total:,} have ended." if at.cells_total else ""


PAGE: StudyPage[FleetPlan, FleetStudy] = StudyPage(
    FLEET, "Measure the fleet", counts=_counts, choices="Measure or collect"
)


def show() -> None:
    """Show the whole page. While a fleet is measured its machines replace the result."""
    PAGE.frame(QUESTION, partial(form.show, PAGE), _result, _before, _so_far)


def _before(_: FleetPlan | None) -> None:
    st.markdown(
        "The same sweep runs on each machine, and this page says which of them is the fastest at which batch, "
        "from which batch another one is, and what a sample costs on each."
    )


def _so_far() -> None:
    news.redrawn("fleet", _live, changes=False)


def _live() -> None:
    """Show the machines of the running fleet study, and the comparison of those that have ended."""
    snapshot = PAGE.running()
    if snapshot is None or not isinstance(snapshot.record, FleetStudy):
        return
    study, ended = snapshot.record, curves_of(snapshot.record)
    result.show(study, ended, "fleet-live")
    try:
        parts = Parts(f"{snapshot.id}-live", study, ended, Asked())
    except UserError:
        st.caption("The comparison begins when two machines have ended.")
        return
    st.markdown(f"**So far:** {plain(parts.sentence)}")


def _result(study_id: str, study: FleetStudy, head: DeltaGenerator) -> None:
    verdict_place, fields = st.container(), st.container()
    curves = curves_of(study)
    try:
        names = compared(study, curves)
        with fields:
            wanted = asked(study, names)
        parts = Parts(study_id, study, curves, wanted)
    except UserError as error:
        _without(study_id, study, head, str(error))
        return
    frame.show(
        QUESTION, _inside(verdict_place, parts.verdict), parts.picture, notes=parts.notes, evidence=parts.evidence(),
        share=parts.share, head=head,
    )  # fmt: skip


def _inside(place: DeltaGenerator, draw: Callable[[], None]) -> Callable[[], None]:
    def inside() -> None:
        with place:
            draw()

    return inside


def _without(study_id: str, study: FleetStudy, head: DeltaGenerator, why: str) -> None:
    """Show a fleet run that supports no comparison: the reason, and its machines' states."""
    if not st.context.is_embedded:
        with head:
            frame.top(QUESTION)
    st.info(plain(why), icon=":material/info:")
    result.show(study, curves_of(study), f"fleet-machines-{study_id}")
    for warning in study.warnings:
        st.warning(plain(warning.text), icon=":material/warning:")
    if not registry.read_only():
        st.caption("Runs that were measured on other machines can be collected above.")
