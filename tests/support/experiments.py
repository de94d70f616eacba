"""Experiments on a simulated machine that records its requests."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.studies.experiment.record import Arm, Experiment
from core.studies.experiment.run import ExperimentPlan, measure_arms
from core.worker.protocol import Prepare, RunBlock
from core.workload.spec import Pipeline, Target, Workload
from simulated.simulation import QUIET, Curve, Machine, NoiseModel, SimulatedWorker
from simulated.tools import tools_for

WORKLOAD = Workload(network="784-128-10")
ANY = (Curve(1.0, 0.01), Curve(1.0, 0.01))  # not used: the law gives the step time
GAINS = {"as-is": 1.0, "xla": 1.5, "steps-8": 2.0, "resident": 1.1}
CPU = Target()


def arm(code: str, target: Target = CPU, batch: int = 64, **pipeline: Any) -> Arm:
    return Arm(code=code, title=f"Variant {code}", target=target, pipeline=Pipeline(**pipeline), batch=batch)


FOUR = (
    arm("as-is", kind="host"),
    arm("xla", Target(execution="xla"), kind="host"),
    arm("steps-8", Target(steps_per_execution=8), kind="host"),
    arm("resident"),
)
MIXED = (
    arm("as-is", Target(threads=2)),
    arm("threads-1", Target(threads=1)),
    arm("xla", Target(threads=2, execution="xla")),
    arm("gpu", Target(device="gpu:0")),
    arm("gpu-xla", Target(device="gpu:0", execution="xla", precision="mixed_float16")),
)


def law(request: Prepare, target: Target) -> float:
    """Return 5 ms divided by the variant's gain."""
    gain = 1.1 if request.pipeline.kind == "resident" else 1.0
    gain *= 1.5 if target.execution == "xla" else 1.0
    return 5.0 / (gain * (2.0 if target.steps_per_execution == 8 else 1.0))


@dataclass
class Watched(Machine):
    """A machine that records launched targets and each worker's requests."""

    law: Callable[[Prepare, Target], float] | None = law
    launched: list[tuple[Target, ...]] = field(default_factory=list)
    asked: list[tuple[int, Target, Prepare]] = field(default_factory=list)
    deadlines: list[float] = field(default_factory=list)

    def launch(self, targets: tuple[Target, ...], deadline_s: float, *_: object) -> tuple[SimulatedWorker, ...]:
        self.launched.append(targets)
        workers = super().launch(targets, deadline_s)
        return tuple(Noted(self, index, worker._runs_on) for index, worker in enumerate(workers))


class Noted(SimulatedWorker):
    """A worker that reports its requests to the machine."""

    _machine: Watched

    def prepare(self, request: Prepare, deadline_s: float) -> Any:
        self._machine.asked.append((self._machine.starts - 1, self._runs_on, request))
        return super().prepare(request, deadline_s)

    def block(self, request: RunBlock, deadline_s: float) -> Any:
        self._machine.deadlines.append(deadline_s)
        return super().block(request, deadline_s)


def machine(noise: NoiseModel = QUIET, **options: Any) -> Watched:
    return Watched(ANY, noise, **options)


def measure(made: Machine, arms: tuple[Arm, ...] = FOUR, budget_s: float = 60.0, **options: Any) -> Experiment:
    plan = ExperimentPlan(WORKLOAD, arms, budget_s)
    return measure_arms(tools_for(made, **options), plan)


def processes(found: Experiment) -> dict[int, int]:
    """Return the number of rounds by start of the workers."""
    return Counter(item.blocks[0].process for item in found.rounds)
