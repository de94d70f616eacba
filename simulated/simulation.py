"""A simulated machine with known truth on a virtual clock: it answers the supervisor as real workers do.

The noise is that of real machines (:mod:`simulated.noise`). The true crossover of two noiseless curves, and the
lowest of several at every batch, is what a sweep should find.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import numpy as np

from core.base.evidence import LoopPair, Outcome
from core.rounds.answer.answer import Band
from core.studies.turns import IDLE_S
from core.traces.record import DeviceTrace, StepParts
from core.worker.cells import MAX_LEAD_IN_MS, MAX_WAKING_MS
from core.worker.protocol import (
    LOOP_PAIRS,
    STEPS_A_PAIR,
    BlockDone,
    CellFailed,
    LoopTimed,
    Prepare,
    Prepared,
    R,
    Ready,
    Release,
    Released,
    Request,
    RunBlock,
    Serve,
    Served,
    TimeLoop,
    Traced,
    TraceSteps,
    WorkerLost,
)
from core.worker.serving import serve
from core.worker.timing import CORES_AWAKE_MS
from core.workload.execution import expected
from core.workload.spec import Target, Workload, refuse_batch
from simulated.noise import QUIET, Cores, Drift, NoiseModel, SimulatedInterference


@dataclass
class VirtualClock:
    time_s: float = 0.0

    def now_s(self) -> float:
        return self.time_s

    def advance(self, seconds: float) -> None:
        self.time_s += seconds


@dataclass(frozen=True)
class Curve:
    """True step time: (floor^q + (slope·b)^q)^(1/q)."""

    floor_ms: float
    slope_ms: float
    q: float = 2.0

    def step_ms(self, batch: float) -> float:
        return (self.floor_ms**self.q + (self.slope_ms * batch) ** self.q) ** (1 / self.q)


@dataclass(frozen=True)
class Mirrored:
    """True step time of targets of one or several devices that share each batch.

    It is the curve at one device's share, and in training an all-reduce of 2·(n − 1)/n times ``exchange_ms``, as a ring
    of n devices needs.
    """

    curve: Curve
    exchange_ms: float

    def __call__(self, request: Prepare, target: Target) -> float:
        refuse_batch(request.batch, target)
        return self.curve.step_ms(request.batch / target.replicas) + self.exchange(request.workload, target)

    def exchange(self, workload: Workload, target: Target) -> float:
        n = target.replicas
        return self.exchange_ms * 2 * (n - 1) / n if workload.training else 0.0


def random_curves(rng: np.random.Generator) -> tuple[Curve, Curve]:
    """Return a host-like target (low floor, steep) and a device-like one that crosses it from batch 4 to 400."""
    return (
        Curve(rng.uniform(0.2, 0.5), rng.uniform(0.01, 0.03)),
        Curve(rng.uniform(0.6, 1.5), rng.uniform(0.001, 0.006)),
    )


def random_ladder(rng: np.random.Generator, count: int, lost: int = 0) -> tuple[Curve, ...]:
    """Return ``count`` curves in random order, each the fastest somewhere from batch 1 to 1,024.

    Only ``lost`` of them are nowhere: a third to twice slower than the fastest everywhere. Neighbouring bands meet at
    batches drawn evenly in log2 from 4 to 512, at least 1.4 octaves apart.
    """
    leaders = count - lost
    curves = [Curve(rng.uniform(0.2, 0.5), rng.uniform(0.06, 0.12))]
    gap = 1.4
    room = np.sort(rng.uniform(0, 7.0 - gap * (leaders - 2), leaders - 1)) if leaders > 1 else ()
    for place, free in enumerate(room):
        meet, last = 2.0 ** (2.0 + free + gap * place), curves[-1]
        # the next one has a smaller slope, and the floor that makes both equal at ``meet``
        slope_ms = last.slope_ms * rng.uniform(0.4, 0.6)
        floor_ms = math.sqrt(last.step_ms(meet) ** 2 - (slope_ms * meet) ** 2)
        curves.append(Curve(floor_ms, slope_ms))
    best = tuple(curves)
    for _ in range(lost):
        like, slower = best[rng.integers(leaders)], rng.uniform(1.33, 2.0)
        curves.append(Curve(slower * like.floor_ms, slower * like.slope_ms))
    return tuple(curves[i] for i in rng.permutation(count))


def true_bands(curves: Sequence[Curve], low: float, high: float) -> tuple[Band, ...]:
    """Return which noiseless curve is the lowest from ``low`` to ``high``, as bands of one target each."""
    grid = np.geomspace(low, high, 20_001)
    lowest = np.argmin([[curve.step_ms(batch) for batch in grid] for curve in curves], axis=0)
    changes = np.flatnonzero(np.diff(lowest))
    edges = [low, *(float(math.sqrt(grid[i] * grid[i + 1])) for i in changes), high]
    places = [0, *(i + 1 for i in changes)]
    return tuple(
        Band(begin, end, (int(lowest[place]),)) for (begin, end), place in zip(pairwise(edges), places, strict=True)
    )


MAX_TARGETS = 8  # worker processes side by side


@dataclass(frozen=True)
class Fault:
    """A planted failure of one target from a batch on, in the block or when prepared."""

    target: int
    batch: int
    outcome: Outcome
    in_block: bool = False
    lost: bool = False
    times: int = 10**9


CPU_BLOCK_MS, GPU_BLOCK_MS = 4.0, 20.0  # block duration if the request gives none
LAUNCHED: list[Any] = []
"""The machines whose workers were started in this test."""


@dataclass
class Machine:
    """Simulated targets, one per curve, sharing a virtual clock.

    ``start_faults`` are the starts, counted from 1, that fail. Keras's own loop adds ``loop_ms`` to each step of a
    target and costs ``call_ms`` per call.
    """

    curves: tuple[Curve, ...]
    noise: NoiseModel = QUIET
    seed: int = 0
    startup_s: float = 5.0
    prepare_s: float = 0.5
    faults: tuple[Fault, ...] = ()
    start_faults: dict[int, Outcome] = field(default_factory=dict)
    law: Callable[[Prepare, Target], float] | None = None
    loop_ms: tuple[float, float] = (0.05, 0.2)
    call_ms: float = 8.0
    clock: VirtualClock = field(default_factory=VirtualClock)
    starts: int = 0
    open_workers: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.common = Drift(self.rng, self.noise.common_drift, self.noise.drift_s)
        self.own = [
            Drift(self.rng, self.noise.own_drift, self.noise.drift_s)
            for _ in range(MAX_TARGETS if self.law else len(self.curves))
        ]
        self.cores = Cores(self.noise.cores, self.seed) if self.noise.cores else None
        self.awake: tuple[Target, float] | None = None  # the target that ran last, and until when
        self.processes = 0
        self._fired: dict[Fault, int] = {}
        self._known: tuple[Target, ...] = ()

    def launch(self, targets: tuple[Target, ...], deadline_s: float, *_: object) -> tuple[SimulatedWorker, ...]:
        assert deadline_s > 0
        self.starts += 1
        if (outcome := self.start_faults.get(self.starts)) is not None:
            self.clock.advance(deadline_s if outcome == "hung" else self.startup_s)
            raise WorkerLost(outcome, f"Planted fault: {outcome} while starting.")
        self.clock.advance(self.startup_s)
        self.open_workers += len(targets)
        LAUNCHED.append(self)
        self._known = self._known or targets  # a later start may be of some of them
        places = [self._known.index(t) if t in self._known else place for place, t in enumerate(targets)]
        if len(set(targets)) < len(targets):  # checkouts on the same target
            places = list(range(len(targets)))
        return tuple(SimulatedWorker(self, place, target) for place, target in zip(places, targets, strict=True))

    def interference(self) -> SimulatedInterference | None:
        """Return the sampler of the machine's neighbours for ``StudyTools.interference``; None without cores."""
        return None if self.cores is None else SimulatedInterference(self.cores, self.clock.now_s, self.seed)

    def fault(self, target: int, batch: int, in_block: bool) -> None:
        """Raise the planted fault for this cell, if one is left."""
        for fault in self.faults:
            if fault.target == target and batch >= fault.batch and fault.in_block == in_block:
                fired = self._fired.get(fault, 0)
                if fired < fault.times:
                    self._fired[fault] = fired + 1
                    kind = WorkerLost if fault.lost else CellFailed
                    raise kind(fault.outcome, f"Planted fault: {fault.outcome} at batch {batch}.")

    def step_ms(self, index: int, target: Target, request: Prepare) -> float:
        """Return the true step time of a cell: the target's curve, or ``law`` of the cell and its target."""
        if self.law is not None:
            return self.law(request, request.variant or target)
        return self.curves[index].step_ms(request.batch)

    def true_crossover(self, low: float, high: float, first: int = 0, second: int = 1) -> float | None:
        """Return the batch between low and high at which two noiseless curves are equal, by bisection."""
        before, after = self.curves[first], self.curves[second]

        def difference(batch: float) -> float:
            return math.log(before.step_ms(batch) / after.step_ms(batch))

        if difference(low) * difference(high) > 0:
            return None
        for _ in range(100):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if difference(low) * difference(middle) <= 0 else (middle, high)
        return math.sqrt(low * high)


