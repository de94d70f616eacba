"""Memory of a cell: its peak, its limit, and a lower bound of what it needs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import psutil

from core.base.numbers import byte_size
from core.userdata.arrays import DataError
from core.userdata.source import inspect_data
from core.worker.feeds import pool_size
from core.worker.gpu_errors import MEMORY_IS_SHORT
from core.worker.protocol import CellFailed, Prepare

OPTIMIZER_COPIES = {"sgd": 0, "momentum": 1, "adam": 2}
FLOAT_BYTES = 4
LEAST_ACTIVATION_BYTES = 2
WATCH_S = 0.003  # s between checks; a process that writes new memory as fast as it can takes some 10 MB in that time
BACKSTOP, BACKSTOP_BYTES = 1.25, 500_000_000  # memory is mapped before it is resident, so more may be mapped than held
SHORT_SHARE = 0.25  # a cell whose lower bound is above this share of the remaining memory may well not fit


class Allocator(Protocol):
    """A device's own count of memory, in bytes.

    ``reset`` restarts the peak at what is held now; it returns False if it cannot.
    """

    def held(self) -> int: ...
    def peak(self) -> int: ...
    def reset(self) -> bool: ...


class PeakMeter:
    """Peak memory since construction: the allocator's, or without one the whole process's resident memory."""

    def __init__(self, allocator: Allocator | None = None) -> None:
        self._allocator = allocator
        self._first_bytes: int | None = None
        self._began_anew = False
        self._before_bytes = 0
        if allocator is not None:
            self._before_bytes = 0 if allocator.reset() else allocator.peak()
        else:
            _reset_high_water_mark()

    def first_call_done(self) -> None:
        """Start the steady-state peak of a GPU, after cuDNN and XLA have tried their algorithms.

        These trials take memory that later steps do not need (gigabytes, for large convolutions).
        """
        if self._allocator is not None:
            self._first_bytes = self._allocator.peak()
            self._began_anew = self._allocator.reset()

    def steady_bytes(self) -> int | None:
        """Return the peak since the first call, or None without an allocator that can reset its peak."""
        return self._allocator.peak() if self._allocator is not None and self._began_anew else None

    def peak_bytes(self) -> int | None:
        """Return the peak; None if the allocator cannot reset its peak and had a higher one before."""
        if self._allocator is not None:
            peak = max(self._allocator.peak(), self._first_bytes or 0)
            return peak if peak > self._before_bytes else None
        return _status_bytes("VmHWM") or int(psutil.Process().memory_info().rss)


def _reset_high_water_mark() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")  # Linux: sets VmHWM to the current size
    except OSError:
        return  # elsewhere, or not permitted: the peak since the process started is reported


def _status_bytes(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), None)


def held_bytes(allocator: Allocator | None = None) -> int:
    """Return memory held now: the allocator's, or without one the whole process's resident memory."""
    return int(psutil.Process().memory_info().rss) if allocator is None else allocator.held()


def taken_bytes() -> int:
    """Return what this process takes of the memory that was available before it.

    That is its resident memory without file pages, which are mostly those of libraries: the kernel drops and shares
    them, and counts them as available (Linux; elsewhere all resident memory).
    """
    anonymous, shared = _status_bytes("RssAnon"), _status_bytes("RssShmem")
    return held_bytes() if anonymous is None or shared is None else anonymous + shared


def watch_memory(limit_bytes: int) -> None:
    """End this process as soon as its resident memory exceeds ``limit_bytes``, before the machine swaps.

    A thread checks every few milliseconds and logs why the process ended. It cannot check while other code holds the
    GIL, so :func:`limit_memory` is set above it as a backstop, with some slack.

    Raises CellFailed if a system limit on this process would end it first: running out of memory would then say nothing
    about ``limit_bytes``.
    """
    backstop = round(BACKSTOP * limit_bytes) + BACKSTOP_BYTES
    _check_own_limits(limit_bytes, backstop)
    limit_memory(backstop, held_bytes())
    threading.Thread(target=_end_above, args=(limit_bytes,), name="memory watch", daemon=True).start()


def _end_above(limit_bytes: int) -> None:
    resident_bytes = _reader_of_resident_bytes()
    while (now := resident_bytes()) <= limit_bytes:
        time.sleep(WATCH_S)
    words = f"{MEMORY_IS_SHORT}: resident memory is {byte_size(now)}, the limit {byte_size(limit_bytes)}\n"
    os.write(2, words.encode())  # bypasses Python's own stream, whose lock another thread may hold
    os._exit(1)


def _reader_of_resident_bytes() -> Callable[[], int]:
    """Return the cheapest function that reads this process's resident memory on this platform."""
    try:
        statm = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        process = psutil.Process()
        return lambda: int(process.memory_info().rss)
    page_bytes = os.sysconf("SC_PAGESIZE")
    return lambda: page_bytes * int(os.pread(statm, 128, 0).split()[1])


