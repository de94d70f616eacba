"""Free memory of a GPU, as reported by the driver."""

from __future__ import annotations

import contextlib

from core.machine.nvml import Nvml
from core.spec import Target


def free_gpu_bytes(target: Target) -> int | None:
    """Return the free bytes of a target's GPU (or slice), of several GPUs the least; None if unknown to the driver."""
    with contextlib.closing(Nvml()) as nvml:
        asked = [nvml.ask("nvmlDeviceGetMemoryInfo", handle.own) for handle in nvml.handles_of(target)]
        return min(int(memory.free) for memory in asked) if asked and None not in asked else None
