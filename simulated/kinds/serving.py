"""Serving studies."""

from collections import Counter
from typing import Any

from core.studies.batch.shapes import Quantity
from core.studies.serving.record import ServingPlan, ServingStudy
from core.studies.serving.run import run_serving
from core.studies.serving.service import Service
from core.workload.spec import Target, Workload
from simulated.kinds import GPU, RUN, STILL, Case, Scenario
from simulated.runs import make_environment
from simulated.simulation import Curve, Machine, NoiseModel
from simulated.tools import tools_for

CURVES = (Curve(0.8, 0.05), Curve(1.5, 0.02))
SERVICE = Service(limit_ms=8.0, max_batch=16, pads=True)
PREDICTED = (Quantity(13_400.0, 12_000.0, 14_800.0), Quantity(10_200.0, 9_500.0, 10_900.0))


def serving_plan(targets: tuple[Target, ...] = (Target(), GPU), **changes: object) -> ServingPlan:
    """Return a plan for two targets whose capacity the machine's curves roughly have."""
    fields = {"workload": Workload(network="784-128-10", mode="infer"), "targets": targets,
              "predicted": PREDICTED[: len(targets)], "service": SERVICE, "budget_s": 60.0}  # fmt: skip
    return ServingPlan.model_validate(fields | changes)


def machine(seed: int = 0, noise: NoiseModel | None = None) -> Machine:
    return Machine(CURVES, noise or NoiseModel(), seed=seed, startup_s=2.0)


def make_serving_study(**changes: object) -> ServingStudy:
    """Make a study on the simulated machine, of the run that studies of a run belong to."""
    study = run_serving(tools_for(machine(3, STILL)), serving_plan(run_id=RUN.id))
    made = {"label": "recorded", "environment": make_environment(), "created_at": "2026-01-07T09:00:00+00:00"}
    return study.model_copy(update=made | {"elapsed_s": 58.0} | changes)


def _kept(record: Any, answered: Counter[str], _: int) -> bool:
    return (0 if record is None else len(record.visits)) == answered["serve"]


CASE = Case(
    study=make_serving_study,
    on_gpu=serving_plan,
    machine=machine,
    plan=serving_plan,
    kept=_kept,
    scenario=lambda: Scenario(
        kind="serving", machine=machine(0, STILL), plan=serving_plan(budget_s=40.0), budget_s=40.0, size=1
    ),
)
