"""The record of a validation: timed predictions, the self-check, and every raw sweep, without personal data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args

from pydantic import Field, model_validator

from core.base.evidence import Environment, Interference, PositiveMs, Warning
from core.base.frameworks import Compiled
from core.base.schema import Frozen, UserError
from core.hardware.catalogue import GpuSpec
from core.hardware.curve import card_curve
from core.hardware.host import Conditions, HostCosts, HostKind, Modelling, costs_of_kind
from core.hardware.host_record import HostStudy
from core.hardware.host_study import host_of_study
from core.hardware.interval import Withheld, errors
from core.hardware.model import Limit
from core.networks.families import network_from_name
from core.rounds.run import Run
from core.rounds.study import Study
from core.studies.runner import now
from core.studies.selfcheck.record import UNSAID, SelfCheck, anonymous
from core.workload.execution import expected
from core.workload.spec import Batch, Mode, Target, Workload

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
        for point in card_curve(spec, Modelling(part.workload, target, costs, CONDITIONS), part.batches).points:
            if isinstance(point, Withheld):
                steps.append(Prediction(part=number, batch=point.batch, reason=point.reason))
                continue
            known = {name: getattr(point, name) for name in ("batch", "step_ms", "low_ms", "high_ms", "limited_by")}
            steps.append(Prediction(part=number, **known))
    return Predictions(written_at=now(), host="; ".join(words), errors_dated=errors().dated, steps=tuple(steps))


R = TypeVar("R", Run, HostStudy)


class ValidationStudy(Study):
    """Stored record of a validation.

    ``predictions`` were written before any block was measured, ``again`` after the host had been measured and before
    the first sweep. ``card`` is the catalogue's name, ``device_name`` the driver's. ``host`` is a separate host study
    if the self-check had no time for one.
    """

    noun: ClassVar[str] = "validation"

    target: Target
    card: Words
    device_name: Words
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=MAX_PARTS)]
    predictions: Predictions
    again: Predictions | None = None
    selfcheck: SelfCheck | None = None
    host: HostStudy | None = None
    sweeps: Annotated[tuple[Run, ...], Field(max_length=MAX_PARTS)] = ()

    @property
    def title(self) -> str:
        return f"Predicted and measured: {self.device_words}"

    @property
    def device_words(self) -> str:
        """The driver's name of the card, with the catalogue's name if it differs."""
        return self.device_name if self.device_name == self.card else f"{self.device_name} (modelled as {self.card})"

    def sweep_of(self, part: int) -> Run | None:
        """Return the sweep that measured a part, or None."""
        workload = self.parts[part].workload if part < len(self.parts) else None
        return next((run for run in self.sweeps if run.plan is not None and run.plan.workload == workload), None)


def private_environment(environment: Environment) -> Environment:
    """Return the machine without what distinguishes it from others of its kind."""
    cards = tuple(gpu.model_copy(update={"uuid_hash": None}) for gpu in environment.gpus)
    return environment.model_copy(update={"hostname_hash": "", "gpus": cards})


def private(record: R) -> R:
    """Return a sweep or a host study without paths, names of other programs, and its machine, which the study holds."""
    rounds = tuple(item.model_copy(update={"interference": _unnamed(item.interference)}) for item in record.rounds)
    changes: dict[str, Any] = {"environment": None, "rounds": rounds, "warnings": private_warnings(record.warnings)}
    if isinstance(record, Run):
        changes["cells"] = tuple(cell.model_copy(update={"reason": anonymous(cell.reason)}) for cell in record.cells)
    return record.model_copy(update=changes)


def private_warnings(warnings: Iterable[Warning]) -> tuple[Warning, ...]:
    """Return the warnings without personal names and paths."""
    return tuple(warning.model_copy(update={"text": anonymous(warning.text)}) for warning in warnings)


def _unnamed(seen: Interference) -> Interference:
    """Return the interference without the names of other programs; that a GPU was shared is kept."""
    return seen.model_copy(update={"busiest": (), "gpu_shared_by": (UNSAID,) * bool(seen.gpu_shared_by)})
