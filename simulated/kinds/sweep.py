"""Sweeps."""

from core.studies.sweep.kind import new_run
from simulated import sweeps
from simulated.kinds import RUN, STILL, Case, Scenario
from simulated.runs import make_run
from simulated.simulation import Curve, Machine, NoiseModel

CURVES = (Curve(0.3, 0.02), Curve(1.0, 0.003))


def _scenario() -> Scenario:
    plan = sweeps.plan("1,4,16,64,256", budget_s=40.0)
    machine = Machine((Curve(0.3, 0.02), Curve(0.9, 0.003)), STILL, startup_s=2.0, prepare_s=0.3)
    return Scenario(kind="sweep", machine=machine, plan=sweeps.new_run(plan), budget_s=40.0, size=2)


CASE = Case(
    study=lambda: RUN,
    small=lambda: make_run(batches=(1, 8, 64, 256), with_failures=True),
    on_gpu=lambda: new_run(sweeps.plan()),
    machine=lambda seed: Machine(CURVES, NoiseModel(), seed=seed, startup_s=2.0),
    plan=lambda: sweeps.new_run(sweeps.plan(batches="1:64", budget_s=40.0)),
    scenario=_scenario,
    command="sweep --targets cpu,threads=1 cpu,threads=2 --batches 1:64 --budget 60",
)
