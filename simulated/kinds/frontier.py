"""Frontier studies."""

from core.studies.frontier.record import FrontierPlan
from core.studies.registry import load_example
from core.workload.spec import Target
from simulated.frontier_studies import make_frontier_study
from simulated.frontiers import SMALL, machine, make_plan, random_truth
from simulated.kinds import GPU, STILL, Case, Scenario, blocks_kept, thinned

ON_GPU = {"family": "mlp", "depths": (1, 2), "widths": (32, 64), "batches": (1, 8), "targets": (Target(), GPU)}


def _scenario() -> Scenario:
    still = machine(random_truth(1), noise=STILL, startup_s=2.0, prepare_s=0.3)
    return Scenario(kind="frontier", machine=still, plan=make_plan(**SMALL | {"budget_s": 30.0}), budget_s=30.0, size=2)


CASE = Case(
    study=make_frontier_study,
    small=lambda: thinned(load_example("frontier")),
    on_gpu=lambda: FrontierPlan.model_validate(ON_GPU),
    machine=lambda seed: machine(random_truth(seed), seed),
    plan=lambda: make_plan(**SMALL),
    kept=blocks_kept(2),
    scenario=_scenario,
    command="frontier --depths 2,4 --widths 16:256:0.5 --batches 1:64:0.5 --targets cpu,threads=1 cpu,threads=2",
)
