"""The ``resolution`` command: the differences that show on this machine, by measuring one target against itself."""

from __future__ import annotations

from typing import Any

import click

from core.cli.choices import workload_of, workload_options
from core.cli.devices import target_of
from core.cli.files import refusing
from core.cli.model_code import launcher_for
from core.cli.networks import network_options
from core.cli.plan_fields import plan_options
from core.cli.study_command import Asked, History, study_command
from core.studies.kind import Context
from core.studies.resolution.kind import RESOLUTION
from core.studies.resolution.record import LARGEST, ResolutionPlan, resolution_plan, spread_batches
from core.workload.spec import parse_batches


@study_command(RESOLUTION)
@network_options()
@workload_options
@click.option("--target", help="Such as cpu,threads=1 or gpu:0 (default: the GPU, else the CPU).")
@plan_options(ResolutionPlan, "batches", default=None, show_default=f"four from 1 to {LARGEST:,}")
@plan_options(ResolutionPlan, "budget_s")
def resolution_command(flags: dict[str, Any], history: History) -> Asked:
    """Measure one target against itself, and say from which difference on one shows on this machine.

    Equal targets must come out equal: claims about them are false, and the JSON has them under "claims".
    """
    with refusing():
        workload, target = workload_of(flags), target_of(flags["target"])
        usual = spread_batches(1, LARGEST, target.replicas)
        batches = usual if flags["batches"] is None else parse_batches(flags["batches"])
        plan = resolution_plan(workload, target, batches, flags["budget_s"])
    launcher = launcher_for(plan.workload.network, flags["model"], plan.targets)
    sizes = ", ".join(f"{batch:,}" for batch in plan.batches)
    says = (f"{plan.title}, batch {sizes}",)
    return Asked(plan, Context(earlier=history.records(RESOLUTION)), says, launcher)
