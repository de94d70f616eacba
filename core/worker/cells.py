"""Interface of an engine, and the base of those for the cells of one target: prepare, run in blocks, release.

Imports no framework. A framework's module (:data:`core.base.frameworks.FRAMEWORKS`) has ``start(hello) -> (Engine,
Ready)``; docs/frameworks.md explains how to add one. Its subclass of :class:`CellEngine` builds the network, runs its
step and reports the placement; warm-up, calibration, memory and the handling of exceptions are shared here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NoReturn, Protocol, TypeVar

import psutil

from core.base.evidence import LoopPair
from core.base.frameworks import FRAMEWORKS, Compiled
from core.machine.cores import Place
from core.machine.environment import quota_cores, usable_cores
from core.networks.families.code import CodeError, own_place, refuse_code
from core.worker import timing
from core.worker.feeds import Feed
from core.worker.gpu_errors import breaks_process, explain_gpu, tells_of_memory
from core.worker.memory import Allocator, PeakMeter, check_fits, held_bytes, limit_memory, taken_bytes, watch_memory
from core.worker.protocol import (
    BlockDone,
    CellFailed,
    Compile,
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
    Serve,
    Served,
    StepCompiled,
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
from core.worker.serving import serve_steps
from core.worker.step import Step
from core.workload.lengths import mix
from core.workload.spec import Pipeline, Target, Workload, refuse_batch, refuse_mode


class Engine(Protocol):
    """One method per kind of request except ``hello``. Each raises CellFailed or WorkerLost."""

    def prepare(self, request: Prepare) -> Prepared: ...
    def block(self, request: RunBlock) -> BlockDone: ...
    def trace(self, request: TraceSteps) -> Traced: ...
    def loop(self, request: TimeLoop) -> LoopTimed: ...
    def release(self, request: Release) -> Released: ...
    def describe(self, request: Describe) -> Described: ...
    def open_training(self, request: OpenTraining) -> TrainingOpened: ...
    def train(self, request: Train) -> Trained: ...
    def sample_gradients(self, request: SampleGradients) -> GradientsSampled: ...
    def pitfall(self, request: TimePitfall) -> PitfallTimed: ...
    def examine(self, request: Examine) -> Examined: ...
    def serve(self, request: Serve) -> Served: ...
    def compile(self, request: Compile) -> StepCompiled: ...


class TensorFlowOnly:
    """Default methods that refuse what only TensorFlow serves."""

    title: str
    """The framework's name in a sentence."""

    def describe(self, request: Describe) -> Described:  # noqa: ARG002
        self.refuse("A model of your own function")

    def open_training(self, request: OpenTraining) -> TrainingOpened:  # noqa: ARG002
        self.refuse("Gradient noise")

    def train(self, request: Train) -> Trained:  # noqa: ARG002
        self.refuse("Gradient noise")

    def sample_gradients(self, request: SampleGradients) -> GradientsSampled:  # noqa: ARG002
        self.refuse("Gradient noise")

    def pitfall(self, request: TimePitfall) -> PitfallTimed:  # noqa: ARG002
        self.refuse("A way of timing that misleads")

    def examine(self, request: Examine) -> Examined:  # noqa: ARG002
        self.refuse("What the self-check looks at")

    def refuse(self, what: str) -> NoReturn:
        raise tensorflow_only(what, self.title)


def tensorflow_only(what: str, title: str) -> CellFailed:
    """Return the error for a request that the framework called ``title`` does not serve."""
    return CellFailed("error", f"{what} is measured with TensorFlow only, not with {title}.")


MAX_LEAD_IN_MS = 20.0  # of a call on a CPU: if calls are longer, an untimed one is not worth its time
MAX_WAKING_MS = 1000.0  # the same if it also wakes cores, which lengthens the first 0.1 s


