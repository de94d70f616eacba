"""Creation of a run before its first round."""

from __future__ import annotations

from core.evidence import Environment
from core.machine.environment import capture_environment
from core.studies.runner import now
from core.studies.study import new_id
from core.studies.sweep.plan import SweepPlan
from core.studies.sweep.record import Run


def new_run(
    plan: SweepPlan, name: str | None = None, run_id: str | None = None, environment: Environment | None = None
) -> Run:
    """Return a run without rounds, with this machine's environment unless one is given."""
    return Run(
        id=run_id or new_id(),
        name=name or plan.title,
        created_at=now(),
        label="measured",
        status="running",
        target_names=plan.target_names,
        plan=plan,
        environment=environment or capture_environment(),
    )
