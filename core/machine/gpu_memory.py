"""Memory that is free on a GPU, by the driver."""

from __future__ import annotations

import contextlib

from core.machine.nvml import Nvml
from core.spec import Target


def free_gpu_bytes(target: Target) -> int | None:
    """Bytes that nobody holds of the GPU (or slice) that a target names; None where the driver does not say."""
    with contextlib.closing(Nvml()) as nvml:
        handle = nvml.handle(target)
        memory = None if handle is None else nvml.ask("nvmlDeviceGetMemoryInfo", handle.own)
        return None if memory is None else int(memory.free)
