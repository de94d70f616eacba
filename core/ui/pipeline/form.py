"""The form of the Pipeline page: workload, target, batch, the chosen pipeline, own data, budget; one button."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.studies.pipeline.plan import DEFAULT_BASE, DEFAULT_BATCH, DEFAULT_BUDGET_S, PipelinePlan
from core.ui import machine
from core.ui.fields import PREFETCH, target_fields, workload_fields
from core.ui.pipeline.draft import PipelineDraft, build_study
from core.ui.pipeline.page import PAGE
from core.ui.places import KEEP, Places
from core.ui.study_page import takes
from core.ui.words import PYTHON_HELP, plain
from core.userdata.source import Source, check_data
from core.workload.spec import AUTOTUNE, MAX_BATCH, MIN_BATCH

CALLS: dict[str, int | str | None] = {"one after another": None, "1": 1, "2": 2, "4": 4, "AUTOTUNE": AUTOTUNE}
LOOK_AGAIN_S = 5.0  # a folder is not reread at every keystroke elsewhere in the form


def show(busy: str | None, top: Any = None) -> PipelinePlan | None:
    """Draw the form and return its plan, or None while anything is invalid.

    ``busy``: why nothing can be started; ``top``: the place of the button, else above the fields.
    """
    top = top or st.container()
    here = machine.devices()
    wrong = Places()
    workload = workload_fields(wrong)
    st.markdown("**Target**")
    targets = here.default_targets()
    target = target_fields("pipeline", targets[1] if here.has_gpu else targets[0].model_copy(update={"threads": None}),
                           here)  # fmt: skip
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
    wrong.fill(outcome.errors)
    with top:
        PAGE.form_button(outcome, busy, _says)
    return outcome.plan


@st.cache_resource(ttl=LOOK_AGAIN_S, max_entries=4, show_spinner=False)
def _look(path: str) -> Source:
    return check_data(path)


def _pipeline(wrong: Places) -> tuple[dict[str, Any], Any]:
    """Draw the tf.data pipeline that the study varies field by field; return it and the place below the path."""
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


def _says(plan: PipelinePlan) -> str:
    return f"{plan.title}: {len(plan.arms)} ways of feeding, {takes(plan.budget_s)}."
