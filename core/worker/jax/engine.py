"""Keras on JAX on one target: its device, its cells, their placement and their trace. Loaded by a worker only."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax

from core.base.evidence import LoopPair
from core.base.frameworks import FRAMEWORKS, Compiled
from core.worker.cells import Cell, CellEngine, Placement, greet
from core.worker.engine import tensorflow_only
from core.worker.feeds import Feed, kept, make_arrays
from core.worker.jax.data_parallel import first_step, placement
from core.worker.jax.devices import Devices, start_devices
from core.worker.jax.step import JaxStep, Network, compiled_as, versions
from core.worker.keras.loop import time_loop
from core.worker.profiling import HOST_TRACER_LEVEL, trace_steps
from core.worker.protocol import Hello, Ready
from core.worker.shares import NO_ALL_REDUCE
from core.worker.tensorflow.datasets import backend_feed, explain_reading
from core.workload.spec import Pipeline, Target, Workload


def start(hello: Hello) -> tuple[JaxEngine, Ready]:
    """Set up the target's device. Raises CellFailed if there is no such device."""
    target = hello.target
    if hello.watch_memory and not target.on_cpu:
        raise tensorflow_only("How much fits into a limit of a GPU's memory", FRAMEWORKS[target.framework].title)
    devices = start_devices(target)
    ready = greet(hello, ", ".join(devices.names), devices.kind, devices.allocator(), versions=versions())
    return JaxEngine(hello, devices), ready


class JaxEngine(CellEngine[JaxStep]):
    """Cells of one target. The cells of a workload share its network's state, never a compiled function."""

    def __init__(self, hello: Hello, devices: Devices) -> None:
        super().__init__(hello, devices.allocator())
        self._devices = devices

    def make_feed(self, workload: Workload, target: Target, pipeline: Pipeline, batch: int) -> Feed:
        """Return the feed; on several devices each batch is distributed just before its step, as in ``fit``.

        See keras/src/backend/jax/trainer.py, ``_get_distributed_iterator``.
        """

        def resident() -> Feed:
            return kept(itertools.repeat(self._devices.put(make_arrays(workload, batch))))

        feed = backend_feed(workload, target, pipeline, batch, self.title, resident)
        if self._devices.distribution is None or pipeline.kind == "resident":
            return feed
        return dataclasses.replace(feed, open=lambda: map(self._devices.put, feed.open()))

    def build_model(self, workload: Workload, target: Target) -> Network:
        return Network(workload, target)

    def make_step(self, model: Network, workload: Workload, target: Target, feed: Feed) -> JaxStep:  # noqa: ARG002
        return JaxStep(model, workload, feed)

    def first_call(self, step: JaxStep) -> tuple[float, Placement]:
        if self._devices.distribution is not None:
            return first_step(step, self._devices)
        return step.run(1), placement(step, self._devices)

    def compiled_as(self, step: JaxStep, target: Target) -> tuple[Compiled, str]:
        return compiled_as(step.model, target)

    def renew(self, cell: Cell[JaxStep]) -> None:
        cell.step.network.renew()

    def trace_fields(self, cell: Cell[JaxStep], steps: int) -> Mapping[str, Any]:
        on_cpu, exchanges = cell.target.on_cpu, self._devices.distribution is not None and cell.workload.training
        fields = trace_steps(cell.step, steps, None, self._devices.profiled, Profiler(waits=on_cpu))
        if exchanges and not fields["device"].all_reduces_ms:
            fields["notes"] = (*fields["notes"], NO_ALL_REDUCE)
        return fields

    def time_loop(self, cell: Cell[JaxStep], limit_ms: float) -> tuple[int, tuple[LoopPair, ...]]:
        return time_loop(cell.step, cell.workload.training, limit_ms)

    def explain_reading(self, error: Exception, path: str) -> str | None:
        return explain_reading(error, path)


class Profiler:
    """JAX's profiler (:class:`core.worker.profiling.Profiler`)."""

    title = "JAX"

    def __init__(self, waits: bool) -> None:
        self.waits = waits

    def start(self, folder: str) -> None:
        options = jax.profiler.ProfileOptions()
        options.host_tracer_level, options.python_tracer_level = HOST_TRACER_LEVEL, 0
        jax.profiler.start_trace(folder, profiler_options=options)

    def stop(self) -> None:
        jax.profiler.stop_trace()

    def step(self, number: int) -> AbstractContextManager[Any]:
        annotation: AbstractContextManager[Any] = jax.profiler.StepTraceAnnotation("train", step_num=number)
        return annotation
