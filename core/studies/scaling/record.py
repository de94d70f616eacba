"""Record of a scaling study: its plan and the raw rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from core.base.evidence import MAX_TARGETS, Process, Setup, Warning
from core.base.fields import About
from core.base.frameworks import MAX_REPLICAS
from core.base.schema import Frozen, UserError
from core.rounds.plan import SweepPlan
from core.rounds.run import MAX_CELLS, MAX_NAME, MAX_PROCESSES, MAX_ROUNDS, MAX_TRACES, MAX_WARNINGS, Cell, Round, Run
from core.rounds.study import Study
from core.traces.record import TracedCell
from core.workload.names import in_title, shown_names
from core.workload.spec import MAX_BATCHES, Batch, Budget, Pipeline, Target, Workload, refuse_mode, seconds

MIN_SCALING_S = 10.0
DEFAULT_BATCHES = "32:4096"
LOGICAL = (Target(), Target(device="cpu:2"))
"""Targets that show the course of a study on any machine, but no speed: both share the same cores."""
TRY_OUT = "Logical CPUs share the cores of one CPU: this tries the study out and shows no speed of several devices"
NOTHING_TO_SHARE = (
    "A scaling study needs two devices, and this machine has {gpus}. Measure it where there are two GPUs and import "
    "the file here; {logical} tries the study out on logical CPUs, which shows no speed."
)


class ScalingPlan(Frozen):
    """Plan of a scaling study. The first target is the one device that the others, with rising device counts, are
    compared with.
    """

    workload: Workload
    targets: Annotated[tuple[Target, ...], Field(min_length=2, max_length=MAX_TARGETS)]
    batches: Annotated[
        tuple[Batch, ...],
        Field(min_length=1, max_length=MAX_BATCHES),
        About(
            "Batch sizes, of all devices together",
            "A range low:high, to which what weak scaling needs is added, or a list 64,128.",
        ),
    ]
    pipeline: Pipeline = Pipeline()
    budget_s: Annotated[
        Budget,
        Field(ge=MIN_SCALING_S),
        seconds(
            "For the whole study. Workers are started again and again, since intervals rest on how much they differ.",
            60,
        ),
    ] = 240.0
    trace: Annotated[
        bool, About("Traces", "Profiler traces at the end, without which the all-reduce is not measured.")
    ] = True

    @field_validator("batches")
    @classmethod
    def _sorted(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _one_device_and_several(self) -> Self:
        first = self.targets[0]
        if first.replicas > 1:
            raise ValueError(f"the first target is one device, such as {first.devices[0]}; “{first}” has several")
        for before, target in pairwise(self.targets):
            if target.replicas <= before.replicas:
                raise ValueError(f"each target has more devices than the one before it; “{target}” has not")
            if target.model_copy(update={"device": first.device}) != first:
                raise ValueError(f"the targets differ in nothing but their devices; “{target}” and “{first}” do")
            if first.device not in target.devices:
                raise ValueError(f"“{target}” lacks the one device that it is held against, {first.device}")
        for target in self.targets:
            refuse_mode(self.workload, target, self.pipeline)
            if not any(batch % target.replicas == 0 for batch in self.batches):
                raise ValueError(
                    f"no batch size is a multiple of {target.replicas}, so {target.replicas} devices share none"
                )
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Targets as people read them."""
        return shown_names(self.targets)

    @property
    def title(self) -> str:
        return f"{self.workload.title}: {in_title(self.names)}"

    @property
    def several(self) -> tuple[int, ...]:
        """Indices of the targets of several devices."""
        return tuple(range(1, len(self.targets)))

    @property
    def is_tried_out(self) -> bool:
        """Tell whether it runs on logical devices of one CPU."""
        return self.targets[0].on_cpu

    def targets_at(self, batch: int) -> tuple[int, ...]:
        """Return the targets that can divide the batch evenly."""
        return tuple(index for index, target in enumerate(self.targets) if batch % target.replicas == 0)

    @property
    def as_sweep(self) -> SweepPlan:
        """The plan in the form that workers and charts of sweeps take; not every target has every batch."""
        return SweepPlan(
            workload=self.workload,
            targets=self.targets,
            batches=self.batches,
            refine=False,
            pipeline=self.pipeline,
            budget_s=self.budget_s,
            trace=self.trace,
        )


def usual_targets(gpus: Sequence[str]) -> tuple[Target, ...]:
    """Return the first GPU, two, four and so on, and all of them, up to eight. Raises UserError for fewer than two."""
    if len(gpus) < 2:
        here = f"one, {gpus[0]}" if gpus else "no GPU"
        raise UserError(NOTHING_TO_SHARE.format(gpus=here, logical="--targets cpu cpu:2"))
    return of_counts(gpus, doubling(min(len(gpus), MAX_REPLICAS)))


def doubling(most: int) -> tuple[int, ...]:
    """Return 1, 2, 4, … and ``most``."""
    return tuple(sorted({2**power for power in range(most.bit_length()) if 2**power <= most} | {most}))


def of_counts(gpus: Sequence[str], counts: Iterable[int]) -> tuple[Target, ...]:
    """Return the first ``counts`` of these GPUs, such as ``gpu:0``, as targets."""
    indices = [gpu.removeprefix("gpu:") for gpu in gpus]
    return tuple(Target(device=f"gpu:{'+'.join(indices[:count])}") for count in counts)


def shared_grid(grid: Sequence[int], targets: Sequence[Target]) -> tuple[int, ...]:
    """Return the batch sizes and, up to the largest, their multiples by each target's device count, for weak scaling.

    Raises UserError if they are too many.
    """
    multiples = {batch * target.replicas for batch in grid for target in targets}
    chosen = tuple(sorted({*grid, *(batch for batch in multiples if batch <= max(grid))}))
    if len(chosen) > MAX_BATCHES:
        raise UserError(f"{len(chosen)} batch sizes are too many; at most {MAX_BATCHES} are accepted.")
    return chosen


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
