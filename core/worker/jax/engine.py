"""Keras on JAX on one target: its device, its cells, their placement and their trace. Loaded by a worker only.

On several devices Keras's DataParallel copies the network to each and distributes each batch in equal shares. Keras's
own function is then one program that XLA partitions by the sharding of its inputs (SPMD): every device runs it on its
share, and XLA sums what depends on all samples, such as gradients, with all-reduces. Two things can go wrong, and are
checked: a device gets the whole batch, which gives the same numbers at the cost of one device, or a sum is missing.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np

from core.base.evidence import LoopPair
from core.base.frameworks import FRAMEWORKS, Compiled
from core.base.numbers import counted
from core.worker import shares
from core.worker.cells import Cell, CellEngine, Placement, greet, tensorflow_only
from core.worker.feeds import Feed, kept, make_arrays
from core.worker.jax.compiler import compile_step
from core.worker.jax.devices import Devices, start_devices
from core.worker.jax.step import JaxStep, Network, compiled_as, versions
from core.worker.keras.loop import time_loop
from core.worker.profiling import HOST_TRACER_LEVEL, trace_steps
from core.worker.protocol import CellFailed, Compile, Hello, Ready, StepCompiled
from core.worker.shares import NO_ALL_REDUCE
from core.worker.tensorflow.datasets import backend_feed, explain_reading
from core.workload.spec import Pipeline, Target, Workload

_COLLECTIVE = re.compile(r" (all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)(?:-start)?\(")


def first_step(step: JaxStep, devices: Devices) -> tuple[float, Placement]:
    """Run the first call of a fed step on several devices; return its ms and placement. Draws one batch before it.

    Raises CellFailed ``misplaced`` or ``error``.
    """
    batch = next(step.iterator)
    for part in jax.tree_util.tree_leaves(batch):
        check_shares(part, devices)
    first_ms = step.run(1)
    placed = placement(step, devices)
    if not step.training:
        for part in jax.tree_util.tree_leaves(step.last):
            check_shares(part, devices)  # a device's results belong to its own samples
        return first_ms, placed
    for path, copies in _copies(step):
        shares.check_copies(path, copies, devices.names)
    return first_ms, _with_exchanges(step, batch, devices, placed)


def check_shares(part: Any, devices: Devices) -> None:
    """Raise CellFailed unless an array of samples lies in equal shares on the devices, in their order."""
    pieces = sorted(part.addressable_shards, key=lambda piece: piece.index[0].start or 0)
    shares.check_sizes([int(piece.data.shape[0]) for piece in pieces], int(part.shape[0]), devices.names)
    shares.check_lying([devices.name_of(piece.device) for piece in pieces], devices.names)


def placement(step: JaxStep, devices: Devices) -> Placement:
    """Return the placement of a step's state and outputs, which is where JAX ran it.

    Raises CellFailed ``misplaced`` unless all are on every device, and the state is replicated.
    """
    wanted = set(devices.chosen)
    state = jax.tree_util.tree_leaves(step.network.state)
    for leaf in (*state, *jax.tree_util.tree_leaves(step.last)):
        if leaf.devices() != wanted:
            lie_on = ", ".join(sorted(map(devices.name_of, leaf.devices())))
            raise CellFailed(
                "misplaced", f"Parts of the network's state or outputs lie on {lie_on}, not on {devices.words}."
            )
    if not all(leaf.is_fully_replicated for leaf in state):
        raise CellFailed("misplaced", f"Parts of the network are divided among {devices.words}, not copied to each.")
    how = "step run operation by operation" if step.model.run_eagerly else "program compiled by XLA"
    return Placement(tuple(f"{name} ({how})" for name in devices.names))


def collectives(program: str) -> Counter[str]:
    """Count each kind of collective in a compiled program's text."""
    return Counter(_COLLECTIVE.findall(program))


def _copies(step: JaxStep) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield the smallest trainable variables' paths, with each device's copy."""
    paths = [variable.path for variable in step.model.trainable_variables]
    by_value = {id(value): path for value, path in zip(step.network.state[0], paths, strict=True)}
    for value in shares.compared(step.network.state[0]):
        yield by_value[id(value)], [np.asarray(piece.data) for piece in value.addressable_shards]


def _with_exchanges(step: JaxStep, batch: Any, devices: Devices, placed: Placement) -> Placement:
    """Return the placement with the compiled program's collectives. Raises CellFailed if gradients are not summed."""
    program = step.program(batch)
    if program is None:
        return placed
    counts = collectives(program)
    if not counts["all-reduce"] and not counts["reduce-scatter"]:
        raise CellFailed(
            "error", f"The program that XLA compiled for {devices.words} has no all-reduce: gradients are not summed."
        )
    words = ", ".join(counted(number, kind) for kind, number in sorted(counts.items()))
    return Placement(tuple(f"{text[:-1]}, {words})" for text in placed.summary))


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

    runs_side_by_side = False  # buffers are donated

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
        return step.run(step.per_call), placement(step, self._devices)

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

    def compile(self, request: Compile) -> StepCompiled:
        return compile_step(request)

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
