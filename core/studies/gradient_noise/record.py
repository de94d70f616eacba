"""A noise study: how noisy the gradients of a workload are while it trains, and how many steps a loss takes.

The noise says how much a larger batch saves in steps (:mod:`core.studies.gradient_noise.answer`). It needs a task that
can be learnt: labels drawn at random have no signal, so that nothing could be learnt from them. Without user data,
a teacher gives the labels: a network of the same architecture with other random weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from core.schema import Frozen
from core.studies.gradient_noise.plan import NoisePlan
from core.studies.study import Study

TARGET_SHARE = 0.5
"""Of the loss at the start: the loss to reach where none is chosen. The untrained network's is at least about that of
guessing; half of it is far enough for the noise to have grown and near enough for a small budget."""

SMOOTHED = 5  # neighbouring held-out losses, some 25 % of a training's steps


class GradientDraw(Frozen):
    """One draw after ``step`` steps: |G|² of batches of ``small`` samples (the mean) and of one of ``big`` samples."""

    step: Annotated[int, Field(ge=0)]
    small: Annotated[int, Field(ge=1)]
    big: Annotated[int, Field(ge=2)]
    small_norm2: Annotated[float, Field(ge=0)]
    big_norm2: Annotated[float, Field(ge=0)]

    @model_validator(mode="after")
    def _big_is_larger(self) -> Self:
        if self.big <= self.small:
            raise ValueError("the big batch of a draw must be larger than the small one")
        return self


class LossPoint(Frozen):
    """Mean loss on held-out samples after ``step`` steps at the reference batch."""

    step: Annotated[int, Field(ge=0)]
    loss: Annotated[float, Field(ge=0)]


class NoiseStudy(Study):
    """What was measured. ``target_loss`` is the one that counted; ``losses`` begin with the untrained network's.

    ``samples`` are those trained on, None where they are drawn without end (a teacher's task).
    """

    noun: ClassVar[str] = "noise study"

    run_id: str | None = None
    plan: NoisePlan
    draws: tuple[GradientDraw, ...] = ()
    losses: tuple[LossPoint, ...] = ()
    initial_loss: Annotated[float, Field(ge=0)]
    target_loss: Annotated[float, Field(gt=0)]
    samples: int | None = None

    @property
    def steps(self) -> int:
        """How far training went."""
        return self.losses[-1].step if self.losses else 0

    @property
    def steps_to_loss(self) -> float | None:
        """Steps at the reference batch to the target loss (:func:`steps_to`); None: not reached."""
        return steps_to(self.target_loss, self.losses)

    @property
    def title(self) -> str:
        return self.plan.title


def steps_to(target_loss: float, losses: Sequence[LossPoint]) -> float | None:
    """Steps until the loss, smoothed, is first at the target, interpolated; None where it is not.

    A running mean over ``SMOOTHED`` points, of steps and losses alike: a single point of a training that jitters is
    below the target the sooner, the more often one looks.
    """
    before: tuple[float, float] | None = None
    for end in range(1, len(losses) + 1):
        window = losses[max(0, end - SMOOTHED) : end]
        step, loss = fmean(point.step for point in window), fmean(point.loss for point in window)
        if loss <= target_loss:
            if before is None:
                return None  # there from the start: nothing had to be learnt
            return before[0] + (before[1] - target_loss) / (before[1] - loss) * (step - before[0])
        before = step, loss
    return None
