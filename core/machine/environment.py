"""Description of this machine: processor, memory, devices, versions, load. Imports no framework; any probe may fail."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import re
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from core.base.evidence import Environment, Gpu, Resources, whole_cores
from core.base.frameworks import MAX_REPLICAS
from core.base.schema import UserError
from core.machine.cgroup import read_limits
from core.machine.gpu_notes import NO_ARM, NO_WINDOWS, GpuNote, gpu_facts, gpu_notes, why_unusable
from core.machine.nvml import Nvml
from core.workload.spec import Target

CUDA_WHEELS = ("nvidia-cudnn-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cublas-cu12")
PACKAGES = (
    "tensorflow", "keras", "numpy", "streamlit", "plotly", "pandas", "sqlalchemy", "pydantic", "psutil", "nvidia-ml-py",
    *CUDA_WHEELS,
)  # fmt: skip


class Devices(Resources):
    """Devices visible without starting a framework, obstacles to using a GPU, and advice.

    ``gpus`` are those that TensorFlow sees, in its order: ``gpus[n]`` is the target ``gpu:n``.
    """

    cpu: str
    gpus: tuple[Gpu, ...] = ()
    tensorflow: str | None = None
    cuda_packages: bool = False
    notes: tuple[GpuNote, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def usable_gpus(self) -> tuple[str, ...]:
        """GPU targets without a known obstacle."""
        names = (f"gpu:{index}" for index in range(len(self.gpus) if self.tensorflow else 0))
        return tuple(name for name in names if self.why_unusable(Target(device=name)) is None)

    @property
    def gpus_at_once(self) -> str | None:
        """Device of a target that uses all GPUs (at most :data:`core.base.frameworks.MAX_REPLICAS`), such as gpu:0+1.

        None with fewer than two.
        """
        first, *others = self.usable_gpus[:MAX_REPLICAS] or ("",)
        return "+".join([first, *(name.removeprefix("gpu:") for name in others)]) if others else None

    def why_unusable(self, target: Target) -> str | None:
        """Return the reason a target cannot be measured, if known without starting a framework; else None."""
        return why_unusable(self.notes, len(self.gpus), target)

    def default_targets(self) -> tuple[Target, Target]:
        """Return the targets that a sweep compares by default."""
        return default_targets(self.usable_gpus, self.usable_cores)


def default_targets(gpus: Sequence[str], cores: int | None) -> tuple[Target, Target]:
    """Return the CPU and the first GPU; without a GPU, one thread and all; with one core, graph and XLA."""
    if gpus:
        return Target(), Target(device=gpus[0])
    if cores is not None and cores > 1:
        return Target(threads=1), Target(threads=cores)
    return Target(), Target(execution="xla")


def refuse_unusable(targets: Iterable[Target]) -> tuple[str, ...]:
    """Return notes on the GPUs among these targets, to show before they are measured.

    Raises UserError if one of them cannot be measured, before any worker is started.
    """
    gpu_targets = tuple(target for target in targets if target.is_gpu)
    if not gpu_targets:
        return ()
    here = list_devices()
    for target in gpu_targets:
        if (why := here.why_unusable(target)) is not None:
            raise UserError(why)
    devices = {None, *(device for target in gpu_targets for device in target.devices)}
    return tuple(note.sentence for note in here.notes if note.target in devices and note.severity != "unusable")


def capture_environment() -> Environment:
    """Return the state of the machine now. Versions come from package metadata."""
    return Environment(
        **resources().model_dump(),
        captured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        hostname_hash=hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12],
        os=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        cpu=cpu_name(),
        virtualisation=virtualisation(),
        governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        cpu_mhz=cpu_mhz(),
        load_1min=_load_1min(),
        gpus=_nvml_gpus(),
        versions=versions(),
    )


def list_devices() -> Devices:
    """Return CPU and NVIDIA GPUs, with advice in plain words if a GPU cannot be used. Takes milliseconds."""
    installed = versions()
    facts = gpu_facts()
    here = Devices(
        **resources().model_dump(),
        cpu=cpu_name(),
        gpus=tuple(card.gpu for card in facts.cards),
        tensorflow=installed.get("tensorflow"),
        cuda_packages=all(name in installed for name in CUDA_WHEELS),
    )
    return with_notes(here, gpu_notes(facts))


def with_notes(devices: Devices, notes: tuple[GpuNote, ...]) -> Devices:
    """Return the devices with notes on their GPUs, and the advice that follows from them."""
    here = devices.model_copy(update={"notes": notes})
    forbidding = tuple(note.sentence for note in notes if note.severity == "unusable")
    system, machine, tensorflow = platform.system(), platform.machine(), here.tensorflow is not None
    advice = gpu_advice(system, machine, virtualisation(), tensorflow, bool(here.gpus), forbidding)
    if not here.usable_gpus:
        advice += ("A sweep measured on another machine can be imported and read here.",)
    return here.model_copy(update={"advice": advice})


def gpu_advice(
    system: str, machine: str, virtual: str | None, tensorflow: bool, gpu: bool, forbidding: tuple[str, ...]
) -> tuple[str, ...]:
    """Return what the user can do, one sentence each; empty if every GPU is ready.

    ``gpu``: TensorFlow would see one; ``forbidding``: known obstacles to using a GPU that the driver lists.
    """
    advice = [] if tensorflow else ["TensorFlow is not installed; run “pip install -r requirements.txt”."]
    advice += forbidding
    if gpu or forbidding:
        return tuple(advice)
    if system == "Windows":
        advice.append(NO_WINDOWS)
    elif system == "Darwin":
        advice.append("TensorFlow from requirements.txt uses no GPU on macOS; CPU targets can be compared here.")
    elif machine == "aarch64":
        advice.append(NO_ARM)
    elif virtual == "WSL2":
        advice.append(
            "No GPU is visible in WSL2; install NVIDIA's driver on Windows (not inside WSL2), restart with "
            "“wsl --shutdown”, then run “pip install -r requirements-gpu.txt”."
        )
    else:
        advice.append(
            "No NVIDIA driver was found; if this machine has an NVIDIA GPU, install the driver until “nvidia-smi” "
            "lists it, then run “pip install -r requirements-gpu.txt”."
        )
    return tuple(advice)


def versions() -> dict[str, str]:
    """Return the installed versions of relevant packages."""
    installed = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def cpu_name() -> str:
    text = _read("/proc/cpuinfo") or ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def cpu_mhz() -> float | None:
    """Return the mean current clock of the cores, MHz."""
    with contextlib.suppress(Exception):  # psutil raises various errors if the clock is hidden
        if frequency := psutil.cpu_freq():
            return float(frequency.current) or None
    return None


def resources() -> Resources:
    """Return cores and memory now, and this process's limits: control groups, CPU affinity, process limits."""
    memory, limits, own = psutil.virtual_memory(), read_limits(), process_memory_limit()
    container = limits.memory_bytes if limits.memory_bytes is not None and limits.memory_bytes < memory.total else None
    rooms = (int(memory.available), limits.memory_free_bytes, own)
    return Resources(
        physical_cores=psutil.cpu_count(logical=False),
        logical_cores=psutil.cpu_count(),
        usable_cores=usable_cores(),
        cpu_quota=limits.cpus,
        memory_bytes=memory.total,
        memory_available_bytes=min(room for room in rooms if room is not None),
        container_memory_bytes=container,
        process_memory_bytes=own if own is not None and own < memory.total else None,
    )