class Turns:
    """The turns of one worker's cells. :meth:`end` records that the device has just worked."""

    def __init__(self, target: Target) -> None:
        self._on_cpu = target.on_cpu
        self._place = Place((target.threads or quota_cores()) if target.on_cpu else None)
        self._end_s = float("-inf")

    def take_place(self, pipeline: Pipeline | None) -> None:
        """Bind this process to the target's cores.

        It stays unbound for a ``tf.data`` pipeline, whose threads work beside the step's, and outside of cells (None).
        """
        self._place.take(pipeline is not None and pipeline.kind != "tfdata")

    def end(self) -> None:
        self._end_s = time.monotonic()

    @property
    def idle_ms(self) -> float:
        return 1000 * (time.monotonic() - self._end_s)

    def wake(self, step: Step, idle_ms: float, already_ms: float, cores: bool = False) -> float | None:
        """Run steps untimed before a block.

        On a CPU one call restores the caches, also within a row of short blocks, unless the pipeline already ran for
        ``already_ms``. With ``cores`` idle ones wake, on an accelerator the clocks rise: returns the ms that took, else
        None.
        """

        def run_calls(calls: int) -> float:
            return step.run(calls * step.per_call)

        if not self._on_cpu:
            return timing.wake(run_calls, idle_ms, already_ms)
        if cores and not already_ms and step.call_ms < MAX_WAKING_MS:
            return timing.untimed(run_calls, timing.CORES_AWAKE_MS)
        if not already_ms and step.call_ms < MAX_LEAD_IN_MS:
            run_calls(1)
        return None


MAX_DETAIL = 200
S = TypeVar("S", bound=Step)


@dataclass(frozen=True)
class Placement:
    """Placement of a cell's operations.

    ``summary`` has one text per device, with its number of operations, and on a GPU whether the recurrent layers ran by
    cuDNN. ``host_ops`` are the operation types that fell back to the host. ``host_nodes`` are the names of the graphs'
    operations on the host (empty for eager steps).
    """

    summary: tuple[str, ...]
    host_ops: tuple[str, ...] = ()
    host_nodes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Cell(Generic[S]):
    """A prepared cell: its workload, feed and step, and the operations that its graphs placed on the host."""

    workload: Workload
    target: Target
    pipeline: Pipeline
    step: S
    host_nodes: frozenset[str] = frozenset()


def greet(hello: Hello, device: str, device_name: str = "", allocator: Allocator | None = None, **more: Any) -> Ready:
    """Return the reply to ``hello`` once the device works, and apply the memory limit that the request asks for.

    ``more`` are further fields of :class:`core.worker.protocol.Ready`. Raises CellFailed as
    :func:`core.worker.memory.watch_memory` does.
    """
    target, limit = hello.target, hello.memory_limit_bytes
    if limit is not None and allocator is None:
        if hello.watch_memory:
            watch_memory(limit)
        else:
            limit_memory(limit, taken_bytes())
    return Ready(
        pid=os.getpid(),
        startup_ms=1000 * max(0.0, time.time() - psutil.Process().create_time()),
        memory_bytes=held_bytes(allocator),
        device=device,
        device_name=device_name,
        threads=(target.threads or usable_cores()) if target.on_cpu else None,
        **more,
    )


