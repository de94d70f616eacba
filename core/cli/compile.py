"""``compile``: what a step becomes on GPUs that are not here, asked of XLA's own compiler."""

from __future__ import annotations

from typing import Any

import click

from core.cli.choices import workload_of, workload_options
from core.cli.files import refusing
from core.cli.gpus import own_path
from core.cli.model_code import launcher_for
from core.cli.networks import network_options
from core.cli.plan_fields import plan_options
from core.cli.study_command import Asked, History, study_command
from core.hardware.catalogue import catalogue, find_gpu, load_own
from core.studies.compiled.kind import COMPILED
from core.studies.compiled.record import DEFAULT_BATCHES, PRECISIONS, CompilePlan
from core.studies.compiled.run import CompileSearch, refuse_missing
from core.workload.spec import parse_batches


@study_command(COMPILED, "compile")
@click.option("--gpu", required=True, help="Cards of “python -m core gpus”, such as T4,RTX-4090.")
@network_options()
@workload_options
@plan_options(CompilePlan, "batches", type=str, default=",".join(map(str, DEFAULT_BATCHES)), show_default=True)
@click.option("--precision", type=click.Choice(PRECISIONS), default="float32", show_default=True)
@plan_options(CompilePlan, "budget_s")
def compile_command(flags: dict[str, Any], history: History) -> Asked:
    """Ask XLA's CUDA compiler which kernels a step becomes on GPUs that are not here, and what memory it needs.

    Nothing is measured and no GPU is used: kernels, bytes and memory are the compiler's, not tuned. The time that no
    run of these kernels can beat follows from the card's rates. Programs in the history are not compiled again.
    """
    with refusing():
        refuse_missing()
        cards = catalogue(load_own(own_path()))
        plan = CompilePlan(
            workload=workload_of(flags),
            precision=flags["precision"],
            cards=tuple(find_gpu(name.strip(), cards) for name in flags["gpu"].split(",")),
            batches=parse_batches(flags["batches"]),
            budget_s=flags["budget_s"],
        )
        search = CompileSearch(plan, history.records(COMPILED))
    launcher = launcher_for(plan.workload.network, flags["model"], (plan.target,))
    return Asked(search, says=(plan.title,), launcher=launcher)
