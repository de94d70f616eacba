"""The ``memory`` command: the largest batch that fits, predicted, then confirmed under a limit."""

from __future__ import annotations

from typing import Any

import click

from core.base.schema import UserError
from core.cli.choices import workload_of, workload_options
from core.cli.devices import target_of
from core.cli.files import refusing
from core.cli.model_code import launcher_for
from core.cli.networks import network_options
from core.cli.plan_fields import plan_options
from core.cli.study_command import Asked, History, study_command
from core.machine.environment import available_memory_bytes, capture_environment, list_devices
from core.studies.kind import Context
from core.studies.memory.answer import predict_memory
from core.studies.memory.kind import MEMORY
from core.studies.memory.record import MemoryPlan, default_limit_bytes, parse_bytes
from core.studies.memory.run import MemorySearch
from core.workload.spec import Target


@study_command(MEMORY)
@network_options()
@workload_options
@click.option("--target", help="Such as cpu or gpu:0,precision=mixed_float16 (default: the GPU, else the CPU).")
@plan_options(MemoryPlan, "limit_bytes", type=str)
@plan_options(MemoryPlan, "budget_s")
def memory_command(flags: dict[str, Any], history: History) -> Asked:
    """Find the largest batch that fits into a memory limit: predict it, then try batches in processes that keep it.

    On a CPU the limit is of a worker's whole resident memory, TensorFlow itself included; on a GPU of what TensorFlow
    may take of the card. A worker that passes it ends, and nothing else does. Earlier searches in the history of this
    machine make the prediction better.
    """
    with refusing():
        plan = _plan(flags)
    launcher = launcher_for(plan.workload.network, flags["model"], (plan.target,))
    earlier = history.records(MEMORY)
    ahead = predict_memory(plan.workload, plan.target, plan.limit_bytes, earlier, capture_environment())
    says = (f"{plan.title}. {ahead.sentence} {ahead.basis}",)
    return Asked(MemorySearch(plan, earlier), Context(earlier=earlier), says, launcher)


def _plan(flags: dict[str, Any]) -> MemoryPlan:
    target, workload = target_of(flags["target"]), workload_of(flags)
    limit = _limit_bytes(target) if flags["limit_bytes"] is None else parse_bytes(flags["limit_bytes"])
    values = {"workload": workload, "target": target, "limit_bytes": limit, "budget_s": flags["budget_s"]}
    return MemoryPlan.model_validate(values)


def _limit_bytes(target: Target) -> int:
    limit = default_limit_bytes(target, available_memory_bytes(), list_devices().gpus)
    if limit is None:
        raise UserError(f"How much memory {target.device} has is not known here; say it with --limit, such as 16GB.")
    return limit
