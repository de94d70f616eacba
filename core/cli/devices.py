"""The ``devices`` command: lists what can be measured here, with advice if no GPU is found."""

from __future__ import annotations

from collections.abc import Sequence

import click

from core.base.evidence import Environment, same_machine
from core.base.numbers import byte_size
from core.base.text import in_lines
from core.cli.files import json_flag
from core.cli.terminal import show, show_json
from core.machine.environment import Devices, capture_environment, list_devices
from core.studies.sweep.presets import compared_targets
from core.worker.probe import DeviceProbe, FrameworkHere, frameworks_here, probe_devices, probe_frameworks
from core.workload.names import device_words
from core.workload.spec import Target

PROBE_DEADLINE_S = 120.0


def target_of(text: str | None) -> Target:
    """Return the target in ``text``, by default the GPU, else the CPU. Raises UserError."""
    if text is not None:
        return Target.parse(text)
    usual = list_devices().default_targets()[1]
    return usual if usual.is_gpu else Target()


def is_this_machine(environment: Environment | None) -> bool:
    """Return True for a measurement made here; False if its machine is unknown."""
    return same_machine(environment, capture_environment()) is True


@click.command()
@json_flag
@click.option("--probe", "ask", is_flag=True, help="Also ask the frameworks in processes of their own (some seconds).")
def devices(as_json: bool, ask: bool) -> None:
    """List the devices of this machine and the targets a sweep compares by default."""
    here = list_devices()
    probe = probe_devices(PROBE_DEADLINE_S) if ask else None
    frameworks = frameworks_here()
    if ask:
        frameworks = probe_frameworks(frameworks, len(here.gpus), PROBE_DEADLINE_S)
    targets = [str(target) for target in compared_targets(here.default_targets(), here.usable_cores)]
    if as_json:
        more = {"default_targets": targets, "probe": probe.model_dump() if probe else None}
        show_json(here.model_dump() | more | {"frameworks": [framework.model_dump() for framework in frameworks]})
    else:
        show(in_lines(_lines(here, probe, frameworks, targets)))


def _lines(
    here: Devices, probe: DeviceProbe | None, frameworks: Sequence[FrameworkHere], targets: list[str]
) -> list[str]:
    parts = (here.cores_words, here.free_words)
    lines = [f"cpu    {here.cpu or 'unknown processor'}{''.join(f'; {part}' for part in parts if part)}"]
    for index, gpu in enumerate(here.gpus):
        memory = f", {byte_size(gpu.memory_bytes)}" if gpu.memory_bytes else ""
        driver = f", driver {gpu.driver}" if gpu.driver else ""
        ready = "" if f"gpu:{index}" in here.usable_gpus else "; cannot be used, see below"
        lines.append(f"gpu:{index}  {gpu.name}{memory}{driver}{ready}")
    if (at_once := here.gpus_at_once) is not None:
        lines.append(f"{at_once}  {device_words(at_once)} at once, which share each batch out")
    if not here.gpus:
        lines.append("No GPU was found.")
    lines += (line for framework in frameworks for line in _framework_lines(framework))
    if probe is not None:
        finding = f"finds {probe.device_name or 'gpu:0'}" if probe.gpu_found else f"finds no GPU: {probe.said}"
        lines.append(f"TensorFlow itself {finding}")
    lines += (note.sentence for note in here.notes if note.severity != "unusable")
    lines += here.advice
    return [*lines, f"Compared by default: {' against '.join(targets)}"]


def _framework_lines(framework: FrameworkHere) -> list[str]:
    """Return its versions, or what to install; then its findings on the probed devices."""
    if framework.missing is not None:
        return [framework.missing]
    lines = [f"{framework.title}: {', '.join(f'{name} {version}' for name, version in framework.versions.items())}"]
    for device in framework.devices or ():
        name = f" ({device.name})" if device.name else ""
        lines.append(f"  cannot use {device.device}: {device.said}" if device.said else f"  uses {device.device}{name}")
    return lines
