"""TensorFlow on one target: device, cells, and what is measured with TensorFlow only. Loaded by a worker only."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from importlib import metadata
from typing import Any

import keras
import tensorflow as tf

from core.base.evidence import LoopPair
from core.base.frameworks import Compiled
from core.worker import profiling
from core.worker.cells import Cell, CellEngine, Placement, greet
from core.worker.feeds import Feed, make_arrays
from core.worker.keras.loop import time_loop
from core.worker.keras.model import renew
from core.worker.profiling import HOST_TRACER_LEVEL
from core.worker.protocol import (
    CellFailed,
    Describe,
    Described,
    Examine,
    Examined,
    GradientsSampled,
    Hello,
    OpenTraining,
    PitfallTimed,
    Ready,
    SampleGradients,
    TimePitfall,
    Train,
    Trained,
    TrainingOpened,
)
from core.worker.shares import NO_ALL_REDUCE
from core.worker.tensorflow import placement as placing
from core.worker.tensorflow.calls import CalledStep
from core.worker.tensorflow.code import describe_model
from core.worker.tensorflow.data import explain_reading
from core.worker.tensorflow.devices import Devices, profiled_devices, start_devices, uses_tf32
from core.worker.tensorflow.model import CellStep, build_model, compiled_as
from core.worker.tensorflow.pipeline import make_feed
from core.worker.tensorflow.placement import check_copies, check_shares, shared_feed
from core.worker.tensorflow.selfcheck import examine
from core.worker.tensorflow.training import Training
from core.workload.spec import Pipeline, Target, Workload


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


def start(hello: Hello) -> tuple[TensorFlowEngine, Ready]:
    """Set up the target's device. Raises CellFailed if there is no such device."""
    target = hello.target
    devices, name = start_devices(target, hello.memory_limit_bytes if hello.watch_memory else None)
    ready = greet(
        hello,
        ", ".join(devices.names),
        name,
        devices.allocator(),
        tf32=uses_tf32() if target.is_gpu else None,
        versions={"tensorflow": metadata.version("tensorflow"), "keras": str(keras.__version__)},
    )
    return TensorFlowEngine(hello, devices), ready


