"""The form of the Scaling page: workload, number of devices, batch sizes, budget; one button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.base.fields import fields_of
from core.base.frameworks import FRAMEWORKS, Framework
from core.base.numbers import counted, duration
from core.base.text import clean
from core.studies.scaling.record import LOGICAL, ScalingPlan
from core.ui import machine
from core.ui.fields import precision_field, workload_fields
from core.ui.places import KEEP, Places
from core.ui.scaling.draft import OFFERED, RANGE, TRY_OUT, build_study, choices, targets_of
from core.ui.scaling.page import PAGE, TRY_BUTTON
from core.ui.words import EXECUTIONS
from core.workload.names import side_by_side
from core.workload.spec import Target

EXECUTION_HELP = {
    "tensorflow": "default: what compile() itself chooses, on one GPU XLA where every layer supports it, on several a "
    "graph. graph: on all of them, so that only the number of devices differs.",
    "jax": "default: XLA, on one device and on several. eager: operation by operation.",
}


def show(busy: str | None, top: Any) -> ScalingPlan | None:
    """Draw the form, and the button at its ``top``; return the plan, or None while anything is invalid.

    ``busy``: why nothing can be started.
    """
    here, wrong, missing = machine.devices(), Places(), machine.missing_frameworks()
    gpus = here.usable_gpus
    workload = workload_fields(wrong)
    devices = _devices(gpus)
    wrong.here("devices")
    framework = _framework(missing)
    wrong.here("framework")
    way = {"framework": framework.name} | _way(here, gpus, devices, framework)
    st.markdown("**Batch sizes, of all devices together**")
    with st.grid(2, min_column_width=120, gap="small"):
        batches = [wrong.plan_field(field, "scaling") for field in RANGE]
    wrong.here("batches")
    given = {"workload": workload, "gpus": gpus, "devices": devices, "way": way, "batches": batches}
    given["budget_s"] = wrong.plan_field(fields_of(ScalingPlan)["budget_s"], "scaling")
    outcome = build_study(given, missing)
    wrong.fill(outcome.errors)
    with top:
        PAGE.form_button(outcome, busy, _says, label=TRY_BUTTON if devices == TRY_OUT else PAGE.button)
    return outcome.plan


def _devices(gpus: tuple[str, ...]) -> int:
    chosen: int = st.selectbox(
        "Devices", choices(gpus), key="scaling_devices", persist_state=KEEP,
        format_func=lambda devices: clean(_offered(gpus, devices)),
        help="Logical CPUs share the cores of this machine: they show how a study goes, and no speed.",
    )  # fmt: skip
    return chosen


def _offered(gpus: tuple[str, ...], devices: int) -> str:
    if devices == TRY_OUT:
        return "Try-out that shows no speed: CPU against 2 logical CPUs"
    return " · ".join(_counted(target) for target in targets_of(gpus, devices))


def _counted(target: Target) -> str:
    return counted(target.replicas, "GPU")


def _framework(missing: Mapping[str, str]) -> Framework:
    def words(name: str) -> str:
        return f"{FRAMEWORKS[name].title}{' (not installed)' if name in missing else ''}"

    chosen: str = st.selectbox(
        "Framework", OFFERED, key="scaling_framework", persist_state=KEEP, format_func=lambda name: clean(words(name)),
        help="What shares each batch out among several devices: TensorFlow's MirroredStrategy, or on JAX Keras's "
        "DataParallel.",
    )  # fmt: skip
    return FRAMEWORKS[chosen]


def _way(here: machine.Machine, gpus: tuple[str, ...], devices: int, framework: Framework) -> dict[str, str]:
    """Draw precision and execution, shared by all targets; return them."""
    first = LOGICAL[0] if devices == TRY_OUT else Target(device=gpus[0])
    with st.grid(2, min_column_width=120, gap="small"):
        precision = precision_field("scaling", first, here, framework, first.device)
        execution = st.selectbox(
            "Execution", _ways(framework), key="scaling_execution", persist_state=KEEP,
            format_func=EXECUTIONS.__getitem__, help=EXECUTION_HELP[framework.name],
        )  # fmt: skip
    return {"precision": precision, "execution": execution}


def _ways(framework: Framework) -> list[str]:
    """Return the executions for several devices, except the one that the default always means."""
    assert framework.several is not None
    return [way for way in framework.several.executions if way != framework.by_itself]


def _says(plan: ScalingPlan) -> str:
    sizes = counted(len(plan.batches), "batch size")
    return f"{plan.workload.title}: {side_by_side(plan.names)}, {sizes}, {duration(plan.budget_s)}."
