"""Jobs."""

from core.workload.spec import Target
from simulated.jobs import made_job, plan
from simulated.kinds import GPU, STILL, Case, Scenario
from simulated.simulation import Curve, Machine, NoiseModel

CURVES = (Curve(0.3, 0.02), Curve(0.2, 0.005))
TARGETS = (Target(), Target(execution="xla"))


def _scenario() -> Scenario:
    machine = Machine(CURVES, STILL, startup_s=2.0, prepare_s=0.3)
    return Scenario(kind="job", machine=machine, plan=plan(targets=TARGETS), budget_s=40.0, size=2)


CASE = Case(
    study=made_job,
    on_gpu=lambda: plan(targets=(GPU,)),
    machine=lambda seed: Machine(CURVES, NoiseModel(), seed=seed, startup_s=2.0),
    plan=lambda: plan(targets=TARGETS),
    scenario=_scenario,
)
