"""Simulated memory with known truth: a machine whose workers end when a batch needs more than their limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from core.base.evidence import Outcome
from core.machine.cgroup import Killed
from core.studies.memory.record import MemoryPlan, MemoryStudy, Probe
from core.studies.memory.run import MemorySearch, run_memory_study
from core.worker.protocol import CellFailed, Prepare, Prepared, Ready, WorkerLost
from core.workload.spec import Target, Workload
from simulated.runs import make_environment
from simulated.simulation import LAUNCHED, SimulatedWorker, VirtualClock
from simulated.tools import tools_for

BASELINE = 650_000_000
GB = 1_000_000_000
Truth = Callable[[Workload, int], float]


def linear(fixed_bytes: float, sample_bytes: float) -> Truth:
    """Return memory above the framework's own that grows with the batch."""
    return lambda _, batch: fixed_bytes + sample_bytes * batch


def in_steps(truth: Truth, step_bytes: int) -> Truth:
    """Round memory up, as an allocator that takes whole regions from the system."""
    return lambda workload, batch: step_bytes * -(-truth(workload, batch) // step_bytes)


@dataclass
class MemoryMachine:
    """Workers under a limit. ``noise`` is the relative spread of a process's peak.

    ``faults`` are other outcomes and kills from a batch on. ``tried`` are the batches in order; ``most_bytes`` is the
    maximum that any worker ever held.
    """

    truth: Truth
    noise: float = 0.0
    seed: int = 0
    startup_s: float = 4.0
    sample_s: float = 1e-4
    free_bytes: int = 64 * GB
    faults: dict[int, Outcome | Killed] = field(default_factory=dict)
    lost: bool = True
    clock: VirtualClock = field(default_factory=VirtualClock)
    tried: list[int] = field(default_factory=list)
    most_bytes: float = 0.0
    open_workers: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def launch(
        self, targets: tuple[Target, ...], deadline_s: float, *_: object, limit_bytes: int | None = None
    ) -> tuple[MemoryWorker, ...]:
        assert deadline_s > 0
        assert limit_bytes is not None
        self.clock.advance(self.startup_s)
        if limit_bytes < BASELINE:
            raise WorkerLost("out_of_memory", "The worker ran out of memory while starting.")
        self.open_workers += 1
        LAUNCHED.append(self)
        return (MemoryWorker(self, targets[0], limit_bytes),)

    def available_bytes(self) -> int:
        return self.free_bytes

    def study(
        self, plan: MemoryPlan, earlier: tuple[MemoryStudy, ...] = (), cancel: threading.Event | None = None
    ) -> MemoryStudy:
        return run_memory_study(tools_for(self, cancel=cancel), MemorySearch(plan, earlier), self.available_bytes)

    def largest(self, workload: Workload, limit_bytes: int) -> int:
        """Return the true largest batch, without noise."""
        low, high = 0, 1 << 17
        while high - low > 1:
            middle = (low + high) // 2
            fits = BASELINE + self.truth(workload, middle) <= limit_bytes
            low, high = (middle, high) if fits else (low, middle)
        return low


class MemoryWorker(SimulatedWorker):
    """One worker of a :class:`MemoryMachine`; it prepares one cell and is closed."""

    def __init__(self, machine: MemoryMachine, target: Target, limit_bytes: int) -> None:
        self._machine = self.machine = machine  # type: ignore[assignment]
        self.limit_bytes, self._closed = limit_bytes, False
        self.ready = Ready(pid=1, startup_ms=1e3 * machine.startup_s, device=str(target), memory_bytes=BASELINE)

    def prepare(self, request: Prepare, deadline_s: float) -> Prepared:
        machine = self.machine
        machine.tried.append(request.batch)
        took_s = 0.2 + request.batch * machine.sample_s
        if took_s > deadline_s:
            raise WorkerLost("hung", f"No answer within {deadline_s:.0f} s.")
        machine.clock.advance(took_s)
        for batch, outcome in machine.faults.items():
            if request.batch >= batch:
                if isinstance(outcome, Killed):
                    raise WorkerLost(outcome.outcome, f"Killed: {outcome.words}.", outcome)
                raise WorkerLost(outcome, f"Planted: {outcome}.")
        spread = machine.rng.lognormal(0.0, machine.noise) if machine.noise else 1.0
        needed = BASELINE + machine.truth(request.workload, request.batch) * spread
        machine.most_bytes = max(machine.most_bytes, min(needed, self.limit_bytes))
        if needed > self.limit_bytes:
            kind = WorkerLost if machine.lost else CellFailed
            raise kind("out_of_memory", "The worker ran out of memory.")
        return Prepared(
            batch=request.batch, build_ms=20.0, first_call_ms=300.0, warmup_steps=4, warmup_ms=10.0,
            warmup_steady=True, steps_per_block=1, memory_peak_bytes=round(needed),
        )  # fmt: skip

    def close(self) -> None:
        self.machine.open_workers -= not self._closed
        self._closed = True


def make_probe(batch: int, peak_bytes: int | None, **changes: object) -> Probe:
    """Return a probe that reached ``peak_bytes``, or ran out of memory (None)."""
    made = Probe(
        batch=batch, outcome="out_of_memory" if peak_bytes is None else "measured", peak_bytes=peak_bytes,
        baseline_bytes=BASELINE, predicted_bytes=GB, predicted_low_bytes=GB // 2, predicted_high_bytes=2 * GB,
        predicted_fits=True, took_s=6.0,
    )  # fmt: skip
    return made.model_copy(update=changes)


def make_memory_study(
    truth: Truth,
    batches: tuple[int, ...] = (64, 256),
    network: str = "784-512-512-10",
    limit_bytes: int = 2 * GB,
    noise: float = 0.0,
    seed: int = 0,
    **changes: object,
) -> MemoryStudy:
    """Make a study that tried these batches of a workload with known truth, on the default simulated machine."""
    rng = np.random.default_rng(seed)
    workload = changes.pop("workload", None) or Workload.model_validate({"network": network})
    assert isinstance(workload, Workload)
    probes = []
    for batch in batches:
        peak = BASELINE + round(truth(workload, batch) * rng.lognormal(0.0, noise))
        probes.append(make_probe(batch, peak if peak <= limit_bytes else None))
    plan = MemoryPlan(workload=workload, target=Target(), limit_bytes=limit_bytes)
    made = MemoryStudy(
        plan=plan, probes=tuple(probes), created_at="2026-01-05T09:00:00+00:00", elapsed_s=30.0,
        environment=make_environment(),
    )  # fmt: skip
    return made.model_copy(update=changes)
