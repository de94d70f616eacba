"""Fleet runs, whose faults have tests of their own (tests/core/studies/fleet/test_coordinator.py)."""

from core.studies.fleet.record import FleetPlan
from simulated import sweeps
from simulated.fleet_studies import make_fleet
from simulated.kinds import Case

CASE = Case(
    study=lambda: make_fleet(batches=(1, 8, 64)),
    small=lambda: make_fleet(((0.3, 0.02), (0.5, 0.008)), batches=(4, 32, 256)),
    on_gpu=lambda: FleetPlan(sweep=sweeps.plan(), prices={}),
    gpus=(),  # a fleet run measures on other machines
)
