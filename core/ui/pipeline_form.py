"""The form of the Pipeline page: workload, target, batch, the pipeline as chosen, own data, budget; the one button."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.datasource import Source, check_data
from core.measure.studies import ExperimentPlan, StudyTools, measure_arms
from core.pipeline_study import DEFAULT_BASE, DEFAULT_BATCH, DEFAULT_BUDGET_S, PipelineStudy
from core.spec import AUTOTUNE, MAX_BATCH, MIN_BATCH
from core.ui import machine, registry
from core.ui.form import KEEP, PREFETCH, Places, target_fields, workload_fields
from core.ui.pipeline_choices import PipelineDraft, StudyOutcome, build_study
from core.ui.states import progress_words
from core.ui.verdict import plain
from core.ui.words import PYTHON_HELP

CALLS: dict[str, int | str | None] = {"one after another": None, "1": 1, "2": 2, "4": 4, "AUTOTUNE": AUTOTUNE}
PROBLEM = "pipeline_problem"
BUSY = "Something else is being measured on this machine; try again when it is done."
LOOK_AGAIN_S = 5.0  # a folder is not read anew at every keystroke elsewhere in the form


def show(busy: str | None) -> PipelineStudy | None:
    """The whole form; the study as chosen, or None while something is wrong. ``busy``: why nothing can be started."""
    found = machine.devices()
    top, wrong = st.container(), Places()
    workload = workload_fields(wrong)
    st.markdown("**Target**")
    targets = found.default_targets()
    target = target_fields("pipeline", targets[1] if found.has_gpu else targets[0].model_copy(update={"threads": None}),
                           found)  # fmt: skip
    wrong.here("target")
    batch = st.number_input(
        "Batch size", value=DEFAULT_BATCH, step=1, key="pipeline_batch", persist_state=KEEP,
        help=f"{MIN_BATCH} to {MAX_BATCH:,}. Every way of feeding is measured at this batch.",
    )  # fmt: skip
    wrong.here("batch")
    pipeline, below_path = _pipeline(wrong)
    budget = st.number_input(
        "Budget (seconds)", value=round(DEFAULT_BUDGET_S), step=30, key="pipeline_budget", persist_state=KEEP,
        help="For the whole study. Workers are started three times, so that intervals can be given; with some 14 ways "
        "of feeding, less than a minute is not enough for that.",
    )  # fmt: skip
    wrong.here("budget")
    draft = PipelineDraft(workload=workload, target=target, batch=batch, budget_s=budget, **pipeline)
    outcome = build_study(draft, _look)
    if outcome.source is not None:
        below_path.success(plain(f"{outcome.source.name}: {outcome.source.words}."), icon=":material/folder_open:")
    wrong.fill({field: plain(sentence) for field, sentence in outcome.errors.items()})
    with top:
        _button(outcome, busy)
    return outcome.study


@st.cache_resource(ttl=LOOK_AGAIN_S, max_entries=4, show_spinner=False)
def _look(path: str) -> Source:
    return check_data(path)


def _pipeline(wrong: Places) -> tuple[dict[str, Any], Any]:
    """The tf.data pipeline as chosen, which the study varies one field at a time; and the place below the path."""
    st.markdown("**Input pipeline as chosen**")
    data = st.text_input(
        "Your own data (optional)", key="pipeline_data", persist_state=KEEP, placeholder="/data/train.npz",
        help="A path on this machine: an .npy or .npz file, TFRecord files, or a folder of PNG or JPEG images. Read "
        "with tf.data's own readers. Empty: random samples of the network's input shape.",
    )  # fmt: skip
    wrong.here("data")
    below_path = st.empty()
    left, right = st.columns(2)
    prefetch = left.selectbox("Prefetch", list(PREFETCH), index=4, key="pipeline_prefetch", persist_state=KEEP)
    calls = right.selectbox("Parallel map calls", list(CALLS), index=4, key="pipeline_calls", persist_state=KEEP)
    own = bool(data.strip())
    cost_us = st.number_input(
        "Preprocessing (µs a sample)", value=0.0 if own else DEFAULT_BASE.preprocess_us, step=10.0,
        key=f"pipeline_cost_{'own' if own else 'random'}", persist_state=KEEP,
        help="Real work spent on every sample in the map function, on top of reading your data. Costs under about "
        "30 µs cannot be set; they become about 30 µs.",
    )  # fmt: skip
    wrong.here("cost")
    python = st.checkbox("Preprocessing in Python", key="pipeline_python", persist_state=KEEP, help=PYTHON_HELP)
    wrong.here("pipeline")
    chosen = {"prefetch": PREFETCH[prefetch], "parallel_calls": CALLS[calls], "preprocess_us": cost_us}
    return {"data": data, "preprocess_python": python, **chosen}, below_path


def _button(outcome: StudyOutcome, busy: str | None) -> None:
    if busy:
        st.info(plain(busy), icon=":material/hourglass_top:")
    study = outcome.study
    st.button(
        "Measure the pipeline", type="primary", icon=":material/play_arrow:", key="measure_pipeline", width="stretch",
        disabled=study is None or busy is not None, on_click=_start, args=(study,),
    )  # fmt: skip
    if study is None:
        st.caption(":material/error: One choice below is not possible yet; it says what is accepted.")
    else:
        words = f"{study.title}: {len(study.arms)} ways of feeding, at most {progress_words(study.budget_s)}."
        st.caption(f"{plain(words)} Change any of it below.")
    if problem := st.session_state.pop(PROBLEM, None):
        st.warning(plain(problem), icon=":material/hourglass_top:")


def _start(study: PipelineStudy) -> None:
    """Start the study; what refuses becomes a sentence on the next run. Its result replaces one in the address."""
    registry.quieten()
    st.query_params.pop("study", None)
    plan = ExperimentPlan(study.workload, study.arms, study.budget_s)

    def work(tools: StudyTools) -> Any:
        return measure_arms(tools, plan)

    if not registry.engine().jobs.start_study("pipeline", f"Measuring the input pipeline of {study.title}", work):
        st.session_state[PROBLEM] = BUSY
