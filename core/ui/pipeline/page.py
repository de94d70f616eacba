"""The Pipeline page: a study in the frame of every result, and the form for the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.base.fields import fields_of
from core.rounds.plan import SweepPlan
from core.studies.experiment.record import Experiment
from core.studies.pipeline.kind import PIPELINE
from core.studies.pipeline.plan import DEFAULT_BASE, PipelinePlan
from core.studies.progress import Snapshot
from core.ui import frame, machine, shown_run
from core.ui.checks import Checks, Outcome, checked_path, checked_workload
from core.ui.fields import PREFETCH, put_target, target_fields, workload_fields
from core.ui.pipeline.result import RANDOM_BESIDE, Parts
from core.ui.places import Places
from core.ui.study_page import StudyPage, takes
from core.ui.tables import static_table
from core.ui.words import plain
from core.userdata.source import Source, check_data, check_fits
from core.workload.spec import AUTOTUNE, Pipeline, Target, Workload

QUESTION = "Does the input keep up with the device?"
CALLS: dict[str, int | str | None] = {"one after another": None, "1": 1, "2": 2, "4": 4, "AUTOTUNE": AUTOTUNE}
LOOK_AGAIN_S = 5.0  # a folder is not reread at every keystroke elsewhere in the form
PLAN, INPUT = fields_of(PipelinePlan), fields_of(Pipeline)


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


def build_study(inputs: Mapping[str, Any], look: Callable[[str], Source]) -> Outcome[PipelinePlan]:
    """Return the plan of the form's values, by field; those of the tf.data pipeline stand beside the plan's.

    ``look`` inspects the data at a path, as :func:`core.userdata.source.check_data` does.
    """
    checks = Checks()
    workload = checked_workload(checks, **inputs["workload"])
    source = checks.attempt("data", lambda: _source(inputs["data"], workload, look))
    data = None if source is None else source.path
    base = {"kind": "tfdata"} | checks.fields(Pipeline, inputs) | {"data": data}
    values = {
        "workload": workload,
        "target": checks.attempt("target", lambda: Target(**inputs["target"])),
        **checks.fields(PipelinePlan, inputs),
    }
    return checks.outcome("preprocess_python", lambda: PipelinePlan.model_validate(values | {"base": base}), source)


def _source(text: str, workload: Workload | None, look: Callable[[str], Source]) -> Source | None:
    if not (path := checked_path(text)):
        return None
    source = look(path)
    if workload is not None:
        check_fits(source, workload)
    return source


@st.cache_resource(ttl=LOOK_AGAIN_S, max_entries=4, show_spinner=False)
def _look(path: str) -> Source:
    return check_data(path)


def form(busy: str | None, top: Any) -> PipelinePlan | None:
    """Draw the form, and the button at its ``top``; return the plan, or None while anything is invalid.

    ``busy``: why nothing can be started.
    """
    here = machine.devices()
    wrong = Places()
    if (plan := shown_run.carry("pipeline")) is not None:
        _take(plan, here)
    inputs = {"workload": workload_fields(wrong)}
    st.markdown("**Target**")
    targets = here.default_targets()
    usual = targets[1] if here.has_gpu else targets[0].model_copy(update={"threads": None})
    inputs["target"] = target_fields("pipeline", usual, here)
    wrong.here("target")
    inputs["batch"] = wrong.plan_field(PLAN["batch"], "pipeline")
    pipeline, below_path = _pipeline(wrong)
    inputs["budget_s"] = wrong.plan_field(PLAN["budget_s"], "pipeline")
    outcome = build_study(inputs | pipeline, _look)
    if outcome.source is not None:
        below_path.success(plain(f"{outcome.source.name}: {outcome.source.words}."), icon=":material/folder_open:")
    wrong.fill(outcome.errors)
    with top:
        PAGE.form_button(outcome, busy, _says)
    return outcome.plan


def _take(plan: SweepPlan, here: machine.Machine) -> None:
    """Put a run's last target and its middle batch size into the fields, as far as they are offered."""
    st.session_state["pipeline_batch"] = plan.batches[len(plan.batches) // 2]
    put_target("pipeline", plan.targets[-1], here)


def _pipeline(wrong: Places) -> tuple[dict[str, Any], Any]:
    """Draw the tf.data pipeline that the study varies field by field; return it and the place below the path."""
    st.markdown("**Input pipeline as chosen**")
    data = wrong.plan_field(INPUT["data"], "pipeline", placeholder="/data/train.npz")
    below_path = st.empty()
    left, right = st.columns(2)
    inputs = {"data": data}
    for name, options, column in (("prefetch", PREFETCH, left), ("parallel_calls", CALLS, right)):
        with column:
            inputs[name] = wrong.plan_field(INPUT[name], "pipeline", options, index=len(options) - 1)
    own = bool(data.strip())
    inputs["preprocess_us"] = wrong.plan_field(
        INPUT["preprocess_us"], "pipeline", value=0.0 if own else DEFAULT_BASE.preprocess_us,
        key=f"pipeline_cost_{'own' if own else 'random'}",
    )  # fmt: skip
    inputs["preprocess_python"] = wrong.plan_field(INPUT["preprocess_python"], "pipeline")
    return inputs, below_path


def _says(plan: PipelinePlan) -> str:
    return f"{plan.title}: {len(plan.arms)} ways of feeding, {takes(plan.budget_s)}."