class CellEngine(TensorFlowOnly, ABC, Generic[S]):
    """Cells of one target. Cells of the same workload share the model's variables, never its compiled functions.

    ``exhausted`` are the framework's own exceptions that mean out of memory. ``runs_side_by_side``: cells of one model
    may run in several threads at once.
    """

    exhausted: ClassVar[tuple[type[Exception], ...]] = ()
    runs_side_by_side: ClassVar[bool] = True

    def __init__(self, hello: Hello, allocator: Allocator | None = None) -> None:
        self.title = FRAMEWORKS[hello.target.framework].title
        self._target = hello.target
        self._allow_code = hello.allow_code
        self._limit = hello.memory_limit_bytes
        self._watched = hello.watch_memory
        self._allocator = allocator
        self._cells: dict[tuple[int, int], Cell[S]] = {}
        self._models: dict[tuple[Workload, Target], Any] = {}
        self.turns = Turns(hello.target)

    def compile(self, request: Compile) -> StepCompiled:
        """Compile a step for a GPU that is not here; only JAX can. Raises CellFailed."""
        raise CellFailed("error", f"{request.doing.format(batch=request.batch).capitalize()} needs a worker of JAX.")

    @abstractmethod
    def make_feed(self, workload: Workload, target: Target, pipeline: Pipeline, batch: int) -> Feed:
        """Return the feed that the cell's step draws from."""

    @abstractmethod
    def build_model(self, workload: Workload, target: Target) -> Any:
        """Build a network with all its variables, shared by the cells of the same workload and target."""

    @abstractmethod
    def make_step(self, model: Any, workload: Workload, target: Target, feed: Feed) -> S:
        """Return the step of one cell."""

    @abstractmethod
    def first_call(self, step: S) -> tuple[float, Placement]:
        """Run the first call (trace, compile, run, synchronise); return ms and placement.

        Raises CellFailed ``misplaced``.
        """

    @abstractmethod
    def compiled_as(self, step: S, target: Target) -> tuple[Compiled, str]:
        """Return how the step is compiled, and why, as in :class:`core.base.evidence.CellSetup`."""

    def renew(self, cell: Cell[S]) -> None:
        """Restore a model whose values are no longer finite, for the other cells that share it."""

    def trace_fields(self, cell: Cell[S], steps: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Return fields of :class:`core.worker.protocol.Traced` for a fed cell."""
        self.refuse("Where a step's time goes")

    def time_loop(self, cell: Cell[S], limit_ms: float) -> tuple[int, tuple[LoopPair, ...]]:  # noqa: ARG002
        """Time the framework's own loop against our blocks; return the steps of a short call and the pairs of times."""
        raise CellFailed("error", f"{self.title} has no loop of its own around a step.")

    def explain_reading(self, error: Exception, path: str) -> str | None:  # noqa: ARG002
        """Return one sentence for an error met while reading the user's data; None for any other error."""
        return None

    def prepare(self, request: Prepare) -> Prepared:
        """Build, trace, verify, warm up and calibrate a cell; on failure keep nothing of it."""
        self._forget(request.batch, request.slot)
        target = self._variant(request)
        try:
            with self.outcomes(request.pipeline):
                self.turns.take_place(request.pipeline)
                self.check_allowed(request.workload)
                _check_mode(request, target)
                built = (request.workload, target) in self._models
                # in a memory test the limit is for resident memory, else for what counts as taken
                resident = self._allocator is not None or self._watched
                held = held_bytes(self._allocator) if resident else taken_bytes()
                check_fits(request, self._limit, built, held)
                prepared = self._prepare(request, target)
                self.turns.end()
                return prepared
        except CellFailed:
            self._forget(request.batch, request.slot)
            raise

    def block(self, request: RunBlock) -> BlockDone:
        cell = self.cell(request.batch, request.slot)
        idle_ms = self.turns.idle_ms
        with self.outcomes(cell.pipeline), cell.step.fed() as fed_ms:
            wake_ms = self.turns.wake(cell.step, idle_ms, fed_ms, request.wake_cores)
            cpu_s = time.process_time()
            block_ms = cell.step.run(request.steps)
            cpu_ms = 1000 * (time.process_time() - cpu_s)
            if cell.workload.training:
                self.check_finite(cell)
        self.turns.end()
        return BlockDone(
            batch=request.batch,
            steps=request.steps,
            block_ms=block_ms,
            slot=request.slot,
            wake_ms=wake_ms,
            cpu_ms=cpu_ms,
        )

    def trace(self, request: TraceSteps) -> Traced:
        """Profile some steps of a prepared cell."""
        cell = self.cell(request.batch, request.slot)
        with self.outcomes(cell.pipeline), cell.step.fed():
            fields = self.trace_fields(cell, request.steps)
            self.turns.end()
            return Traced(batch=request.batch, slot=request.slot, **fields)

    def loop(self, request: TimeLoop) -> LoopTimed:
        """Time the framework's own loop around a prepared cell's step."""
        cell = self.cell(request.batch, request.slot)
        with self.outcomes(cell.pipeline), cell.step.fed():
            steps, pairs = self.time_loop(cell, request.limit_ms)
            self.check_finite(cell)
        self.turns.end()
        return LoopTimed(batch=request.batch, slot=request.slot, steps=steps, pairs=pairs)

    def serve(self, request: Serve) -> Served:
        """Serve requests on prepared cells; several instances need more than one target's cores."""
        instances = [[self.cell(size, slot) for size in request.sizes] for slot in range(request.instances)]
        if request.instances > 1:
            if not self.runs_side_by_side:
                raise CellFailed("error", f"Steps of {self.title} hand their state on, so only one instance can serve.")
            self.turns.take_place(None)
        with self.outcomes(instances[0][0].pipeline):
            served = serve_steps(request, [[cell.step for cell in cells] for cells in instances])
        self.turns.end()
        return served

    def release(self, request: Release) -> Released:
        """Release a cell, and its model when no other cell uses it. An unknown batch is no error."""
        self._forget(request.batch, request.slot)
        return Released(batch=request.batch, slot=request.slot)

    def check_allowed(self, workload: Workload) -> None:
        """Raise CodeError for a network built by user code that this worker may not import."""
        if not self._allow_code:
            refuse_code(workload.network)

    def check_code(self, entry: str) -> None:
        """Raise CellFailed unless this worker may run the user's code."""
        if not self._allow_code:
            raise CellFailed("error", f"This worker runs no code of its own accord, so not {entry} either.")

    def cell(self, batch: int, slot: int) -> Cell[S]:
        """Return a prepared cell, after binding this process to the cores for it."""
        if (batch, slot) not in self._cells:
            raise CellFailed("error", f"Batch {batch} was not prepared in this worker.")
        cell = self._cells[batch, slot]
        self.turns.take_place(cell.pipeline)
        return cell

    def check_finite(self, cell: Cell[S]) -> None:
        try:
            cell.step.check_finite()
        except CellFailed:
            self.renew(cell)
            raise

    @contextlib.contextmanager
    def outcomes(self, pipeline: Pipeline) -> Iterator[None]:
        """Turn the framework's exceptions into outcomes of a cell."""
        try:
            yield
        except WorkerError:
            raise
        except CodeError as error:
            raise CellFailed("error", str(error)) from error
        except Exception as error:
            detail = " ".join(str(error).split())[:MAX_DETAIL]
            why = explain_gpu(str(error), self._target.framework) or ""
            if breaks_process(str(error)):
                why = why or "CUDA refuses all further work of this process."
                raise WorkerLost("crashed", f"The GPU failed: {detail}. {why}") from None
            if isinstance(error, (MemoryError, *self.exhausted)) or tells_of_memory(str(error)):
                raise CellFailed("out_of_memory", f"This batch size did not fit into memory: {detail}") from None
            if pipeline.data is not None and (sentence := self.explain_reading(error, pipeline.data)) is not None:
                raise CellFailed("error", sentence) from None
            fault = f"{type(error).__name__}: {detail}{own_place(error)}"
            raise CellFailed("error", f"{self.title} could not run this batch size: {fault} {why}".rstrip()) from error

    def _forget(self, batch: int, slot: int) -> None:
        if self._cells.pop((batch, slot), None) is not None:
            used = {(cell.workload, cell.target) for cell in self._cells.values()}
            self._models = {key: model for key, model in self._models.items() if key in used}
            gc.collect()

    def _variant(self, request: Prepare) -> Target:
        """Return the cell's target. Raises CellFailed if it needs a process of its own."""
        variant = request.variant or self._target
        if variant.host != self._target.host:
            raise CellFailed("error", f"{variant} needs a worker of its own; this one serves {self._target}.")
        return variant

    def _prepare(self, request: Prepare, target: Target) -> Prepared:
        workload = request.workload
        meter = PeakMeter(self._allocator)
        begin = time.perf_counter_ns()
        feed = self.make_feed(workload, target, request.pipeline, request.batch)
        if (workload, target) not in self._models:
            self._models[workload, target] = self.build_model(workload, target)
        step = self.make_step(self._models[workload, target], workload, target, feed)
        if workload.lengths:
            step.repeat(len(mix(workload.lengths)))
        build_ms = (time.perf_counter_ns() - begin) * 1e-6
        with step.fed(warm_pipeline=False):
            return self._run_in(step, request, target, build_ms, meter)

    def _run_in(self, step: S, request: Prepare, target: Target, build_ms: float, meter: PeakMeter) -> Prepared:
        """Run the first call, the warm-up, the calibration and the latency samples of a built cell."""
        first_call_ms, placement = self.first_call(step)
        meter.first_call_done()
        cell = Cell(request.workload, target, request.pipeline, step, placement.host_nodes)
        self._cells[request.batch, request.slot] = cell
        self.check_finite(cell)
        warm, steps, latency = settle(step, request, timing.CPU_BLOCK_MS if target.on_cpu else timing.BLOCK_MS)
        self.check_finite(cell)
        execution, why = self.compiled_as(step, target)
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
            paused_ms=_after_pauses(step, request.paused_samples) or None,
            memory_peak_bytes=meter.peak_bytes(),
            memory_steady_bytes=meter.steady_bytes(),
            placement=placement.summary,
            host_ops=placement.host_ops,
            execution=execution,
            execution_why=why,
            output_difference=step.output_difference,
            traces=step.traces() if request.workload.lengths else None,
        )


