"""Record of a resolution study: a sweep of one target against itself, raw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar

from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.rounds.study import Study
from core.workload.names import full_name
from core.workload.spec import Budget, Pipeline, Target, Workload, seconds

BATCHES, LARGEST = 4, 1024  # defaults: spread over the range from 1 on
LEAST_WIDTH = 1e-6  # never reached, so that the whole budget is measured


class ResolutionPlan(SweepPlan):
    """Sweep whose two targets are the same."""

    budget_s: Annotated[Budget, seconds("That of the sweeps that you want to know this of.")] = 60.0

    def refuse_targets(self) -> None:
        if len(self.targets) != 2 or self.targets[0] != self.targets[1]:
            raise ValueError("a target is measured against itself; name it twice")

    @property
    def target(self) -> Target:
        return self.targets[0]

    @property
    def title(self) -> str:
        return f"{self.workload.title}: {full_name(self.target)} against itself"


def resolution_plan(
    workload: Workload,
    target: Target,
    batches: Sequence[int],
    budget_s: float,
    pipeline: Pipeline | None = None,
) -> ResolutionPlan:
    """Return the plan that measures a target against itself at these batches for the whole budget."""
    return ResolutionPlan(
        workload=workload,
        targets=(target, target),
        batches=tuple(batches),
        refine=False,
        pipeline=pipeline or Pipeline(),
        budget_s=budget_s,
        step_width=LEAST_WIDTH,
        crossover_width=LEAST_WIDTH,
        trace=False,
    )


def spread_batches(smallest: int, largest: int, multiple: int = 1, count: int = BATCHES) -> tuple[int, ...]:
    """Return at most ``count`` multiples of ``multiple``, evenly in log2 from the smallest batch to the largest."""
    octaves = math.log2(largest / smallest)
    places = (smallest * 2 ** (octaves * i / (count - 1)) for i in range(count))
    return tuple(sorted({max(1, round(place / multiple)) * multiple for place in places}))


class ResolutionStudy(Study):
    """Record of a resolution study. ``run`` has no plan of its own, since a run's plan compares different targets."""

    noun: ClassVar[str] = "resolution study"

    plan: ResolutionPlan
    run: Run

    @property
    def title(self) -> str:
        return self.plan.title
