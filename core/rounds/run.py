"""Record of one sweep: versioned and immutable, strict JSON in and out.

Raw rounds are kept; every statistic is derived from them by :mod:`core.rounds.answer.analyse`, each time. Times of day
are UTC in ISO 8601; ``at_s`` counts seconds from the start of the sweep.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from core.base.evidence import (
    MAX_TARGETS,
    Block,
    CardUse,
    Interference,
    Label,
    LoopTimes,
    Outcome,
    Process,
    Setup,
    Status,
    StoredInterference,
    TargetIndex,
    Warning,
)
from core.base.schema import Frozen
from core.rounds.plan import SweepPlan
from core.rounds.study import Study
from core.traces.record import TracedCell
from core.workload.names import in_title, notations, shown_names

MAX_ROUNDS = 500_000
MAX_PROCESSES = 20_000 * MAX_TARGETS
"""One per target and start; a day's budget has no more than 20,000 starts."""
MAX_CELLS = 1_000 * MAX_TARGETS
"""One per target and batch size, of which a file may hold 1,000; a sweep measures about 100."""
MAX_WARNINGS = 1_000
MAX_TRACES = 8 * MAX_TARGETS
"""A sweep traces three batches on each target, and again if it was resumed."""
MAX_WINDOWS = 1_000
"""A sweep has about 60."""
MAX_LOOPS = MAX_TARGETS
"""One per target."""
MAX_NAME = 200
Name = Annotated[str, Field(max_length=MAX_NAME)]

StopReason = Literal["precise", "plateau", "budget", "cancelled", "interrupted", "answered", "failed"]


class Round(Frozen):
    """One block of each target at one batch, in the order they ran; none of a target that failed."""

    index: Annotated[int, Field(ge=0)]
    pass_index: Annotated[int, Field(ge=0)] = 0
    batch: Annotated[int, Field(ge=1)]
    blocks: Annotated[tuple[Block, ...], Field(min_length=1, max_length=MAX_TARGETS)]
    interference: StoredInterference = Interference()

    def step_ms(self, target: int) -> float | None:
        """Return the step time of that target in this round, or None if it has no block."""
        for block in self.blocks:  # a loop, since a long run calls this hundreds of thousands of times
            if block.target == target:
                return block.step_ms
        return None

    def log_ratio(self, first: int = 0, second: int = 1) -> float | None:
        """Return log(t_first / t_second), above zero if the second target is ahead; None if one has no block."""
        before, after = self.step_ms(first), self.step_ms(second)
        return None if before is None or after is None else math.log(before / after)

    @property
    def process(self) -> int:
        """The newest start of the workers that has a block."""
        return max([block.process for block in self.blocks])  # a list, for speed: used as often as step_ms


class Cell(Frozen):
    """Outcome of one target at one batch, with why sampling stopped or what went wrong, as a sentence."""

    target: TargetIndex
    batch: Annotated[int, Field(ge=1)]
    outcome: Outcome
    reason: str = ""
    stop_reason: StopReason | None = None


class EnergyWindow(Frozen):
    """Steps of one cell back to back for two seconds or more, and the energy that they used.

    ``batch`` None: the workers were ready and idle. ``length_s`` is the duration of ``steps``, ``index`` numbers the
    windows of a cell. ``card`` is set for a GPU target; ``package_j`` is the energy of all CPU packages, also while a
    GPU target ran. ``skipped`` says why there was no measurement; a window then has no length.
    """

    target: TargetIndex
    batch: Annotated[int, Field(ge=1)] | None = None
    index: Annotated[int, Field(ge=0)] = 0
    process: Annotated[int, Field(ge=0)] = 0
    steps: Annotated[int, Field(ge=0)] = 0
    length_s: Annotated[float, Field(ge=0)] = 0.0
    card: CardUse | None = None
    package_j: Annotated[float, Field(ge=0)] | None = None
    skipped: str = ""

    @property
    def samples(self) -> int:
        return self.steps * (self.batch or 0)


class LoopCost(Frozen):
    """Keras's own loop around a step of one target, measured once per run; ``reason`` explains missing ``times``."""

    target: TargetIndex
    batch: Annotated[int, Field(ge=1)]
    times: LoopTimes | None = None
    reason: str = ""


