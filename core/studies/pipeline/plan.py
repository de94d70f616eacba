"""Plan of a pipeline study: one workload, target and batch, fed in many ways, as the arms of an experiment.

Arm 0 has its data resident on the device and is the reference for all others; then a host array; then the base, the
``tf.data`` pipeline as it was chosen. Every further arm is the base with one field changed and belongs to the *family*
of that field. The base belongs to all families. With user data, resident and host arms still hold random arrays of the
same shape: they show the cost of a step that never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, Self

from pydantic import model_validator

from core.base.fields import About
from core.base.schema import Frozen
from core.studies.experiment.record import Arm
from core.workload.names import full_name
from core.workload.spec import (
    AUTOTUNE,
    Batch,
    Budget,
    Pipeline,
    Target,
    Workload,
    refuse_call,
    refuse_lengths_of,
    seconds,
)

Family = Literal["prefetch", "calls", "cost"]
FIELDS: dict[Family, str] = {"prefetch": "prefetch", "calls": "parallel_calls", "cost": "preprocess_us"}
RESIDENT, HOST, BASE = "resident", "host", "base"
VALUES: dict[Family, tuple[float | str, ...]] = {
    "prefetch": (0, 1, 2, 4, AUTOTUNE),
    "calls": (1, 2, 4, AUTOTUNE),
    "cost": (0.0, 50.0, 100.0, 200.0, 500.0),  # below about 30 µs the worker's preprocessing cannot be set
}
DEFAULT_BASE = Pipeline(kind="tfdata", prefetch=AUTOTUNE, parallel_calls=AUTOTUNE, preprocess_us=50.0)


class PipelinePlan(Frozen):
    """Plan of a pipeline study; ``base`` is a ``tf.data`` pipeline, whose ``data`` is the user's, if given."""

    workload: Workload
    target: Target
    batch: Annotated[Batch, About("Batch size", "Every way of feeding is measured at this batch.")] = 64
    base: Pipeline = DEFAULT_BASE
    budget_s: Annotated[
        Budget,
        seconds(
            "For the whole study. Workers are started three times, so that intervals can be given; with some 14 ways "
            "of feeding, less than a minute is not enough for that."
        ),
    ] = 120.0

    @model_validator(mode="after")
    def _base_is_tfdata(self) -> Self:
        if self.base.kind != "tfdata":
            raise ValueError("a pipeline study varies a tf.data pipeline; choose the tfdata pipeline")
        refuse_call(self.target, "ways of feeding are measured")
        refuse_lengths_of(self.workload, "ways of feeding are measured")
        return self

    @property
    def title(self) -> str:
        return f"{self.workload.title} on {full_name(self.target)}, batch {self.batch:,}"

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All ways of feeding, each measured once; codes are "resident", "host", "base", "prefetch-2", "cost-50"."""
        ways = [
            (RESIDENT, "Resident on the device", Pipeline()),
            (HOST, "Host array fed each step", Pipeline(kind="host")),
            (BASE, "As chosen", self.base),
        ]
        for family, values in VALUES.items():
            if family != "calls" or has_work(self.base):
                ways += _varied(self.base, family, values)
        return tuple(
            Arm(code=code, title=title, target=self.target, pipeline=pipeline, batch=self.batch)
            for code, title, pipeline in ways
        )


def has_work(base: Pipeline) -> bool:
    """Tell whether the base has a map that does work; without one, parallel calls have nothing to share."""
    return base.preprocess_us > 0 or base.data is not None


def _varied(base: Pipeline, family: Family, values: Sequence[float | str]) -> list[tuple[str, str, Pipeline]]:
    field = FIELDS[family]
    changed = (base.model_copy(update={field: value}) for value in values if value != getattr(base, field))
    return [(f"{family}-{_short(getattr(way, field))}", _title(family, way), way) for way in changed]


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def setting(family: Family, pipeline: Pipeline) -> str:
    """Return the value of a family's field in words: "off", "2", "AUTOTUNE"; costs in µs per sample."""
    value = getattr(pipeline, FIELDS[family])
    if family == "cost":
        return f"{value:,g}"
    return "off" if not value else "AUTOTUNE" if value == AUTOTUNE else str(value)


def _title(family: Family, pipeline: Pipeline) -> str:
    words: dict[Family, str] = {
        "prefetch": "Prefetch {}", "calls": "Parallel calls: {}", "cost": "Preprocessing {} µs per sample",
    }  # fmt: skip
    return words[family].format(setting(family, pipeline))


def members(arms: Sequence[Arm], family: Family) -> tuple[int, ...]:
    """Return indices of a family's arms with the base, by rising value (AUTOTUNE last); empty for a base alone."""
    indices = [i for i, arm in enumerate(arms) if arm.code == BASE or arm.code.startswith(f"{family}-")]
    return tuple(sorted(indices, key=_order(arms, FIELDS[family]))) if len(indices) > 1 else ()


def _order(arms: Sequence[Arm], field: str) -> Callable[[int], tuple[bool, float]]:
    def key(index: int) -> tuple[bool, float]:
        value = getattr(arms[index].pipeline, field)
        return (True, 0.0) if value == AUTOTUNE else (False, float(value or 0))

    return key
