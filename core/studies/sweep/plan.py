"""What a sweep measures: one to six targets, batch sizes, a budget."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from core.analysis.execution import refuse_same, resolved
from core.evidence import MAX_TARGETS
from core.names import in_title, shown_names
from core.schema import Frozen
from core.spec import (
    MAX_BATCHES,
    MAX_BUDGET_S,
    MAX_CROSSOVER_WIDTH,
    MIN_BUDGET_S,
    PLAN_SCHEMA,
    Batch,
    Pipeline,
    Target,
    Workload,
    refuse_batch,
    refuse_mode,
)


class SweepPlan(Frozen):
    """Everything a sweep needs. The first target is the baseline that the others are held against. ``batches``
    is the first, coarse grid; ``refine`` allows sizes between them.

    ``step_width`` is the relative width of a cell's 95 % interval that is enough, ``crossover_width`` the same for the
    crossover ((high − low) / batch). ``margin`` is the lead asked for, 0.05 being 5 %. With ``trace``, three batches
    are traced at the end (:mod:`core.traces.record`).
    """

    schema_version: Literal[1] = PLAN_SCHEMA
    workload: Workload
    targets: Annotated[tuple[Target, ...], Field(min_length=1, max_length=MAX_TARGETS)]
    batches: Annotated[tuple[Batch, ...], Field(min_length=1, max_length=MAX_BATCHES)]
    refine: bool = True
    pipeline: Pipeline = Pipeline()
    budget_s: Annotated[float, Field(ge=MIN_BUDGET_S, le=MAX_BUDGET_S)] = 90.0
    step_width: Annotated[float, Field(gt=0, le=1)] = 0.05
    crossover_width: Annotated[float, Field(gt=0, le=MAX_CROSSOVER_WIDTH)] = 0.25
    margin: Annotated[float, Field(gt=0, le=1)] = 0.05
    trace: bool = True

    @field_validator("batches")
    @classmethod
    def _sorted(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _different_targets(self) -> Self:
        self.refuse_targets()
        for target in self.targets:
            refuse_mode(self.workload, target)
            if all(batch % target.replicas for batch in self.batches):
                refuse_batch(self.batches[-1], target)
        return self

    def refuse_targets(self) -> None:
        """Raise ValueError where the targets cannot be held against each other."""
        refuse_same(self.workload, *self.targets)

    @property
    def target_names(self) -> tuple[str, ...]:
        """In their notation."""
        return tuple(map(str, self.targets))

    @property
    def names(self) -> tuple[str, ...]:
        """As people read them."""
        return shown_names(self.targets)

    @property
    def batch_multiple(self) -> int:
        """Batches that every target can share out among its devices are multiples of it."""
        return math.lcm(*(target.replicas for target in self.targets))

    def why_uneven(self, target: int, batch: int) -> str:
        """Why a target of several devices does not run a batch, as a sentence that begins in lower case; else empty."""
        try:
            refuse_batch(batch, self.targets[target])
        except ValueError as error:
            return f"{error}."
        return ""

    def workload_of(self, target: int) -> Workload:  # noqa: ARG002
        """What that target runs: all the same, unless a plan says otherwise (:mod:`core.studies.check.run`)."""
        return self.workload

    @property
    def title(self) -> str:
        return f"{self.workload.title}: {in_title(self.names)}"


def target_of_plan(plan: SweepPlan, workload: Workload, target: Target) -> int | None:
    """Which of the plan's targets that one is with the workload, also where only the other says what Keras chooses."""
    if workload != plan.workload:
        return None
    asked = resolved(workload, target)
    return next((index for index, own in enumerate(plan.targets) if resolved(workload, own) == asked), None)
