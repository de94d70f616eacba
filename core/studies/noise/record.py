"""Record of a noise study: the noise of a workload's gradients while it trains, and the steps to a loss.

The noise tells how many steps a larger batch saves (:mod:`core.studies.noise.answer`). It needs a learnable
task: randomly drawn labels hold no signal. Without user data, a teacher gives the labels: a network of the same
architecture with other random weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from core.base.fields import About
from core.base.schema import Frozen
from core.rounds.study import Study
from core.workload.names import full_name
from core.workload.spec import (
    MAX_PATH,
    Batch,
    Budget,
    Optimizer,
    Pipeline,
    Target,
    Workload,
    refuse_call,
    refuse_lengths_of,
    refuse_several,
    seconds,
)

MIN_BATCH_TRAINED = 4


MIN_NOISE_BUDGET_S = 10.0


DEFAULT_RATES: dict[Optimizer, float] = {"adam": 0.001, "sgd": 0.01, "momentum": 0.01}
"""Learning rates: Keras's own defaults for Adam and SGD."""


class NoisePlan(Frozen):
    """Plan of a noise study: ``batch`` is the reference batch that trains; ``learning_rate`` and ``target_loss`` have
    defaults.

    Of the target only device and threads count; training runs in float32 with compiled functions.
    """

    workload: Workload
    target: Target = Target()
    data: Annotated[
        Annotated[str, Field(min_length=1, max_length=MAX_PATH)] | None,
        About(
            "Your own labelled data",
            "A path on this machine: an .npz file with labels beside the samples, TFRecord files, or a folder with a "
            "sub-folder per class.",
            empty="the task of a teacher network",
        ),
    ] = None
    batch: Annotated[
        Batch,
        Field(ge=MIN_BATCH_TRAINED),
        About("Reference batch", "Batch size at which it trains and steps are counted."),
    ] = 64
    learning_rate: Annotated[
        Annotated[float, Field(gt=0, le=100)] | None,
        About("Learning rate", "Of the training.", empty="Keras's own for the optimizer", step=0.001),
    ] = None
    target_loss: Annotated[
        Annotated[float, Field(gt=0, le=1e6)] | None,
        About("Loss to reach", "On held-out samples.", empty="half of the untrained network's loss", step=0.01),
    ] = None
    budget_s: Annotated[
        Budget, Field(ge=MIN_NOISE_BUDGET_S), seconds("For the training, which ends earlier where the loss is reached.")
    ] = 60.0
    run_id: str | None = None

    @field_validator("data")
    @classmethod
    def _local(cls, value: str | None) -> str | None:
        return Pipeline(kind="tfdata", data=value).data

    @model_validator(mode="after")
    def _trains(self) -> Self:
        if not self.workload.training:
            raise ValueError("only training has gradients; inference has no noise scale")
        refuse_several(self.target, "the noise scale is measured")
        refuse_call(self.target, "the noise scale is measured")
        refuse_lengths_of(self.workload, "the noise scale is measured")
        return self

    @property
    def rate(self) -> float:
        return DEFAULT_RATES[self.workload.optimizer] if self.learning_rate is None else self.learning_rate

    @property
    def task(self) -> str:
        """The task in words: “labels of a teacher network” or “own data (train.npz)”."""
        if self.data is None:
            return "random inputs with the labels of a teacher network"
        return f"own data ({self.data.rpartition('/')[2]})"

    @property
    def title(self) -> str:
        return f"{self.workload.title} on {full_name(self.target)}, batch {self.batch:,}, {self.task}"


TARGET_SHARE = 0.5
"""Default loss to reach, as a share of the initial loss. The untrained network's is at least about that of guessing;
half of it is far enough for the noise to have grown and near enough for a small budget."""

SMOOTHED = 5  # neighbouring held-out losses in the running mean, some 25 % of a training's steps


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
    """Measurements of a noise study. ``target_loss`` is the one used; ``losses`` begin with the untrained network's.

    ``samples`` is the number trained on, None if they are drawn endlessly (a teacher's task).
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
        """Number of training steps taken."""
        return self.losses[-1].step if self.losses else 0

    @property
    def steps_to_loss(self) -> float | None:
        """Steps at the reference batch to the target loss (:func:`steps_to`); None: not reached."""
        return steps_to(self.target_loss, self.losses)

    @property
    def title(self) -> str:
        return self.plan.title


def steps_to(target_loss: float, losses: Sequence[LossPoint]) -> float | None:
    """Return the steps until the smoothed loss first reaches the target, interpolated; None if it does not.

    Steps and losses are running means over ``SMOOTHED`` points: with single points of a noisy training, looking more
    often would find the target earlier.
    """
    before: tuple[float, float] | None = None
    for end in range(1, len(losses) + 1):
        window = losses[max(0, end - SMOOTHED) : end]
        step, loss = fmean(point.step for point in window), fmean(point.loss for point in window)
        if loss <= target_loss:
            if before is None:
                return None  # reached from the start: there was nothing to learn
            return before[0] + (before[1] - target_loss) / (before[1] - loss) * (step - before[0])
        before = step, loss
    return None
