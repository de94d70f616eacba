"""A scaling study with real workers: one CPU against two logical ones, which shows that it runs but no speed."""

from typing import Any

import pytest

from core.rounds.study import SCHEMA_VERSION
from core.studies.scaling.record import ScalingStudy
from core.worker.clock import WallClock
from core.worker.process import launch_processes
from simulated.scalings import LOGICAL, scaled, scaling_plan

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]


class Here:
    """Launcher of this machine's workers."""

    launch: Any = staticmethod(launch_processes)
    clock = WallClock()


def test_a_try_out_runs_every_step_on_both_logical_cpus() -> None:
    plan = scaling_plan(*LOGICAL, workload={"network": "784-64-10"}, batches=(16, 32, 64), budget_s=60.0)
    study = scaled(Here(), plan)  # type: ignore[arg-type]
    assert study.status == "finished"
    assert {(b.target, item.batch) for item in study.rounds for b in item.blocks} == {
        (target, batch) for target in (0, 1) for batch in (16, 32, 64)
    }
    assert all(cell.outcome == "measured" for cell in study.cells)
    ran_on = {setup.placement for setup in study.setups if setup.target == 1}
    assert any("CPU:1" in place for places in ran_on for place in places), ran_on
    assert ScalingStudy.from_json(study.to_json()) == study
    assert study.schema_version == SCHEMA_VERSION