class Run(Study):
    """Record of one sweep. ``plan`` and ``environment`` are None for bare points imported from CSV."""

    noun: ClassVar[str] = "run"

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{3,63}$")]
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    created_at: str
    label: Label
    status: Status
    target_names: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_TARGETS)]
    warnings: Annotated[tuple[Warning, ...], Field(max_length=MAX_WARNINGS)] = ()
    plan: SweepPlan | None = None
    processes: Annotated[tuple[Process, ...], Field(max_length=MAX_PROCESSES)] = ()
    setups: tuple[Setup, ...] = ()
    cells: Annotated[tuple[Cell, ...], Field(max_length=MAX_CELLS)] = ()
    rounds: Annotated[tuple[Round, ...], Field(max_length=MAX_ROUNDS)] = ()
    traces: Annotated[tuple[TracedCell, ...], Field(max_length=MAX_TRACES)] = ()
    energy: Annotated[tuple[EnergyWindow, ...], Field(max_length=MAX_WINDOWS)] = ()
    loops: Annotated[tuple[LoopCost, ...], Field(max_length=MAX_LOOPS)] = ()

    @model_validator(mode="after")
    def _targets_are_known(self) -> Self:
        count = len(self.target_names)
        if self.plan is not None and len(self.plan.targets) != count:
            raise ValueError(f"target_names has {count} names, and the plan {len(self.plan.targets)} targets")
        numbered: Iterable[Block | Process | Setup | Cell | TracedCell | EnergyWindow | LoopCost] = chain(
            (block for item in self.rounds for block in item.blocks),
            self.processes, self.setups, self.cells, self.traces, self.energy, self.loops,
        )  # fmt: skip
        last = max((record.target for record in numbered), default=0)
        if last >= count:
            raise ValueError(f"target {last} has no name: target_names has {count}")
        return self

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes that have at least one round, rising."""
        return tuple(sorted({r.batch for r in self.rounds}))

    @property
    def title(self) -> str:
        return self.plan.title if self.plan else in_title(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Targets as people read them; ``target_names`` are their notation."""
        return shown_names(self.plan.targets) if self.plan else notations(self.target_names)

    def name_of(self, target: str) -> str:
        """Return the readable name of the target with that notation."""
        return dict(zip(self.target_names, self.names, strict=True)).get(target, target)


RunRecord = Process | Setup | Round | Cell | Warning | TracedCell | LoopCost | EnergyWindow


OUTCOMES = {
    "measured": "measured",
    "skipped": "skipped",
    "out_of_memory": "out of memory",
    "crashed": "worker crashed",
    "hung": "no reply before its deadline",
    "nan_loss": "loss became NaN",
    "misplaced": "ran on another device",
    "error": "failed",
    "pending": "not reached",
}
STOPS = {
    "precise": "interval narrow enough",
    "plateau": "noise no longer falls",
    "budget": "time budget used",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "answered": "answer precise enough",
    "failed": "failed",
}


def failed_words(batch: int, outcome: str) -> str:
    """Explain why larger batches are not tried."""
    return f"batch {batch:,} failed ({outcome.replace('_', ' ')})."


def only(run: Run, targets: Sequence[int]) -> Run:
    """Return the run with these of its targets alone, in this order, renumbered 0, 1, …; rounds without any are
    dropped.
    """
    if list(targets) == list(range(len(run.target_names))):
        return run
    place = {target: index for index, target in enumerate(targets)}

    def kept(records: Sequence[Any]) -> tuple[Any, ...]:
        mine = (record for record in records if record.target in place)
        return tuple(record.model_copy(update={"target": place[record.target]}) for record in mine)

    rounds = ((item, kept(item.blocks)) for item in run.rounds)
    changes: dict[str, Any] = {
        name: kept(getattr(run, name)) for name in ("processes", "setups", "cells", "traces", "energy", "loops")
    }
    if run.plan is not None:
        changes["plan"] = run.plan.model_copy(update={"targets": tuple(run.plan.targets[t] for t in targets)})
    return run.model_copy(
        update={
            **changes,
            "target_names": tuple(run.target_names[target] for target in targets),
            "rounds": tuple(item.model_copy(update={"blocks": blocks}) for item, blocks in rounds if blocks),
        }
    )
