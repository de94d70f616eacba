"""Gradient noise studies."""

from collections import Counter
from typing import Any

from core.studies.noise.record import NoisePlan
from core.workload.spec import Workload
from simulated.kinds import GPU, RUN, Case, Scenario
from simulated.noises import WORKLOAD, SimulatedTrainer, exact_noise_study, make_noise_study
from simulated.runs import make_run

LARGER = Workload(network="784-512-512-10")


def _kept(record: Any, answered: Counter[str], _: int) -> bool:
    return (0 if record is None else len(record.draws)) == 8 * answered["sample_gradients"]


CASE = Case(
    study=lambda: make_noise_study(RUN),
    small=lambda: exact_noise_study(make_run(batches=(1, 8, 64, 256), with_failures=True), 600.0),
    on_gpu=lambda: NoisePlan(workload=WORKLOAD, target=GPU),
    machine=lambda seed: SimulatedTrainer(seed=seed),
    plan=lambda: NoisePlan(workload=LARGER, budget_s=60.0),
    kept=_kept,
    scenario=lambda: Scenario(
        kind="noise",
        machine=SimulatedTrainer(),
        plan=NoisePlan(workload=WORKLOAD, budget_s=30.0),
        budget_s=30.0,
        size=8,
    ),
)
