"""Host studies."""

from core.hardware.host_record import host_cells
from core.studies.host.run import HostPlan
from simulated.hosts import host_machine, make_host_study
from simulated.kinds import STILL, Case, Scenario, blocks_kept
from simulated.runs import make_environment

CASE = Case(
    study=lambda: make_host_study(noise=0.02).model_copy(update={"environment": make_environment()}),
    small=lambda: make_host_study(rounds=2),
    on_gpu=HostPlan,
    gpus=(),  # what the host costs is measured on its CPU
    machine=lambda seed: host_machine(seed=seed),
    plan=HostPlan,
    kept=blocks_kept(64),
    scenario=lambda: Scenario(
        kind="host", machine=host_machine(STILL), plan=HostPlan(), budget_s=15.0, size=len(host_cells())
    ),
)