def available_memory_bytes() -> int:
    """Return the memory available without swapping: the system's, or less under a container's or process's limit."""
    available = resources().memory_available_bytes
    assert available is not None
    return available


def usable_cores() -> int | None:
    """Return the number of cores this process may use: its affinity, capped at the whole cores of a quota (at least
    one).
    """
    return quota_cores() or _affine_cores()


def quota_cores() -> int | None:
    """Return the whole cores of a CPU quota if that is what limits this process, else None.

    A framework notices the affinity by itself, but not a quota.
    """
    affine, quota = _affine_cores(), read_limits().cpus
    cores = None if quota is None else whole_cores(quota)
    return cores if cores is not None and (affine is None or cores < affine) else None


def _affine_cores() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def process_memory_limit() -> int | None:
    """Return the bytes that a process started from here may take, by its limit of address space or data; None without
    one.
    """
    with contextlib.suppress(ImportError):  # Windows has no such limits
        import resource

        limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
        return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=None)
    return None


def virtualisation() -> str | None:
    """Return ``WSL2``, ``WSL1``, ``container``, ``virtual machine``, both joined by “ in a ”, or None."""
    if "microsoft" in (release := platform.release().lower()):
        return "WSL2" if "wsl2" in release else "WSL1"
    layers = []
    if (
        Path("/.dockerenv").exists()
        or Path("/run/.containerenv").exists()
        or bool(re.search(r"docker|kubepods|containerd|lxc", _read("/proc/1/cgroup") or ""))
    ):
        layers.append("container")
    if re.search(r"^flags\s*:.*\bhypervisor\b", _read("/proc/cpuinfo") or "", re.MULTILINE):
        layers.append("virtual machine")
    return " in a ".join(layers) or None


def _nvml_gpus() -> tuple[Gpu, ...]:
    with contextlib.closing(Nvml()) as nvml:
        return nvml.gpus()


def _read(path: str | Path) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None


def _load_1min() -> float | None:
    with contextlib.suppress(AttributeError, OSError):  # Windows has no such number
        return os.getloadavg()[0]
    return None
