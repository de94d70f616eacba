"""The form of the Sweep page: workload, targets, batches, pipeline, budget; and the one button."""

from __future__ import annotations

from typing import Any, get_args

import streamlit as st

from core.analysis.cudnn import cudnn_note
from core.analysis.execution import expected_words, place_words
from core.analysis.memory import estimate_bytes
from core.machine.environment import available_memory_bytes
from core.numbers import byte_size, duration, large
from core.spec import MAX_BATCH, MIN_BATCH, PipelineKind
from core.studies.sweep.plan import SweepPlan
from core.studies.sweep.start import new_run
from core.ui import machine
from core.ui.fields import PREFETCH, Places, workload_fields
from core.ui.hardware import modelled
from core.ui.network_form import KEEP
from core.ui.sweep.draft import USUAL_RANGE, Draft, SweepOutcome, build
from core.ui.sweep.live import PAGE
from core.ui.sweep.targets import OPEN, TargetRows
from core.ui.words import PIPELINES, PYTHON_HELP, plain

ACTIVATION_BYTES = 4


def show(busy: str | None) -> None:
    """The whole form. ``busy``: a sentence why nothing can be started now, or None."""
    here = machine.devices()
    top = st.container()
    machine.gpu_notice(here)
    wrong = Places()
    workload = workload_fields(wrong)
    missing = machine.missing_frameworks()
    targets = TargetRows(here, workload["mode"], wrong, missing)
    modelled.choose(folded=here.has_gpu)
    about_card, recurrent = st.empty(), st.empty()
    batches = _batches(wrong)
    wrong.here("memory")
    more, name = _more(wrong)
    draft = Draft(targets=targets.chosen, batches=batches, **workload, **more)
    outcome = build(draft, available_memory_bytes(), machine.now().limited_words, missing)
    targets.finish(outcome.targets, outcome.workload)
    if outcome.plan is not None and (note := cudnn_note(outcome.plan.workload, outcome.plan.targets)) is not None:
        recurrent.info(plain(note), icon=":material/speed:")
    modelled.explain(about_card, outcome.plan)
    _cost(outcome, here)
    wrong.fill(outcome.errors)
    with top:
        PAGE.form_button(outcome.plan, busy, says, start=lambda plan: PAGE.start(new_run(plan, name.strip() or None)))


def _batches(wrong: Places) -> tuple[Any, ...]:
    kind = st.segmented_control(
        "Batch sizes", ["range", "list"], default="range", required=True, format_func=str.capitalize,
        key="form_batch_kind", persist_state=KEEP,
    )  # fmt: skip
    if kind == "list":
        text = st.text_input(
            "Batch sizes to measure", value="1, 8, 64, 512", key="form_batch_list", persist_state=KEEP, max_chars=600,
            help=f"Whole numbers from {MIN_BATCH} to {MAX_BATCH:,}, separated by commas.",
        )  # fmt: skip
        chosen: tuple[Any, ...] = ("list", text)
    else:
        left, right = st.columns(2)
        low = left.number_input("Smallest", value=USUAL_RANGE[0], step=1, key="form_low", persist_state=KEEP)
        high = right.number_input(
            "Largest", value=USUAL_RANGE[1], step=1, key="form_high", persist_state=KEEP,
            help=f"{MIN_BATCH} to {MAX_BATCH:,}; doublings in between.",
        )  # fmt: skip
        chosen = ("range", low, high)
    wrong.here("batches")
    return chosen


def _more(wrong: Places) -> tuple[dict[str, Any], str]:
    """What most sweeps leave as it is, folded: pipeline, refinement, budget, precision and the run's name."""
    with st.expander("Pipeline, refinement, budget and precision", icon=":material/tune:"):
        pipeline = _pipeline(wrong)
        refine = st.checkbox(
            "Measure more batch sizes around the crossover", value=True, key="form_refine", persist_state=KEEP
        )
        budget = st.number_input(
            "Budget (seconds)", value=90, step=30, key="form_budget", persist_state=KEEP,
            help="For the whole sweep, start-up of the workers included. It ends earlier once the answer is precise.",
        )  # fmt: skip
        wrong.here("budget")
        crossover_width, width = _precision(wrong)
        name = st.text_input("Name of the run (optional)", max_chars=200, key="form_name", persist_state=KEEP)
    widths = {"crossover_width_pct": crossover_width, "width_pct": width}
    return {"pipeline": pipeline, "refine": refine, "budget_s": budget, **widths}, name


