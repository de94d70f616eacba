"""The Pipeline page around its result: what will be measured, the study that is running, which study is shown."""

from __future__ import annotations

from typing import Literal

import pandas as pd
import streamlit as st

from core.experiment import Experiment
from core.measure.progress import Progress
from core.measure.studies import StudySnapshot
from core.pipeline_study import PipelineStudy
from core.store import RunNotFound
from core.ui import registry, study_progress
from core.ui.live import POLL_S, WATCH_S
from core.ui.pipeline_result import RANDOM_BESIDE
from core.ui.verdict import plain

KIND: Literal["pipeline"] = "pipeline"


def running() -> StudySnapshot | None:
    """The study of this page that runs in this process, or None."""
    return study_progress.running(KIND)


@st.fragment(run_every=POLL_S)
def progress() -> None:
    """The running study in numbers; when it has ended the page runs once more, without this timer."""
    study_progress.progress(KIND, "Measuring the input pipeline", _seen)


def _seen(at: Progress) -> None:
    st.metric("Ways of feeding seen", f"{at.cells_done} of {at.cells_total}")


def failed() -> None:
    """Why the last study of this process has no result."""
    if (last := study_progress.error_of(KIND)) is not None:
        st.error(plain(str(last.error)), icon=":material/error:")


@st.fragment(run_every=WATCH_S)
def watch() -> None:
    """While idle: notice a study that another tab has started."""
    if running() is not None:
        st.rerun()


def shown() -> tuple[str, Experiment] | None:
    """The study in the address, else the chosen or newest one, with its id; None where there is none to be read."""
    asked = st.query_params.get("study") or _chosen()
    if asked is None:
        return None
    try:
        return asked, registry.load_pipeline(asked)
    except (RunNotFound, ValueError) as error:
        st.error(plain(str(error)), icon=":material/search_off:")
        return None


def _chosen() -> str | None:
    """The newest study, or an older one that was picked; a new one becomes the choice."""
    found = {summary.id: summary.created_at for summary in registry.pipeline_studies()}
    ids = list(found)
    if len(ids) < 2 or st.context.is_embedded:
        return ids[0] if ids else None
    return st.selectbox(
        "Study", ids, key=f"pipeline_study-{ids[0]}", width=260,
        format_func=lambda study_id: f"{found[study_id].replace('T', ' ')[:16]} UTC",
    )  # fmt: skip


def is_example(experiment: Experiment) -> bool:
    """Whether it was not measured here: the shipped study."""
    return experiment.label == "recorded"


def explain_example(experiment: Experiment) -> None:
    """Say of the shipped study what it is."""
    if is_example(experiment):
        st.caption("A finished example, recorded on another machine. Press “Measure the pipeline” for this one.")


def before(study: PipelineStudy | None) -> None:
    """What a study is and what the one chosen would measure."""
    st.markdown(
        "The same step is fed in several ways on this machine: from data that never leave the device, from a host "
        "array, and through `tf.data`, as you choose it and with one setting changed at a time. What a step takes "
        "longer than with resident data is the share that the input costs."
    )
    if study is None:
        return
    st.subheader("What will be measured", anchor=False)
    rows = [{"Way of feeding": arm.title, "Pipeline": arm.pipeline.title} for arm in study.arms]
    st.table(pd.DataFrame(rows), border="horizontal", hide_index=True)
    if study.base.data is not None:
        st.caption(RANDOM_BESIDE)
