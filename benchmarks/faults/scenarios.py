"""A study of every kind on a simulated machine without noise, so that every number it may report is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.studies.diagnosis.run import DiagnosisPlan
from core.studies.host.run import HostPlan
from core.studies.memory.record import MemoryPlan
from core.studies.memory.run import MemorySearch, run_memory_study
from core.studies.noise.record import NoisePlan
from core.studies.registry import kinds
from core.studies.runner import StudyTools
from core.workload.spec import Target, Workload
from simulated import causes, frontiers, hosts, noises, pipelines, resolutions, scalings, sweeps
from simulated.memories import GB, MemoryMachine, linear
from simulated.simulation import Curve, Machine, NoiseModel

STILL = NoiseModel(0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 1.0)
ANY = (Curve(1.0, 0.01), Curve(1.0, 0.01))  # unused if a law gives the step time


@dataclass(frozen=True)
class Scenario:
    """A study to disturb. ``machine`` and ``plan`` are fresh; ``size`` is the maximum of numbers per round."""

    kind: str
    machine: Any
    plan: Any
    budget_s: float
    size: int

    def measure(self, tools: StudyTools) -> Any:
        if self.kind == "memory":
            return run_memory_study(tools, self.plan, self.machine.available_bytes)
        return kinds()[self.kind].run(tools, self.plan)


def _sweep() -> Scenario:
    plan = sweeps.plan("1,4,16,64,256", budget_s=40.0)
    machine = Machine((Curve(0.3, 0.02), Curve(0.9, 0.003)), STILL, startup_s=2.0, prepare_s=0.3)
    return Scenario("sweep", machine, sweeps.new_run(plan), 40.0, 2)


def _pipeline() -> Scenario:
    plan = pipelines.make_study().model_copy(update={"budget_s": 40.0})
    law = {arm.pipeline.model_dump_json(): pipelines.true_step_ms(arm) for arm in plan.arms}
    machine = Machine(ANY, STILL, startup_s=2.0, prepare_s=0.3, law=lambda r, _: law[r.pipeline.model_dump_json()])
    return Scenario("pipeline", machine, plan, 40.0, len(plan.arms))


@cache
def _case() -> causes.Case:
    return causes.make_case("precision", 3)


def _diagnosis() -> Scenario:
    case = _case()
    machine = Machine(ANY, STILL, startup_s=2.0, prepare_s=0.3, law=case.law)
    return Scenario("diagnosis", machine, DiagnosisPlan(case.run, 1, causes.BATCH, 60.0), 60.0, 16)


def _frontier() -> Scenario:
    truth = frontiers.random_truth(1)
    machine = frontiers.machine(truth, noise=STILL, startup_s=2.0, prepare_s=0.3)
    return Scenario("frontier", machine, frontiers.make_plan(**frontiers.SMALL | {"budget_s": 30.0}), 30.0, 2)


def _memory() -> Scenario:
    plan = MemoryPlan(workload=Workload(network="784-512-512-10"), target=Target(), limit_bytes=2 * GB, budget_s=90.0)
    return Scenario("memory", MemoryMachine(linear(400e6, 1.7e6)), MemorySearch(plan), 90.0, 1)


def _noise() -> Scenario:
    return Scenario("noise", noises.SimulatedTrainer(), NoisePlan(workload=noises.WORKLOAD, budget_s=30.0), 30.0, 8)


def _host() -> Scenario:
    return Scenario("host", hosts.host_machine(STILL), HostPlan(), 15.0, len(hosts.host_cells()))


def _scaling() -> Scenario:
    plan = scalings.scaling_plan(batches=(32, 128, 512), budget_s=40.0)
    return Scenario("scaling", scalings.scaling_machine(noise=STILL), plan, 40.0, 2)


def _resolution() -> Scenario:
    machine = Machine((resolutions.CURVE,) * 2, STILL, startup_s=2.0, prepare_s=0.3)
    return Scenario("resolution", machine, resolutions.plan(budget_s=40.0), 40.0, 2)


MAKE: dict[str, Callable[[], Scenario]] = {
    "sweep": _sweep, "pipeline": _pipeline, "diagnosis": _diagnosis, "frontier": _frontier, "memory": _memory,
    "noise": _noise, "host": _host, "scaling": _scaling, "resolution": _resolution,
}  # fmt: skip
"""Scenarios by kind of study; tests/test_benchmarks.py checks that a new kind has one."""

MEASURED = {"rounds": "step_ms", "draws": "small_norm2", "probes": "peak_bytes"}


def numbers_of(record: Any) -> list[float]:
    """Return the workers' measurements as a record of any kind stores them."""
    return list(_numbers(record.model_dump(mode="json"), ""))


def _numbers(value: Any, key: str) -> Iterator[float]:
    if isinstance(value, dict):
        number = value.get(key)
        if isinstance(number, int | float) and math.isfinite(number):
            yield number
        for name, part in value.items():
            yield from _numbers(part, MEASURED.get(name, "" if name in ("traces", "setups") else key))
    elif isinstance(value, list):
        for part in value:
            yield from _numbers(part, key)
