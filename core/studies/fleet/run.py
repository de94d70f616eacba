"""Fleet run on the Ray cluster that its plan names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from core.base.schema import UserError
from core.networks.families.code import Code
from core.studies.fleet.cluster import Cluster
from core.studies.fleet.coordinator import run_fleet
from core.studies.fleet.record import FleetPlan, FleetStudy
from core.studies.runner import StudyTools
from core.worker.interpreters import refuse_python

RAY_ADDRESS = "BREAKEVEN_RAY_ADDRESS"
"""Environment variable with the default address of a fleet."""


def check_fleet(plan: FleetPlan) -> None:
    """Raise UserError for a plan that no fleet can run."""
    if plan.address is None:
        raise UserError(f"A fleet run needs the address of a Ray cluster: --address, or {RAY_ADDRESS}.")
    if isinstance(plan.sweep.workload.network, Code):
        raise UserError(
            "Code of your own is not sent to other machines; measure it on each with “sweep --plan --model”, and put "
            "the files together with “fleet --collect”."
        )
    refuse_python(plan.sweep.targets)


@contextmanager
def connected(plan: FleetPlan) -> Iterator[Cluster]:
    """Connect to the cluster of a plan; everything that it runs there has ended afterwards. Raises UserError."""
    check_fleet(plan)
    from core.studies.fleet.ray_cluster import RayCluster  # without Ray all else of a fleet still works

    assert plan.address is not None
    cluster = RayCluster(plan.address)
    try:
        yield cluster
    finally:
        cluster.close()


def measure_fleet(tools: StudyTools, plan: FleetPlan) -> FleetStudy:
    """Measure the fleet run of a plan; its runs go to ``tools.recorder`` as they arrive. Raises UserError."""
    with connected(plan) as cluster:
        return run_fleet(tools, plan, cluster)
