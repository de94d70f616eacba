"""A made-up framework: its steps only sleep, so that its workers start at once and need little.

Step times follow known curves with some noise; the reply has the curve's time, not that of the sleep, so that a busy
machine changes no verdict. Loaded as ``core.worker.tensorflow.engine``.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from typing import Any, NoReturn

from core.base.evidence import LoopPair
from core.networks.families.recurrent import Recurrent
from core.worker import timing
from core.worker.gpu_errors import explain_gpu
from core.worker.protocol import (
    LOOP_PAIRS,
    BlockDone,
    CellFailed,
    Examine,
    Examined,
    Hello,
    LoopTimed,
    Prepare,
    Prepared,
    Ready,
    Release,
    Released,
    RunBlock,
    TimeLoop,
    Traced,
    TraceSteps,
    WorkerLost,
)
from core.workload.execution import expected, resolved
from core.workload.memory import estimate_bytes
from core.workload.spec import Target, Workload
from simulated.made_up.activity import CPU, HOT_AFTER_S, Teller, told
from simulated.made_up.curves import TF32_FROM, Parts, parts_ms
from simulated.made_up.states import GIB, State, folder, present
from simulated.made_up.training import Trains

START_S, PREPARE_S = 0.4, 0.05
NOISE, LUCK = 0.01, 0.015  # standard deviations of the log step time, by block and by process
CARD_BYTES, DRIVER_BYTES, CONTEXT_BYTES = 16 * GIB, 500 * 2**20, 60 * 2**20
LOOP_MS, CALL_MS, REPEATS = 0.2, 15.0, 15
BUSY_W, LOAD_W = 10.0, 40.0  # above idle: of a working device, and the addition at full use
BREAKS_FROM, ILLEGAL = 256, "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered (made up)"
VERSIONS = {"tensorflow": "2.21.0+made.up", "keras": "3.15.1+made.up"}


def start(hello: Hello) -> tuple[Engine, Ready]:
    time.sleep(START_S)
    target, state = hello.target, present()
    card = _find(target, state) if target.is_gpu else None
    name, tf32 = "", None
    if card is not None and state is not None:
        name, tf32 = state.names[card], state.capability >= TF32_FROM and target.precision != "float32_strict"
    engine = Engine(target, state, card, hello.memory_limit_bytes)
    ready = Ready(
        pid=os.getpid(), startup_ms=1e3 * START_S, device="GPU:0" if target.is_gpu else "CPU:0",
        device_name=name, tf32=tf32, versions=VERSIONS, memory_bytes=CONTEXT_BYTES,
    )  # fmt: skip
    return engine, ready


def _find(target: Target, state: State | None) -> int:
    """Return the bus position of the card that the framework calls by the target's number. Raises CellFailed."""
    print(*(state.logs if state is not None else ()), sep="\n", file=sys.stderr, flush=True)
    seen = _seen(state) if state is not None and state.found else []
    index = int(target.device.removeprefix("gpu:"))
    if index >= len(seen):
        visible = f"{len(seen)} GPU(s)" if seen else "no GPU, only the CPU"
        raise CellFailed("error", f"There is no {target.device}: the made-up framework found {visible}.")
    if state is not None and state.capability >= (12, 0):
        raise CellFailed("error", "The made-up framework met CUDA_ERROR_INVALID_PTX at its first operation.")
    return seen[index]


def _seen(state: State) -> list[int]:
    """Return bus positions in CUDA's order, which obeys two variables."""
    order = list(range(len(state.names)))
    if os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        order.sort(key=lambda index: "fast" not in state.names[index])
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return order
    chosen = []
    for part in visible.split(","):
        if part.startswith(("GPU-", "MIG-")):
            chosen.append(int(part[4:12]))
        elif not part.isdigit() or int(part) >= len(order):
            break
        else:
            chosen.append(order[int(part)])
    return chosen


