"""Plan and record of a serving study: requests that really came, at a few rates about the predicted capacity."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from core.base.evidence import Interference, ServedPart
from core.base.schema import Frozen
from core.rounds.study import Study
from core.studies.batch.shapes import Quantity
from core.studies.serving.service import Service
from core.workload.names import in_title, shown_names
from core.workload.spec import Budget, Target, Workload, seconds

MIN_SERVING_BUDGET_S = 20.0


class ServingPlan(Frozen):
    """Plan of a serving study. ``predicted`` is the capacity of each target, in requests/s."""

    workload: Workload
    targets: Annotated[tuple[Target, ...], Field(min_length=1, max_length=6)]
    predicted: tuple[Quantity, ...]
    service: Service
    budget_s: Annotated[
        Budget, Field(ge=MIN_SERVING_BUDGET_S), seconds("For starting a server per target, and for the requests.")
    ] = 120.0
    run_id: str | None = None

    @model_validator(mode="after")
    def _serves(self) -> Self:
        if self.workload.training:
            raise ValueError("a server computes no gradients; serve inference")
        if len(self.predicted) != len(self.targets) or any(each.value <= 0 for each in self.predicted):
            raise ValueError("each target needs a predicted capacity above 0")
        if not self.service.pads:
            raise ValueError("a measured server pads its batches")
        return self

    @property
    def title(self) -> str:
        return f"{self.workload.title} on {in_title(shown_names(self.targets))}, {self.service.promise}"


class Visit(Frozen):
    """Requests at one rate to one target. The server begins empty; the time in which it filled is not among ``parts``.

    ``overrun``: so many requests waited that the visit ended early. ``late_ms`` is the promised percentile of the
    batcher's own delay.
    """

    target: Annotated[int, Field(ge=0)]
    rate_per_s: Annotated[float, Field(gt=0)]
    parts: tuple[ServedPart, ...]
    overrun: bool = False
    batches: int
    served: int
    late_ms: Annotated[float, Field(ge=0)]
    interference: Interference = Interference()


class ServingStudy(Study):
    """Measurements of a serving study, in the order in which they were made."""

    noun: ClassVar[str] = "serving study"

    run_id: str | None = None
    plan: ServingPlan
    visits: tuple[Visit, ...]

    @property
    def title(self) -> str:
        return self.plan.title
