"""The Pipeline page: a study in the frame of every result, and the form for the next one."""

from __future__ import annotations

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.studies.experiment.record import Experiment
from core.studies.pipeline.kind import PIPELINE
from core.studies.pipeline.plan import PipelinePlan
from core.studies.progress import Snapshot
from core.ui import frame
from core.ui.pipeline.result import RANDOM_BESIDE, Parts
from core.ui.study_page import StudyPage
from core.ui.tables import static_table

QUESTION = "Does the input keep up with the device?"


def _counts(snapshot: Snapshot) -> str:
    return f"{snapshot.progress.cells_done:,} of {snapshot.progress.cells_total:,} ways of feeding seen."


PAGE = StudyPage(PIPELINE, "Measure the pipeline", counts=_counts)


def result(study_id: str, experiment: Experiment, head: DeltaGenerator) -> None:
    """Show a study; ``head`` is the place of the heading."""
    frame.show_parts(QUESTION, partial(Parts, study_id, experiment), head)


def before(study: PipelinePlan | None) -> None:
    """Explain a study and what the chosen one would measure."""
    st.markdown(
        "The same step is fed in several ways on this machine: from data that never leave the device, from a host "
        "array, and through `tf.data`, as you choose it and with one setting changed at a time. What a step takes "
        "longer than with resident data is the share that the input costs."
    )
    if study is None:
        return
    st.markdown("**What will be measured**")
    rows = [{"Way of feeding": arm.title, "Pipeline": arm.pipeline.title} for arm in study.arms]
    static_table(rows)
    if study.base.data is not None:
        st.caption(RANDOM_BESIDE)
