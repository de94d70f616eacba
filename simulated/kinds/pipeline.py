"""Pipeline studies."""

from typing import Any

from core.studies.pipeline.plan import PipelinePlan
from core.studies.registry import load_example
from core.workload.spec import Target, Workload
from simulated.kinds import GPU, STILL, Case, Scenario, blocks_kept, thinned
from simulated.pipelines import make_pipeline_experiment, make_study, true_step_ms
from simulated.simulation import Curve, Machine, NoiseModel

UNUSED = (Curve(1.0, 0.01), Curve(1.0, 0.01))  # the law gives the step time


def _law(request: Any, _: Target) -> float:
    return true_step_ms(next(arm for arm in make_study().arms if arm.pipeline == request.pipeline))


def _scenario() -> Scenario:
    plan = make_study().model_copy(update={"budget_s": 40.0})
    machine = Machine(UNUSED, STILL, startup_s=2.0, prepare_s=0.3, law=_law)
    return Scenario(kind="pipeline", machine=machine, plan=plan, budget_s=40.0, size=len(plan.arms))


CASE = Case(
    study=make_pipeline_experiment,
    small=lambda: thinned(load_example("pipeline")),
    on_gpu=lambda: PipelinePlan(workload=Workload(network="784-128-10"), target=GPU),
    machine=lambda seed: Machine(UNUSED, NoiseModel(), seed=seed, startup_s=2.0, law=_law),
    plan=make_study,
    kept=blocks_kept(len(make_study().arms)),
    scenario=_scenario,
    command="pipeline --preset 784-128-10 --target cpu --batch 64 --budget 60",
)
