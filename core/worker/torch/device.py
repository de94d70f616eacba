"""A target's device in PyTorch: selection, synchronisation, memory. Loaded by a worker process only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import torch

from core.base.frameworks import device_kind
from core.base.numbers import counted
from core.machine.environment import quota_cores
from core.worker.cells import greet
from core.worker.memory import Allocator
from core.worker.protocol import CellFailed, Hello, Ready
from core.worker.step import Step
from core.worker.torch import compiled
from core.worker.torch.compiled import set_compiler_up
from core.workload.spec import Target

INSTALL = "requirements-torch.txt says how to install one that can"


@dataclass(frozen=True)
class Device:
    """A device: ``name`` is PyTorch's (``cuda:1``), ``shown`` ours (``GPU:1``); ``wait`` returns when it is idle.

    ``allocator`` counts the device's own memory; None on the CPU, where the process's memory counts.
    """

    name: str
    shown: str
    title: str
    wait: Callable[[], Any]
    allocator: Allocator | None = None

    @property
    def kind(self) -> str:
        """``cpu``, ``cuda`` or ``mps``."""
        return self.name.partition(":")[0]


def set_up(hello: Hello, *more_packages: str) -> tuple[Device, Ready]:
    """Return the target's device, with threads and memory limited as requested. Raises CellFailed if there is none."""
    target = hello.target
    choose = {"cpu": _cpu, "gpu": _cuda, "mps": _mps}[device_kind(target.device)]
    device = choose(target)
    if hello.watch_memory and hello.memory_limit_bytes is not None and device.kind == "cuda":
        total_bytes = torch.cuda.get_device_properties(device.name).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, hello.memory_limit_bytes / total_bytes), device.name)
    set_compiler_up(device.kind)
    torch.ones(1, device=device.name).add(1.0)  # the runtime starts with the first operation
    device.wait()
    versions = {package: metadata.version(package) for package in ("torch", *more_packages)}
    tf32 = torch.get_float32_matmul_precision() != "highest" if device.kind == "cuda" else None
    return device, greet(hello, device.shown, device.title, device.allocator, versions=versions, tf32=tf32)


def _cpu(target: Target) -> Device:
    if (threads := target.threads or quota_cores()) is not None:  # PyTorch does not see a quota
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(threads)
    return Device("cpu", "CPU:0", "", lambda: None)


def _cuda(target: Target) -> Device:
    index, count = int(target.device.removeprefix("gpu:")), torch.cuda.device_count()
    if index >= count:
        seen = f"{counted(count, 'GPU')}, counted from gpu:0" if count else "no GPU, only the CPU"
        built = (
            "" if torch.version.cuda or torch.version.hip else f"; this PyTorch is built without CUDA, and {INSTALL}"
        )
        raise CellFailed("error", f"There is no {target.device}: PyTorch found {seen}{built}.")
    if (threads := quota_cores()) is not None:
        torch.set_num_threads(threads)
    torch.cuda.set_device(index)
    name = f"cuda:{index}"
    wait = torch.cuda.synchronize
    return Device(name, f"GPU:{index}", torch.cuda.get_device_name(index), wait, _CudaMemory(index))


def _mps(target: Target) -> Device:  # noqa: ARG001
    if not torch.backends.mps.is_available():
        built = "" if torch.backends.mps.is_built() else f"; this PyTorch is built without it, and {INSTALL}"
        raise CellFailed("error", f"There is no mps: PyTorch found no GPU of Apple's{built}.")
    return Device("mps", "MPS:0", "Apple GPU", torch.mps.synchronize, _MpsMemory())


@dataclass(frozen=True)
class _CudaMemory:
    """PyTorch's caching allocator on one GPU."""

    index: int

    def held(self) -> int:
        return int(torch.cuda.memory_allocated(self.index))

    def peak(self) -> int:
        return int(torch.cuda.max_memory_allocated(self.index))

    def reset(self) -> bool:
        torch.cuda.reset_peak_memory_stats(self.index)
        return True


class _MpsMemory:
    """Apple's GPU; the peak is what Metal holds for the process, since PyTorch never returns it."""

    def held(self) -> int:
        return int(torch.mps.current_allocated_memory())

    def peak(self) -> int:
        return int(torch.mps.driver_allocated_memory())

    def reset(self) -> bool:
        return False


class TorchStep(Step):
    """A step that, if ``is_compiled``, is ``settled`` once its cell is warm: any later compilation is an error."""

    device: Device
    is_compiled = False
    settled = False

    def wait(self, last: Any) -> None:  # noqa: ARG002
        self.device.wait()

    def settle(self, model: object, breaks: tuple[str, ...] = (), replayed: bool = False) -> None:
        """Check with :func:`compiled.check` that the steady step of ``model`` is compiled, and mark it as settled."""
        shapes = tuple(tuple(each.shape) for each in next(self.iterator))
        compiled.check((id(model), shapes), breaks, replayed)
        compiled.begin()
        self.settled = True

    def run(self, steps: int) -> float:
        ms = super().run(steps)
        if self.is_compiled and self.settled:
            compiled.check_settled()
        return ms
