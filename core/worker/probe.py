"""Probe of the devices that each framework sees on this machine, in processes of its own."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Sequence

from core.base.frameworks import FRAMEWORKS
from core.base.schema import Frozen
from core.machine.installed import versions, why_missing
from core.worker.process import ProcessWorker
from core.worker.protocol import WorkerError
from core.workload.spec import Target

PROBE_TARGET = "gpu:0"


class DeviceProbe(Frozen):
    """TensorFlow's answer; ``said`` is its reason if there is no GPU."""

    gpu_found: bool
    device_name: str = ""
    said: str = ""


class FoundDevice(Frozen):
    """A framework's answer for one device: ``said`` is the reason why it cannot use it, else empty."""

    device: str
    name: str = ""
    said: str = ""


class FrameworkHere(Frozen):
    """A known framework on this machine.

    ``missing`` says what to install, None if a worker can be started. ``devices`` are those it was probed for, one
    worker each; None: not probed.
    """

    name: str
    title: str
    versions: dict[str, str]
    missing: str | None = None
    devices: tuple[FoundDevice, ...] | None = None


def frameworks_here() -> tuple[FrameworkHere, ...]:
    """Return every known framework, judged by its installed packages alone."""
    return tuple(
        FrameworkHere(name=name, title=known.title, versions=versions(name), missing=why_missing(name))
        for name, known in FRAMEWORKS.items()
    )


def probe_frameworks(here: Sequence[FrameworkHere], gpus: int, deadline_s: float) -> tuple[FrameworkHere, ...]:
    """Probe the devices of each installed framework, all in parallel; ``gpus``: how many the driver lists."""
    devices_of = {
        framework.name: _worth_asking(framework.name, gpus) for framework in here if framework.missing is None
    }
    answers = _ask(
        [Target(framework=name, device=d) for name, devices in devices_of.items() for d in devices], deadline_s
    )
    return tuple(
        framework.model_copy(
            update={"devices": tuple(answers[framework.name, device] for device in devices_of[framework.name])}
        )
        if framework.name in devices_of
        else framework
        for framework in here
    )


def _worth_asking(framework: str, gpus: int) -> tuple[str, ...]:
    """Return the CPU, and other devices with some sign of being here: a framework may take long to find none."""
    signs = {"gpu": gpus > 0, "mps": platform.system() == "Darwin", "tpu": _has("libtpu")}
    return ("cpu", *(Target(device=kind, framework=framework).device for kind in FRAMEWORKS[framework].devices
                     if signs.get(kind, False)))  # fmt: skip


def _has(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _ask(targets: Sequence[Target], deadline_s: float) -> dict[tuple[str, str], FoundDevice]:
    end_s = time.monotonic() + deadline_s
    answers, workers = {}, [(target, ProcessWorker(target)) for target in targets]
    for target, worker in workers:
        try:
            worker.wait_ready(max(0.0, end_s - time.monotonic()))
            answer = FoundDevice(device=target.device, name=worker.ready.device_name)
        except WorkerError as error:
            answer = FoundDevice(device=target.device, said=error.reason)
        finally:
            worker.close()
        answers[str(target.framework), target.device] = answer
    return answers


def probe_devices(deadline_s: float) -> DeviceProbe:
    """Ask TensorFlow, in a short-lived worker process, about ``gpu:0``."""
    worker = ProcessWorker(Target(device=PROBE_TARGET))
    try:
        worker.wait_ready(deadline_s)
        return DeviceProbe(gpu_found=True, device_name=worker.ready.device_name)
    except WorkerError as error:
        return DeviceProbe(gpu_found=False, said=error.reason)
    finally:
        worker.close()
