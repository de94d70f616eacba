"""A short trace of a prepared cell by TensorFlow's profiler."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import tensorflow as tf

from core.worker import profiling
from core.worker.profiling import HOST_TRACER_LEVEL
from core.worker.tensorflow.model import CellStep


def profiled_device(is_gpu: bool) -> str:
    """What a trace calls the device of this worker: GPUs go by their place among all that CUDA shows this process."""
    if not is_gpu:
        return "CPU"
    (gpu,) = tf.config.get_visible_devices("GPU")
    return str(gpu.name).rpartition("physical_device:")[2]


def trace_steps(step: CellStep, steps: int, host_nodes: frozenset[str] | None, device: str) -> dict[str, Any]:
    """As :func:`core.worker.profiling.trace_steps`; ``device`` is what :func:`profiled_device` says."""
    _load_profiler()
    return profiling.trace_steps(step, steps, host_nodes, device, _Profiler())


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
    """Once a process: the first session loads CUPTI, which would be part of the first trace (as TensorFlow's own
    ``profiler_v2.warmup`` has it).
    """
    tf.profiler.experimental.start("")
    tf.profiler.experimental.stop(save=False)
