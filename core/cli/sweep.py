"""The ``sweep`` command: measures a plan here; every round is stored in the history as it is measured."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from core.base.numbers import byte_size
from core.cli.choices import make_plan, sweep_options
from core.cli.files import BadInput, refusing
from core.cli.model_code import launcher_for
from core.cli.study_command import Asked, History, study_command
from core.machine.environment import list_devices, resources
from core.rounds.answer.best_cpu import LOOK, LOOK_BATCHES
from core.rounds.plan import SweepPlan, check_fits
from core.studies.sweep.kind import SWEEP, new_run
from core.studies.sweep.presets import LOOK_S, PRESETS, Here, compared_targets, cpu_settings, preset_targets
from core.studies.sweep.proposal import budget_words, with_proposed_budget
from core.workload.cudnn import cudnn_note
from core.workload.execution import expected_words, has_tf32
from core.workload.memory import estimate_bytes
from core.workload.spec import Target


@study_command(SWEEP)
@sweep_options
@click.option(
    "--compare",
    type=click.Choice([*PRESETS, LOOK]),
    help=f"In place of --targets, a set made from what this machine has; {LOOK}: a short look at three batch sizes for "
    "this CPU's best setting.",
)
def sweep(flags: dict[str, Any], _: History) -> Asked:
    """Measure one to six targets against each other on this machine, and print the verdict."""
    context = click.get_current_context()
    plan = make_plan(context, partial(_usual, _preset(context)))
    if flags["compare"] == LOOK and flags["budget_s"] is None:
        plan = with_proposed_budget(plan, LOOK_S)
    launcher = launcher_for(plan.workload.network, flags["model"], plan.targets)
    here = resources()
    if here.memory_available_bytes is not None:
        with refusing():
            check_fits(plan, here.memory_available_bytes, here.limited_words)
    return Asked(new_run(plan, flags["name"]), says=_description(plan), launcher=launcher)


def _preset(context: click.Context) -> str | None:
    """Return the set of targets named by ``--compare``; sets mode and batches if none were chosen. Raises BadInput."""
    name: str | None = context.params["compare"]
    if name is None:
        return None
    if context.params["targets"]:
        raise BadInput("--compare chooses the targets; leave out --targets.")
    mode = PRESETS[name].mode if name in PRESETS else None
    usual: dict[str, Any] = {} if mode is None else {"mode": mode}
    if name == LOOK:
        usual = {"batches": ",".join(map(str, LOOK_BATCHES)), "refine": False, "trace": False}
    for option, value in usual.items():
        if context.get_parameter_source(option) is not ParameterSource.COMMANDLINE:
            context.params[option] = value
    return name


def _usual(preset: str | None) -> tuple[Target, ...]:
    """Return the targets if none are named."""
    here = list_devices()
    if preset is None:
        return compared_targets(here.default_targets(), here.usable_cores)
    if preset == LOOK:
        return cpu_settings(here.usable_cores)
    return preset_targets(preset, Here.of(here.usable_cores, here.usable_gpus, here.gpus))


def _description(plan: SweepPlan) -> tuple[str, ...]:
    """Return a description of what will run and the resources it needs."""
    network, largest = plan.workload.network, plan.batches[-1]
    lines = [
        plan.title,
        f"{network.parameters:,} parameters, {plan.workload.flops_per_sample:,} FLOPs per sample, "
        f"{plan.pipeline.title}",
    ]
    gpus = list_devices().gpus if any(target.is_gpu for target in plan.targets) else ()
    for target in plan.targets:
        needed = estimate_bytes(plan.workload, target, largest).total_bytes
        lines.append(
            f"{target}: {expected_words(plan.workload, target, has_tf32(target.device, gpus))}; "
            f"about {byte_size(needed)} of memory at batch {largest:,} (estimated)"
        )
    notes = (cudnn_note(plan.workload, plan.targets), budget_words(plan))
    return (*lines, *filter(None, notes))
