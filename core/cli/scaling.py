"""The ``scaling`` command: the batch size from which several devices beat one, their efficiency, and obstacles."""

from __future__ import annotations

from typing import Any

import click

from core.cli.choices import workload_of, workload_options
from core.cli.files import refusing
from core.cli.model_code import launcher_for
from core.cli.networks import network_options
from core.cli.plan_fields import plan_options
from core.cli.study_command import Asked, History, study_command
from core.machine.environment import list_devices, resources
from core.rounds.plan import check_fits
from core.studies.scaling.kind import SCALING
from core.studies.scaling.record import DEFAULT_BATCHES, TRY_OUT, ScalingPlan, shared_grid, usual_targets
from core.workload.names import side_by_side
from core.workload.spec import Target, parse_batches


@study_command(SCALING)
@network_options()
@workload_options
@click.option(
    "--targets",
    multiple=True,
    help="One device, then more and more, such as gpu:0 gpu:0+1 gpu:0+1+2+3 (default: the machine's GPUs).",
)
@plan_options(ScalingPlan, "batches", default=DEFAULT_BATCHES)
@plan_options(ScalingPlan, "budget_s", "trace")
def scaling_command(flags: dict[str, Any], _: History) -> Asked:
    """From which batch size are several devices faster than one? And if they are not, why, and what would help?

    One device and several run the same steps in turn: with the same batch size (strong scaling) and with the same batch
    size on each device (weak scaling). Logical CPUs (cpu cpu:2) try that out and show no speed.
    """
    with refusing():
        plan = _plan(flags)
    launcher = launcher_for(plan.workload.network, flags["model"], plan.targets)
    here = resources()
    if here.memory_available_bytes is not None:
        with refusing():
            check_fits(plan.as_sweep, here.memory_available_bytes, here.limited_words)
    says = [f"{plan.workload.title}, {len(plan.batches)} batch sizes: {side_by_side(plan.names)}"]
    return Asked(plan, says=(*says, *([f"{TRY_OUT}."] if plan.is_tried_out else [])), launcher=launcher)


def _plan(flags: dict[str, Any]) -> ScalingPlan:
    targets = tuple(map(Target.parse, flags["targets"])) or usual_targets(list_devices().usable_gpus)
    batches = parse_batches(flags["batches"])
    if ":" in flags["batches"]:  # a list is taken literally
        batches = shared_grid(batches, targets)
    return ScalingPlan.model_validate(
        {
            "workload": workload_of(flags),
            "targets": targets,
            "batches": batches,
            "budget_s": flags["budget_s"],
            "trace": flags["trace"],
        }
    )
