"""Fields that several forms share."""

from __future__ import annotations

from typing import Any, get_args

import streamlit as st

from core.frameworks import FRAMEWORKS
from core.spec import AUTOTUNE, Mode, Optimizer, Target
from core.text import clean
from core.ui import machine
from core.ui.network_form import KEEP, network_fields
from core.ui.words import CPU_HELP, EXECUTION_HELP, MODES, OPTIMIZERS, TF32_HELP, TF32_HERE, plain

PREFETCH: dict[str, int | str] = {"off": 0, "1": 1, "2": 2, "4": 4, "AUTOTUNE": AUTOTUNE}
KERAS = FRAMEWORKS["tensorflow"]
STEPS_PER_EXECUTION = (1, 2, 4, 8, 16, 32)


class Places:
    """A place below each field for the sentence that says what is wrong there, filled once all fields are known."""

    def __init__(self) -> None:
        self._slots: dict[str, Any] = {}

    def here(self, field: str) -> None:
        self._slots[field] = st.empty()

    def fill(self, errors: dict[str, str]) -> None:
        for field, slot in self._slots.items():
            if field in errors:
                slot.error(plain(errors[field]), icon=":material/error:")


def workload_fields(wrong: Places) -> dict[str, Any]:
    """Network, mode and optimizer, as :func:`core.ui.checks.make_workload` takes them; shared by pages."""
    network = network_fields()
    wrong.here("workload")
    mode, optimizer = mode_fields("form")
    return {**network, "mode": mode, "optimizer": optimizer}


def mode_fields(name: str) -> tuple[str, str]:
    """Mode and optimizer, their keys beginning with ``name``."""
    with st.container(horizontal=True, gap="small"):
        mode = st.segmented_control(
            "Mode", get_args(Mode), default="train", required=True, format_func=MODES.__getitem__, key=f"{name}_mode",
            persist_state=KEEP,
        )  # fmt: skip
        optimizer = st.selectbox(
            "Optimizer", get_args(Optimizer), index=2, format_func=OPTIMIZERS.__getitem__, key=f"{name}_optimizer",
            disabled=mode != "train", persist_state=KEEP,
        )  # fmt: skip
    return str(mode), optimizer


def two_targets(name: str, here: machine.Machine, wrong: Places) -> tuple[dict[str, Any], dict[str, Any]]:
    """Choices for both targets, their keys ending in ``name`` and 0 or 1."""
    first, second = (_target(index, name, here, wrong) for index in (0, 1))
    wrong.here("targets")
    return first, second


def _target(index: int, name: str, here: machine.Machine, wrong: Places) -> dict[str, Any]:
    st.markdown(f"**{('First', 'Second')[index]} target**")
    values = target_fields(f"{name}{index}", here.default_targets()[index], here)
    wrong.here(f"target {index}")
    return values


def target_fields(name: str, default: Target, here: machine.Machine) -> dict[str, Any]:
    """Choices for a target, their keys ending in ``name``; threads can be chosen for the CPU only."""
    device = st.selectbox(
        "Device", here.names, index=here.names.index(default.device),
        format_func=lambda name: clean(here.title(name)), key=f"form_device_{name}", persist_state=KEEP,
        help=CPU_HELP,
    )  # fmt: skip
    with st.grid(2, min_column_width=120, gap="small"):
        threads = st.number_input(
            "Threads", value=default.threads, placeholder="all", step=1, key=f"form_threads_{name}",
            disabled=device != "cpu", persist_state=KEEP,
            help="Threads TensorFlow may use; empty means as many as it likes.",
        )  # fmt: skip
        precision = st.selectbox(
            "Precision", KERAS.precisions, key=f"form_precision_{name}", persist_state=KEEP,
            help=f"{TF32_HERE if here.has_tf32(device) else ''}{TF32_HELP}",
        )  # fmt: skip
        execution = st.selectbox(
            "Execution", KERAS.executions, index=KERAS.executions.index(default.execution),
            key=f"form_execution_{name}", persist_state=KEEP,
            help=f"{EXECUTION_HELP} {CPU_HELP}",
        )  # fmt: skip
        steps = st.selectbox(
            "Steps per execution", STEPS_PER_EXECUTION, key=f"form_steps_{name}", persist_state=KEEP,
            disabled=execution == "eager", help="How many steps one call of the compiled function runs (Keras).",
        )  # fmt: skip
    return {
        "device": device, "threads": threads if device == "cpu" else None, "precision": precision,
        "execution": execution, "steps_per_execution": 1 if execution == "eager" else steps,
    }  # fmt: skip
