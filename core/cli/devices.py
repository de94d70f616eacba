"""``devices``: what can be measured here, and what to do where no GPU is found."""

from __future__ import annotations

import json

import click

from core.cli.text import size
from core.environment import Devices, Probe, list_devices, probe_devices
from core.spec import Target

PROBE_DEADLINE_S = 120.0


def default_targets(devices: Devices) -> tuple[Target, Target]:
    """The CPU against the first GPU; without one, one thread against all; with one core, graph against XLA."""
    if devices.gpu_ready:
        return Target(), Target(device="gpu:0")
    if devices.usable_cores is not None and devices.usable_cores > 1:
        return Target(threads=1), Target(threads=devices.usable_cores)
    return Target(), Target(execution="xla")


def target_of(text: str | None) -> Target:
    """The target that is written, else the GPU, else the CPU. Raises ValueError with a sentence."""
    if text is not None:
        return Target.parse(text)
    found = default_targets(list_devices())[1]
    return found if found.is_gpu else Target()


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--probe", "ask", is_flag=True, help="Also ask TensorFlow in a process of its own (some seconds).")
def devices(as_json: bool, ask: bool) -> None:
    """List the devices of this machine and the targets a sweep compares by default."""
    found = list_devices()
    probe = probe_devices(PROBE_DEADLINE_S) if ask else None
    targets = [str(target) for target in default_targets(found)]
    if as_json:
        data = found.model_dump() | {"default_targets": targets, "probe": probe.model_dump() if probe else None}
        click.echo(json.dumps(data, ensure_ascii=False, indent=2))
    else:
        click.echo("\n".join(_lines(found, probe, targets)))


def _lines(found: Devices, probe: Probe | None, targets: list[str]) -> list[str]:
    cores = f", {found.usable_cores} usable cores" if found.usable_cores else ""
    lines = [f"cpu    {found.cpu or 'unknown processor'}{cores}"]
    for index, gpu in enumerate(found.gpus):
        memory = f", {size(gpu.memory_bytes)}" if gpu.memory_bytes else ""
        driver = f", driver {gpu.driver}" if gpu.driver else ""
        lines.append(f"gpu:{index}  {gpu.name}{memory}{driver}")
    if not found.gpus:
        lines.append("No GPU was found.")
    lines.append(f"TensorFlow {found.tensorflow}" if found.tensorflow else "TensorFlow is not installed.")
    if probe is not None:
        said = f"finds {probe.device_name or 'gpu:0'}" if probe.gpu_found else f"finds no GPU: {probe.said}"
        lines.append(f"TensorFlow itself {said}")
    lines += found.advice
    return [*lines, f"Compared by default: {targets[0]} against {targets[1]}"]