def _check_own_limits(limit_bytes: int, backstop_bytes: int) -> None:
    """Raise CellFailed if a ulimit leaves too little room.

    Such limits count mapped memory, which exceeds resident memory as soon as the framework has started.
    """
    if os.name != "posix":
        return
    import resource

    resident = int(psutil.Process().memory_info().rss)
    for kind, field, name in (
        (resource.RLIMIT_AS, "VmSize", "address space (ulimit -v)"),
        (resource.RLIMIT_DATA, "VmData", "data (ulimit -d)"),
    ):
        most, used = resource.getrlimit(kind)[0], _status_bytes(field)
        if most == resource.RLIM_INFINITY or used is None or most - used >= backstop_bytes - resident:
            continue
        possible = int((most - used + resident - BACKSTOP_BYTES) / BACKSTOP)
        instead = f" or choose at most {byte_size(possible)}" if possible > resident else ""
        raise CellFailed(
            "error",
            f"A limit of {byte_size(limit_bytes)} cannot be put to the test: a process may only have {byte_size(most)} "
            f"of {name} here, and {byte_size(used)} are taken before anything is built; raise it{instead}.",
        )


def limit_memory(limit_bytes: int, held: int) -> None:
    """Limit this process, which holds ``held`` bytes, to ``limit_bytes`` (Linux); a larger allocation fails at once.

    The kernel counts private writable mappings; what is mapped but still unused is added to the limit.
    """
    data = _status_bytes("VmData")
    if os.name != "posix" or data is None:
        return
    import resource

    allowed = data + max(0, limit_bytes - held)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no core dump of the size of the limit
    before = resource.getrlimit(resource.RLIMIT_DATA)
    tightest = min(bound for bound in (allowed, *before) if bound != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (tightest, before[1]))


def least_bytes(request: Prepare, built: bool) -> int:
    """Return a lower bound of the bytes that a cell adds.

    These are weights, gradients and optimizer state (unless ``built``), batches, and the activations that must be live
    at once (all of them in training, one layer's input and output in inference).
    """
    workload = request.workload
    copies = (2 + OPTIMIZER_COPIES[workload.optimizer] if workload.training else 1) * (not built)
    sample = workload.network.sample_values
    own = request.pipeline.data is not None
    batches = 1 if own or request.pipeline.kind == "resident" else pool_size(workload, request.batch)
    sizes = [layer.activations for layer in workload.network.layers]
    alive = sum(sizes) if workload.training else max(map(sum, pairwise(sizes)), default=sizes[0])
    # activations count 2 bytes each, as in half precision
    return FLOAT_BYTES * (copies * workload.network.parameters + request.batch * batches * sample) + (
        LEAST_ACTIVATION_BYTES * request.batch * alive + _data_bytes(request, FLOAT_BYTES * sample)
    )


def _data_bytes(request: Prepare, sample_bytes: int) -> int:
    """Return what user data keep in memory: unpacked arrays, and every sample if the pipeline caches them."""
    if request.pipeline.data is None:
        return 0
    source = inspect_data(request.pipeline.data)
    cached = (source.samples or 0) * sample_bytes if request.pipeline.cache else 0
    return source.memory_bytes + cached


def check_fits(request: Prepare, limit_bytes: int | None, built: bool, held: int) -> None:
    """Raise CellFailed ``out_of_memory`` before anything is built if even the lower bound exceeds what is left.

    ``held`` are the bytes already taken. Some of TensorFlow's CPU kernels end the process when an allocation fails:
    this check avoids most such cases, and a line in the log lets the supervisor recognise the rest.
    """
    if limit_bytes is None:
        return
    try:
        needed = least_bytes(request, built)
    except DataError as error:
        raise CellFailed("error", str(error)) from None
    left = max(0, limit_bytes - held)
    facts = f"batch {request.batch} needs at least {byte_size(needed)} of {byte_size(left)} left"
    if needed > left:
        raise CellFailed("out_of_memory", f"There is not enough memory: {facts}.")
    if needed > SHORT_SHARE * left:
        print(f"{MEMORY_IS_SHORT}: {facts}", file=sys.stderr, flush=True)