class TensorFlowEngine(CellEngine[CellStep]):
    """Cells of one target, real training, self-checks and pitfalls."""

    exhausted = (tf.errors.ResourceExhaustedError,)

    def __init__(self, hello: Hello, devices: Devices) -> None:
        super().__init__(hello, devices.allocator())
        self._training: Training | None = None
        self._devices = devices

    def make_feed(self, workload: Workload, target: Target, pipeline: Pipeline, batch: int) -> Feed:
        if self._devices.strategy is not None:
            return shared_feed(workload, target, pipeline, batch, self._devices)
        return make_feed(workload, target, pipeline, batch, self._devices.first)

    def build_model(self, workload: Workload, target: Target) -> Any:
        with self._devices.scope():
            return build_model(workload, target)

    def make_step(self, model: Any, workload: Workload, target: Target, feed: Feed) -> CellStep:
        if target.call != "step":
            return CalledStep(model, workload, feed, target.call)
        return CellStep(model, workload, feed, target.steps_per_execution)

    def first_call(self, step: CellStep) -> tuple[float, Placement]:
        """Run the first call and verify its placement; for an eager step, watch the second."""
        if self._devices.strategy is not None:
            check_shares(step.iterator, self._devices)
        if step.model.run_eagerly:
            first_ms = step.run(step.per_call)
            _, placed = placing.watch_eager_step(lambda: step.run(step.per_call))
        else:
            first_ms, placed = placing.watch_first_step(lambda: step.run(step.per_call))
        if self._devices.strategy is not None and step.training:
            check_copies(step.model, self._devices)
        return first_ms, placing.verify(step.model, step.last, placed, self._devices.names, step.model.jit_compile)

    def compiled_as(self, step: CellStep, target: Target) -> tuple[Compiled, str]:
        return compiled_as(step.model, target)

    def renew(self, cell: Cell[CellStep]) -> None:
        with self._devices.scope():
            renew(cell.step.model, build_model(cell.workload, cell.target), cell.workload.training)

    def trace_fields(self, cell: Cell[CellStep], steps: int) -> Mapping[str, Any]:
        host_nodes = cell.host_nodes if cell.target.is_gpu else None
        fields = trace_steps(cell.step, steps, host_nodes, profiled_devices(cell.target.is_gpu))
        exchanges = self._devices.strategy is not None and cell.workload.training
        if exchanges and not fields["device"].all_reduces_ms:
            fields["notes"] = (*fields["notes"], NO_ALL_REDUCE)
        return fields

    def time_loop(self, cell: Cell[CellStep], limit_ms: float) -> tuple[int, tuple[LoopPair, ...]]:
        self._check_single("What Keras's own loop adds to a step")
        if cell.target.call != "step":
            raise CellFailed("error", f"Keras runs no loop around call={cell.target.call}.")
        return time_loop(cell.step, cell.workload.training, limit_ms)

    def explain_reading(self, error: Exception, path: str) -> str | None:
        return explain_reading(error, path)

    def describe(self, request: Describe) -> Described:
        self.check_code(request.entry)
        return describe_model(request)

    def open_training(self, request: OpenTraining) -> TrainingOpened:
        with self.outcomes(Pipeline()):
            self.check_allowed(request.workload)
            self._check_single("Real training")
            self.turns.take_place(None)
            self._training = Training(request, self._target, self._devices.first)
            return self._training.opened

    def train(self, request: Train) -> Trained:
        with self.outcomes(Pipeline()):
            return self._open_training().train(request.steps)

    def sample_gradients(self, request: SampleGradients) -> GradientsSampled:
        with self.outcomes(Pipeline()):
            return self._open_training().sample(request)

    def pitfall(self, request: TimePitfall) -> PitfallTimed:
        with self.outcomes(Pipeline()):
            self.check_allowed(request.workload)
            self.turns.take_place(None)
            return PitfallTimed(steps_ms=time_pitfall(request))

    def examine(self, request: Examine) -> Examined:
        with self.outcomes(Pipeline()):
            self._check_single("What the self-check looks at")
            if request.look not in ("loops", "clusters"):
                return examine(request, self._devices.first)
            step = self.cell(request.batch, request.slot).step
            with step.fed():
                return examine(request, self._devices.first, step)

    def _check_single(self, what: str) -> None:
        """Raise CellFailed for a measurement that several devices do not support."""
        if self._devices.strategy is not None:
            raise CellFailed("error", f"{what} is measured on one device at a time, not on {self._devices.words}.")

    def _open_training(self) -> Training:
        if self._training is None:
            raise CellFailed("error", "No training was opened in this worker.")
        return self._training


PREDICT_CALLS = 5
EPOCH_STEPS = 20
TARGET = Target()


def time_pitfall(request: TimePitfall) -> dict[str, float]:
    """Return milliseconds per step by method."""
    measure = {"predict": _predict, "single_call": _single_call, "first_epoch": _first_epoch}[request.way]
    return measure(request.workload, request.batch)


def _predict(workload: Workload, batch: int) -> dict[str, float]:
    (x,) = make_arrays(workload, batch)
    model = build_model(workload, TARGET)
    times_ms = []
    for _ in range(PREDICT_CALLS):
        start = time.time()
        model.predict(x, batch_size=batch, verbose=0)
        times_ms.append(1000 * (time.time() - start))
    return {"predict_first": statistics.fmean(times_ms), "predict_loop": statistics.fmean(times_ms[1:])}


def _single_call(workload: Workload, batch: int) -> dict[str, float]:
    feed = make_feed(workload, TARGET, Pipeline(), batch, "CPU:0")
    step = CellStep(build_model(workload, TARGET), workload, feed)
    with step.fed():
        start = time.time()
        step.call()
        return {"single_call": 1000 * (time.time() - start)}


def _first_epoch(workload: Workload, batch: int) -> dict[str, float]:
    arrays = make_arrays(workload, EPOCH_STEPS * batch)
    model = build_model(workload, TARGET)
    start = time.time()
    model.fit(*arrays, batch_size=batch, epochs=1, verbose=0)
    return {"first_epoch": 1000 * (time.time() - start) / EPOCH_STEPS}
