"""The Frontier page around its result: what will be measured, the study that is running, which study is shown."""

from __future__ import annotations

from typing import Literal

import pandas as pd
import streamlit as st

from core.analysis.frontier_answer import FrontierAnswer, FrontierSlice, frontier_answer, slice_of
from core.examples import FRONTIER_ID, load_example_frontier
from core.figures.frontier_marks import axis_words
from core.frontier import AXES, Axis, FrontierPlan, FrontierStudy
from core.measure.progress import Progress
from core.measure.studies import StudySnapshot
from core.store import RunNotFound
from core.store.studies import StudySummary
from core.ui import registry, study_progress
from core.ui.live import POLL_S, WATCH_S
from core.ui.verdict import plain

KIND: Literal["frontier"] = "frontier"


def running() -> StudySnapshot | None:
    """The study of this page that runs in this process, or None."""
    return study_progress.running(KIND)


@st.fragment(run_every=POLL_S)
def progress() -> None:
    """The running study in numbers; when it has ended the page runs once more, without this timer."""
    study_progress.progress(KIND, "Measuring the frontier", _seen)


def _seen(at: Progress) -> None:
    st.metric("Settings measured", f"{at.cells_done:,} of {at.cells_total:,}",
              help="Not all will be: those where a tie is in doubt, and some in between.")  # fmt: skip


def failed() -> None:
    """Why the last study of this process has no result."""
    if (last := study_progress.error_of(KIND)) is not None:
        st.error(plain(str(last.error)), icon=":material/error:")


@st.fragment(run_every=WATCH_S)
def watch() -> None:
    """While idle: notice a study that another tab has started."""
    if running() is not None:
        st.rerun()


def studies() -> tuple[StudySummary, ...]:
    """The stored frontier studies, newest first; while there is none, the shipped one."""
    found = registry.engine().store.studies(KIND)
    if found:
        return found
    try:
        return (StudySummary(FRONTIER_ID, KIND, None, load_example_frontier().created_at),)
    except (OSError, ValueError):
        return ()


@st.cache_resource(max_entries=4, show_spinner=False)
def load(study_id: str) -> FrontierStudy:
    """A frontier study by id. Raises StoreError, OSError or ValueError."""
    if study_id == FRONTIER_ID:
        return load_example_frontier()
    return FrontierStudy.from_json(registry.engine().store.load_study(study_id))


@st.cache_resource(max_entries=4, show_spinner="Fitting the map")
def answer_of(study_id: str, _study: FrontierStudy) -> FrontierAnswer:  # noqa: ARG001  # the key of the cache
    """What a stored study says. Raises ValueError with a sentence."""
    return frontier_answer(_study)


@st.cache_resource(max_entries=64, show_spinner=False)
def slice_at(study_id: str, fixed: Axis, value: int, _answer: FrontierAnswer) -> FrontierSlice:  # noqa: ARG001
    return slice_of(_answer, fixed, value)


def shown() -> tuple[str, FrontierStudy] | None:
    """The study in the address, else the chosen or newest one, with its id; None where there is none to be read."""
    asked = st.query_params.get("study") or _chosen()
    if asked is None:
        return None
    try:
        return asked, load(asked)
    except (RunNotFound, OSError, ValueError) as error:
        st.error(plain(str(error)), icon=":material/search_off:")
        return None


def _chosen() -> str | None:
    """The newest study, or an older one that was picked; a new one becomes the choice."""
    found = {summary.id: summary.created_at for summary in studies()}
    ids = list(found)
    if len(ids) < 2 or st.context.is_embedded:
        return ids[0] if ids else None
    return st.selectbox(
        "Study", ids, key=f"frontier_study-{ids[0]}", width=260,
        format_func=lambda study_id: f"{found[study_id].replace('T', ' ')[:16]} UTC",
    )  # fmt: skip


def is_example(study: FrontierStudy) -> bool:
    """Whether it was not measured here: the shipped study."""
    return study.label == "recorded"


def explain_example(study: FrontierStudy) -> None:
    """Say of the shipped study what it is."""
    if is_example(study):
        st.caption("A finished example, recorded on another machine. Press “Measure the frontier” for this one.")


def before(plan: FrontierPlan | None) -> None:
    """What a study is and what the one chosen would measure."""
    st.markdown(
        "Both targets run the same steps at chosen settings of depth, width and batch. First come the corners and the "
        "middle of the map, then each time the setting where it is most in doubt which target is ahead. Between the "
        "settings that were measured, the map is interpolated, and says how sure it is."
    )
    if plan is None:
        return
    st.subheader("What will be measured", anchor=False)
    rows = [
        {"Axis": axis_words(plan, axis), "Values": ", ".join(f"{value:,}" for value in plan.values(axis))}
        for axis in AXES
    ]
    st.table(pd.DataFrame(rows), border="horizontal", hide_index=True)
    if plan.point is not None:
        st.caption(f"Your operating point, {plan.point.words}, is measured in every start of the workers.")
