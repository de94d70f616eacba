"""Measurement of a target against itself, by the same engine as every sweep."""

from __future__ import annotations

import dataclasses

from core.studies.progress import Progress
from core.studies.resolution.record import ResolutionPlan, ResolutionStudy
from core.studies.runner import NullRecorder, StudyTools, unheard
from core.studies.sweep.kind import new_run
from core.studies.sweep.supervisor import run_sweep


def run_resolution(tools: StudyTools, plan: ResolutionPlan) -> ResolutionStudy:
    """Measure for the whole budget. Raises Cancelled and StudyFailed as :func:`run_sweep` does."""

    def report(progress: Progress) -> None:
        """Report the progress without the run, which is only a part of the record."""
        tools.report(dataclasses.replace(progress, record=None, answer=None))

    tell = unheard if tools.report is unheard else report
    alone = dataclasses.replace(tools, report=tell, recorder=NullRecorder(), meter=None)  # all time is for rounds
    run = run_sweep(alone, new_run(plan))
    return ResolutionStudy(
        status=run.status,
        created_at=run.created_at,
        elapsed_s=run.elapsed_s,
        environment=run.environment,
        warnings=run.warnings,
        plan=plan,
        run=run.model_copy(update={"plan": None, "environment": None, "warnings": ()}),
    )
