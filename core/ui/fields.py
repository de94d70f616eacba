"""Form fields shared by several forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import streamlit as st

from core.base.fields import fields_of
from core.base.frameworks import FRAMEWORKS, Call, Execution, Framework, Padding, Precision
from core.base.text import clean
from core.networks.families import families
from core.studies.sweep.presets import MORE_STEPS
from core.ui import machine
from core.ui.network_form import network_fields
from core.ui.places import KEEP, Places
from core.ui.words import (
    CALL_HELP,
    CPU_HELP,
    EXECUTION_HELP,
    EXECUTIONS,
    MODES,
    OPTIMIZERS,
    OTHER_EXECUTION_HELP,
    PRECISIONS,
    TF32_HELP,
    TF32_HERE,
)
from core.workload.names import CALLS, PADDINGS
from core.workload.spec import AUTOTUNE, MAX_THREADS, Mode, Optimizer, Target, Workload

PREFETCH: dict[str, int | str] = {"off": 0, "1": 1, "2": 2, "4": 4, "AUTOTUNE": AUTOTUNE}
TENSORFLOW = FRAMEWORKS["tensorflow"]
STEPS_PER_EXECUTION = (1, *MORE_STEPS)
SEQUENCES = ("transformer", "recurrent", "own")
"""Families whose inputs may have several lengths."""


def workload_fields(wrong: Places) -> dict[str, Any]:
    """Draw network, mode and optimizer; return arguments of :func:`core.ui.checks.checked_workload`."""
    network = network_fields(wrong)
    mode, optimizer = mode_fields("form", families()[network["family"]].trains)
    return {**network, "mode": mode, "optimizer": optimizer}


def mode_fields(name: str, trains: bool) -> tuple[str, str]:
    """Draw mode and optimizer with keys that begin with ``name``; return them. ``trains``: it may be trained."""
    st.session_state.setdefault(f"{name}_mode", "train")  # set here because a preset may change it
    with st.container(horizontal=True, gap="small"):
        mode = st.segmented_control(
            "Mode", get_args(Mode), required=True, format_func=MODES.__getitem__, key=f"{name}_mode",
            persist_state=KEEP, disabled=not trains,
        )  # fmt: skip
        mode = mode if trains else "infer"
        optimizer = st.selectbox(
            "Optimizer", get_args(Optimizer), index=2, format_func=OPTIMIZERS.__getitem__, key=f"{name}_optimizer",
            disabled=mode != "train", persist_state=KEEP,
        )  # fmt: skip
    return str(mode), optimizer


def lengths_field(wrong: Places, family: str) -> str:
    """Draw the input lengths, for families whose samples are sequences; return the text."""
    if family not in SEQUENCES:
        return ""
    text = wrong.plan_field(fields_of(Workload)["lengths"], "form", max_chars=200, placeholder="20,60,200")
    return str(text or "")


def two_targets(name: str, here: machine.Machine, wrong: Places) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw the choices for both targets, with keys that end in ``name`` and 0 or 1."""
    first, second = (_target(index, name, here, wrong) for index in (0, 1))
    wrong.here("targets")
    return first, second


def _target(index: int, name: str, here: machine.Machine, wrong: Places) -> dict[str, Any]:
    st.markdown(f"**{('First', 'Second')[index]} target**")
    values = target_fields(f"{name}{index}", here.default_targets()[index], here, of_target(index))
    wrong.here(f"target {index}")
    return values


def of_target(index: int) -> str:
    """Return the suffix of the labels of a target's fields, so that no two fields of a form share a name."""
    return f", target {index + 1:d}"


def put_target(name: str, target: Target, here: machine.Machine) -> None:
    """Put a target into the fields of :func:`target_fields`, as far as they offer it."""
    if target.framework == TENSORFLOW.name and target.device in here.names:
        for part in ("device", "threads", "precision", "execution"):
            st.session_state[f"form_{part}_{name}"] = getattr(target, part)


def target_fields(name: str, default: Target, here: machine.Machine, of: str = "") -> dict[str, Any]:
    """Draw the choices for a TensorFlow target, with keys that end in ``name`` and labels that end in ``of``."""
    device = device_field(name, default, here, TENSORFLOW, of)
    with st.grid(2, min_column_width=120, gap="small"):
        threads = threads_field(name, default, device, of)
        precision = precision_field(name, default, here, TENSORFLOW, device, of)
        execution = execution_field(name, default, TENSORFLOW, of)
        steps = steps_field(name, default, TENSORFLOW, execution, of)
    return {
        "framework": TENSORFLOW.name, "device": device, "threads": threads, "precision": precision,
        "execution": execution, "steps_per_execution": steps,
    }  # fmt: skip


