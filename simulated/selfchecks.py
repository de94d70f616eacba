"""A device with known truth for self-checks, with one planted fault at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from core.base.evidence import CardUse, ClockReason, Interference, ProcessUse
from core.studies.selfcheck.record import CardFacts, SelfCheck
from core.studies.selfcheck.run import SLOTS, SelfCheckPlan, run_self_check
from core.traces.record import PARTS, DeviceTrace, StepParts
from core.worker.protocol import (
    CellFailed,
    Examine,
    Examined,
    Prepare,
    Prepared,
    R,
    Ready,
    Request,
    Traced,
    TraceSteps,
    WorkerLost,
)
from core.workload.spec import Target
from simulated.hosts import host_machine
from simulated.simulation import Curve, Machine, NoiseModel, VirtualClock
from simulated.tools import tools_for

REFUSAL = "core.studies.selfcheck.run.refuse_unusable"
GPU, CPU = Target(device="gpu:0"), Target()
CARD = "NVIDIA H100 80GB HBM3"
STEP_MS, SYNC_MS = 10.0, 0.05
KNOWN_BYTES = 128 * 2**20
FAULTS = {
    "no such device": "worker",
    "crash": "worker",
    "misplaced": "placement",
    "slow loop": "loop",
    "dear synchronisation": "one_sync",
    "sync does not wait": "sync_waits",
    "sync leaves work": "sync_waits",
    "parts do not sum": "parts_sum",
    "steps not of the clock": "parts_sum",
    "kernels elsewhere": "kernels",
    "trace of the CPU": "kernels",
    "trace of another GPU": "kernels",
    "no kernels": "kernels",
    "union too long": "union",
    "union not compute": "union",
    "heavy profiler": "profiler",
    "resident copies": "resident_copies",
    "host copies missing": "host_copies",
    "host copies twice": "host_copies",
    "busy neighbour": "interference",
    "stolen time": "interference",
    "shared GPU": "interference",
    "coarse clock": "clock",
    "hot GPU": "card_clock",
    "no rise": "memory",
    "double rise": "memory",
    "other kernels": "compiled",
    "faster than the card": "compiled",
    "not compiled": "xla",
    "compiled in pieces": "xla",
    "no cuDNN": "cudnn",
    "unequal workers": "equal",
}
"""Planted faults, and the only check that each may make fail."""


@dataclass
class Device:
    """Answers as a real worker on a good device does, except for ``fault``. Each request takes ``request_s``."""

    target: Target = GPU
    fault: str = ""
    noise: float = 0.01
    seed: int = 0
    startup_s: float = 5.0
    request_s: float = 1.0
    hangs: str = ""
    clock: VirtualClock = field(default_factory=VirtualClock)
    asked: list[str] = field(default_factory=list)
    open_workers: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.hosts: Machine = host_machine(clock=self.clock)
        slower = 1.5 if self.fault == "unequal workers" else 1.0
        self.pair = Machine((Curve(5.0, 0.02), Curve(5.0 * slower, 0.02 * slower)), NoiseModel(), clock=self.clock)
        self.bytes: int | None = None if not self.target.is_gpu else 0

    def launch(self, targets: tuple[Target, ...], deadline_s: float, *rest: Any) -> tuple[Any, ...]:
        if targets != (self.target,):
            return (self.pair if len(targets) == 2 else self.hosts).launch(targets, deadline_s, *rest)
        if self.fault == "no such device":
            raise CellFailed("error", "There is no gpu:0: TensorFlow found no GPU, only the CPU.")
        self.clock.advance(self.startup_s)
        self.open_workers += 1
        return (CheckedWorker(self),)

    def times(self, ms: float, count: int = 31) -> tuple[float, ...]:
        return tuple((ms * np.exp(self.rng.normal(0, self.noise, count))).tolist())

    def check(self, **changes: Any) -> SelfCheck:
        usual: dict[str, Any] = {"interference": Neighbours(self.fault), "meter": Watched(self.fault)}
        tools = tools_for(self, **usual | changes)
        with patch(REFUSAL, lambda _: ()):  # the real one would inspect this machine's own cards
            record = run_self_check(tools, SelfCheckPlan(self.target))
        cards = (CardFacts(name=CARD),) if self.target.is_gpu else ()
        return record.model_copy(update={"machine": record.machine.model_copy(update={"gpus": cards})})


@dataclass
class Neighbours:
    """Activity of other programs; their names must not appear in the record."""

    fault: str = ""

    def watch(self, targets: object) -> None:
        pass

    def reset(self, *_: object) -> None: ...

    def sample(self, *_: object) -> Interference:
        return Interference(
            other_cpu_pct=140.0 if self.fault == "busy neighbour" else 3.0,
            busiest=(ProcessUse(name="secret-project", cpu_pct=3.0),),
            steal_pct=30.0 if self.fault == "stolen time" else 0.0,
            cpu_mhz=2400.0,
            gpu_shared_by=("secret-project",) if self.fault == "shared GPU" else (),
        )

    def close(self) -> None:
        pass


@dataclass
class Watched:
    """The GPU's state: at work, capped by its power as usual."""

    fault: str = ""

    def begin(self, device: str) -> None:
        assert device == "gpu:0"

    def end(self) -> CardUse:
        hot: dict[ClockReason, int] = {"hw_thermal": 4} if self.fault == "hot GPU" else {}
        return CardUse(
            length_s=1.0, samples=10, busy=10, sm_mhz=(1410.0, 1200.0, 1500.0), reasons={"power_cap": 9, **hot}
        )

    def close(self) -> None:
        pass


