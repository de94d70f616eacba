"""The self-check as a background task."""

from core.selfcheck.record import SelfCheck
from core.selfcheck.run import SelfCheckPlan, run_self_check
from core.studies.kind import Task

SELF_CHECK: Task[SelfCheckPlan, SelfCheck] = Task(
    name="selfcheck", describe=lambda plan: f"Self-check of {plan.target}", run=run_self_check
)
