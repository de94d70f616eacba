"""TensorFlow on one target: set-up, preparing cells, running blocks. Loaded by a worker process only."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import keras
import psutil
import tensorflow as tf

from core.evidence import TF32_CAPABILITY
from core.families.code import CodeError, own_place, refuse_code
from core.machine.environment import quota_cores, usable_cores
from core.numbers import counted
from core.spec import Pipeline, Target, Workload
from core.worker import timing
from core.worker.gpu_errors import explain_gpu
from core.worker.protocol import (
    BlockDone,
    CellFailed,
    Describe,
    Described,
    Examine,
    Examined,
    GradientsSampled,
    Hello,
    LoopTimed,
    OpenTraining,
    PitfallTimed,
    Prepare,
    Prepared,
    Ready,
    Release,
    Released,
    RunBlock,
    SampleGradients,
    TimeLoop,
    TimePitfall,
    Traced,
    TraceSteps,
    Train,
    Trained,
    TrainingOpened,
    WorkerError,
    WorkerLost,
)
from core.worker.signs import breaks_process, tells_of_memory
from core.worker.tensorflow import placement as placing
from core.worker.tensorflow.code import describe_model
from core.worker.tensorflow.data import explain_reading
from core.worker.tensorflow.loop import time_loop
from core.worker.tensorflow.memory import PeakMeter, check_fits, held_bytes, limit_memory, watch_memory
from core.worker.tensorflow.model import CellStep, build_model, compiled_as, renew
from core.worker.tensorflow.pipeline import Feed, make_feed
from core.worker.tensorflow.pitfalls import time_pitfall
from core.worker.tensorflow.selfcheck import examine
from core.worker.tensorflow.trace import profiled_device, trace_steps
from core.worker.tensorflow.training import Training

MAX_DETAIL = 200


def start(hello: Hello) -> tuple[TensorFlowEngine, Ready]:
    """Set the target's device up. Raises CellFailed where there is no such device."""
    target = hello.target
    limit_bytes = hello.memory_limit_bytes if hello.watch_memory else None
    name = _choose_gpu(target, limit_bytes) if target.is_gpu else _choose_cpu(target)
    with tf.device(_device(target)):
        tf.constant(0.0) + 1.0  # the runtime starts with the first operation
    if hello.memory_limit_bytes is not None and hello.watch_memory:
        watch_memory(hello.memory_limit_bytes, target.is_gpu)
    elif hello.memory_limit_bytes is not None and not target.is_gpu:
        limit_memory(hello.memory_limit_bytes)
    versions = {"tensorflow": metadata.version("tensorflow"), "keras": str(keras.__version__)}
    ready = Ready(
        pid=os.getpid(),
        startup_ms=1000 * max(0.0, time.time() - psutil.Process().create_time()),
        memory_bytes=held_bytes(target.is_gpu),
        device=_device(target),
        device_name=name,
        threads=None if target.is_gpu else target.threads or usable_cores(),
        tf32=_uses_tf32() if target.is_gpu else None,
        versions=versions,
    )
    return TensorFlowEngine(target, hello.memory_limit_bytes, hello.allow_code), ready


def _choose_cpu(target: Target) -> str:
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


@dataclass(frozen=True)
class _Cell:
    """A prepared cell: what it computes, with what feed, and the operations that its graphs placed on the host."""

    workload: Workload
    target: Target
    pipeline: Pipeline
    step: CellStep
    host_nodes: frozenset[str] = frozenset()


