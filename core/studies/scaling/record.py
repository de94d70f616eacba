"""What a scaling study measured: its plan and the rounds, raw."""

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
    """``rounds`` hold one block of each target that has the batch; what else is as in a run of a sweep."""

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
        _ = self.run  # which refuses numbers that no target has
        return self

    @property
    def title(self) -> str:
        return self.plan.title

    @property
    def starts(self) -> int:
        """Starts of the workers that have a round."""
        return len({block.process for item in self.rounds for block in item.blocks})

    @property
    def run(self) -> Run:
        """What was measured as the statistics and charts of sweeps take it, made anew each time."""
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
        """The study of a run that its plan made."""
        kept = {part: getattr(run, part) for part in PARTS}
        kept |= {"label": run.label, "status": run.status, "created_at": run.created_at, "elapsed_s": run.elapsed_s}
        return cls(plan=plan, environment=run.environment, warnings=run.warnings, **kept)