def _precision(wrong: Places) -> tuple[float | None, float | None]:
    """How narrow is narrow enough: for the crossover, and for the step times where there is none."""
    left, right = st.columns(2)
    crossover_width = left.number_input(
        "Crossover interval (%)", value=25.0, step=5.0, key="form_crossover_width", persist_state=KEEP,
        help="The one that matters most. The sweep ends once the crossover's 95 % interval is this narrow, in percent "
        "of its batch size: 25 % is an interval such as 88 to 113 around batch 100. Half the width takes about four "
        "times as long.",
    )  # fmt: skip
    width = right.number_input(
        "Step time interval (%)", value=5.0, step=1.0, key="form_width", persist_state=KEEP,
        help="Where there is no crossover, the sweep ends once the 95 % interval of every step time is this narrow, in "
        "percent of the step time, or no longer gets narrower.",
    )  # fmt: skip
    wrong.here("crossover width")
    wrong.here("width")
    return crossover_width, width


def _pipeline(wrong: Places) -> dict[str, Any]:
    kind = st.selectbox(
        "How a batch reaches the step", get_args(PipelineKind), format_func=PIPELINES.__getitem__,
        key="form_pipeline", persist_state=KEEP,
    )  # fmt: skip
    values: dict[str, Any] = {"kind": kind}
    if kind == "tfdata":
        left, right = st.columns(2)
        values["prefetch"] = PREFETCH[left.selectbox("Prefetch", list(PREFETCH), index=4, key="form_prefetch")]
        calls = right.number_input(
            "Parallel map calls", value=None, step=1, placeholder="one after another", key="form_calls"
        )
        values["parallel_calls"] = calls
        values["preprocess_us"] = left.number_input(
            "Preprocessing (µs a sample)", value=0.0, step=10.0, key="form_preprocess",
            help="Real work spent on every sample in the map function.",
        )  # fmt: skip
        values["preprocess_python"] = left.checkbox("In Python", key="form_python", help=PYTHON_HELP)
        values["cache"] = right.checkbox("Cache", key="form_cache")
        values["shuffle"] = right.checkbox("Shuffle", key="form_shuffle")
    wrong.here("pipeline")
    return values


def _cost(outcome: SweepOutcome, here: machine.Machine) -> None:
    """Parameters, FLOPs and memory, before anything runs."""
    if outcome.workload is None:
        return
    work = outcome.workload
    with st.container(horizontal=True, gap="medium"):
        st.metric("Parameters", large(work.network.parameters))
        st.metric("FLOPs a sample", large(work.flops_per_sample), help="A multiply-add counts 2.")
        st.metric(
            "Activations a sample", byte_size(ACTIVATION_BYTES * work.network.activations),
            help=f"{large(work.network.activations)} values that the layers output or make inside for one "
            "sample, in float32.",
        )  # fmt: skip
        if outcome.plan is not None:
            largest = outcome.plan.batches[-1]
            total = max(estimate_bytes(work, target, largest).total_bytes for target in outcome.plan.targets)
            st.metric(
                f"Memory at batch {largest:,} (modelled)", byte_size(total),
                help="Computed, not measured: weights, gradients, optimizer, activations, data, of the target that "
                "needs most. The framework itself adds about 0.6 GB for the worker process of each target.",
            )  # fmt: skip
    if outcome.plan is not None:
        runs = [f"{place_words(t)}: {expected_words(work, t, here.has_tf32(t.device))}" for t in outcome.plan.targets]
        st.caption(("  \n" if len(runs) > OPEN else " ").join(plain(f"{words}.") for words in runs))
        st.caption(f"{len(outcome.plan.batches)} batch sizes: {_listed(outcome.plan.batches)}.")


def _listed(batches: tuple[int, ...]) -> str:
    shown = [f"{b:,}" for b in batches]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:5], "…", *shown[-4:]])


def says(plan: SweepPlan) -> str:
    """What a plan measures, in one sentence."""
    return f"{plan.title}, batch {plan.batches[0]:,} to {plan.batches[-1]:,}, at most {duration(plan.budget_s)}."
