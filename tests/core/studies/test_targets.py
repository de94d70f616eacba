"""Every kind states where it measures, the basis of refusals and of the search for neighbours."""

from typing import Any

import pytest

from core.studies.diagnosis.run import DiagnosisPlan
from core.studies.fleet.record import FleetPlan
from core.studies.frontier.record import FrontierPlan
from core.studies.host.run import HostPlan
from core.studies.memory.record import MemoryPlan
from core.studies.memory.run import MemorySearch
from core.studies.noise.record import NoisePlan
from core.studies.pipeline.plan import PipelinePlan
from core.studies.registry import kinds
from core.studies.resolution.record import resolution_plan
from core.studies.sweep.kind import new_run
from core.ui.overhead.tracing import TRACE, Asked
from core.workload.spec import Target, Workload
from simulated import validations
from simulated.runs import make_run, on_card
from simulated.scalings import TWO, scaling_plan
from simulated.sweeps import plan

GPU = Target(device="gpu:0")
WORK = Workload(network="784-128-10")
RUN = on_card(make_run())
FRONTIER = {"family": "mlp", "depths": (1, 2), "widths": (32, 64), "batches": (1, 8), "targets": (Target(), GPU)}
PLANS: dict[str, Any] = {
    "sweep": new_run(plan()),
    "diagnosis": DiagnosisPlan(RUN, 1, 8),
    "frontier": FrontierPlan.model_validate(FRONTIER),
    "memory": MemorySearch(MemoryPlan(workload=WORK, target=GPU, limit_bytes=10**9)),
    "noise": NoisePlan(workload=WORK, target=GPU),
    "pipeline": PipelinePlan(workload=WORK, target=GPU),
    "host": HostPlan(),
    "fleet": FleetPlan(sweep=plan()),
    "scaling": scaling_plan(),
    "resolution": resolution_plan(WORK, GPU, (1, 8), 60.0),
    "validation": validations.plan(),
}


@pytest.mark.parametrize("kind", kinds().values(), ids=lambda kind: kind.name)
def test_every_kind_says_where_it_measures(kind: Any) -> None:
    on_gpu = [target for target in kind.targets(PLANS[kind.name]) if target.is_gpu]
    # what the host costs is measured on its CPU, and a fleet run on other machines
    asked = {"host": [], "fleet": [], "scaling": [GPU, TWO]}
    assert on_gpu == asked.get(kind.name, [GPU])


def test_a_trace_is_of_one_target() -> None:
    assert TRACE.targets(Asked(RUN, 1, 8)) == (GPU,)
    assert not any(target.is_gpu for target in TRACE.targets(Asked(RUN, 0, 8)))
