"""Memory that is free on a GPU, by the driver."""

from __future__ import annotations

import contextlib

from core.machine.nvml import Nvml
from core.spec import Target


def free_gpu_bytes(target: Target) -> int | None:
    """Bytes that nobody holds of the GPU (or slice) that a target names, of several of the fullest; None where the
    driver does not say.
    """
    with contextlib.closing(Nvml()) as nvml:
        asked = [nvml.ask("nvmlDeviceGetMemoryInfo", handle.own) for handle in nvml.handles_of(target)]
        return min(int(memory.free) for memory in asked) if asked and None not in asked else None
