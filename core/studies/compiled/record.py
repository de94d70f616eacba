"""Plan and record of a compile study: the programs that XLA makes of one step, for each card and batch size."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from core.base.evidence import Label, Outcome
from core.base.fields import About
from core.base.frameworks import Precision
from core.base.schema import Frozen
from core.hardware.catalogue import GpuSpec
from core.rounds.study import Study
from core.traces.program import Program
from core.workload.spec import Batch, Budget, Target, Workload, refuse_lengths_of, seconds

MAX_CARDS, MAX_SIZES = 64, 16
PRECISIONS: tuple[Precision, ...] = ("float32", "mixed_float16", "mixed_bfloat16")
DEFAULT_BATCHES = (1, 32, 256, 2048)


class CompilePlan(Frozen):
    """Plan of a compile study: every card at every batch size."""

    workload: Workload
    precision: Precision = "float32"
    cards: Annotated[tuple[GpuSpec, ...], Field(min_length=1, max_length=MAX_CARDS)]
    batches: Annotated[
        tuple[Batch, ...],
        Field(min_length=1, max_length=MAX_SIZES),
        About("Batch sizes", "Compiled at each of them, such as 1,32,256."),
    ] = DEFAULT_BATCHES
    budget_s: Annotated[Budget, seconds("Some 2 s per card and batch size; large networks take up to a minute.")] = (
        120.0
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        refuse_lengths_of(self.workload, "a step is compiled for a card")
        if self.precision not in PRECISIONS:
            raise ValueError(f"compiled are {', '.join(PRECISIONS)}, not {self.precision}")
        if len({card.name for card in self.cards}) < len(self.cards) or list(self.batches) != sorted({*self.batches}):
            raise ValueError("each card and each batch size is named once, batch sizes in rising order")
        return self

    @property
    def target(self) -> Target:
        """The worker that compiles."""
        return Target(framework="jax")

    @property
    def title(self) -> str:
        cards = self.cards[0].name if len(self.cards) == 1 else f"{len(self.cards)} cards"
        return f"{self.workload.title} compiled for {cards}"


class CompiledStep(Frozen):
    """One step for a card, by its index, at a batch size: its ``program``, or the ``reason`` why there is none."""

    card: Annotated[int, Field(ge=0, lt=MAX_CARDS)]
    batch: Batch
    outcome: Outcome = "measured"
    reason: str = ""
    program: Program | None = None
    compile_ms: Annotated[float, Field(ge=0)] = 0.0


class CompileStudy(Study):
    """Record of a compile study. ``compiler`` is the version of JAX, and so of the XLA that compiled."""

    noun: ClassVar[str] = "compile study"

    label: Label = "compiled"
    plan: CompilePlan
    compiler: str = ""
    steps: Annotated[tuple[CompiledStep, ...], Field(max_length=MAX_CARDS * MAX_SIZES)] = ()

    @property
    def rounds(self) -> tuple[CompiledStep, ...]:
        """The steps that have a program: all that a study which ended early can keep."""
        return tuple(step for step in self.steps if step.program is not None)

    @property
    def title(self) -> str:
        return self.plan.title
