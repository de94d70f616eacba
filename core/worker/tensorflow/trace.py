"""A short trace of a prepared cell by TensorFlow's profiler."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import tensorflow as tf

from core.worker import profiling
from core.worker.profiling import HOST_TRACER_LEVEL
from core.worker.tensorflow.model import CellStep


def trace_steps(
    step: CellStep, steps: int, host_nodes: frozenset[str] | None, devices: tuple[str, ...]
) -> dict[str, Any]:
    """Trace as :func:`core.worker.profiling.trace_steps` does.

    ``devices`` are from :func:`core.worker.tensorflow.devices.profiled_devices`.
    """
    _load_profiler()
    return profiling.trace_steps(step, steps, host_nodes, devices, _Profiler())


class _Profiler:
    title = "TensorFlow"
    waits = False

    def start(self, folder: str) -> None:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=HOST_TRACER_LEVEL, python_tracer_level=0)
        tf.profiler.experimental.start(folder, options=options)

    def stop(self) -> None:
        tf.profiler.experimental.stop()

    def step(self, number: int) -> AbstractContextManager[Any]:
        annotation: AbstractContextManager[Any] = tf.profiler.experimental.Trace("train", step_num=number, _r=1)
        return annotation


@cache
def _load_profiler() -> None:
    """Run one empty session per process: the first one loads CUPTI, which would be part of the first trace.

    TensorFlow's own ``profiler_v2.warmup`` does the same.
    """
    tf.profiler.experimental.start("")
    tf.profiler.experimental.stop(save=False)
