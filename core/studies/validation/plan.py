"""The predictions and measurements of a validation: five networks, training and inference, four batch sizes each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Self, get_args

from pydantic import Field, model_validator

from core.analysis.execution import expected
from core.evidence import PositiveMs
from core.families import network_from_name
from core.frameworks import Compiled
from core.hardware.catalogue import GpuSpec
from core.hardware.conditions import Conditions
from core.hardware.host import HostCosts, HostKind
from core.hardware.host_kinds import costs_of_kind
from core.hardware.host_study import host_of_study
from core.hardware.interval import Withheld, errors
from core.hardware.model import Limit
from core.hardware.plausible import card_curve
from core.schema import Frozen, UserError
from core.spec import Batch, Mode, Target, Workload
from core.studies.host.record import HostStudy
from core.studies.runner import now

NETWORKS: dict[str, tuple[int, ...]] = {
    "784-512-512-10": (1, 32, 1024, 8192),
    "resnet8": (1, 16, 128, 1024),
    "bert-tiny-like": (1, 8, 64, 512),
    "cnn-32x32x3-64x6-k3-bn-max-10": (1, 16, 128, 1024),
    "1024-4096-4096-4096-10": (1, 32, 1024, 8192),
}
"""Batch sizes by network: from steps that launches limit to steps that the card's rates limit, below 5 GB."""
MAX_PARTS, MAX_PREDICTIONS, MAX_WORDS = 40, 400, 1_000
Words = Annotated[str, Field(max_length=MAX_WORDS)]
CONDITIONS = Conditions(fed=False, build="keras", under_fit=False)
"""Conditions of the sweeps: Keras 3 as it is installed, data resident, without the loop of ``fit``."""
MINUTES = 30.0

HostOf = Callable[[Workload, Compiled], HostCosts]
"""Function that returns the host's costs for steps of a workload and an execution."""


class Part(Frozen):
    """The steps of one sweep."""

    workload: Workload
    batches: Annotated[tuple[Batch, ...], Field(min_length=1, max_length=MAX_PARTS)]


class Prediction(Frozen):
    """A step time with its 95 % interval, or the ``reason`` why the model gives none. ``part``: index of the part."""

    part: Annotated[int, Field(ge=0, lt=MAX_PARTS)]
    batch: Batch
    step_ms: PositiveMs | None = None
    low_ms: PositiveMs | None = None
    high_ms: PositiveMs | None = None
    limited_by: Limit | None = None
    reason: Words = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        times = (self.low_ms, self.step_ms, self.high_ms)
        known = [ms for ms in times if ms is not None]
        if known and (len(known) < len(times) or known != sorted(known)):
            raise ValueError("a prediction needs low_ms <= step_ms <= high_ms, or none of them")
        return self


class Predictions(Frozen):
    """All predictions, written at one time (UTC).

    ``host`` describes what was known of the machine's own costs, ``errors_dated`` the data behind the intervals.
    """

    written_at: Words
    host: Words
    errors_dated: Words
    steps: Annotated[tuple[Prediction, ...], Field(max_length=MAX_PREDICTIONS)]


@dataclass(frozen=True)
class ValidationPlan:
    """Plan of a validation, made after its ``predictions`` were written.

    ``device_name`` is the driver's name of the card that is modelled as ``spec``; ``host`` is the kind of host assumed
    if none was measured.
    """

    spec: GpuSpec
    device_name: str
    target: Target
    host: HostKind
    predictions: Predictions
    budget_s: float = 60 * MINUTES


def parts() -> tuple[Part, ...]:
    """Return every sweep in its order; each network is in the first half, so that a short budget leaves none out."""
    modes: tuple[Mode, ...] = get_args(Mode)
    first = [(name, modes[place % 2]) for place, name in enumerate(NETWORKS)]
    second = [(name, modes[1 - place % 2]) for place, name in enumerate(NETWORKS)]
    return tuple(
        Part(workload=Workload(network=network_from_name(name), mode=mode), batches=NETWORKS[name])
        for name, mode in (*first, *second)
    )


def make_plan(
    spec: GpuSpec, device_name: str, target: Target, host: HostKind, study: HostStudy | None, budget_s: float
) -> ValidationPlan:
    """Write the predictions, with the host as ``study`` measured it if given, and plan their measurement."""
    predictions = predict_all(spec, target, parts(), host_of(study, host))
    return ValidationPlan(spec, device_name, target, host, predictions, budget_s)


def host_of(study: HostStudy | None, kind: HostKind) -> HostOf:
    """Return the measured costs of the host, or those of the kind if there is no study or it lacks such steps."""

    def costs(workload: Workload, execution: Compiled) -> HostCosts:
        if study is not None:
            try:
                return host_of_study(study, workload.mode, execution)
            except UserError:  # the study may lack XLA, whose compiler may be missing
                pass
        return costs_of_kind(kind, execution)

    return costs


def predict_all(spec: GpuSpec, target: Target, planned: Iterable[Part], host: HostOf) -> Predictions:
    """Predict every step now, as the Hardware page models it."""
    steps: list[Prediction] = []
    words: dict[str, None] = {}
    for number, part in enumerate(planned):
        costs = host(part.workload, expected(part.workload.network, target).execution)
        words[costs.words] = None
        for point in card_curve(spec, part.workload, target, part.batches, costs, CONDITIONS).points:
            if isinstance(point, Withheld):
                steps.append(Prediction(part=number, batch=point.batch, reason=point.reason))
                continue
            known = {name: getattr(point, name) for name in ("batch", "step_ms", "low_ms", "high_ms", "limited_by")}
            steps.append(Prediction(part=number, **known))
    return Predictions(written_at=now(), host="; ".join(words), errors_dated=errors().dated, steps=tuple(steps))
