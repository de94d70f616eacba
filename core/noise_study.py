"""A noise study: how noisy the gradients of a workload are while it trains, and how many steps a loss takes.

The noise says how much a larger batch saves in steps (:mod:`core.analysis.noise_scale`). It needs a task that can be
learnt: labels drawn at random have no signal, so that nothing could be told from them. Without data of the person's
own, a teacher gives the labels: a network of the same architecture with other random weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from core.datasource import DataError, Source, check_data, check_fits
from core.experiment import Ended
from core.results import Environment, Label, Warning
from core.spec import MAX_BUDGET_S, MAX_PATH, Batch, Frozen, Optimizer, Pipeline, Target, Workload, explain

NOISE_SCHEMA: Literal[1] = 1
MIN_BATCH_TRAINED = 4
DEFAULT_BATCH, DEFAULT_BUDGET_S, MIN_NOISE_BUDGET_S = 64, 60.0, 10.0
DEFAULT_RATES: dict[Optimizer, float] = {"adam": 0.001, "sgd": 0.01, "momentum": 0.01}
"""Learning rates: Keras's own defaults for Adam and SGD."""

TARGET_SHARE = 0.5
"""Of the loss at the start: the loss to reach where none is chosen. The untrained network's is at least about that of
guessing; half of it is far enough for the noise to have grown and near enough for a small budget."""

SMOOTHED = 5  # neighbouring held-out losses, some 25 % of a training's steps

RANDOM_LABELS = (
    "Labels drawn at random hold no signal to learn, so they have no gradient noise scale; labels come from a teacher "
    "network or from your own files."
)


class NoisePlan(Frozen):
    """``batch`` is the reference batch that trains; ``learning_rate`` and ``target_loss`` have defaults where None.

    Of the target, device and threads count; training runs in float32 with compiled functions.
    """

    workload: Workload
    target: Target = Target()
    data: Annotated[str, Field(min_length=1, max_length=MAX_PATH)] | None = None
    batch: Annotated[Batch, Field(ge=MIN_BATCH_TRAINED)] = DEFAULT_BATCH
    learning_rate: Annotated[float, Field(gt=0, le=100)] | None = None
    target_loss: Annotated[float, Field(gt=0, le=1e6)] | None = None
    budget_s: Annotated[float, Field(ge=MIN_NOISE_BUDGET_S, le=MAX_BUDGET_S)] = DEFAULT_BUDGET_S
    run_id: str | None = None

    @field_validator("data")
    @classmethod
    def _local(cls, value: str | None) -> str | None:
        return Pipeline(kind="tfdata", data=value).data

    @model_validator(mode="after")
    def _trains(self) -> Self:
        if not self.workload.training:
            raise ValueError("only training has gradients; inference has no noise scale")
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
        return f"{self.workload.title} on {self.target}, batch {self.batch:,}, {self.task}"


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


class NoiseStudy(Frozen):
    """What was measured. ``target_loss`` is the one that counted; ``losses`` begin with the untrained network's.

    ``samples`` are those trained on, None where they are drawn anew without end (a teacher's task).
    """

    schema_version: Literal[1] = NOISE_SCHEMA
    run_id: str | None = None
    plan: NoisePlan
    draws: tuple[GradientDraw, ...] = ()
    losses: tuple[LossPoint, ...] = ()
    initial_loss: Annotated[float, Field(ge=0)]
    target_loss: Annotated[float, Field(gt=0)]
    samples: int | None = None
    status: Ended = "finished"
    label: Label = "measured"
    environment: Environment | None = None
    created_at: str = ""
    elapsed_s: float = 0.0
    warnings: tuple[Warning, ...] = ()

    @property
    def steps(self) -> int:
        """How far training went."""
        return self.losses[-1].step if self.losses else 0

    @property
    def steps_to_loss(self) -> float | None:
        """Steps at the reference batch to the target loss (:func:`steps_to`); None: not reached."""
        return steps_to(self.target_loss, self.losses)

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> NoiseStudy:
        """Raises ValueError with a sentence."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ValueError(f"This is no Breakeven noise study: {explain(error)}") from None


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


def check_labelled(path: str, workload: Workload) -> Source:
    """The person's own data, which must fit the network and hold labels. Raises DataError with a sentence.

    Whether TFRecord files hold labels is only seen by the worker, which reads them.
    """
    source = check_data(path)
    check_fits(source, workload)
    if (source.kind == "arrays" and source.y is None) or source.folders == ("",):
        where = (
            "an .npz file with the labels beside the samples" if source.kind == "arrays" else "one sub-folder a class"
        )
        raise DataError(f"{source.name} holds no labels, and random ones hold no signal to learn; give {where}.")
    return source
