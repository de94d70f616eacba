"""Record of variants of one step measured side by side, for a pipeline study or a diagnosis. Immutable, strict JSON.

An *arm* is one way to run the workload's step: target, pipeline and batch. A round holds one block of every arm, close
together in time, in an order that rotates with each round, so that ratios between arms are paired within rounds.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from core.base.evidence import CellSetup, Interference, Outcome, PositiveMs, StoredInterference, WakeMs
from core.base.schema import Frozen
from core.rounds.study import Study
from core.workload.names import full_name
from core.workload.spec import Batch, Pipeline, Target, Workload

MAX_ARMS = 64


class Arm(Frozen):
    """One variant; ``code`` is stable and unique within its experiment, ``title`` is for people."""

    code: str
    title: str
    target: Target
    pipeline: Pipeline
    batch: Batch


class ArmBlock(Frozen):
    """``steps`` consecutive steps of one arm, closed by one synchronisation. ``arm`` is an index into ``arms``;
    ``wake_ms`` as in :class:`core.base.evidence.Block`.
    """

    arm: Annotated[int, Field(ge=0)]
    process: Annotated[int, Field(ge=0)]
    steps: Annotated[int, Field(ge=1)]
    step_ms: PositiveMs
    at_s: float = 0.0
    wake_ms: WakeMs = None


class ArmRound(Frozen):
    """One block of each arm that could run, in the order they ran."""

    index: Annotated[int, Field(ge=0)]
    blocks: Annotated[tuple[ArmBlock, ...], Field(min_length=1)]
    interference: StoredInterference = Interference()

    def step_ms(self, arm: int) -> float | None:
        return next((block.step_ms for block in self.blocks if block.arm == arm), None)


class ArmSetup(CellSetup):
    """Preparation of an arm in one start; kept for inputs of several lengths, whose first pass counts."""

    arm: Annotated[int, Field(ge=0)]


class ArmOutcome(Frozen):
    """Reason why an arm has no (more) rounds."""

    arm: Annotated[int, Field(ge=0)]
    outcome: Outcome
    reason: str = ""


class Experiment(Study):
    """Measurements of all arms. ``process`` in blocks counts starts of the workers; arm 0 is the reference."""

    noun: ClassVar[str] = "experiment"

    workload: Workload
    arms: Annotated[tuple[Arm, ...], Field(min_length=1, max_length=MAX_ARMS)]
    rounds: tuple[ArmRound, ...] = ()
    outcomes: tuple[ArmOutcome, ...] = ()
    setups: Annotated[tuple[ArmSetup, ...], Field(exclude_if=lambda setups: not setups)] = ()
    budget_s: float = 0.0

    def index_of(self, code: str) -> int | None:
        return next((i for i, arm in enumerate(self.arms) if arm.code == code), None)

    @property
    def title(self) -> str:
        return f"{self.workload.title} on {full_name(self.arms[0].target)}, batch {self.arms[0].batch:,}"