class CheckedWorker:
    def __init__(self, device: Device) -> None:
        self._device, self._fault = device, device.fault
        self._batch_bytes = 0
        self._open = True
        self.ready = Ready(pid=7, startup_ms=5000.0, device="GPU:0", versions={"tensorflow": "2.21.0"})

    def ask(self, request: Request[R], deadline_s: float) -> R:
        assert self._open
        assert deadline_s > 0
        device = self._device
        name = request.look if isinstance(request, Examine) else request.kind  # type: ignore[attr-defined]
        device.asked.append(name)
        if device.hangs == name or device.request_s > deadline_s:
            device.clock.advance(deadline_s)
            raise WorkerLost("hung", "The worker hung.")
        device.clock.advance(device.request_s)
        if self._fault == "crash" and name == "memory":
            raise WorkerLost("crashed", "The worker for gpu:0 was ended by SIGSEGV while checking memory.")
        reply: R = getattr(self, f"_{request.kind}")(request)  # type: ignore[attr-defined]
        return reply

    def _prepare(self, request: Prepare) -> Prepared:
        if self._fault == "misplaced" and request.slot == SLOTS["cell"]:
            raise CellFailed("misplaced", "MatMul ran on another device than GPU:0.")
        where = "GPU:0" if self._device.target.is_gpu else "CPU:0"
        placement = [f"{where} (154 operations)"]
        if request.slot == SLOTS["recurrent"]:
            ran = "no kernel of cuDNN, but Keras's own loop" if self._fault == "no cuDNN" else "2 CudnnRNNV3"
            placement.append(f"{where} (1 recurrent layer ran by {ran})")
        if request.slot in (SLOTS["cell"], SLOTS["host"]):
            self._batch_bytes = request.batch * (4 * request.workload.network.input_shape[0] + 8)
        return Prepared(
            batch=request.batch, slot=request.slot, build_ms=20.0, first_call_ms=300.0, warmup_steps=40,
            warmup_ms=400.0, warmup_steady=True, latency_ms=(STEP_MS,) * 9, steps_per_block=3,
            placement=tuple(placement),
        )  # fmt: skip

    def _trace(self, request: TraceSteps) -> Traced:
        fault, steps = self._fault, request.steps
        if fault == "trace of another GPU":
            said = "Kernels of the step ran on GPU:1, but it was to be traced on GPU:0."
            raise CellFailed("error", f"The profiler's trace cannot be used: {said}")
        profiled = STEP_MS * (2.0 if fault == "heavy profiler" else 1.05)
        (unprofiled,) = self._device.times(STEP_MS, 1)
        parts = {"compute_ms": 0.7 * profiled, "launch_ms": 0.3 * profiled}
        summed = StepParts(step_ms=profiled, **parts)
        if fault == "parts do not sum":
            wrong: dict[str, Any] = dict.fromkeys((f"{p}_ms" for p in PARTS), 0.0)
            wrong |= parts | {"step_ms": profiled, "launch_ms": 0.2 * profiled}
            summed = StepParts.model_construct(**wrong)
        gpu = self._device.target.is_gpu
        device = {"kernels elsewhere": "GPU:1", "trace of the CPU": "CPU"}.get(fault, "GPU:0" if gpu else "CPU")
        busy = {"union too long": 1.2, "union not compute": 0.5}.get(fault, 0.7) * profiled * steps
        resident = request.slot == SLOTS["cell"]
        times = (
            (fault == "resident copies")
            if resident
            else {"host copies missing": 0, "host copies twice": 2}.get(fault, 1)
        )
        trace = DeviceTrace.model_construct(
            device=device, steps=(summed,) * steps, kernels=0 if fault == "no kernels" else 40 * steps, busy_ms=busy,
            span_ms=profiled * steps, steps_from="host steps", top=(), timeline=(),
            h2d_bytes=steps * (times * self._batch_bytes + 100) if gpu else None,
        )  # fmt: skip
        if request.slot == SLOTS["clusters"]:
            trace = self._compiled(trace)
        clock = 3.0 if fault == "steps not of the clock" else 1.0
        return Traced.model_construct(
            batch=request.batch, slot=request.slot, device=trace, profiled_step_ms=clock * profiled,
            unprofiled_step_ms=clock * unprofiled,
        )  # fmt: skip

    def _compiled(self, trace: DeviceTrace) -> DeviceTrace:
        """Return the trace of the step as XLA compiled it."""
        share = 0.01 if self._fault == "faster than the card" else 1.0
        steps = tuple(
            step.model_copy(update={"compute_ms": share * step.compute_ms, "other_ms": (1 - share) * step.compute_ms})
            for step in trace.steps
        )
        kernels = (120 if self._fault == "other kernels" else 30) * len(steps)
        return trace.model_copy(update={"steps": steps, "kernels": kernels})

    def _examine(self, request: Examine) -> Examined:
        ms: dict[str, tuple[float, ...]] = {}
        counts: dict[str, int] = {}
        fault, times = self._fault, self._device.times
        if request.look == "loops":
            slow = 1.4 if fault == "slow loop" else 1.0
            synced = 4.0 * STEP_MS if fault == "dear synchronisation" else STEP_MS + SYNC_MS
            ms = {"block": times(slow * STEP_MS), "bare": times(STEP_MS), "synced": times(slow * synced),
                  "sync": (SYNC_MS,), "clock": (5.0 if fault == "coarse clock" else 1e-4,)}  # fmt: skip
        elif request.look == "factor":
            long_ms = 0.1 if fault == "sync does not wait" else 40.0
            left = 20.0 if fault == "sync leaves work" else 0.05
            ms = {"short": times(min(10.0, long_ms), 9), "long": times(long_ms, 9), "left": times(left, 9)}
            counts = {"factor": 4, "size": 1024}
        elif request.look == "memory":
            rise = {"no rise": 0, "double rise": 2 * KNOWN_BYTES}.get(fault, KNOWN_BYTES + 4096)
            counts = {"known_bytes": KNOWN_BYTES, "rise_bytes": rise}
        else:
            pieces = {"not compiled": 0, "compiled in pieces": 2}.get(fault, 1)
            operations = 600 if fault == "not compiled" else 0
            counts = {"clusters": pieces * request.steps, "operations": operations, "steps": request.steps}
        return Examined(look=request.look, ms=ms, counts=counts)

    def cpu_time_s(self) -> float:
        return 0.0

    def close(self) -> None:
        self._device.open_workers -= self._open
        self._open = False
