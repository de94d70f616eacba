"""Resolution studies."""

from core.studies.resolution.record import resolution_plan
from core.workload.spec import Workload
from simulated.kinds import GPU, STILL, Case, Scenario
from simulated.resolutions import CURVE, made_resolution, plan
from simulated.simulation import Curve, Machine, NoiseModel

CURVES = (Curve(0.3, 0.02), Curve(1.0, 0.003))


def _scenario() -> Scenario:
    machine = Machine((CURVE,) * 2, STILL, startup_s=2.0, prepare_s=0.3)
    return Scenario(kind="resolution", machine=machine, plan=plan(budget_s=40.0), budget_s=40.0, size=2)


CASE = Case(
    study=made_resolution,
    on_gpu=lambda: resolution_plan(Workload(network="784-128-10"), GPU, (1, 8), 60.0),
    machine=lambda seed: Machine(CURVES, NoiseModel(), seed=seed, startup_s=2.0),
    plan=lambda: plan(budget_s=40.0),
    scenario=_scenario,
)
