"""Record of a frontier study."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from core.evidence import Block, Interference, Outcome, StoredInterference, TargetIndex
from core.schema import Frozen
from core.studies.frontier.plan import MAX_ROUNDS, FrontierPlan
from core.studies.study import Study


class FrontierRound(Frozen):
    """One block of each target at one setting, in the order they ran. ``setting`` is an index into ``plan.settings``.

    ``process`` in blocks counts starts of the workers.
    """

    index: Annotated[int, Field(ge=0)]
    setting: Annotated[int, Field(ge=0)]
    blocks: Annotated[tuple[Block, ...], Field(min_length=2, max_length=2)]
    interference: StoredInterference = Interference()

    def step_ms(self, target: int) -> float:
        return next(block.step_ms for block in self.blocks if block.target == target)

    @model_validator(mode="after")
    def _both_targets(self) -> Self:
        if {block.target for block in self.blocks} != {0, 1}:
            raise ValueError("a round holds one block of each target")
        return self


class FrontierOutcome(Frozen):
    """Reason why a setting has no (more) rounds; ``target`` is the one that failed, None if neither did."""

    setting: Annotated[int, Field(ge=0)]
    target: TargetIndex | None = None
    outcome: Outcome
    reason: str = ""


class FrontierStudy(Study):
    """Measurements of a frontier study. Every statistic is derived from the rounds, each time."""

    noun: ClassVar[str] = "frontier study"

    plan: FrontierPlan
    rounds: Annotated[tuple[FrontierRound, ...], Field(max_length=MAX_ROUNDS)] = ()
    outcomes: tuple[FrontierOutcome, ...] = ()

    @model_validator(mode="after")
    def _settings_exist(self) -> Self:
        count = len(self.plan.settings)
        if max((*(r.setting for r in self.rounds), *(o.setting for o in self.outcomes)), default=0) >= count:
            raise ValueError(f"a round or outcome names a setting beyond the plan's {count:,}")
        return self

    @property
    def measured(self) -> tuple[int, ...]:
        """Indices of the settings that have a round, rising."""
        return tuple(sorted({item.setting for item in self.rounds}))

    @property
    def starts(self) -> int:
        """Number of starts of the workers that have a round."""
        return len({item.blocks[0].process for item in self.rounds})

    @property
    def title(self) -> str:
        return self.plan.title
