"""Plan of a sweep: one to six targets, batch sizes, a budget."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from core.base.evidence import MAX_TARGETS
from core.base.fields import About
from core.base.numbers import byte_size
from core.base.schema import Frozen, UserError
from core.workload.execution import refuse_same, resolved
from core.workload.memory import CONTEXT_BYTES, estimate_bytes
from core.workload.names import in_title, shown_names
from core.workload.spec import (
    MAX_BATCHES,
    MAX_CROSSOVER_WIDTH,
    PLAN_SCHEMA,
    Batch,
    Budget,
    Pipeline,
    Target,
    Workload,
    refuse_batch,
    refuse_mode,
    seconds,
    usual_pipeline,
)

ENERGY_SHARE, MOST_ENERGY_S = 0.25, 150.0
"""Share of the budget that energy windows may take, and the most."""


class SweepPlan(Frozen):
    """Settings of a sweep. The first target is the baseline that the others are compared with. ``batches`` is the
    first, coarse grid; ``refine`` allows sizes between them.

    ``step_width`` is the relative width of a cell's 95 % interval that suffices, ``crossover_width`` the same for the
    crossover ((high − low) / batch). ``margin`` is the lead to look for (0.05 is 5 %). With ``trace``, three batches
    are traced at the end (:mod:`core.traces.record`).
    """

    schema_version: Literal[1] = PLAN_SCHEMA
    workload: Workload
    targets: Annotated[tuple[Target, ...], Field(min_length=1, max_length=MAX_TARGETS)]
    batches: Annotated[
        tuple[Batch, ...],
        Field(min_length=1, max_length=MAX_BATCHES),
        About("Batch sizes", "A range low:high of doublings, or a list such as 1,8,64."),
    ]
    refine: Annotated[
        bool, About("Measure more batch sizes around the crossover", "Batch sizes between those chosen.")
    ] = True
    pipeline: Pipeline = Field(default_factory=usual_pipeline)
    budget_s: Annotated[
        Budget,
        seconds(
            "For the whole sweep, start-up of the workers included. It ends earlier once the answer is precise. "
            "Proposed: 90, or as long as three starts of the workers with every batch size should take.",
            empty="as proposed",
        ),
    ] = 90.0
    step_width: Annotated[
        float,
        Field(gt=0, le=1),
        About(
            "Step time interval",
            "Where there is no crossover, the sweep ends once the 95 % interval of every step time is this narrow "
            "relative to the step time, or no longer gets narrower.",
            unit="%",
            scale=0.01,
            step=1.0,
        ),
    ] = 0.05
    crossover_width: Annotated[
        float,
        Field(gt=0, le=MAX_CROSSOVER_WIDTH),
        About(
            "Crossover interval",
            "The sweep ends once the crossover's 95 % interval is this narrow relative to its batch size: 25 % is an "
            "interval such as 88 to 113 around batch 100. Half the width takes about four times as long.",
            unit="%",
            scale=0.01,
            step=5.0,
        ),
    ] = 0.25
    margin: Annotated[
        float,
        Field(gt=0, le=1),
        About("Margin", "By how much faster a target must be to matter.", unit="%", scale=0.01, step=1.0),
    ] = 0.05
    trace: Annotated[bool, About("Traces", "Profiler traces at the end.")] = True

    @field_validator("batches")
    @classmethod
    def _sorted(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _different_targets(self) -> Self:
        self.refuse_targets()
        for target in self.targets:
            refuse_mode(self.workload, target, self.pipeline)
            if all(batch % target.replicas for batch in self.batches):
                refuse_batch(self.batches[-1], target)
        return self

    def refuse_targets(self) -> None:
        """Raise ValueError if the targets cannot be compared with each other."""
        refuse_same(self.workload, *self.targets)

    @property
    def target_names(self) -> tuple[str, ...]:
        """Targets in their notation."""
        return tuple(map(str, self.targets))

    @property
    def names(self) -> tuple[str, ...]:
        """Targets as people read them."""
        return shown_names(self.targets)

    @property
    def batch_multiple(self) -> int:
        """Least common multiple of the targets' device counts, so that each can divide its multiples evenly."""
        return math.lcm(*(target.replicas for target in self.targets))

    def why_uneven(self, target: int, batch: int) -> str:
        """Explain why a target of several devices does not run a batch, in a sentence that begins in lower case; else
        empty.
        """
        try:
            refuse_batch(batch, self.targets[target])
        except ValueError as error:
            return f"{error}."
        return ""

    def workload_of(self, target: int) -> Workload:  # noqa: ARG002
        """Return the workload of that target: the same for all, unless overridden (:mod:`core.studies.check.run`)."""
        return self.workload

    @property
    def title(self) -> str:
        return f"{self.workload.title}: {in_title(self.names)}"


def target_of_plan(plan: SweepPlan, workload: Workload, target: Target) -> int | None:
    """Return the index of a target of the plan that equals this one once Keras's choices are resolved; None without
    one.
    """
    if workload != plan.workload:
        return None
    resolution = resolved(workload, target)
    return next((index for index, own in enumerate(plan.targets) if resolved(workload, own) == resolution), None)


def energy_reserve_s(plan: SweepPlan) -> float:
    """Return the seconds of the budget that energy windows may take."""
    return min(MOST_ENERGY_S, ENERGY_SHARE * plan.budget_s)


_RESERVE = 0.9  # largest share of the memory that a plan may use


def check_fits(plan: SweepPlan, available_bytes: int, limited: str = "") -> None:
    """Raise UserError if the largest batch cannot fit beside the worker processes on the CPU. ``limited`` names what
    limits the memory (:attr:`core.base.evidence.Resources.limited_words`).

    GPU targets are judged by their worker, which knows the card's memory; there, running out is an outcome of a cell.
    """
    on_host = [target for target in plan.targets if not target.is_gpu]
    fixed = CONTEXT_BYTES * len(plan.targets)
    for batch in reversed(plan.batches):
        needed = fixed + sum(estimate_bytes(plan.workload, target, batch).total_bytes for target in on_host)
        if needed <= _RESERVE * available_bytes:
            if batch == plan.batches[-1]:
                return
            raise UserError(
                f"Batch {plan.batches[-1]:,} of {plan.workload.network.name} needs about "
                f"{byte_size(_needed(plan, on_host, fixed))}, more than the {byte_size(available_bytes)} this "
                f"machine has free{limited}; batches up to {batch:,} fit."
            )
    raise UserError(
        f"{plan.workload.network.name} needs about {byte_size(_needed(plan, on_host, fixed))}, more than the "
        f"{byte_size(available_bytes)} this machine has free{limited}, whatever the batch; choose a smaller depth or "
        "width."
    )


def _needed(plan: SweepPlan, targets: list[Target], fixed_bytes: int) -> int:
    return fixed_bytes + sum(estimate_bytes(plan.workload, t, plan.batches[-1]).total_bytes for t in targets)
