"""Resolution studies of simulated machines."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from core.studies.resolution.record import ResolutionPlan, ResolutionStudy, resolution_plan
from core.studies.resolution.run import run_resolution
from core.workload.spec import Target, Workload
from simulated.runs import make_environment
from simulated.simulation import Curve, Machine, NoiseModel
from simulated.tools import tools_for

CURVE = Curve(0.5, 0.01)


def plan(batches: Sequence[int] = (1, 32, 1024), budget_s: float = 120.0, target: str = "cpu") -> ResolutionPlan:
    return resolution_plan(Workload(network="784-512-512-10"), Target.parse(target), batches, budget_s)


def make_resolution(
    seed: int = 1, noise: NoiseModel | None = None, factor: float = 1.0, day: int = 6, **changes: Any
) -> ResolutionStudy:
    """Make a study whose second worker takes ``factor`` times as long, as only a defect would cause."""
    curves = CURVE, Curve(factor * CURVE.floor_ms, factor * CURVE.slope_ms)
    machine = Machine(curves, noise or NoiseModel(), seed=seed, startup_s=0.3, prepare_s=0.1)
    study = run_resolution(tools_for(machine), plan(**changes))
    dated = {"created_at": f"2026-01-{day:02}T09:00:00+00:00", "environment": make_environment()}
    return study.model_copy(update=dated)


@cache
def made_resolution(factor: float = 1.0) -> ResolutionStudy:
    """Return a short study, measured once per process."""
    return make_resolution(factor=factor, batches=(1, 64), budget_s=60.0)
