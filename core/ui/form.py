"""The form of the Sweep page: workload, two targets, batches, pipeline, budget; and the one button."""

from __future__ import annotations

from typing import Any, get_args

import streamlit as st

from core.analysis.cudnn import cudnn_note
from core.analysis.memory import estimate_bytes
from core.environment import available_memory_bytes
from core.measure.lock import Busy
from core.spec import AUTOTUNE, MAX_BATCH, MIN_BATCH, Execution, Mode, Optimizer, PipelineKind, Precision, Target
from core.store import StoreError
from core.ui import machine, modelled, registry
from core.ui.choices import Draft, Outcome, build, count_words, size_words
from core.ui.network_form import KEEP, network_fields
from core.ui.states import progress_words
from core.ui.verdict import plain
from core.ui.words import MODES, OPTIMIZERS, PIPELINES, PYTHON_HELP

PREFETCH: dict[str, int | str] = {"off": 0, "1": 1, "2": 2, "4": 4, "AUTOTUNE": AUTOTUNE}
PROBLEM = "start_problem"
ACTIVATION_BYTES = 4
STEPS_PER_EXECUTION = (1, 2, 4, 8, 16, 32)


def show(busy: str | None) -> None:
    """The whole form. ``busy``: a sentence why nothing can be started now, or None."""
    found = machine.devices()
    top = st.container()
    machine.gpu_notice(found)
    wrong = Places()
    workload = workload_fields(wrong)
    targets = (_target(0, found, wrong), _target(1, found, wrong))
    wrong.here("targets")
    modelled.choose(folded=found.has_gpu)
    about_card, recurrent = st.empty(), st.empty()
    batches = _batches(wrong)
    wrong.here("memory")
    more, name = _more(wrong)
    draft = Draft(targets=targets, batches=batches, **workload, **more)
    outcome = build(draft, available_memory_bytes())
    if outcome.plan is not None and (note := cudnn_note(outcome.plan.workload, outcome.plan.targets)) is not None:
        recurrent.info(plain(note), icon=":material/speed:")
    modelled.tell(about_card, outcome.plan)
    _cost(outcome)
    wrong.fill({field: plain(sentence) for field, sentence in outcome.errors.items()})
    with top:
        _button(outcome, busy, name)


class Places:
    """A place below each field for the sentence that says what is wrong there, filled once all fields are known."""

    def __init__(self) -> None:
        self._slots: dict[str, Any] = {}

    def here(self, field: str) -> None:
        self._slots[field] = st.empty()

    def fill(self, errors: dict[str, str]) -> None:
        for field, slot in self._slots.items():
            if field in errors:
                slot.error(errors[field], icon=":material/error:")


def workload_fields(wrong: Places) -> dict[str, Any]:
    """Network, mode and optimizer, as :func:`core.ui.choices.make_workload` takes them; shared by pages."""
    network = network_fields()
    wrong.here("workload")
    with st.container(horizontal=True, gap="small"):
        mode = st.segmented_control(
            "Mode", get_args(Mode), default="train", required=True, format_func=MODES.__getitem__, key="form_mode",
            persist_state=KEEP,
        )  # fmt: skip
        optimizer = st.selectbox(
            "Optimizer", get_args(Optimizer), index=2, format_func=OPTIMIZERS.__getitem__, key="form_optimizer",
            disabled=mode != "train", persist_state=KEEP,
        )  # fmt: skip
    return {**network, "mode": mode, "optimizer": optimizer}


def _target(index: int, found: machine.Machine, wrong: Places) -> dict[str, Any]:
    """One of the two targets of a sweep."""
    st.markdown(f"**{('First', 'Second')[index]} target**")
    values = target_fields(str(index), found.default_targets()[index], found)
    wrong.here(f"target {index}")
    return values


