"""Record of a check: its plan and the raw rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from core.analysis.statistics import MIN_UNITS
from core.base.evidence import Environment
from core.base.fields import About
from core.base.schema import Frozen, UserError
from core.rounds.run import Run
from core.rounds.study import Record
from core.workload.spec import Batch, Budget, Pipeline, Target, Workload, seconds

MIN_CHECK_S = 10.0
MAX_TITLE = 200
MAX_CHECKED = 8
"""Most batch sizes: each one widens the intervals of all."""
SLOWDOWN_IN_TURN, SLOWDOWN_OF_STORED = 0.05, 0.15
"""Default limits; the difference between occasions leaves no interval against a stored run that could support 5 %."""
STEPS_A_START = 40
"""Fewest steps to prepare and time a batch in one start of the workers."""
MOST_OF_START = 0.02
"""Share of the budget for those steps, for a batch that was not asked for explicitly."""


class Side(Frozen):
    """One side of the comparison. ``title`` as in “commit 1a2b3c4”, ``folder`` where its code is searched (None: it
    needs none), ``commit`` the full hash if it is one, and ``committed_ms`` its date (milliseconds since 1970, UTC).
    ``python`` is the interpreter of its workers if environments are compared.
    """

    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE)]
    workload: Workload
    folder: str | None = None
    commit: str | None = None
    committed_ms: int | None = None
    python: str | None = None


class StoredSteps(Frozen):
    """Step times (ms) of a target in a stored run by batch, the median of each worker process."""

    title: str
    created_at: str
    environment: Environment | None
    steps_ms: dict[int, tuple[float, ...]]


class CheckPlan(Frozen):
    """Plan of a check. ``sides`` are the baseline and what is checked against it, or the latter alone if the baseline
    is ``stored``. ``max_slowdown`` is the allowed slowdown (0.05 is 5 %).
    """

    sides: Annotated[tuple[Side, ...], Field(min_length=1, max_length=2)]
    target: Target
    batches: Annotated[
        tuple[Batch, ...],
        Field(min_length=1, max_length=MAX_CHECKED),
        About("Batch sizes", "A range low:high or a list 1,8,64.", empty="the baseline's smallest and a large one"),
    ]
    pipeline: Pipeline = Pipeline()
    budget_s: Annotated[Budget, Field(ge=MIN_CHECK_S), seconds("For the whole check.")] = 60.0
    max_slowdown: Annotated[
        float,
        Field(gt=0, le=1),
        About(
            "Slowdown allowed",
            "As a share, such as 0.05 or 5 %.",
            empty=f"{SLOWDOWN_OF_STORED:g} against a stored run, else {SLOWDOWN_IN_TURN:g}",
        ),
    ]
    stored: StoredSteps | None = None

    @model_validator(mode="after")
    def _one_baseline(self) -> Self:
        if (len(self.sides) == 2) == (self.stored is not None):
            raise ValueError("the baseline is a first side or a stored run")
        return self

    @property
    def baseline(self) -> str:
        """Name of the baseline."""
        return self.sides[0].title if self.stored is None else self.stored.title

    @property
    def title(self) -> str:
        return f"{self.sides[-1].workload.title} on {self.target}: {self.sides[-1].title} against {self.baseline}"


def stored_steps(run: Run, target: int) -> dict[int, tuple[float, ...]]:
    """Return the median step time (ms) of each worker process by batch; batches with fewer than three processes are
    left out, since their scatter is unknown.
    """
    steps_ms: dict[tuple[int, int], list[float]] = defaultdict(list)
    for item in run.rounds:
        for block in item.blocks:
            if block.target == target:
                steps_ms[item.batch, block.process].append(block.step_ms)
    medians: dict[int, list[float]] = defaultdict(list)
    for (batch, _), steps in sorted(steps_ms.items()):
        medians[batch].append(median(steps))
    return {batch: tuple(values) for batch, values in medians.items() if len(values) >= MIN_UNITS}


def median_steps(run: Run, target: int) -> dict[int, float]:
    """Return the target's median step time (ms) by batch, rising."""
    steps: dict[int, list[float]] = defaultdict(list)
    for item in run.rounds:
        if (step_ms := item.step_ms(target)) is not None:
            steps[item.batch].append(step_ms)
    return {batch: median(steps[batch]) for batch in sorted(steps)}


def usual_batches(steps_ms: Mapping[int, float], budget_s: float) -> tuple[int, ...]:
    """Return the smallest batch, which shows the fixed cost, and the largest that the budget can repeat often."""
    affordable = [b for b, ms in steps_ms.items() if 2 * STEPS_A_START * ms / 1000 <= MOST_OF_START * budget_s]
    first = min(steps_ms)
    return tuple(sorted({first, max(affordable, default=first)}))


def check_batches(batches: Sequence[int], known: Mapping[int, object]) -> None:
    """Raise UserError for a batch that the stored run cannot be compared at, or if it has no usable batch."""
    if not known:
        raise UserError(
            "The stored run measured no batch in three worker processes, so nothing is known of how they differ; name "
            "a checkout with --against, or measure the run again with a larger budget."
        )
    if missing := [batch for batch in batches if batch not in known]:
        sizes = ", ".join(f"{batch:,}" for batch in known)
        raise UserError(
            f"Batch {missing[0]:,} was not measured in three worker processes of the stored run; these were: {sizes}."
        )


class CheckRecord(Record):
    """Record of a check. ``run`` has one target per side of the plan, in their order, and no plan of its own."""

    noun: ClassVar[str] = "check"

    plan: CheckPlan
    run: Run
