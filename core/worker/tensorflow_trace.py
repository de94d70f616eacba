"""A short profiler trace of a prepared cell on TensorFlow, partitioned in the worker; only the parts leave it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import tensorflow as tf

from core.traces.events import TraceError
from core.traces.record import PARTS, DeviceTrace, StepParts
from core.traces.report import report
from core.traces.xplane import read
from core.worker.protocol import CellFailed
from core.worker.tensorflow_model import CellStep

HOST_TRACER_LEVEL = 2  # operations; level 1 shows calls only, level 3 every cheap operation and slows the step more
SPANS = 1_200  # a reply's timeline: enough for a picture, small enough for one line of the protocol
UNPROFILED_BLOCKS = 3


def trace_steps(step: CellStep, steps: int, host_nodes: frozenset[str] | None) -> dict[str, Any]:
    """Fields of :class:`core.worker.protocol.Traced`, from ``steps`` calls of the step under the profiler.

    The same steps without the profiler are timed before and after. Raises CellFailed when the trace cannot be used.
    """
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
            trace = report(read(files[0]), host_nodes)
        except TraceError as error:
            raise CellFailed("error", f"The profiler's trace cannot be used: {error}") from None
    plain_ms += [step.run(calls) / calls for _ in range(UNPROFILED_BLOCKS)]
    device = _a_step_each(trace.devices[0], step.per_call)
    longest = sorted(device.timeline, key=lambda span: -span.length_ms)[:SPANS]
    timeline = tuple(sorted(longest, key=lambda span: (span.lane, span.start_ms)))
    return {
        "device": device.model_copy(update={"timeline": timeline}),
        "host_ops": trace.host_ops,
        "retraces": trace.retraces,
        "profiled_step_ms": profiled_ms / steps / step.per_call,
        "unprofiled_step_ms": median(plain_ms),
    }


def _a_step_each(device: DeviceTrace, per_call: int) -> DeviceTrace:
    """What is annotated is a call; where one runs several steps, the parts are divided among them."""
    if per_call == 1:
        return device
    shares = ({f"{part}_ms": call.part_ms(part) / per_call for part in PARTS} for call in device.steps)
    steps = tuple(StepParts(step_ms=sum(parts.values()), **parts) for parts in shares)
    return device.model_copy(update={"steps": steps})


def _profiled(step: CellStep, steps: int) -> float:
    """Run annotated steps and wait for the device; milliseconds."""
    start = time.perf_counter_ns()
    for number in range(steps):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            step.call()
    tf.test.experimental.sync_devices()
    return (time.perf_counter_ns() - start) * 1e-6
