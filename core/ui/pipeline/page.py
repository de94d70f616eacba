"""The Pipeline page: a study in the frame of every result, and the form for the next one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.studies.experiment.record import Experiment
from core.studies.pipeline.kind import PIPELINE
from core.studies.pipeline.plan import PipelinePlan
from core.studies.progress import Snapshot
from core.ui import frame
from core.ui.pipeline.result import RANDOM_BESIDE, Parts
from core.ui.study_page import EXAMPLE, StudyPage, busy_sentence, choices_beside
from core.ui.tables import written

QUESTION = "Does the input keep up with the device?"
Form = Callable[[str | None, DeltaGenerator], PipelinePlan | None]


def _counts(snapshot: Snapshot) -> str:
    return f"{snapshot.progress.cells_done:,} of {snapshot.progress.cells_total:,} ways of feeding seen."


PAGE = StudyPage(PIPELINE, "Measure the pipeline", counts=_counts)


def _result(head: DeltaGenerator, study_id: str, experiment: Experiment) -> None:
    frame.show_parts(QUESTION, partial(Parts, study_id, experiment), head)


def show(form: Form) -> None:
    """Show the whole page. While a study is measured its progress replaces the result."""
    head, (left, right) = st.container(), frame.choice_and_form(PAGE.has_choice())
    with left:
        shown = PAGE.shown()
    if st.context.is_embedded:
        if shown is not None:
            _result(head, *shown)
    elif PAGE.running() is not None or shown is None:
        with head:
            frame.top(QUESTION)
        (PAGE.failure if shown is None and PAGE.running() is None else PAGE.progress)()
        _ask(form, example=False, own=False)
    else:
        example = PAGE.is_example(shown[0])
        with right:
            _ask(form, example=example, own=not example)
        _result(head, *shown)


def _ask(form: Form, *, example: bool, own: bool) -> None:
    """Draw the form for the next study, folded if there is a result; with the last one's error, and an explanation."""
    if example or own:
        PAGE.failure()
    top, choices = choices_beside() if example or own else (st.container(), st.container())
    with choices:
        plan = form(busy_sentence(), top)
        if not own:
            before(plan)
    if example:
        top.caption(EXAMPLE)


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
    st.table(written(pd.DataFrame(rows)), border="horizontal", hide_index=True)
    if study.base.data is not None:
        st.caption(RANDOM_BESIDE)
