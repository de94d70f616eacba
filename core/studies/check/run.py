"""Measurement of a check: repeated starts of fresh workers, one worker per side, their blocks in turn."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from core.machine.environment import capture_environment
from core.rounds.plan import SweepPlan
from core.rounds.run import MAX_NAME, Run
from core.rounds.study import new_id
from core.studies.check.record import CheckPlan, CheckRecord
from core.studies.kind import Task
from core.studies.runner import StudyTools, now
from core.studies.sweep.even import Even
from core.workload.spec import Workload

SIDES = ("baseline", "checked")


class _Sides(SweepPlan):
    """Plan in the form that workers take: the same target twice, each with its own workload and interpreter."""

    workloads: tuple[Workload, ...]
    called: tuple[str, ...]

    @model_validator(mode="after")
    def _different_targets(self) -> Self:
        return self  # the code differs, or the environment

    @property
    def names(self) -> tuple[str, ...]:
        return self.called

    def workload_of(self, target: int) -> Workload:
        return self.workloads[target]


def run_check(tools: StudyTools, plan: CheckPlan) -> CheckRecord:
    """Measure within the budget. Failures become outcomes of their cells.

    Raises Cancelled if nothing was measured yet, StudyFailed if no batch could run on every side.
    """
    run = Run(
        id=new_id(),
        name=plan.title[:MAX_NAME],
        created_at=now(),
        label="measured",
        status="running",
        target_names=SIDES[-len(plan.sides) :],
        environment=capture_environment(),
    )
    sides = _Sides(
        workload=plan.sides[-1].workload,
        workloads=tuple(side.workload for side in plan.sides),
        called=tuple(side.title for side in plan.sides),
        targets=tuple(plan.target.model_copy(update={"python": side.python}) for side in plan.sides),
        batches=plan.batches,
        pipeline=plan.pipeline,
        budget_s=plan.budget_s,
    )
    return CheckRecord(plan=plan, run=Even(tools, sides, run).execute())


CHECK: Task[CheckPlan, CheckRecord] = Task(
    name="check",
    describe=lambda plan: f"Check of {plan.title}",
    run=run_check,
    targets=lambda plan: (plan.target,),
)
