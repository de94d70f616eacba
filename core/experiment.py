"""Variants of one step measured side by side: what a pipeline study and a diagnosis record. Immutable, strict JSON.

An *arm* is one way to run the workload's step: target, pipeline and batch. A round holds one block of every arm, close
together in time, in an order that turns with each round, so that ratios between arms are paired within rounds.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from core.results import Environment, Label, Noise, Outcome, PositiveMs, Run, Warning
from core.spec import Batch, Frozen, Pipeline, Target, Workload, explain

EXPERIMENT_SCHEMA: Literal[1] = 1
MAX_ARMS = 64
Ended = Literal["finished", "cancelled", "failed"]


class Arm(Frozen):
    """One variant; ``code`` is stable and unique within its experiment, ``title`` is for people."""

    code: str
    title: str
    target: Target
    pipeline: Pipeline
    batch: Batch


class ArmBlock(Frozen):
    """``steps`` consecutive steps of one arm, closed by one synchronisation. ``arm`` is an index into ``arms``."""

    arm: Annotated[int, Field(ge=0)]
    process: Annotated[int, Field(ge=0)]
    steps: Annotated[int, Field(ge=1)]
    step_ms: PositiveMs
    at_s: float = 0.0


class ArmRound(Frozen):
    """One block of each arm that could run, in the order they ran."""

    index: Annotated[int, Field(ge=0)]
    blocks: Annotated[tuple[ArmBlock, ...], Field(min_length=1)]
    noise: Noise = Noise()

    def step_ms(self, arm: int) -> float | None:
        return next((block.step_ms for block in self.blocks if block.arm == arm), None)


class ArmOutcome(Frozen):
    """Why an arm has no (more) rounds."""

    arm: Annotated[int, Field(ge=0)]
    outcome: Outcome
    reason: str = ""


class Experiment(Frozen):
    """What was measured. ``process`` in blocks counts starts of the workers; arm 0 is what others are compared with."""

    schema_version: Literal[1] = EXPERIMENT_SCHEMA
    workload: Workload
    arms: Annotated[tuple[Arm, ...], Field(min_length=1, max_length=MAX_ARMS)]
    rounds: tuple[ArmRound, ...] = ()
    outcomes: tuple[ArmOutcome, ...] = ()
    warnings: tuple[Warning, ...] = ()
    label: Label = "measured"
    status: Ended = "finished"
    created_at: str = ""
    elapsed_s: float = 0.0
    budget_s: float = 0.0
    environment: Environment | None = None

    def index_of(self, code: str) -> int | None:
        return next((i for i, arm in enumerate(self.arms) if arm.code == code), None)

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Experiment:
        """Raises ValueError with a sentence."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ValueError(f"This is no Breakeven experiment: {explain(error)}") from None


class Rerun(Frozen):
    """The crossover measured anew with one remedy applied: ``code`` is the arm's, ``run`` a whole small sweep."""

    code: str
    run: Run


class Diagnosis(Frozen):
    """Remedies for one target of a finished run at one batch, measured; findings are derived from this each time.

    ``experiment.arms[0]`` is the target as the run had it. ``skipped`` says of remedies why they were not tried.
    """

    schema_version: Literal[1] = EXPERIMENT_SCHEMA
    run_id: str
    target: Annotated[int, Field(ge=0, le=1)]
    batch: Batch
    experiment: Experiment
    skipped: dict[str, str] = Field(default_factory=dict)
    reruns: tuple[Rerun, ...] = ()

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Diagnosis:
        """Raises ValueError with a sentence."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ValueError(f"This is no Breakeven diagnosis: {explain(error)}") from None
