"""``run``: run a script of one's own, say where its time goes, and from which length on another target is faster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from core.cli.files import BadInput, refusing
from core.cli.model_code import launcher_of
from core.cli.plan_fields import plan_options
from core.cli.study_command import Asked, History, study_command
from core.hardware.catalogue import catalogue, find_gpu
from core.machine.environment import list_devices
from core.studies.job.kind import JOB
from core.studies.job.record import JobPlan, Script
from core.workload.spec import Target

USUAL_CARDS = ("T4", "RTX-4070", "A100-40GB-SXM")
"""Cards whose step is modelled if this machine has no GPU and none is named."""


@study_command(JOB, "run")
@click.option(
    "--targets",
    multiple=True,
    help="Targets to compare the script's own with (default: the GPU, else the CPU with XLA).",
)
@click.option("--gpu", "gpus", multiple=True, help="A card of “python -m core gpus” whose step to model as well.")
@plan_options(JobPlan, "stop_after", "budget_s")
@click.option(
    "--rerun",
    is_flag=True,
    help="Let every worker run the script again, in an empty temporary folder, up to its model: for subclassed models, "
    "layers and training steps of your own. It repeats whatever the script does before, such as downloads, writing "
    "files and loggers.",
)
@click.option("-m", "is_module", is_flag=True, help="Run a module, as python -m does, in place of a file.")
@click.option("--python", help="The interpreter that runs the script (default: this one).")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run_command(flags: dict[str, Any], _: History) -> Asked:
    """Run SCRIPT with its ARGUMENTS unchanged, and say where its time goes; then measure its network on the targets.

    What follows SCRIPT is its own: python -m core run --targets cpu gpu:0 --budget 60 -- train.py --epochs 3
    """
    with refusing():
        targets = tuple(Target.parse(text) for text in flags["targets"])
        cards = catalogue()
        gpus = tuple(find_gpu(name, cards).name for name in flags["gpus"])
    if not gpus and not list_devices().usable_gpus:
        gpus = USUAL_CARDS
    python = flags["python"] or sys.executable
    is_module, path = flags["is_module"], flags["script"]
    if not is_module and not Path(path).is_file():
        raise BadInput(f"There is no script “{path}”; name a file, or a module with -m.")
    script = Script(
        path=path, arguments=flags["arguments"], is_module=is_module, python=python, folder=str(Path.cwd())
    )  # fmt: skip
    plan = JobPlan(
        script=script, targets=targets, gpus=gpus, rerun=flags["rerun"], stop_after=flags["stop_after"],
        **({} if flags["budget_s"] is None else {"budget_s": flags["budget_s"]}),
    )  # fmt: skip
    return Asked(plan, says=(f"Running {script.name}; then its network is measured.",), launcher=launcher_of(targets))


run_command.allow_interspersed_args = False  # what follows the script is its own
