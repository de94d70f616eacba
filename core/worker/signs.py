"""What the text of an error or a log says of memory, and of a GPU that a process can no longer use. No framework.

The one place where such signs are listed: the worker looks for them in what a framework raised, the supervisor's side
in the log of a process that ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MEMORY_IS_SHORT = "memory is short"
"""A worker logs this before a cell that may not fit; if it dies then, it died of that."""

OUT_OF_MEMORY = re.compile(
    r"memory is short|bad_alloc|MemoryError|RESOURCE_EXHAUSTED|out of memory|OUT_OF_MEMORY|Cannot allocate memory"
    r"|OOM when|STATUS_ALLOC_FAILED|[Ff]ailed to allocate|Dst tensor is not initialized"
)
"""Of CPU and GPU. On a card cuBLAS and cuDNN say ALLOC_FAILED (tensorflow 60713, 39989), a copy to a full card that its
destination is not initialized (tensorflow 60401).
"""

NO_ALGORITHM = re.compile(r"No algorithm worked")
"""cuDNN found no convolution that runs: near the limit for want of memory (tensorflow 60713), else for what it says."""

OTHER_FAULT = re.compile(
    r"CUDNN_STATUS_(EXECUTION_FAILED|NOT_SUPPORTED|BAD_PARAM|ARCH_MISMATCH|VERSION_MISMATCH|INTERNAL_ERROR)"
)

TOLERATED = "The caller indicates that this is not a failure"
"""A line of TensorFlow's allocator: scratch memory was refused, and a way without it is taken."""

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
"""Errors of CUDA that stay: every later call of the process returns them, too (tensorflow 25866, 46247)."""


def tells_of_memory(said: str | Iterable[str]) -> bool:
    """Whether an error's text, or any line of a log, says that memory ran out, on the machine or on a card."""
    return any(_line_tells_of_memory(line) for line in ([said] if isinstance(said, str) else said))


def _line_tells_of_memory(line: str) -> bool:
    if TOLERATED in line:
        return False
    return bool(OUT_OF_MEMORY.search(line)) or bool(NO_ALGORITHM.search(line) and not OTHER_FAULT.search(line))


def breaks_process(text: str) -> bool:
    """Whether an error leaves its process without a usable GPU, so that only a new process helps."""
    return BROKEN.search(text) is not None
