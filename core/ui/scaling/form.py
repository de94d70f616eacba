"""The form of the Scaling page: workload, number of devices, batch sizes, budget; one button."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import streamlit as st

from core.base.fields import fields_of
from core.base.frameworks import FRAMEWORKS, MAX_REPLICAS, Framework
from core.base.numbers import counted, duration
from core.base.text import clean
from core.studies.scaling.record import LOGICAL, ScalingPlan, doubling, of_counts, shared_grid
from core.ui import machine, shown_run
from core.ui.checks import Checks, Outcome, checked_workload, range_fields
from core.ui.fields import precision_field, workload_fields
from core.ui.places import KEEP, Places
from core.ui.scaling.page import PAGE, TRY_BUTTON
from core.ui.words import EXECUTIONS
from core.workload.names import side_by_side
from core.workload.spec import Target

OFFERED = tuple(name for name, framework in FRAMEWORKS.items() if framework.several is not None)
RANGE = range_fields(
    32,
    4096,
    "Each batch size is measured on one device and, shared out evenly, on several. Large ones show what the devices "
    "can come to.",
)
TRY_OUT = 0
"""Replaces a number of devices: two logical CPUs."""
EXECUTION_HELP = {
    "tensorflow": "default: what compile() itself chooses, on one GPU XLA where every layer supports it, on several a "
    "graph. graph: on all of them, so that only the number of devices differs.",
    "jax": "default: XLA, on one device and on several. eager: operation by operation.",
}


def choices(gpus: Sequence[str]) -> tuple[int, ...]:
    """Return the options for the maximum number of devices: two or more GPUs, and the try-out."""
    most = min(len(gpus), MAX_REPLICAS)
    return (*(count for count in doubling(most) if count > 1), TRY_OUT)


def targets_of(gpus: Sequence[str], devices: int) -> tuple[Target, ...]:
    """Return targets with one device, then doubling."""
    return LOGICAL if devices == TRY_OUT else of_counts(gpus, doubling(devices))


def build_study(inputs: Mapping[str, Any], missing: Mapping[str, str] = MappingProxyType({})) -> Outcome[ScalingPlan]:
    """Return the plan of the form's values, by field.

    Args:
        inputs: Beside the plan's fields ``workload`` (arguments of :func:`core.ui.checks.checked_workload`), ``way``
            (fields that all targets share), ``gpus`` (this machine's usable ones) and ``devices`` (the maximum number
            measured). ``batches`` are the smallest and the largest.
        missing: A sentence for each framework that is not installed here.
    """
    checks, way = Checks(), inputs["way"]
    values = checks.fields(ScalingPlan, inputs) | {"workload": checked_workload(checks, **inputs["workload"])}
    if way["framework"] in missing:
        checks.errors["framework"] = missing[way["framework"]]
    targets = checks.attempt("devices", lambda: _targets(targets_of(inputs["gpus"], inputs["devices"]), way))
    grid = checks.grid(RANGE, *inputs["batches"])
    if targets is not None and grid is not None:
        values |= {"targets": targets, "batches": checks.attempt("batches", lambda: shared_grid(grid, targets))}
    return checks.outcome("batches", lambda: ScalingPlan.model_validate(values))


def _targets(targets: Sequence[Target], way: Mapping[str, str]) -> tuple[Target, ...]:
    return tuple(Target.model_validate({**target.model_dump(), **way}) for target in targets)


def show(busy: str | None, top: Any) -> ScalingPlan | None:
    """Draw the form, and the button at its ``top``; return the plan, or None while anything is invalid.

    ``busy``: why nothing can be started.
    """
    here, wrong, missing = machine.devices(), Places(), machine.missing_frameworks()
    gpus = here.usable_gpus
    shown_run.carry("scaling")
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
    inputs = {"workload": workload, "gpus": gpus, "devices": devices, "way": way, "batches": batches}
    inputs["budget_s"] = wrong.plan_field(fields_of(ScalingPlan)["budget_s"], "scaling")
    outcome = build_study(inputs, missing)
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
