"""Record of a scaling study: its plan and the raw rounds."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from core.evidence import Process, Setup, Warning
from core.studies.scaling.plan import ScalingPlan
from core.studies.study import Study
from core.studies.sweep.record import (
    MAX_CELLS,
    MAX_NAME,
    MAX_PROCESSES,
    MAX_ROUNDS,
    MAX_TRACES,
    MAX_WARNINGS,
    Cell,
    Round,
    Run,
)
from core.traces.record import TracedCell

PARTS = ("processes", "setups", "cells", "rounds", "traces")


class ScalingStudy(Study):
    """Record of a scaling study. ``rounds`` hold one block of each target that has the batch; the rest is as in a
    sweep's run.
    """

    noun: ClassVar[str] = "scaling study"

    plan: ScalingPlan
    warnings: Annotated[tuple[Warning, ...], Field(max_length=MAX_WARNINGS)] = ()
    processes: Annotated[tuple[Process, ...], Field(max_length=MAX_PROCESSES)] = ()
    setups: tuple[Setup, ...] = ()
    cells: Annotated[tuple[Cell, ...], Field(max_length=MAX_CELLS)] = ()
    rounds: Annotated[tuple[Round, ...], Field(max_length=MAX_ROUNDS)] = ()
    traces: Annotated[tuple[TracedCell, ...], Field(max_length=MAX_TRACES)] = ()

    @model_validator(mode="after")
    def _targets_are_known(self) -> Self:
        _ = self.run  # which refuses indices that no target has
        return self

    @property
    def title(self) -> str:
        return self.plan.title

    @property
    def starts(self) -> int:
        """Number of starts of the workers that have a round."""
        return len({block.process for item in self.rounds for block in item.blocks})

    @property
    def run(self) -> Run:
        """The measurements in the form that statistics and charts of sweeps take, rebuilt each time."""
        parts = {part: getattr(self, part) for part in PARTS}
        return Run(
            id="scaling",
            name=self.title[:MAX_NAME],
            created_at=self.created_at,
            label=self.label,
            status=self.status,
            elapsed_s=self.elapsed_s,
            environment=self.environment,
            warnings=self.warnings,
            target_names=tuple(map(str, self.plan.targets)),
            plan=self.plan.as_sweep,
            **parts,
        )

    @classmethod
    def of(cls, plan: ScalingPlan, run: Run) -> Self:
        """Build the study from a run that its plan made."""
        kept = {part: getattr(run, part) for part in PARTS}
        kept |= {"label": run.label, "status": run.status, "created_at": run.created_at, "elapsed_s": run.elapsed_s}
        return cls(plan=plan, environment=run.environment, warnings=run.warnings, **kept)
