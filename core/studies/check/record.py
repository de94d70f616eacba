"""Record of a check: its plan and the raw rounds."""

from __future__ import annotations

from typing import ClassVar

from core.studies.check.plan import CheckPlan
from core.studies.study import Record
from core.studies.sweep.record import Run


class CheckRecord(Record):
    """Record of a check. ``run`` has one target per side of the plan, in their order, and no plan of its own."""

    noun: ClassVar[str] = "check"

    plan: CheckPlan
    run: Run