@dataclass(frozen=True)
class VisitClock:
    """The machine's clock from the begin of a visit on."""

    clock: VirtualClock
    begin_s: float

    def now_s(self) -> float:
        return self.clock.now_s() - self.begin_s

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds + 1e-9)  # beyond rounding


class SimulatedWorker:
    def __init__(self, machine: Machine, target: int, runs_on: Target) -> None:
        self._machine, self._target, self._runs_on = machine, target, runs_on
        self.offset = machine.rng.normal(0, machine.noise.process) if machine.noise.process else 0.0
        machine.processes += 1
        self._process = machine.processes
        self._of_batch: dict[int, float] = {}
        self._cells: dict[tuple[int, int], tuple[float, float]] = {}
        self._exchange_ms: dict[tuple[int, int], float | None] = {}
        self._open = True
        self.ready = Ready(
            pid=1000 + target, startup_ms=1000 * machine.startup_s, device=str(runs_on), start=machine.noise.start
        )

    def ask(self, request: Request[R], deadline_s: float) -> R:
        begin_s = self._machine.clock.now_s()
        try:
            reply: R = getattr(self, cast(Any, request).kind)(request, deadline_s)
        except WorkerLost as error:
            if error.outcome == "hung":
                self._machine.clock.time_s = begin_s + deadline_s
            raise
        return reply

    def prepare(self, request: Prepare, deadline_s: float) -> Prepared:
        assert self._open
        assert deadline_s > 0
        machine = self._machine
        machine.clock.advance(machine.prepare_s)
        machine.fault(self._target, request.batch, in_block=False)
        if machine.noise.cores is None or request.batch not in self._of_batch:
            self._of_batch[request.batch] = machine.rng.normal(0, machine.noise.cell) if machine.noise.cell else 0.0
        offset = self._of_batch[request.batch] + machine.noise.prepared(machine.rng)
        step_ms = machine.step_ms(self._target, self._runs_on, request)
        self._cells[request.batch, request.slot] = offset, step_ms
        exchange_ms = None
        if isinstance(machine.law, Mirrored) and self._runs_on.replicas > 1 and request.workload.training:
            exchange_ms = machine.law.exchange(request.workload, self._runs_on)
        self._exchange_ms[request.batch, request.slot] = exchange_ms
        runs_as = expected(request.workload.network, request.variant or self._runs_on)
        block_ms = request.block_ms or (CPU_BLOCK_MS if self._runs_on.on_cpu else GPU_BLOCK_MS)
        return Prepared(
            batch=request.batch, slot=request.slot, build_ms=20.0, first_call_ms=300.0,
            warmup_steps=40, warmup_ms=40 * step_ms, warmup_steady=True, latency_ms=(1.1 * step_ms,) * 3,
            steps_per_block=request.steps_per_block or max(1, math.ceil(block_ms / step_ms)),
            execution=runs_as.execution, execution_why=runs_as.why,
        )  # fmt: skip

    def block(self, request: RunBlock, deadline_s: float) -> BlockDone:
        assert self._open
        batch, steps, slot = request.batch, request.steps, request.slot
        machine, noise = self._machine, self._machine.noise
        machine.fault(self._target, batch, in_block=True)
        now_s = machine.clock.now_s()
        offset, true_ms = self._cells[batch, slot]
        log = machine.common.at(now_s) + machine.own[self._target].at(now_s) + self.offset + offset
        log += noise.tail * float(machine.rng.standard_t(3))
        if noise.stall_share and machine.rng.random() < noise.stall_share:
            log += math.log1p(machine.rng.random() * (noise.stall_factor - 1))
        wake_ms, wait_s = self._wake(request, true_ms), 0.0
        log += self._asleep(wake_ms, steps * true_ms)
        if machine.cores is not None:
            self._lead_in(true_ms)
            at_s = machine.clock.now_s()
            slowness, wait_s = machine.cores.block(self._process, self._runs_on, at_s, steps, true_ms / 1000)
            log += slowness
        running_ms = true_ms * math.exp(log)
        step_ms = running_ms + 1000 * wait_s / steps
        cpu_ms = steps * running_ms * machine.cores.threads(self._runs_on) if machine.cores else None
        if step_ms * steps / 1000 > deadline_s:
            raise WorkerLost("hung", f"No answer within {deadline_s:.0f} s.")
        machine.clock.advance(step_ms * steps / 1000 + 0.001)
        machine.awake = self._runs_on, machine.clock.now_s()
        return BlockDone(batch=batch, steps=steps, block_ms=step_ms * steps, slot=slot, wake_ms=wake_ms, cpu_ms=cpu_ms)

    def _wake(self, request: RunBlock, step_ms: float) -> float | None:
        """Run untimed steps until idle cores are awake, if asked to; return the ms that took."""
        if not request.wake_cores or step_ms >= MAX_WAKING_MS:
            return None
        wake_ms = step_ms * math.ceil(CORES_AWAKE_MS / step_ms)
        self._machine.clock.advance(wake_ms / 1000)
        return wake_ms

    def _asleep(self, wake_ms: float | None, block_ms: float) -> float:
        """Return the logarithm of how much longer the block is because its cores are still waking."""
        asleep, now_s = self._machine.noise.asleep, self._machine.clock.now_s()
        if not asleep or wake_ms is not None or self._runs_on.cores == 1:
            return 0.0
        last = self._machine.awake
        if last is not None and self._runs_on.cores <= last[0].cores and now_s - last[1] < IDLE_S:
            return 0.0
        return math.log1p(asleep * min(1.0, CORES_AWAKE_MS / block_ms))

    def _lead_in(self, step_ms: float) -> None:
        """Run one untimed step."""
        if step_ms < MAX_LEAD_IN_MS and self._runs_on.on_cpu:
            self._machine.clock.advance(step_ms / 1000)

    def trace(self, request: TraceSteps, deadline_s: float) -> Traced:
        """Return steps of known parts: launch is the part that does not grow with the batch, the rest is compute."""
        assert self._open
        machine, batch, steps = self._machine, request.batch, request.steps
        machine.fault(self._target, batch, in_block=True)
        _, step_ms = self._cells[batch, 0]
        machine.clock.advance(deadline_s * 0.001 + 1.1 * step_ms * steps / 1000)
        law = machine.law
        curve = law.curve if isinstance(law, Mirrored) else machine.curves[self._target]
        launch_ms = 1.1 * min(step_ms, curve.floor_ms)
        exchange_ms = self._exchange_ms[batch, 0]
        parts = StepParts(step_ms=1.1 * step_ms, compute_ms=1.1 * step_ms - launch_ms, launch_ms=launch_ms)
        device = DeviceTrace(
            device="simulated", steps=(parts,) * steps, kernels=3 * steps, busy_ms=parts.compute_ms * steps,
            span_ms=parts.step_ms * steps, steps_from="host steps",
            all_reduces_ms=() if exchange_ms is None else (1.1 * exchange_ms,) * steps,
        )  # fmt: skip
        return Traced(batch=batch, device=device, profiled_step_ms=parts.step_ms, unprofiled_step_ms=step_ms)

    def loop(self, request: TimeLoop, deadline_s: float) -> LoopTimed:
        """Time Keras's own loop beside blocks, each with the noise of a block."""
        assert self._open
        assert deadline_s > 0
        machine, batch = self._machine, request.batch
        machine.fault(self._target, batch, in_block=True)
        offset, true_ms = self._cells[batch, request.slot]
        with_loop_ms = true_ms + machine.loop_ms[self._target % 2]
        a_step_ms = 4 * with_loop_ms + (STEPS_A_PAIR - 4) * true_ms
        steps = max(1, int((request.limit_ms / LOOP_PAIRS - 2 * machine.call_ms) / a_step_ms))
        took_ms = [
            [ms * math.exp(self.offset + offset + machine.noise.tail * float(machine.rng.standard_t(3)))
             for ms in (machine.call_ms + steps * with_loop_ms, machine.call_ms + 3 * steps * with_loop_ms,
                        2 * steps * true_ms, steps * true_ms)]
            for _ in range(LOOP_PAIRS)
        ]  # fmt: skip
        machine.clock.advance(sum(map(sum, took_ms)) / 1000)
        pairs = tuple(LoopPair(short_ms=short, long_ms=long, own_ms=own) for short, long, own, _ in took_ms)
        return LoopTimed(batch=batch, slot=request.slot, steps=steps, pairs=pairs)

    def serve(self, request: Serve, _: float) -> Served:
        """Serve with the real batcher on the virtual clock, each batch with the noise of a block."""
        machine = self._machine
        machine.fault(self._target, request.max_batch, in_block=True)
        begin_s = machine.clock.now_s()

        def run(size: int) -> None:
            offset, step_ms = self._cells[request.sizes[bisect_left(request.sizes, size)], 0]
            log = self.offset + offset + machine.noise.tail * float(machine.rng.standard_t(3))
            machine.clock.advance(step_ms * math.exp(log) / 1000)

        return serve(request, [run], VisitClock(machine.clock, begin_s))

    def release(self, request: Release, _: float) -> Released:
        self._cells.pop((request.batch, request.slot), None)
        return Released(batch=request.batch, slot=request.slot)

    def cpu_time_s(self) -> float:
        return 0.0

    def close(self) -> None:
        if self._open:
            self._machine.open_workers -= 1
        self._open = False
