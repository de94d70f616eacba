"""What a check measured: its plan and the rounds, raw."""

from __future__ import annotations

from typing import ClassVar

from core.studies.check.plan import CheckPlan
from core.studies.study import Record
from core.studies.sweep.record import Run


class CheckRecord(Record):
    """``run`` has one target for each side of the plan, in their order, and no plan of its own."""

    noun: ClassVar[str] = "check"

    plan: CheckPlan
    run: Run