def _check_mode(request: Prepare, target: Target) -> None:
    """Raise CellFailed if the target cannot compute such a step, or such a batch."""
    try:
        refuse_mode(request.workload, target, request.pipeline)
        refuse_batch(request.batch, target)
    except ValueError as error:
        raise CellFailed("error", f"{error}.") from None


def _after_pauses(step: Step, count: int) -> tuple[float, ...]:
    """Return the ms per step of ``count`` whole calls, each after a pause."""
    each = step.per_call
    return tuple(ms / each for ms in timing.singles(lambda calls: step.run(calls * each), count, timing.pause))


def settle(step: Step, request: Prepare, block_ms: float) -> tuple[timing.WarmUp, int, tuple[float, ...]]:
    """Warm up and calibrate in whole calls of one or several steps.

    Returns the warm-up, the steps per block and the latencies per step. ``block_ms`` is the minimum duration of a block
    if the request gives none.
    """
    each, feed = step.per_call, step.feed

    def run_calls(calls: int) -> float:
        return step.run(calls * each)

    warm = timing.warm_up(run_calls, request.warmup_ms, -(-feed.epoch_steps // each))
    in_steps = dataclasses.replace(warm, steps=warm.steps * each, step_ms=warm.step_ms / each)
    steps = request.steps_per_block or each * _calls_of_a_block(
        run_calls, warm, request.block_ms or block_ms, feed.warmup_ms
    )
    latency = timing.latencies(run_calls, warm, request.latency_samples)
    return in_steps, steps, tuple(ms / each for ms in latency)


def _calls_of_a_block(
    run_calls: timing.RunSteps, warm: timing.WarmUp, block_ms: float, pipeline_warmup_ms: float
) -> int:
    resolution_ms = timing.clock_resolution_ms()
    block_ms = max(block_ms, pipeline_warmup_ms / 2)  # every block pays for a pipeline warm-up
    return timing.calibrate(run_calls, warm.step_ms, block_ms, resolution_ms)