def target_fields(name: str, default: Target, found: machine.Machine) -> dict[str, Any]:
    """Choices for a target, their keys ending in ``name``; threads can be chosen for the CPU only."""
    with st.grid(2, min_column_width=120, gap="small"):
        device = st.selectbox(
            "Device", found.names, index=found.names.index(default.device), format_func=found.title,
            key=f"form_device_{name}", persist_state=KEEP,
        )  # fmt: skip
        threads = st.number_input(
            "Threads", value=default.threads, placeholder="all", step=1, key=f"form_threads_{name}",
            disabled=device != "cpu", persist_state=KEEP,
            help="Threads TensorFlow may use; empty means as many as it likes.",
        )  # fmt: skip
        precision = st.selectbox(
            "Precision", get_args(Precision), key=f"form_precision_{name}", persist_state=KEEP,
            help="Mixed precision computes in 16 bits and keeps the weights in 32.",
        )  # fmt: skip
        execution = st.selectbox(
            "Execution", get_args(Execution), index=get_args(Execution).index(default.execution),
            key=f"form_execution_{name}", persist_state=KEEP,
            help="graph: compiled once, Keras' default. xla: fused by the XLA compiler. eager: op by op.",
        )  # fmt: skip
        steps = st.selectbox(
            "Steps per execution", STEPS_PER_EXECUTION, key=f"form_steps_{name}", persist_state=KEEP,
            disabled=execution == "eager", help="How many steps one call of the compiled function runs (Keras).",
        )  # fmt: skip
    return {
        "device": device, "threads": threads if device == "cpu" else None, "precision": precision,
        "execution": execution, "steps_per_execution": 1 if execution == "eager" else steps,
    }  # fmt: skip


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
        low = left.number_input("Smallest", value=1, step=1, key="form_low", persist_state=KEEP)
        high = right.number_input(
            "Largest", value=1024, step=1, key="form_high", persist_state=KEEP,
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


def _cost(outcome: Outcome) -> None:
    """Parameters, FLOPs and memory, before anything runs."""
    if outcome.workload is None:
        return
    work = outcome.workload
    with st.container(horizontal=True, gap="medium"):
        st.metric("Parameters", count_words(work.network.parameters))
        st.metric("FLOPs a sample", count_words(work.flops_per_sample), help="A multiply-add counts 2.")
        st.metric(
            "Activations a sample", size_words(ACTIVATION_BYTES * work.network.activations),
            help=f"{count_words(work.network.activations)} values that the layers output or make inside for one "
            "sample, in float32.",
        )  # fmt: skip
        if outcome.plan is not None:
            largest = outcome.plan.batches[-1]
            total = max(estimate_bytes(work, target, largest).total_bytes for target in outcome.plan.targets)
            st.metric(
                f"Memory at batch {largest:,} (modelled)", size_words(total),
                help="Computed, not measured: weights, gradients, optimizer, activations, data. TensorFlow itself adds "
                "about 0.6 GB for each of the two worker processes.",
            )  # fmt: skip
    if outcome.plan is not None:
        st.caption(f"{len(outcome.plan.batches)} batch sizes: {_listed(outcome.plan.batches)}.")


def _listed(batches: tuple[int, ...]) -> str:
    shown = [f"{b:,}" for b in batches]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:5], "…", *shown[-4:]])


def _button(outcome: Outcome, busy: str | None, name: str) -> None:
    if busy:
        st.info(busy, icon=":material/hourglass_top:")
    st.button(
        "Measure this machine", type="primary", icon=":material/play_arrow:", key="measure", width="stretch",
        disabled=outcome.plan is None or busy is not None, on_click=_start, args=(outcome.plan, name.strip() or None),
    )  # fmt: skip
    if outcome.plan is None:
        st.caption(":material/error: One choice below is not possible yet; it says what is accepted.")
    else:
        plan = outcome.plan
        words = f"{plan.title}, batch {plan.batches[0]:,} to {plan.batches[-1]:,}"
        st.caption(f"{plain(words)}, at most {progress_words(plan.budget_s)}. Change any of it below.")
    if problem := st.session_state.pop(PROBLEM, None):
        st.error(plain(problem), icon=":material/error:")


def _start(plan: Any, name: str | None) -> None:
    """Start a sweep; a refusal (busy, disk full) becomes a sentence on the next run."""
    registry.quieten()
    try:
        registry.engine().jobs.start(plan, name)
    except (Busy, StoreError, ValueError, OSError) as error:
        st.session_state[PROBLEM] = str(error)
