"""Scaling studies."""

from simulated.kinds import GPU, STILL, Case, Scenario, blocks_kept
from simulated.scalings import TWO, make_scaling_study, scaling_machine, scaling_plan


def _scenario() -> Scenario:
    plan = scaling_plan(batches=(32, 128, 512), budget_s=40.0)
    return Scenario(kind="scaling", machine=scaling_machine(noise=STILL), plan=plan, budget_s=40.0, size=2)


CASE = Case(
    study=make_scaling_study,
    small=lambda: make_scaling_study(batches=(32, 64), processes=2, rounds=2, trace=(64,)),
    on_gpu=scaling_plan,
    gpus=(GPU, TWO),
    machine=lambda seed: scaling_machine(seed=seed),
    plan=lambda: scaling_plan(batches=(32, 128, 512), budget_s=40.0),
    kept=lambda record, answered, failed: record is None or blocks_kept(2)(record, answered, failed),
    scenario=_scenario,
    command="scaling --preset 784-128-10 --targets cpu cpu:2 --batches 8:64 --budget 60",
)