def device_field(name: str, default: Target, here: machine.Machine, framework: Framework, of: str = "") -> str:
    devices = here.reached_by(framework)
    device: str = st.selectbox(
        f"Device{of}", devices, index=_at(devices, default.device), format_func=lambda name: clean(here.title(name)),
        key=f"form_device_{name}", persist_state=KEEP, help=CPU_HELP,
    )  # fmt: skip
    return device


def threads_field(name: str, default: Target, device: str, of: str = "") -> int | None:
    """Draw the number of threads, which applies to the CPU only."""
    threads: int | None = st.number_input(
        f"Threads{of}", value=default.threads, placeholder="all", step=1, key=f"form_threads_{name}",
        disabled=device != "cpu", persist_state=KEEP,
        help=f"Threads the framework may use, 1 to {MAX_THREADS:,}; empty means as many as it likes.",
    )  # fmt: skip
    return threads if device == "cpu" else None


def precision_field(
    name: str, default: Target, here: machine.Machine, framework: Framework, device: str, of: str = "",
    *, infers: bool = False,
) -> Precision:  # fmt: skip
    """Draw the precision; with ``infers`` also those without a training step."""
    precisions = [precision for precision in framework.precisions if infers or precision != "int8"]
    precision: Precision = st.selectbox(
        f"Precision{of}", precisions, index=_at(precisions, default.precision), key=f"form_precision_{name}",
        persist_state=KEEP, format_func=PRECISIONS.__getitem__,
        help=f"{TF32_HERE if here.has_tf32(device) else ''}{TF32_HELP}",
    )  # fmt: skip
    return precision


def execution_field(name: str, default: Target, framework: Framework, of: str = "") -> Execution:
    """Draw the execution, unless the framework has only one; the framework's default goes without its own name."""
    options = [execution for execution in framework.executions if execution != framework.by_itself]
    if len(options) == 1:
        return options[0]
    own = framework.by_itself
    words = EXECUTIONS if own is None else {**EXECUTIONS, "keras": f"{EXECUTIONS['keras']} ({EXECUTIONS[own]})"}
    chosen: Execution = st.selectbox(
        f"Execution{of}", options, index=_at(options, default.execution), key=f"form_execution_{name}",
        persist_state=KEEP, format_func=words.__getitem__,
        help=f"{EXECUTION_HELP} {CPU_HELP}" if own is None else OTHER_EXECUTION_HELP,
    )  # fmt: skip
    return chosen


def steps_field(name: str, default: Target, framework: Framework, execution: Execution, of: str = "") -> int:
    """Draw the steps per call, from which only TensorFlow gains."""
    if framework is not TENSORFLOW:
        return 1
    steps: int = st.selectbox(
        f"Steps per execution{of}", STEPS_PER_EXECUTION, index=_at(STEPS_PER_EXECUTION, default.steps_per_execution),
        key=f"form_steps_{name}", persist_state=KEEP, disabled=execution == "eager",
        help="How many steps one call of the compiled function runs (Keras).",
    )  # fmt: skip
    return 1 if execution == "eager" else steps


def pad_field(name: str, default: Target, of: str = "", *, several: bool) -> Padding:
    """Draw the padding of inputs of several lengths."""
    if not several:
        return "none"
    chosen: Padding = st.selectbox(
        f"Lengths{of}", list(PADDINGS), index=_at(list(PADDINGS), default.pad), key=f"form_pad_{name}",
        persist_state=KEEP, format_func=PADDINGS.__getitem__, help="What is padded is computed, too.",
    )  # fmt: skip
    return chosen


def call_field(
    name: str, default: Target, framework: Framework, of: str = "", *, infers: bool, several: bool = False
) -> Call:
    """Draw the way of calling the model, of which only inference with TensorFlow has several."""
    if framework is not TENSORFLOW or not infers:
        return "step"
    calls = [call for call in CALLS if several or call != "relaxed"]
    chosen: Call = st.selectbox(
        f"Call{of}", calls, index=_at(calls, default.call), key=f"form_call_{name}", persist_state=KEEP,
        format_func=CALLS.__getitem__, help=CALL_HELP,
    )  # fmt: skip
    return chosen


def _at(options: Sequence[Any], value: object) -> int:
    return options.index(value) if value in options else 0
