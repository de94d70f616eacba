"""``devices``: what can be measured here, and what to do where no GPU is found."""

from __future__ import annotations

import click

from core.cli.files import json_flag
from core.cli.terminal import show, show_json
from core.evidence import Environment, same_machine
from core.machine.environment import Devices, capture_environment, list_devices
from core.numbers import byte_size
from core.spec import Target
from core.text import in_lines
from core.worker.probe import DeviceProbe, probe_devices

PROBE_DEADLINE_S = 120.0


def target_of(text: str | None) -> Target:
    """The target that is written, else the GPU, else the CPU. Raises UserError."""
    if text is not None:
        return Target.parse(text)
    usual = list_devices().default_targets()[1]
    return usual if usual.is_gpu else Target()


def is_this_machine(environment: Environment | None) -> bool:
    """Whether something was measured here; not where its machine is unknown."""
    return same_machine(environment, capture_environment()) is True


@click.command()
@json_flag
@click.option("--probe", "ask", is_flag=True, help="Also ask TensorFlow in a process of its own (some seconds).")
def devices(as_json: bool, ask: bool) -> None:
    """List the devices of this machine and the targets a sweep compares by default."""
    here = list_devices()
    probe = probe_devices(PROBE_DEADLINE_S) if ask else None
    targets = [str(target) for target in here.default_targets()]
    if as_json:
        data = here.model_dump() | {"default_targets": targets, "probe": probe.model_dump() if probe else None}
        show_json(data)
    else:
        show(in_lines(_lines(here, probe, targets)))


def _lines(here: Devices, probe: DeviceProbe | None, targets: list[str]) -> list[str]:
    parts = (here.cores_words, here.free_words)
    lines = [f"cpu    {here.cpu or 'unknown processor'}{''.join(f'; {part}' for part in parts if part)}"]
    for index, gpu in enumerate(here.gpus):
        memory = f", {byte_size(gpu.memory_bytes)}" if gpu.memory_bytes else ""
        driver = f", driver {gpu.driver}" if gpu.driver else ""
        ready = "" if f"gpu:{index}" in here.usable_gpus else "; cannot be used, see below"
        lines.append(f"gpu:{index}  {gpu.name}{memory}{driver}{ready}")
    if not here.gpus:
        lines.append("No GPU was found.")
    lines.append(f"TensorFlow {here.tensorflow}" if here.tensorflow else "TensorFlow is not installed.")
    if probe is not None:
        said = f"finds {probe.device_name or 'gpu:0'}" if probe.gpu_found else f"finds no GPU: {probe.said}"
        lines.append(f"TensorFlow itself {said}")
    lines += (note.sentence for note in here.notes if note.severity != "unusable")
    lines += here.advice
    return [*lines, f"Compared by default: {targets[0]} against {targets[1]}"]
