"""A self-check's requests (:mod:`core.studies.selfcheck`) on TensorFlow: the same quantities in simpler ways."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tensorflow as tf

from core.traces.events import Trace, TraceError
from core.traces.trace_names import Kind, is_host, kinds
from core.traces.xplane import read
from core.worker import timing
from core.worker.memory import PeakMeter, held_bytes
from core.worker.protocol import CellFailed, Examine, Examined
from core.worker.tensorflow.devices import GpuAllocator
from core.worker.tensorflow.model import CellStep

LOOP_REPEATS, LEAST_REPEATS, LOOPS_S = 31, 9, 8.0  # an interval of the median needs six
SYNCS = 50
FACTOR = 4
FACTOR_REPEATS, FACTOR_S = 15, 5.0
LINKS = 8
SIZES = (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
CHAIN_MS = 10.0  # long compared with launching eight kernels: some 0.1 ms
KNOWN_BYTES = 128 * 2**20
CLUSTER = re.compile(r"CpuExecutable::ExecuteAsyncOnStream|GpuExecutable::ExecuteThunks")
"""XLA's own mark of one run of a compiled program (xla/service/cpu/cpu_executable.cc, gpu/gpu_executable.cc)."""


def examine(request: Examine, device: str, step: CellStep | None = None) -> Examined:
    """Answer a self-check. ``step`` is the fed step of the cell in question. Raises CellFailed."""
    if request.look == "factor":
        return _factor(device)
    if request.look == "memory":
        return _memory(device)
    assert step is not None
    return _loops(step, request.steps) if request.look == "loops" else _clusters(step, request.steps)


def _loops(step: CellStep, steps: int) -> Examined:
    """Time a step in turn as a block, in a bare loop, and with a synchronisation per step; in ms per step."""
    function, iterator = step.make_function(), step.iterator

    def bare(count: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(count):
            function(iterator)
        tf.test.experimental.sync_devices()
        return (time.perf_counter_ns() - start) * 1e-6

    def synced(count: int) -> float:
        return sum(step.run(step.per_call) for _ in range(count // step.per_call))

    bare(1)  # traces it
    ways = {"block": step.run, "bare": bare, "synced": synced}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in _repeats(LOOP_REPEATS, LOOPS_S):
        for name in sorted(ways, reverse=repeat % 2 == 1):
            taken[name].append(ways[name](steps) / steps)
    return Examined(
        look="loops",
        ms={name: tuple(values) for name, values in taken.items()}
        | {
            "sync": (median(_timed(tf.test.experimental.sync_devices) for _ in range(SYNCS)),),
            "clock": (timing.clock_resolution_ms(),),
        },
    )


def _repeats(most: int, most_s: float) -> Iterator[int]:
    """Yield repetition numbers, as many as fit into the time, and at least :data:`LEAST_REPEATS`."""
    end_s = time.monotonic() + most_s
    for repeat in range(most):
        if repeat >= LEAST_REPEATS and time.monotonic() >= end_s:
            return
        yield repeat


def _timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) * 1e-6


def _factor(device: str) -> Examined:
    """Time a chain of products, and one with four times the rows: as many kernels, four times the arithmetic.

    ``left``: the ms to fetch one value of the result after the synchronisation of the longer one.
    """
    chain = tf.function(_chain)
    with tf.device(device):
        for size in SIZES:
            weights = tf.constant(np.random.default_rng(0).standard_normal((size, size), np.float32) / size**0.5)
            short = tf.ones((size, size))
            chain(short, weights)[1].numpy()  # compiles, and chooses its kernels
            # a fetched value is complete, whatever a synchronisation does
            if _timed(lambda: chain(short, weights)[1].numpy()) >= CHAIN_MS:  # noqa: B023
                break
        long = tf.ones((FACTOR * size, size))
        chain(long, weights)[1].numpy()
        taken: dict[str, list[float]] = {"short": [], "long": [], "left": []}
        for repeat in _repeats(FACTOR_REPEATS, FACTOR_S):
            for name in sorted(("short", "long"), reverse=repeat % 2 == 1):
                start = time.perf_counter_ns()
                value = chain(long if name == "long" else short, weights)[1]
                tf.test.experimental.sync_devices()
                taken[name].append((time.perf_counter_ns() - start) * 1e-6)
                left = _timed(value.numpy)
                if name == "long":
                    taken["left"].append(left)
    return Examined(look="factor", ms={k: tuple(v) for k, v in taken.items()}, counts={"factor": FACTOR, "size": size})


def _chain(x: Any, weights: Any) -> tuple[Any, Any]:
    for _ in range(LINKS):
        x = tf.matmul(x, weights)
    return x, x[0, 0]


def _memory(device: str) -> Examined:
    """Return how much a known allocation raises the peak that cells report."""
    allocator = GpuAllocator() if device.startswith("GPU") else None
    meter = PeakMeter(allocator)
    before = held_bytes(allocator)
    with tf.device(device):
        known = tf.ones((KNOWN_BYTES // 4,))
    tf.test.experimental.sync_devices()
    rise = (meter.peak_bytes() or 0) - before
    del known
    return Examined(look="memory", counts={"known_bytes": KNOWN_BYTES, "rise_bytes": rise})


def _clusters(step: CellStep, steps: int) -> Examined:
    """Count runs of XLA programs and single operations in ``steps`` traced steps."""
    trace = _traced(step, steps)
    kind = kinds(trace.texts)
    runs = np.array([CLUSTER.fullmatch(text) is not None for text in trace.texts])
    names = [line.events.name for line in trace.lines if is_host(line)]
    results = {
        "clusters": sum(int(runs[name].sum()) for name in names),
        "operations": sum(int((kind[name] == Kind.OP).sum()) for name in names),
    }
    return Examined(look="clusters", counts=results | {"steps": steps})


def _traced(step: CellStep, steps: int) -> Trace:
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    with tempfile.TemporaryDirectory(prefix="breakeven-check-") as folder:
        tf.profiler.experimental.start(folder, options=options)
        try:
            step.run(steps)
        finally:
            tf.profiler.experimental.stop()
        files = list(Path(folder).rglob("*.xplane.pb"))
        if not files:
            raise CellFailed("error", "TensorFlow's profiler wrote no trace.")
        try:
            return read(files[0])
        except TraceError as error:
            raise CellFailed("error", f"The profiler's trace cannot be used: {error}") from None
