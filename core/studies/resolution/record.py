"""Record of a resolution study: a sweep of one target against itself, raw."""

from __future__ import annotations

from typing import ClassVar

from core.studies.resolution.plan import ResolutionPlan
from core.studies.study import Study
from core.studies.sweep.record import Run


class ResolutionStudy(Study):
    """Record of a resolution study. ``run`` has no plan of its own, since a run's plan compares different targets."""

    noun: ClassVar[str] = "resolution study"

    plan: ResolutionPlan
    run: Run

    @property
    def title(self) -> str:
        return self.plan.title