class TensorFlowEngine:
    """Cells of one target. Cells of the same workload share the model's variables, never its compiled functions."""

    def __init__(self, target: Target, memory_limit_bytes: int | None = None, allow_code: bool = False) -> None:
        self._target = target
        self._allow_code = allow_code
        self._training: Training | None = None
        self._limit = memory_limit_bytes
        self._device = _device(target)
        self._cells: dict[tuple[int, int], _Cell] = {}
        self._models: dict[tuple[Workload, Target], Any] = {}
        self._used_s = float("-inf")
        """When the device was last seen at work, monotonic."""

    def prepare(self, request: Prepare) -> Prepared:
        """Build, trace, verify, warm up and calibrate a cell; on failure nothing of it is kept."""
        self._forget(request.batch, request.slot)
        target = self._variant(request)
        try:
            with _outcomes(request.pipeline):
                self._check_allowed(request.workload)
                built = (request.workload, target) in self._models
                check_fits(request, self._limit, built, target.is_gpu)
                prepared = self._prepare(request, target)
                self._used_s = time.monotonic()
                return prepared
        except CellFailed:
            self._forget(request.batch, request.slot)
            raise

    def block(self, request: RunBlock) -> BlockDone:
        cell = self._cell(request.batch, request.slot)
        idle_ms = 1000 * (time.monotonic() - self._used_s)
        with _outcomes(cell.pipeline), cell.step.fed() as fed_ms:
            wake_ms = self._wake(cell.step, idle_ms, fed_ms)
            block_ms = cell.step.run(request.steps)
            if cell.workload.training:
                self._check_finite(cell)
        self._used_s = time.monotonic()
        return BlockDone(
            batch=request.batch, steps=request.steps, block_ms=block_ms, slot=request.slot, wake_ms=wake_ms
        )

    def trace(self, request: TraceSteps) -> Traced:
        """Profile some steps of a prepared cell; :mod:`core.worker.tensorflow.trace`."""
        cell = self._cell(request.batch, request.slot)
        with _outcomes(cell.pipeline), cell.step.fed():
            host_nodes = cell.host_nodes if cell.target.is_gpu else None
            device = profiled_device(cell.target.is_gpu)
            fields = trace_steps(cell.step, request.steps, host_nodes, device)
            self._used_s = time.monotonic()
            return Traced(batch=request.batch, slot=request.slot, **fields)

    def loop(self, request: TimeLoop) -> LoopTimed:
        """Time Keras's own loop around a prepared cell's step; :mod:`core.worker.tensorflow.loop`."""
        cell = self._cell(request.batch, request.slot)
        with _outcomes(cell.pipeline), cell.step.fed():
            steps, pairs = time_loop(cell.step, cell.workload.training, request.limit_ms)
            self._check_finite(cell)
        self._used_s = time.monotonic()
        return LoopTimed(batch=request.batch, slot=request.slot, steps=steps, pairs=pairs)

    def release(self, request: Release) -> Released:
        """Forget a cell, and its model when no other cell uses it. A batch that is not there is no error."""
        self._forget(request.batch, request.slot)
        return Released(batch=request.batch, slot=request.slot)

    def describe(self, request: Describe) -> Described:
        if not self._allow_code:
            raise CellFailed("error", f"This worker runs no code of its own accord, so not {request.entry} either.")
        return describe_model(request.entry, request.folder)

    def open_training(self, request: OpenTraining) -> TrainingOpened:
        with _outcomes(Pipeline()):
            self._check_allowed(request.workload)
            self._training = Training(request, self._target, self._device)
            return self._training.opened

    def train(self, request: Train) -> Trained:
        with _outcomes(Pipeline()):
            return self._open_training().train(request.steps)

    def sample_gradients(self, request: SampleGradients) -> GradientsSampled:
        with _outcomes(Pipeline()):
            return self._open_training().sample(request)

    def pitfall(self, request: TimePitfall) -> PitfallTimed:
        with _outcomes(Pipeline()):
            self._check_allowed(request.workload)
            return PitfallTimed(steps_ms=time_pitfall(request))

    def examine(self, request: Examine) -> Examined:
        """What a self-check asks; :mod:`core.worker.tensorflow.selfcheck`."""
        with _outcomes(Pipeline()):
            if request.look not in ("loops", "clusters"):
                return examine(request, self._device)
            cell = self._cell(request.batch, request.slot)
            with cell.step.fed():
                return examine(request, self._device, cell.step)

    def _wake(self, step: CellStep, idle_ms: float, already_ms: float) -> float | None:
        """Let a GPU's clocks rise after it idled; a CPU is left as it is."""
        if not self._target.is_gpu:
            return None
        return timing.wake(lambda calls: step.run(calls * step.per_call), idle_ms, already_ms)

    def _forget(self, batch: int, slot: int) -> None:
        if self._cells.pop((batch, slot), None) is not None:
            used = {(cell.workload, cell.target) for cell in self._cells.values()}
            self._models = {key: model for key, model in self._models.items() if key in used}
            gc.collect()

    def _check_allowed(self, workload: Workload) -> None:
        """Raises CodeError for a network built by user code that this worker may not import."""
        if not self._allow_code:
            refuse_code(workload.network)

    def _open_training(self) -> Training:
        if self._training is None:
            raise CellFailed("error", "No training was opened in this worker.")
        return self._training

    def _cell(self, batch: int, slot: int) -> _Cell:
        if (batch, slot) not in self._cells:
            raise CellFailed("error", f"Batch {batch} was not prepared in this worker.")
        return self._cells[batch, slot]

    def _variant(self, request: Prepare) -> Target:
        """The cell's target. Raises CellFailed when it would need a process of its own."""
        variant = request.variant or self._target
        if variant.host != self._target.host:
            raise CellFailed("error", f"{variant} needs a worker of its own; this one serves {self._target}.")
        return variant

    def _prepare(self, request: Prepare, target: Target) -> Prepared:
        workload = request.workload
        meter = PeakMeter(target.is_gpu)
        begin = time.perf_counter_ns()
        feed = make_feed(workload, target, request.pipeline, request.batch, self._device)
        if (workload, target) not in self._models:
            with tf.device(self._device):
                self._models[workload, target] = build_model(workload, target)
        step = CellStep(self._models[workload, target], workload, feed, target.steps_per_execution)
        build_ms = (time.perf_counter_ns() - begin) * 1e-6
        with step.fed(warm_pipeline=False):
            return self._run_in(step, feed, request, target, build_ms, meter)

    def _run_in(
        self, step: CellStep, feed: Feed, request: Prepare, target: Target, build_ms: float, meter: PeakMeter
    ) -> Prepared:
        """First call, warm-up, calibration and latency of a cell that was built."""
        workload = request.workload
        first_call_ms, placement = self._first_call(step)
        meter.first_call_done()
        cell = _Cell(workload, target, request.pipeline, step, placement.host_nodes)
        self._cells[request.batch, request.slot] = cell
        self._check_finite(cell)
        warm, steps = self._settle(step, feed, request)
        self._check_finite(cell)
        execution, why = compiled_as(step.model, target)
        latency = tuple(step.run(step.per_call) / step.per_call for _ in range(request.latency_samples))
        return Prepared(
            batch=request.batch,
            slot=request.slot,
            build_ms=build_ms,
            first_call_ms=first_call_ms,
            warmup_steps=warm.steps,
            warmup_ms=warm.ms,
            warmup_steady=warm.steady,
            steps_per_block=steps,
            latency_ms=latency,
            memory_peak_bytes=meter.peak_bytes(),
            memory_steady_bytes=meter.steady_bytes(),
            placement=placement.summary,
            host_ops=placement.host_ops,
            execution=execution,
            execution_why=why,
        )

    def _first_call(self, step: CellStep) -> tuple[float, placing.Placement]:
        """First call (trace, compile, run, synchronise) in ms, and where it ran. An eager second step is watched."""
        if step.model.run_eagerly:
            first_ms = step.run(1)
            _, placed = placing.watch_eager_step(lambda: step.run(1))
        else:
            first_ms, placed = placing.watch_first_step(lambda: step.run(step.per_call))
        verified = placing.verify(step.model, step.last, placed, self._device, step.model.jit_compile)
        return first_ms, verified

    def _settle(self, step: CellStep, feed: Feed, request: Prepare) -> tuple[timing.WarmUp, int]:
        """Warm up and calibrate in calls, of one step or of ``steps_per_execution``; the result is in steps."""
        each = step.per_call

        def run_calls(calls: int) -> float:
            return step.run(calls * each)

        warm = timing.warm_up(run_calls, request.warmup_ms, -(-feed.epoch_steps // each))
        in_steps = dataclasses.replace(warm, steps=warm.steps * each, step_ms=warm.step_ms / each)
        if request.steps_per_block is not None:
            return in_steps, request.steps_per_block
        resolution_ms = timing.clock_resolution_ms()
        block_ms = max(request.block_ms, feed.warmup_ms / 2)  # every block pays for a pipeline warm-up
        return in_steps, each * timing.calibrate(run_calls, warm.step_ms, block_ms, resolution_ms)

    def _check_finite(self, cell: _Cell) -> None:
        try:
            cell.step.check_finite()
        except CellFailed:
            renew(cell.step.model, cell.workload, cell.target)
            raise


@contextlib.contextmanager
def _outcomes(pipeline: Pipeline) -> Iterator[None]:
    """Turn what TensorFlow raises into the outcome of a cell."""
    try:
        yield
    except WorkerError:
        raise
    except CodeError as error:
        raise CellFailed("error", str(error)) from error
    except Exception as error:
        detail = " ".join(str(error).split())[:MAX_DETAIL]
        if breaks_process(str(error)):
            why = explain_gpu(str(error)) or "CUDA refuses all further work of this process."
            raise WorkerLost("crashed", f"The GPU failed: {detail}. {why}") from None
        exhausted = isinstance(error, MemoryError | tf.errors.ResourceExhaustedError)
        if exhausted or tells_of_memory(str(error)):
            raise CellFailed("out_of_memory", f"The cell did not fit into memory: {detail}") from None
        if pipeline.data is not None and (sentence := explain_reading(error, pipeline.data)) is not None:
            raise CellFailed("error", sentence) from None
        said = f"{type(error).__name__}: {detail}{own_place(error)}"
        why = explain_gpu(str(error)) or ""
        raise CellFailed("error", f"TensorFlow could not run this cell: {said} {why}".rstrip()) from error
