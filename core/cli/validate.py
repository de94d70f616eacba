"""``validate``: predict steps of a GPU, write that down, then measure them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from core.base.numbers import counted, duration, moment
from core.base.text import json_text
from core.cli.devices import is_this_machine
from core.cli.files import BadInput, check_writable, refusing, write_out
from core.cli.gpus import own_path
from core.cli.study_command import Asked, History, study_command
from core.hardware.catalogue import GpuSpec, UnknownGpu, catalogue, find_gpu, load_own
from core.hardware.host import NAMED_KINDS, kind_of
from core.hardware.host_record import HostStudy
from core.machine.environment import Devices, list_devices
from core.rounds.study import new_id
from core.studies.host.kind import HOST
from core.studies.validation.kind import VALIDATION
from core.studies.validation.record import MINUTES, ValidationPlan, make_plan
from core.studies.validation.run import new_study
from core.workload.spec import Target

LEAST_MINUTES, MOST_MINUTES = 2.0, 600.0


@study_command(VALIDATION, "validate")
@click.option(
    "--minutes", type=click.FloatRange(LEAST_MINUTES, MOST_MINUTES), default=MINUTES, show_default=True,
    help="For self-check, host and ten sweeps together; with fewer, fewer steps are measured.",
)  # fmt: skip
@click.option("--gpu", help="Which card of “python -m core gpus” this GPU is (default: by the driver's name for it).")
@click.option(
    "--host", type=click.Choice(NAMED_KINDS),
    help="What drives the card, where no host study of this machine is kept (default: what this machine's CPU is).",
)  # fmt: skip
def validate_command(flags: dict[str, Any], history: History) -> Asked:
    """Predict forty steps on this machine's GPU, write that down, then measure them: is the model right about it?

    The file of --out (by default validation-….json, here) holds the predictions before the first block is measured, and
    at the end all that was measured.
    """
    here = list_devices()
    target = _target(here)
    device_name = here.gpus[target.gpus[0]].name
    spec = _card(flags["gpu"], device_name)
    study = next((measured for measured in history.records(HOST) if is_this_machine(measured.environment)), None)
    plan = make_plan(
        spec, device_name, target, flags["host"] or kind_of(here.cpu, here.usable_cores), study, 60 * flags["minutes"]
    )
    path = flags["out"] = flags["out"] or Path(f"validation-{new_id()}.json")
    _write(path, plan)
    return Asked(plan, says=_says(plan, study))


def _target(here: Devices) -> Target:
    """Return the first usable GPU. Raises BadInput if there is none."""
    if here.usable_gpus:
        return Target(device=here.usable_gpus[0])
    advice = next(iter(here.advice), "No GPU was found.")
    raise BadInput(f"“validate” measures a GPU, and TensorFlow can use none here: {advice}")


def _card(name: str | None, device_name: str) -> GpuSpec:
    """Return the card to model. Raises BadInput, with the nearest names, if the catalogue has none of that name."""
    with refusing():
        cards = catalogue(load_own(own_path()))
        if name is not None:
            return find_gpu(name, cards)
        try:
            return find_gpu(device_name, cards)
        except UnknownGpu as error:
            raise BadInput(f"{error} “--gpu NAME” says which card it is modelled as.") from None


def _write(path: Path, plan: ValidationPlan) -> None:
    """Write the predictions to the disk before anything is measured. Raises BadInput or Failure."""
    check_writable(path)
    why = "These are the predictions alone; nothing was measured yet."
    if failure := write_out(path, json_text({"reason": why, "record": new_study(plan).model_dump(mode="json")})):
        raise failure


def _says(plan: ValidationPlan, study: HostStudy | None) -> tuple[str, ...]:
    written, spec = plan.predictions, plan.spec
    made = sum(step.step_ms is not None for step in written.steps)
    measured = "" if study is None else f" ({study.title}, {moment(study.created_at)})"
    return (
        f"{plan.device_name}, modelled as {spec.title}; host: {written.host}{measured}",
        f"{counted(made, 'step')} predicted at {written.written_at}, in the file; now they are measured, "
        f"{duration(plan.budget_s)} at most",
    )