class Engine(Trains):
    """The engine of one target; ``card`` is its number among the state's cards, None for the CPU."""

    def __init__(self, target: Target, state: State | None, card: int | None, limit_bytes: int | None) -> None:
        self._target, self._state, self._card, self._limit = target, state, card, limit_bytes
        self._random = random.Random(f"{target} {os.getpid()}")
        self._luck = self._random.gauss(0, LUCK)
        self._used_s = float("-inf")
        self._cells: dict[tuple[int, int], tuple[Prepare, Target]] = {}
        self._teller = Teller(folder(), CPU if card is None else card) if state is not None else None
        if self._teller is not None and card is not None:
            self._teller.holds(CONTEXT_BYTES)

    def __getattr__(self, kind: str) -> NoReturn:
        if kind.startswith("_"):
            raise AttributeError(kind)
        raise CellFailed("error", f"The made-up framework does not know the request “{kind}”.")

    def prepare(self, request: Prepare) -> Prepared:
        target = request.variant or self._target
        if target.host != self._target.host:
            raise CellFailed("error", f"{target} needs a worker of its own; this one serves {self._target}.")
        runs = expected(request.workload.network, target)
        needed = self._check_room(request, target)
        time.sleep(PREPARE_S)
        self._cells[request.batch, request.slot] = request, target
        step_ms = self._parts(request.batch, request.slot).step_ms
        self._work(request.batch, request.slot, 4)
        block_ms = request.block_ms or (timing.CPU_BLOCK_MS if target.on_cpu else timing.BLOCK_MS)
        device, compiled = "GPU:0" if target.is_gpu else "CPU:0", runs.execution == "xla"
        placement = [f"{device} (program compiled by XLA)"] if compiled else []
        placement.append(f"{device} (42 operations)")
        if isinstance(request.workload.network, Recurrent):
            placement.append(f"{device} (1 recurrent layer ran by 1 CudnnRNNV3)")
        return Prepared(
            batch=request.batch, slot=request.slot, build_ms=10.0, first_call_ms=180.0 if compiled else 60.0,
            warmup_steps=4, warmup_ms=4 * step_ms, warmup_steady=True, latency_ms=(1.05 * step_ms,) * 3,
            steps_per_block=request.steps_per_block or max(1, math.ceil(block_ms / step_ms)),
            memory_peak_bytes=needed, memory_steady_bytes=int(0.9 * needed) if target.is_gpu else None,
            placement=tuple(placement), execution=runs.execution, execution_why=runs.why,
        )  # fmt: skip

    def block(self, request: RunBlock) -> BlockDone:
        batch, steps, slot = request.batch, request.steps, request.slot
        self._break(batch)
        wake_ms = None
        if self._card is not None:
            idle_ms = 1000 * (time.monotonic() - self._used_s)
            wake_ms = timing.wake(lambda n: self._work(batch, slot, n), idle_ms)
        block_ms = self._work(batch, slot, steps)
        return BlockDone(batch=batch, steps=steps, block_ms=block_ms, slot=slot, wake_ms=wake_ms)

    def _break(self, batch: int) -> None:
        """Raise WorkerLost once, at a larger batch, in a state in which a kernel fails."""
        if self._state is not None and self._state.breaks and self._card is not None and batch >= BREAKS_FROM:
            marker = folder() / "broken"
            if not marker.exists():
                marker.touch()
                raise WorkerLost("crashed", f"The GPU failed: {ILLEGAL}. {explain_gpu(ILLEGAL)}")

    def trace(self, request: TraceSteps) -> Traced:
        from simulated.made_up.trace import traced  # loads the reader of traces

        cell, target = self._cell(request.batch, request.slot)
        runs = resolved(cell.workload, target)
        parts = self._parts(request.batch, request.slot)
        self._work(request.batch, request.slot, 2 * request.steps)
        seen = self._state is None or self._state.traced
        return Traced(batch=request.batch, slot=request.slot, **traced(parts, runs, request.steps, seen))

    def release(self, request: Release) -> Released:
        self._cells.pop((request.batch, request.slot), None)
        return Released(batch=request.batch, slot=request.slot)

    def loop(self, request: TimeLoop) -> LoopTimed:
        """Time Keras's own loop, which adds :data:`LOOP_MS` per step and costs :data:`CALL_MS` per call."""
        step_ms, steps = self._parts(request.batch, request.slot).step_ms, 8
        pairs = []
        for _ in range(LOOP_PAIRS):
            own_ms = self._work(request.batch, request.slot, 2 * steps)
            short_ms, long_ms = (CALL_MS + n * (step_ms + LOOP_MS) * self._noise() for n in (steps, 3 * steps))
            pairs.append(LoopPair(short_ms=short_ms, long_ms=long_ms, own_ms=own_ms))
        return LoopTimed(batch=request.batch, slot=request.slot, steps=steps, pairs=tuple(pairs))

    def examine(self, request: Examine) -> Examined:
        """Answer a self-check: everything holds."""
        counts: dict[str, int] = {}
        ms: dict[str, tuple[float, ...]] = {}
        if request.look == "loops":
            step_ms = self._parts(request.batch, request.slot).step_ms
            self._work(request.batch, request.slot, request.steps)
            ms = {name: self._repeated(step_ms) for name in ("block", "bare")}
            ms |= {"synced": self._repeated(1.2 * step_ms), "sync": (0.02,), "clock": (1e-4,)}
        elif request.look == "factor":
            counts = {"factor": 4, "size": 1024}
            ms = {name: self._repeated(value) for name, value in (("short", 12.0), ("long", 48.0), ("left", 0.03))}
        elif request.look == "memory":
            counts = {"known_bytes": 128 * 2**20, "rise_bytes": 129 * 2**20}
        else:
            counts = {"clusters": request.steps, "operations": 0, "steps": request.steps}
        return Examined(look=request.look, ms=ms, counts=counts)

    def _noise(self) -> float:
        return math.exp(self._random.gauss(0, NOISE))

    def _repeated(self, value: float) -> tuple[float, ...]:
        return tuple(value * self._noise() for _ in range(REPEATS))

    def _cell(self, batch: int, slot: int) -> tuple[Prepare, Target]:
        if (batch, slot) not in self._cells:
            raise CellFailed("error", f"Batch {batch} was not prepared in this worker.")
        return self._cells[batch, slot]

    def _parts(self, batch: int, slot: int) -> Parts:
        request, target = self._cell(batch, slot)
        capability = self._state.capability if self._state is not None else (7, 5)
        slow = bool(self._state and self._card is not None and "slow" in self._state.names[self._card])
        hot = bool(self._state and self._state.hot and self._teller and self._teller.now.busy_s > HOT_AFTER_S)
        shared = bool(self._state and self._state.other_bytes)
        return parts_ms(request.workload, target, request.pipeline, request.batch, capability, slow=slow, hot=hot,
                        shared=shared)  # fmt: skip

    def _work(self, batch: int, slot: int, steps: int) -> float:
        """Sleep as long as the steps take; return the milliseconds that they are said to have taken."""
        parts = self._parts(batch, slot)
        took_ms = parts.step_ms * steps * math.exp(self._luck) * self._noise()
        if self._teller is None:
            time.sleep(took_ms / 1000)
        else:
            share = parts.compute_ms / parts.step_ms
            with self._teller.busy(100 * share, BUSY_W + LOAD_W * share, parts.link_kb_s):
                time.sleep(took_ms / 1000)
        self._used_s = time.monotonic()
        return took_ms

    def _check_room(self, request: Prepare, target: Target) -> int:
        """Return the bytes that the cell takes. Raises CellFailed if the card has too few left."""
        needed = CONTEXT_BYTES + _cell_bytes(request.workload, target, request.batch)
        if self._limit is not None and needed > self._limit:
            raise CellFailed("out_of_memory", f"There is not enough memory: {needed:,} bytes of {self._limit:,}.")
        if self._teller is None or self._state is None or self._card is None:
            return needed
        beside = [engine for engine in told(folder()) if engine.card == self._card and engine.pid != os.getpid()]
        used = DRIVER_BYTES + (self._state.other_bytes or 0) + sum(engine.memory_bytes for engine in beside)
        if needed > CARD_BYTES - used:
            raise CellFailed("out_of_memory", "The cell did not fit into memory: RESOURCE_EXHAUSTED (made up): "
                             f"OOM when allocating {needed:,} bytes on {target.device}")  # fmt: skip
        self._teller.holds(max(self._teller.now.memory_bytes, needed))
        return needed


def _cell_bytes(workload: Workload, target: Target, batch: int) -> int:
    """Return the product's estimate, without the framework's own memory."""
    of = estimate_bytes(workload, resolved(workload, target), batch)
    return of.weights_bytes + of.gradients_bytes + of.optimizer_bytes + of.activations_bytes + of.data_bytes


def __getattr__(name: str) -> Any:
    raise AttributeError(f"The made-up framework has no {name}.")
