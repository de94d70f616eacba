"""A run of a CPU against a GPU with energy windows, made by the supervisor on a machine of known power."""

from __future__ import annotations

from functools import cache
from typing import Any

from core.rounds.run import Run
from simulated.runs import make_environment
from simulated.simulation import Curve
from simulated.sweeps import plan, sweep
from tests.support.meters import PoweredMachine, SimulatedMeter

CURVES = (Curve(0.3, 0.02), Curve(1.0, 0.003))


def busy_pct(batch: int) -> float:
    """Return the GPU's utilisation as NVML reports it: 14 % at batch 1, 96 % at the largest, 1,024."""
    return 14.0 + 82.0 * (batch - 1) / 1023


@cache
def with_energy(label: str = "measured", budget_s: float = 240.0, **meter: Any) -> Run:
    """Return the run; ``meter`` are fields of :class:`SimulatedMeter`."""
    machine = PoweredMachine(CURVES)
    refusals = {"cpu": meter.pop("cpu_refused")} if "cpu_refused" in meter else {}
    watched = SimulatedMeter(machine, utilisation=busy_pct, refusals=refusals, **meter)
    run = sweep(machine, plan(budget_s=budget_s), meter=watched)
    return run.model_copy(update={"id": "20260105-energy", "label": label, "environment": make_environment()})
