"""Keras on PyTorch on one target: Keras's own train and predict functions. Loaded by a worker process only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import torch

from core.base.evidence import LoopPair
from core.base.frameworks import FRAMEWORKS, Compiled
from core.worker.cells import Cell, CellEngine, Placement
from core.worker.feeds import Feed, make_arrays
from core.worker.keras.loop import time_loop
from core.worker.keras.model import build, renew, without_compiler
from core.worker.keras.step import KerasStep
from core.worker.protocol import CellFailed, Hello, Ready
from core.worker.step import check_loss
from core.worker.tensorflow.datasets import backend_feed, explain_reading
from core.worker.torch import compiled
from core.worker.torch.device import Device, TorchStep, set_up
from core.worker.torch.placement import on_device, resident, verify, watch_step
from core.worker.torch.trace import trace_steps
from core.workload.spec import AS_ASKED, ONLY_WAY, Pipeline, Target, Workload


def start(hello: Hello) -> tuple[TorchEngine, Ready]:
    """Set up the target's device. Raises CellFailed if there is no such device."""
    device, ready = set_up(hello, "keras")
    # for the whole process: Keras would choose Apple's GPU, or the first one of CUDA, by itself
    keras.device(device.name).__enter__()
    return TorchEngine(hello, device), ready


class KerasTorchStep(TorchStep, KerasStep):
    """Keras's functions, which take a list of one batch, and a model set to training or inference."""

    def __init__(self, model: Any, workload: Workload, feed: Feed, device: Device) -> None:
        self.device, self.is_compiled = device, bool(model.jit_compile)
        super().__init__(model, workload, feed)

    def train_once(self) -> Any:
        return self._function([next(self._iterator)])

    predict_once = train_once

    def run(self, steps: int) -> float:
        self.model.train(self._training)  # fit and predict leave it in the other mode
        return super().run(steps)

    @contextlib.contextmanager
    def own_loop(self) -> Iterator[None]:
        yield
        if self.settled:
            compiled.begin()  # what fit compiles around the step is not part of it

    def check_finite(self) -> None:
        if self._training:
            check_loss(float(self.last["loss"]))
        else:
            super().check_finite()


class TorchEngine(CellEngine[KerasTorchStep]):
    """Cells of one target."""

    exhausted = (torch.OutOfMemoryError,)

    def __init__(self, hello: Hello, device: Device) -> None:
        super().__init__(hello, device.allocator)
        self._device = device

    def make_feed(self, workload: Workload, target: Target, pipeline: Pipeline, batch: int) -> Feed:
        def on_the_device() -> Feed:
            return resident(make_arrays(workload, batch), self._device)

        return backend_feed(workload, target, pipeline, batch, self.title, on_the_device)

    def build_model(self, workload: Workload, target: Target) -> Any:
        model = build(workload, target, "auto" if target.execution == "keras" else target.execution == "compile")
        if target.execution == "compile" and not model.jit_compile:
            what = without_compiler(model) or "this network"
            raise CellFailed("error", f"Keras does not compile {what} here; choose execution=eager instead.")
        if workload.training:  # as fit does before its first step: creates loss and metrics
            model._symbolic_build(data_batch=on_device(make_arrays(workload, 1), self._device))
        return model

    def make_step(self, model: Any, workload: Workload, target: Target, feed: Feed) -> KerasTorchStep:  # noqa: ARG002
        return KerasTorchStep(model, workload, feed, self._device)

    def first_call(self, step: KerasTorchStep) -> tuple[float, Placement]:
        compiled.begin()
        with compiled.compiling():
            first_ms = step.run(step.per_call)
        placed = None if step.is_compiled else watch_step(lambda: step.run(step.per_call))
        held = {
            "Variables of the network": [variable.value for variable in step.model.variables],
            "The step's outputs": step.last,
        }
        return first_ms, verify(self._device, held, placed, "torch.compile")

    def compiled_as(self, step: KerasTorchStep, target: Target) -> tuple[Compiled, str]:
        if step.is_compiled:
            step.settle(step.model, (compiled.BACKWARD,) if step.training else ())
        title = FRAMEWORKS[target.framework].title
        why = ONLY_WAY.format(framework=title) if target.execution == "keras" else AS_ASKED
        return "compile" if step.is_compiled else "eager", why

    def renew(self, cell: Cell[KerasTorchStep]) -> None:
        renew(cell.step.model, self.build_model(cell.workload, cell.target), cell.workload.training)

    def trace_fields(self, cell: Cell[KerasTorchStep], steps: int) -> Mapping[str, Any]:
        return trace_steps(cell.step, steps, self._device)

    def time_loop(self, cell: Cell[KerasTorchStep], limit_ms: float) -> tuple[int, tuple[LoopPair, ...]]:
        return time_loop(cell.step, cell.workload.training, limit_ms)

    def explain_reading(self, error: Exception, path: str) -> str | None:
        return explain_reading(error, path)
