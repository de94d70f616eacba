"""TensorFlow on one target: device, cells, and what is measured with TensorFlow only. Loaded by a worker only."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Any

import keras
import tensorflow as tf

from core.evidence import TF32_CAPABILITY, LoopPair
from core.frameworks import Compiled
from core.machine.environment import quota_cores
from core.numbers import counted
from core.spec import Pipeline, Target, Workload
from core.worker.cells import Cell, CellEngine, Placement, greet
from core.worker.feeds import Feed
from core.worker.keras.loop import time_loop
from core.worker.keras.model import renew
from core.worker.memory import Allocator
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
from core.worker.tensorflow import placement as placing
from core.worker.tensorflow.code import describe_model
from core.worker.tensorflow.data import explain_reading
from core.worker.tensorflow.memory import GpuAllocator
from core.worker.tensorflow.model import CellStep, build_model, compiled_as
from core.worker.tensorflow.pipeline import make_feed
from core.worker.tensorflow.pitfalls import time_pitfall
from core.worker.tensorflow.selfcheck import examine
from core.worker.tensorflow.trace import profiled_device, trace_steps
from core.worker.tensorflow.training import Training


def start(hello: Hello) -> tuple[TensorFlowEngine, Ready]:
    """Set the target's device up. Raises CellFailed where there is no such device."""
    target = hello.target
    limit_bytes = hello.memory_limit_bytes if hello.watch_memory else None
    name = _choose_gpu(target, limit_bytes) if target.is_gpu else choose_cpu(target)
    with tf.device(_device(target)):
        tf.constant(0.0) + 1.0  # the runtime starts with the first operation
    ready = greet(
        hello,
        _device(target),
        name,
        _allocator(target),
        tf32=_uses_tf32() if target.is_gpu else None,
        versions={"tensorflow": metadata.version("tensorflow"), "keras": str(keras.__version__)},
    )
    return TensorFlowEngine(hello), ready


def choose_cpu(target: Target) -> str:
    tf.config.set_visible_devices([], "GPU")
    if (threads := target.threads or quota_cores()) is not None:  # the framework does not see a quota
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    return ""


def _choose_gpu(target: Target, limit_bytes: int | None) -> str:
    index = int(target.device.removeprefix("gpu:"))
    gpus = tf.config.list_physical_devices("GPU")
    if index >= len(gpus):
        seen = f"{counted(len(gpus), 'GPU')}, counted from gpu:0" if gpus else "no GPU, only the CPU"
        raise CellFailed("error", f"There is no {target.device}: TensorFlow found {seen}.")
    tf.config.set_visible_devices([gpus[index]], "GPU")
    tf.config.experimental.enable_tensor_float_32_execution(target.precision != "float32_strict")
    if (threads := quota_cores()) is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    if limit_bytes is None:
        tf.config.experimental.set_memory_growth(gpus[index], True)
    else:  # TensorFlow takes one of both: the limit is taken from the card at once
        allowed = tf.config.LogicalDeviceConfiguration(memory_limit=limit_bytes // 2**20)
        tf.config.set_logical_device_configuration(gpus[index], [allowed])
    return str(tf.config.experimental.get_device_details(gpus[index]).get("device_name", ""))


def _uses_tf32() -> bool | None:
    """Whether products in float32 run as TF32 on the one GPU that is visible; None where its kind is not known."""
    (gpu,) = tf.config.get_visible_devices("GPU")
    capability = tf.config.experimental.get_device_details(gpu).get("compute_capability")
    if capability is None:
        return None
    return bool(tf.config.experimental.tensor_float_32_execution_enabled() and tuple(capability) >= TF32_CAPABILITY)


def _device(target: Target) -> str:
    return "GPU:0" if target.is_gpu else "CPU:0"  # the only GPU left visible is number 0


def _allocator(target: Target) -> Allocator | None:
    return GpuAllocator() if target.is_gpu else None


class TensorFlowEngine(CellEngine[CellStep]):
    """Cells of one target, real training, and what the self-check and the pitfalls ask."""

    exhausted = (tf.errors.ResourceExhaustedError,)

    def __init__(self, hello: Hello) -> None:
        super().__init__(hello, _allocator(hello.target))
        self._training: Training | None = None
        self._device = _device(hello.target)

    def make_feed(self, workload: Workload, target: Target, pipeline: Pipeline, batch: int) -> Feed:
        return make_feed(workload, target, pipeline, batch, self._device)

    def build_model(self, workload: Workload, target: Target) -> Any:
        with tf.device(self._device):
            return build_model(workload, target)

    def make_step(self, model: Any, workload: Workload, target: Target, feed: Feed) -> CellStep:
        return CellStep(model, workload, feed, target.steps_per_execution)

    def first_call(self, step: CellStep) -> tuple[float, Placement]:
        """Of an eager step a second one is watched."""
        if step.model.run_eagerly:
            first_ms = step.run(1)
            _, placed = placing.watch_eager_step(lambda: step.run(1))
        else:
            first_ms, placed = placing.watch_first_step(lambda: step.run(step.per_call))
        return first_ms, placing.verify(step.model, step.last, placed, self._device, step.model.jit_compile)

    def compiled_as(self, step: CellStep, target: Target) -> tuple[Compiled, str]:
        return compiled_as(step.model, target)

    def renew(self, cell: Cell[CellStep]) -> None:
        renew(cell.step.model, build_model(cell.workload, cell.target), cell.workload.training)

    def trace_fields(self, cell: Cell[CellStep], steps: int) -> Mapping[str, Any]:
        host_nodes = cell.host_nodes if cell.target.is_gpu else None
        return trace_steps(cell.step, steps, host_nodes, profiled_device(cell.target.is_gpu))

    def time_loop(self, cell: Cell[CellStep], limit_ms: float) -> tuple[int, tuple[LoopPair, ...]]:
        return time_loop(cell.step, cell.workload.training, limit_ms)

    def explain_reading(self, error: Exception, path: str) -> str | None:
        return explain_reading(error, path)

    def describe(self, request: Describe) -> Described:
        self.check_code(request.entry)
        return describe_model(request)

    def open_training(self, request: OpenTraining) -> TrainingOpened:
        with self.outcomes(Pipeline()):
            self.check_allowed(request.workload)
            self._training = Training(request, self._target, self._device)
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
            return PitfallTimed(steps_ms=time_pitfall(request))

    def examine(self, request: Examine) -> Examined:
        with self.outcomes(Pipeline()):
            if request.look not in ("loops", "clusters"):
                return examine(request, self._device)
            step = self.cell(request.batch, request.slot).step
            with step.fed():
                return examine(request, self._device, step)

    def _open_training(self) -> Training:
        if self._training is None:
            raise CellFailed("error", "No training was opened in this worker.")
        return self._training
