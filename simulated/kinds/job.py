"""Jobs: their sweep is a run of its own, so that the campaign of faults has no scenario for them."""

from core.workload.spec import Target
from simulated.jobs import made_job, plan
from simulated.kinds import GPU, Case
from simulated.simulation import Curve, Machine, NoiseModel

CASE = Case(
    study=made_job,
    on_gpu=lambda: plan(targets=(GPU,)),
    machine=lambda seed: Machine((Curve(0.3, 0.02), Curve(0.2, 0.005)), NoiseModel(), seed=seed, startup_s=2.0),
    plan=lambda: plan(targets=(Target(), Target(execution="xla"))),
)
