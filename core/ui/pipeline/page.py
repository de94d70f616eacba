"""The Pipeline page around its result: what a study is, and what the one chosen would measure."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.studies.pipeline.kind import PIPELINE
from core.studies.pipeline.plan import PipelinePlan
from core.studies.progress import Snapshot
from core.ui.pipeline.result import RANDOM_BESIDE
from core.ui.study_page import StudyPage
from core.ui.tables import written


def _counts(snapshot: Snapshot) -> str:
    return f"{snapshot.progress.cells_done:,} of {snapshot.progress.cells_total:,} ways of feeding seen."


PAGE = StudyPage(PIPELINE, "Measure the pipeline", counts=_counts)


def before(study: PipelinePlan | None) -> None:
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
    st.table(written(pd.DataFrame(rows)), border="horizontal", hide_index=True)
    if study.base.data is not None:
        st.caption(RANDOM_BESIDE)
