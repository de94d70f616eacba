"""The Frontier page around its result: what a study is and would measure, and cached answers."""

from __future__ import annotations

import streamlit as st

from core.studies.frontier.answer import FrontierAnswer, FrontierSlice, frontier_answer, slice_of
from core.studies.frontier.figures import axis_words
from core.studies.frontier.kind import FRONTIER
from core.studies.frontier.record import AXES, Axis, FrontierPlan, FrontierStudy
from core.studies.progress import Snapshot
from core.ui.study_page import StudyPage
from core.ui.tables import static_table
from core.ui.words import plain


def _counts(snapshot: Snapshot) -> str:
    """Return how many settings are measured; not all will be, only those least clear and some between."""
    return f"{snapshot.progress.cells_done:,} of {snapshot.progress.cells_total:,} settings measured."


PAGE = StudyPage(FRONTIER, "Measure the frontier", counts=_counts)


@st.cache_resource(max_entries=4, show_spinner="Fitting the map")
def answer_of(study_id: str, _study: FrontierStudy) -> FrontierAnswer:  # noqa: ARG001  # the key of the cache
    """Return a stored study's answer. Raises UserError."""
    return frontier_answer(_study)


@st.cache_resource(max_entries=64, show_spinner=False)
def slice_at(study_id: str, fixed: Axis, value: int, _answer: FrontierAnswer) -> FrontierSlice:  # noqa: ARG001
    return slice_of(_answer, fixed, value)


def before(plan: FrontierPlan | None) -> None:
    """Explain a study and what the chosen one would measure."""
    st.markdown(
        "Both targets run the same steps at chosen settings of depth, width and batch. First come the corners and the "
        "middle of the map, then each time the setting where it is least clear which target is faster. Between the "
        "settings that were measured, the map is interpolated, and says how sure it is."
    )
    if plan is None:
        return
    st.markdown("**What will be measured**")
    rows = [
        {"Axis": axis_words(plan, axis), "Values": ", ".join(f"{value:,}" for value in plan.values(axis))}
        for axis in AXES
    ]
    static_table(rows)
    if plan.point is not None:
        st.caption(f"Your operating point, {plain(plan.point.words)}, is measured in every start of the workers.")
