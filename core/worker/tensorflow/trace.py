"""A short profiler trace of a prepared cell on TensorFlow, partitioned in the worker; only the parts leave it."""

from __future__ import annotations

import tempfile
import time
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import tensorflow as tf

from core.traces.events import TraceError
from core.traces.report import report
from core.traces.xplane import read
from core.worker.protocol import CellFailed
from core.worker.tensorflow.model import CellStep
from core.worker.trace_reply import reply_fields

HOST_TRACER_LEVEL = 2  # operations; level 1 shows calls only, level 3 every cheap operation and slows the step more
UNPROFILED_BLOCKS = 3


def profiled_device(is_gpu: bool) -> str:
    """What a trace calls the device of this worker: GPUs go by their place among all that CUDA shows this process."""
    if not is_gpu:
        return "CPU"
    (gpu,) = tf.config.get_visible_devices("GPU")
    return str(gpu.name).rpartition("physical_device:")[2]


def trace_steps(step: CellStep, steps: int, host_nodes: frozenset[str] | None, device: str) -> dict[str, Any]:
    """Fields of :class:`core.worker.protocol.Traced`, from ``steps`` calls of the step under the profiler.

    ``device`` is what :func:`profiled_device` says. The same steps without the profiler are timed before and after.
    Raises CellFailed when the trace cannot be used.
    """
    _load_profiler()
    calls = steps * step.per_call
    plain_ms = [step.run(calls) / calls for _ in range(UNPROFILED_BLOCKS)]
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=HOST_TRACER_LEVEL, python_tracer_level=0)
    with tempfile.TemporaryDirectory(prefix="breakeven-trace-") as folder:
        tf.profiler.experimental.start(folder, options=options)
        try:
            profiled_ms = _profiled(step, steps)
        finally:
            tf.profiler.experimental.stop()
        files = list(Path(folder).rglob("*.xplane.pb"))
        if not files:
            raise CellFailed("error", "TensorFlow's profiler wrote no trace.")
        try:
            trace = report(read(files[0]), host_nodes, device)
        except TraceError as error:
            raise CellFailed("error", f"The profiler's trace cannot be used: {error}") from None
    plain_ms += [step.run(calls) / calls for _ in range(UNPROFILED_BLOCKS)]
    return reply_fields(trace, steps, step.per_call) | {
        "profiled_step_ms": profiled_ms / steps / step.per_call,
        "unprofiled_step_ms": median(plain_ms),
    }


@cache
def _load_profiler() -> None:
    """Once a process: the first session loads CUPTI, which would be part of the first trace (as TensorFlow's own
    ``profiler_v2.warmup`` has it).
    """
    tf.profiler.experimental.start("")
    tf.profiler.experimental.stop(save=False)


def _profiled(step: CellStep, steps: int) -> float:
    """Run annotated steps and wait for the device; milliseconds."""
    start = time.perf_counter_ns()
    for number in range(steps):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            step.call()
    tf.test.experimental.sync_devices()
    return (time.perf_counter_ns() - start) * 1e-6
