"""Patterns of out-of-memory and of a broken GPU in errors and logs. No framework.

This is their single place: the worker applies them to a framework's exceptions, the supervisor to the log of a process
that ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MEMORY_IS_SHORT = "memory is short"
"""Logged by a worker before a cell that may not fit; if the worker dies then, memory was the cause."""

OUT_OF_MEMORY = re.compile(
    r"memory is short|bad_alloc|MemoryError|RESOURCE_EXHAUSTED|out of memory|OUT_OF_MEMORY|Cannot allocate memory"
    r"|OOM when|STATUS_ALLOC_FAILED|[Ff]ailed to allocate|Dst tensor is not initialized"
)
"""Patterns for CPU and GPU.

On a card cuBLAS and cuDNN report ALLOC_FAILED (tensorflow 60713, 39989), and a copy to a full card reports that its
destination is not initialized (tensorflow 60401).
"""

NO_ALGORITHM = re.compile(r"No algorithm worked")
"""cuDNN found no convolution that runs: out of memory near the limit (tensorflow 60713), else the fault it names."""

OTHER_FAULT = re.compile(
    r"CUDNN_STATUS_(EXECUTION_FAILED|NOT_SUPPORTED|BAD_PARAM|ARCH_MISMATCH|VERSION_MISMATCH|INTERNAL_ERROR)"
)

TOLERATED = "The caller indicates that this is not a failure"
"""A line of TensorFlow's allocator: scratch memory was refused, and TensorFlow takes a path without it."""

HARMLESS = (
    "OUT_OF_MEMORY|INVALID_VALUE|INVALID_HANDLE|INVALID_IMAGE|INVALID_PTX|UNSUPPORTED_PTX_VERSION|NO_BINARY_FOR_GPU"
    "|NOT_FOUND|NOT_SUPPORTED|LAUNCH_OUT_OF_RESOURCES|NO_DEVICE|INVALID_DEVICE|DEINITIALIZED|PEER_ACCESS_ALREADY_ENABLED"
    "|HOST_MEMORY_ALREADY_REGISTERED|SHARED_OBJECT_INIT_FAILED|DEVICE_UNAVAILABLE|PROFILER_DISABLED"
)
"""Errors of CUDA's driver after which a process can go on."""

BROKEN = re.compile(
    rf"CUDA_ERROR_(?!(?:{HARMLESS})\b)[A-Z_]+|illegal memory access|unspecified launch failure|device-side assert"
    r"|misaligned address|uncorrectable ECC|fallen off the bus|GPU is lost|Unexpected Event status"
)
"""Sticky CUDA errors: every later call of the process returns them, too (tensorflow 25866, 46247)."""


def tells_of_memory(said: str | Iterable[str]) -> bool:
    """Return whether an error's text, or any line of a log, reports memory exhausted, on the host or on a card."""
    return any(_line_tells_of_memory(line) for line in ([said] if isinstance(said, str) else said))


def _line_tells_of_memory(line: str) -> bool:
    if TOLERATED in line:
        return False
    return bool(OUT_OF_MEMORY.search(line)) or bool(NO_ALGORITHM.search(line) and not OTHER_FAULT.search(line))


def breaks_process(text: str) -> bool:
    """Return whether an error leaves its process without a usable GPU, so that only a new process helps."""
    return BROKEN.search(text) is not None
