"""The ``pipeline`` command: the input's share of a step, measured by feeding the same step in several ways."""

from __future__ import annotations

from typing import Any

import click

from core.cli.choices import input_options, pipeline_options, workload_of, workload_options
from core.cli.devices import target_of
from core.cli.files import refusing
from core.cli.model_code import launcher_for
from core.cli.networks import network_options
from core.cli.plan_fields import plan_options
from core.cli.study_command import Asked, History, study_command
from core.studies.pipeline.kind import PIPELINE
from core.studies.pipeline.plan import DEFAULT_BASE, PipelinePlan
from core.userdata.source import check_data, check_fits
from core.workload.cudnn import cudnn_note


@study_command(PIPELINE)
@network_options()
@workload_options
@click.option("--target", help="Such as cpu,threads=1 or gpu:0 (default: the GPU, else the CPU).")
@plan_options(PipelinePlan, "batch")
@input_options("auto", f"{DEFAULT_BASE.preprocess_us:g}, or 0 with data")
@plan_options(PipelinePlan, "budget_s")
def pipeline_command(flags: dict[str, Any], _: History) -> Asked:
    """Feed one step in several ways on this machine, and say what share of it the input takes.

    Ways: data resident on the device, a host array, and tf.data as chosen with prefetch, parallel calls and
    preprocessing cost changed one at a time.
    """
    with refusing():
        study, says = _study(flags)
    launcher = launcher_for(study.workload.network, flags["model"], (study.target,))
    says.append(f"{study.title}: {len(study.arms)} ways of feeding, as chosen: {study.base.title}")
    if (note := cudnn_note(study.workload, (study.target,))) is not None:
        says.append(note)
    return Asked(study, says=tuple(says), launcher=launcher)


def _study(flags: dict[str, Any]) -> tuple[PipelinePlan, list[str]]:
    """Return the study from the flags, and notes on its data."""
    data, says = flags["data"], []
    workload = workload_of(flags)
    if data is not None:
        source = check_data(data)
        check_fits(source, workload)
        says.append(f"{source.name}: {source.words}")
        data = source.path  # absolute: a worker may have another working folder
    base = {"kind": "tfdata", "preprocess_us": 0.0 if data is not None else DEFAULT_BASE.preprocess_us}
    values = {
        "workload": workload,
        "target": target_of(flags["target"]),
        "batch": flags["batch"],
        "base": base | pipeline_options(flags) | {"data": data},
        "budget_s": flags["budget_s"],
    }
    return PipelinePlan.model_validate(values), says
