"""Checks on a simulated machine, whose two sides take times of known ratio."""

from typing import Any

from core.spec import Target, Workload
from core.studies.check.plan import CheckPlan, Side
from core.studies.check.record import CheckRecord
from core.studies.check.run import run_check
from core.worker.protocol import Prepare
from tests.support.simulation import Curve, Machine, NoiseModel
from tests.support.tools import tools_for

WORKLOAD = Workload(network="784-128-10")
STEP = Curve(0.5, 0.01)
BATCHES = (1, 256)


def check_plan(**changes: Any) -> CheckPlan:
    """Two checkouts at two batch sizes, 60 s, 5 %."""
    sides = tuple(Side(title=title, workload=WORKLOAD) for title in ("commit 1a2b3c4", "this folder"))
    usual: dict[str, Any] = {"sides": sides, "target": Target(), "batches": BATCHES, "max_slowdown": 0.05}
    return CheckPlan.model_validate(usual | changes)


def check_machine(ratios: dict[int, float] | float = 1.0, noise: NoiseModel | None = None, **options: Any) -> Machine:
    """The second worker takes ``ratios`` times as long as the first, by batch or at all of them."""
    first = Curve(STEP.floor_ms, STEP.slope_ms)
    machine = Machine((first, first), noise or NoiseModel(), **options)

    def step_ms(index: int, _: Target, request: Prepare) -> float:
        ratio = ratios if isinstance(ratios, float) else ratios.get(request.batch, 1.0)
        return first.step_ms(request.batch) * (ratio if index else 1.0)

    machine.step_ms = step_ms  # type: ignore[method-assign]
    return machine


def checked(machine: Machine, plan: CheckPlan | None = None, **options: Any) -> CheckRecord:
    return run_check(tools_for(machine, **options), plan or check_plan())
