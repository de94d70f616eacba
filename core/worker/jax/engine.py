"""Keras on JAX on one target: its device, its cells, their placement and their trace. Loaded by a worker only."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax

from core.evidence import LoopPair
from core.frameworks import FRAMEWORKS, Compiled
from core.spec import Pipeline, Target, Workload
from core.worker.cells import Cell, CellEngine, Placement, greet
from core.worker.engine import tensorflow_only
from core.worker.feeds import Feed, kept, make_arrays
from core.worker.jax.device import DeviceAllocator, choose, short_name
from core.worker.jax.step import JaxStep, Network, compiled_as, versions
from core.worker.keras.datasets import backend_feed, explain_reading
from core.worker.keras.loop import time_loop
from core.worker.memory import Allocator
from core.worker.profiling import HOST_TRACER_LEVEL, trace_steps
from core.worker.protocol import CellFailed, Hello, Ready


def start(hello: Hello) -> tuple[JaxEngine, Ready]:
    """Set the target's device up. Raises CellFailed where there is no such device."""
    target = hello.target
    if hello.watch_memory and not target.on_cpu:
        raise tensorflow_only("How much fits into a limit of a GPU's memory", FRAMEWORKS[target.framework].title)
    device = choose(target)
    jax.block_until_ready(jax.numpy.zeros(()) + 1.0)  # the runtime starts with the first operation
    name = "" if target.on_cpu else str(device.device_kind)
    allocator = None if target.on_cpu else DeviceAllocator(device)
    ready = greet(hello, short_name(device), name, allocator, versions=versions())
    return JaxEngine(hello, device, allocator), ready


class JaxEngine(CellEngine[JaxStep]):
    """Cells of one target. The cells of a workload share its network's state, never a compiled function."""

    def __init__(self, hello: Hello, device: Any, allocator: Allocator | None) -> None:
        super().__init__(hello, allocator)
        self._device = device

    def make_feed(self, workload: Workload, target: Target, pipeline: Pipeline, batch: int) -> Feed:
        def resident() -> Feed:
            return kept(itertools.repeat(jax.device_put(make_arrays(workload, batch), self._device)))

        return backend_feed(workload, target, pipeline, batch, self.title, resident)

    def build_model(self, workload: Workload, target: Target) -> Network:
        return Network(workload, target)

    def make_step(self, model: Network, workload: Workload, target: Target, feed: Feed) -> JaxStep:  # noqa: ARG002
        return JaxStep(model, workload, feed)

    def first_call(self, step: JaxStep) -> tuple[float, Placement]:
        return step.run(1), placement(step, self._device)

    def compiled_as(self, step: JaxStep, target: Target) -> tuple[Compiled, str]:
        return compiled_as(step.model, target)

    def renew(self, cell: Cell[JaxStep]) -> None:
        cell.step.network.renew()

    def trace_fields(self, cell: Cell[JaxStep], steps: int) -> Mapping[str, Any]:
        device = "CPU" if cell.target.on_cpu else f"{self._device.platform.upper()}:{self._device.local_hardware_id}"
        return trace_steps(cell.step, steps, None, (device,), Profiler(waits=cell.target.on_cpu))

    def time_loop(self, cell: Cell[JaxStep], limit_ms: float) -> tuple[int, tuple[LoopPair, ...]]:
        return time_loop(cell.step, cell.workload.training, limit_ms)

    def explain_reading(self, error: Exception, path: str) -> str | None:
        return explain_reading(error, path)


def placement(step: JaxStep, device: Any) -> Placement:
    """Where the state and the outputs of a step lie, which is where JAX ran it. Raises CellFailed ``misplaced``."""
    leaves = jax.tree_util.tree_leaves((step.last, step.network.state))
    lie_on = {place for leaf in leaves for place in leaf.devices()}
    if lie_on != {device}:
        strays = ", ".join(sorted(str(place) for place in lie_on - {device}))
        raise CellFailed("misplaced", f"Parts of the network's state or outputs lie on {strays}, not on {device}.")
    how = "step run operation by operation" if step.model.run_eagerly else "program compiled by XLA"
    return Placement((f"{short_name(device)} ({how})",))


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
