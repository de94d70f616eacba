"""Plan of a gradient noise study."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from core.names import full_name
from core.schema import Frozen
from core.spec import MAX_BUDGET_S, MAX_PATH, Batch, Optimizer, Pipeline, Target, Workload, refuse_several

MIN_BATCH_TRAINED = 4


DEFAULT_BATCH, DEFAULT_BUDGET_S, MIN_NOISE_BUDGET_S = 64, 60.0, 10.0


DEFAULT_RATES: dict[Optimizer, float] = {"adam": 0.001, "sgd": 0.01, "momentum": 0.01}
"""Learning rates: Keras's own defaults for Adam and SGD."""


class NoisePlan(Frozen):
    """Plan of a noise study: ``batch`` is the reference batch that trains; ``learning_rate`` and ``target_loss`` have
    defaults.

    Of the target only device and threads count; training runs in float32 with compiled functions.
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
        refuse_several(self.target, "the noise scale is measured")
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
