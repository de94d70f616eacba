"""Scaling studies on a simulated machine with known truth, and studies made by hand from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.base.evidence import Block, Process, Setup
from core.rounds.run import Cell, Round
from core.studies.scaling.record import ScalingPlan, ScalingStudy
from core.studies.scaling.run import run_scaling
from core.traces.record import DeviceTrace, StepParts, TracedCell
from core.workload.spec import Target, Workload
from simulated.runs import make_environment
from simulated.simulation import Curve, Machine, Mirrored, NoiseModel
from simulated.tools import tools_for

WORKLOAD = Workload(network="784-512-512-10")
ONE, TWO, FOUR = (Target.parse(text) for text in ("gpu:0", "gpu:0+1", "gpu:0+1+2+3"))
LOGICAL = (Target(), Target(device="cpu:2"))
BATCHES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
ONE_DEVICE = Curve(1.0, 0.004)


@dataclass(frozen=True)
class Truth:
    """True step times: ``one`` is a device's by its batch; n devices add ``together_ms``, ``all_reduce_ms`` of it."""

    one: Curve = ONE_DEVICE
    together_ms: float = 0.8
    all_reduce_ms: float = 0.6

    def step_ms(self, batch: float, replicas: int) -> float:
        return self.one.step_ms(batch / replicas) + (self.together_ms if replicas > 1 else 0.0)

    def strong(self, batch: float, replicas: int) -> float:
        return self.step_ms(batch, 1) / (replicas * self.step_ms(batch, replicas))

    def weak(self, batch: float, replicas: int) -> float:
        """Return the weak efficiency at a global batch."""
        return self.step_ms(batch / replicas, 1) / self.step_ms(batch, replicas)

    def crossover(self, replicas: int, low: float = 1.0, high: float = 1e6) -> float:
        """Return the batch from which that many devices are faster than one, by bisection; it must exist."""
        for _ in range(100):
            middle = math.sqrt(low * high)
            slower = self.step_ms(middle, replicas) > self.step_ms(middle, 1)
            low, high = (middle, high) if slower else (low, middle)
        return math.sqrt(low * high)

    def traced(self, target: int, replicas: int, batch: int, told: bool = True) -> TracedCell:
        """Return eight traced steps; if ``told``, with the all-reduce's time."""
        step_ms = self.step_ms(batch, replicas)
        parts = StepParts(step_ms=step_ms, compute_ms=0.9 * step_ms, launch_ms=step_ms - 0.9 * step_ms)
        device = DeviceTrace(
            device="GPU:0", steps=(parts,) * 8, kernels=80, busy_ms=8 * parts.compute_ms, span_ms=8 * step_ms,
            steps_from="host steps",
            all_reduces_ms=(0.99 * self.all_reduce_ms, 1.01 * self.all_reduce_ms) * 4 if told else (),
        )  # fmt: skip
        return TracedCell(
            target=target, batch=batch, device=device, profiled_step_ms=1.1 * step_ms, unprofiled_step_ms=step_ms
        )


TRUTH = Truth()


def scaling_plan(*targets: Target, **changes: Any) -> ScalingPlan:
    """Return a plan of one GPU against two, unless other ``targets`` are given."""
    usual: dict[str, Any] = {"workload": WORKLOAD, "targets": targets or (ONE, TWO), "batches": BATCHES}
    return ScalingPlan.model_validate(usual | {"budget_s": 120.0} | changes)


def scaling_machine(truth: Truth = TRUTH, noise: NoiseModel | None = None, **options: Any) -> Machine:
    """Return a machine with the true step times on one device and on several."""

    law = Mirrored(truth.one, truth.together_ms)
    return Machine((), noise or NoiseModel(), law=law, **{"startup_s": 3.0, "prepare_s": 0.3} | options)


def scaled(machine: Machine, plan: ScalingPlan | None = None, **options: Any) -> ScalingStudy:
    return run_scaling(tools_for(machine, **options), plan or scaling_plan())


def make_scaling_study(
    seed: int = 0,
    truth: Truth = TRUTH,
    targets: Sequence[Target] = (ONE, TWO),
    batches: tuple[int, ...] = BATCHES,
    processes: int = 5,
    rounds: int = 4,
    noise: float = 0.01,
    trace: Sequence[int] = (),
    plan: dict[str, Any] | None = None,
    **changes: Any,
) -> ScalingStudy:
    """Make a study with ``rounds`` of every batch per process of ``processes``.

    Each process and each block deviates by about ``noise``, and the several devices are traced at the batches
    ``trace``. Labelled recorded: nothing here was measured.
    """
    rng, chosen = random.Random(seed), scaling_plan(*targets, batches=batches, **plan or {})
    numbers = range(len(targets))
    made_rounds: list[Round] = []
    for process in range(processes):
        off = [rng.lognormvariate(0.0, noise) for _ in numbers]
        for pass_index in range(rounds // 2):
            for batch in batches:
                for _ in range(2):
                    blocks = tuple(
                        Block(
                            target=target, process=process, steps=10, at_s=float(len(made_rounds)),
                            step_ms=truth.step_ms(batch, targets[target].replicas) * off[target]
                            * rng.lognormvariate(0.0, noise),
                        )
                        for target in chosen.targets_at(batch)
                    )  # fmt: skip
                    place = {"index": len(made_rounds), "pass_index": process * rounds + pass_index, "batch": batch}
                    made_rounds.append(Round(**place, blocks=blocks))
    cells = tuple(Cell(target=t, batch=b, outcome="measured") for b in batches for t in chosen.targets_at(b))
    made = ScalingStudy(
        plan=chosen, label="recorded", created_at="2026-01-05T09:00:00+00:00", elapsed_s=118.0,
        environment=make_environment(), rounds=tuple(made_rounds), cells=cells,
        processes=tuple(
            Process(index=p, target=t, pid=1, startup_ms=3000.0, device=str(targets[t]))
            for p in range(processes) for t in numbers
        ),
        traces=tuple(truth.traced(t, targets[t].replicas, batch) for t in numbers[1:] for batch in trace),
    )  # fmt: skip
    return made.model_copy(update=changes)


def setups(*executions: str) -> tuple[Setup, ...]:
    """Return setups in which the targets ran with these executions."""
    return tuple(
        Setup(target=target, batch=BATCHES[0], process=0, build_ms=20.0, first_call_ms=300.0, warmup_steps=40,
              warmup_ms=40.0, warmup_steady=True, latency_ms=(1.0,), steps_per_block=10, execution=execution,
              execution_why="as Keras chooses by default")
        for target, execution in enumerate(executions)
    )  # fmt: skip
