"""The cost of driving a device on a machine's CPU: per step, per operation, and added to a step by the loop of ``fit``.

It is measured (:mod:`core.hardware.host_study`) or assumed for a kind of host.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal, get_args

from pydantic import Field

from core.base.frameworks import Compiled, Execution
from core.base.schema import Frozen
from core.workload.spec import Target, Workload

Microseconds = Annotated[float, Field(ge=0)]
HostKind = Literal["unnamed", "weak", "desktop", "recent_desktop", "server", "recent_server"]
KIND_WORDS: dict[HostKind, str] = {
    "unnamed": "a host that nobody named",
    "weak": "a weak cloud machine",
    "desktop": "a desktop of before 2020",
    "recent_desktop": "a desktop of 2020 or later",
    "server": "a server of before 2020",
    "recent_server": "a server of 2020 or later",
}
NAMED_KINDS: tuple[HostKind, ...] = tuple(kind for kind in get_args(HostKind) if kind != "unnamed")
HostLabel = Literal["measured", "recorded", "assumed"]


class _Costs(Frozen):
    """The time that a machine's CPU spends on driving a device, in microseconds.

    ``per_op_us`` per operation of a graph, ``eager_op_us`` per operation run eagerly, ``xla_call_us`` per compiled
    step, ``step_us`` per step of any kind, ``fit_us`` added to a step by the loop of ``fit``.
    """

    per_op_us: Microseconds
    xla_call_us: Microseconds
    eager_op_us: Microseconds
    step_us: Microseconds
    fit_us: Microseconds = 0.0


COSTS = tuple(_Costs.model_fields)


def op_field(execution: Execution) -> str:
    """Return the name of the cost per operation in that execution."""
    return "eager_op_us" if execution == "eager" else "per_op_us"


class HostOverhead(_Costs):
    """The costs of one host."""

    label: Literal["measured", "assumed"]


@dataclass(frozen=True)
class Cost:
    """Microseconds with 95 % bounds; None if there are too few rounds to support them."""

    us: float
    low_us: float | None
    high_us: float | None


@dataclass(frozen=True)
class FitCost(Cost):
    """The cost that the loop of ``fit`` (for inference ``predict``) itself adds to a step, and its source.

    A host study does not measure it.
    """

    source: str
    label: HostLabel


@dataclass(frozen=True)
class HostCosts:
    """The model's view of a host for steps of one execution: costs with their intervals, and their source.

    ``fit`` enters steps under ``fit`` alone. ``kind`` is None for a measured host. ``spread`` is the factor by which
    all costs of a kind may be off together.
    """

    host: HostOverhead
    execution: Compiled
    step: Cost
    op: Cost
    source: str
    label: HostLabel
    fit: FitCost
    kind: HostKind | None = None
    spread: float | None = None

    @property
    def words(self) -> str:
        """The label in words, such as ``assumed, a desktop`` or ``measured``."""
        return self.label if self.kind is None else f"{self.label}, {KIND_WORDS[self.kind]}"

    def bounds(self, *, under_fit: bool = False) -> tuple[tuple[HostOverhead, HostOverhead], ...]:
        """Return the host with one cost at its lower and at its upper bound, for each cost that enters and has bounds,
        or with all costs at once if there is a ``spread``.
        """
        if self.spread is not None:
            return ((self._times(1 / self.spread), self._times(self.spread)),)
        fields = {"step_us": self.step, op_field(self.execution): self.op}
        if under_fit:
            fields["fit_us"] = self.fit
        return tuple(
            (self._with(field, cost.low_us - cost.us), self._with(field, cost.high_us - cost.us))
            for field, cost in fields.items()
            if cost.low_us is not None and cost.high_us is not None
        )

    def _times(self, factor: float) -> HostOverhead:
        costs = {name: factor * getattr(self.host, name) for name in COSTS}
        return self.host.model_copy(update=costs)

    def _with(self, field: str, more_us: float) -> HostOverhead:
        return self.host.model_copy(update={field: max(0.0, getattr(self.host, field) + more_us)})


Build = Literal["unnamed", "keras", "fused"]
"""``unnamed``: not stated, so both are plausible (core.hardware.curve). ``keras``: Keras 3 on TensorFlow, as it is
installed. ``fused``: normalisation, loss and optimizer in one kernel each.
"""
BUILD_WORDS: dict[Build, str] = {"unnamed": "build not named", "keras": "Keras 3", "fused": "a vendor's fused build"}
NAMED_BUILDS: dict[Build, float] = {"keras": 0.5, "fused": 0.5}
"""Probability of each build if none was named: a judgement."""


@dataclass(frozen=True)
class Conditions:
    """Data path, build and loop of a step.

    ``fed``: each batch crosses the link. ``under_fit``: the step includes what the loop of ``fit`` itself costs. Two
    more set apart published steps that ran unlike Keras, or unlike a fused build of today. ``channels_first``: images
    come as channels × rows × columns, as in PyTorch by default. ``separate_attention``: scores of attention are written
    to memory.
    """

    fed: bool = False
    build: Build = "keras"
    under_fit: bool = False
    channels_first: bool = False
    separate_attention: bool = False

    @property
    def chosen(self) -> dict[str, bool | str]:
        """The conditions that a user chooses, by name."""
        return {"fed": self.fed, "build": self.build, "under_fit": self.under_fit}

    def as_built(self, target: Target) -> Target:
        """Return the target as this build runs it: a fused build leaves no choice to Keras and runs its graph."""
        if self.build == "fused" and target.execution == "keras":
            return target.model_copy(update={"execution": "graph"})
        return target


USUAL = Conditions()


@dataclass(frozen=True)
class Modelling:
    """The settings with which a card is modelled: the workload, how it runs, and the host that drives the card."""

    workload: Workload
    target: Target
    costs: HostCosts
    conditions: Conditions = USUAL

    def with_build(self, build: Build) -> Modelling:
        """Return the settings with this build in place of theirs."""
        return replace(self, conditions=replace(self.conditions, build=build))


FILE = Path(__file__).parent.parent / "data" / "hosts.json"

Spread = Annotated[float, Field(ge=1)]


class KindCosts(_Costs):
    """The costs of one kind of host. ``spread``: factor up and down that covers 95 % of its machines."""

    per_op_us: Annotated[float, Field(ge=0, alias="op_us")]
    spread: Spread
    source: str


@cache
def kinds() -> Mapping[HostKind, KindCosts]:
    """Return the kinds that Breakeven ships."""
    return _Kinds.model_validate_json(FILE.read_text(encoding="utf-8")).kinds


class _Kinds(Frozen):
    kinds: Mapping[HostKind, KindCosts]


USUAL_KIND: HostKind = "unnamed"
FILL_IN_KIND: HostKind = "recent_desktop"
"""The kind that stands in for what a measured host's study does not measure."""


WEAK_CORES = 2
_SERVER = re.compile(r"xeon|epyc|graviton|neoverse", re.IGNORECASE)
_RECENT = re.compile(
    r"core.* i\d-1\d{4}|core.* ultra|ryzen .*[5-9]\d{3}|threadripper .*[5-9]\d{3}"
    r"|epyc (7\d\d3|[489]\d{3})|xeon.* (w\d?-?[23]|\w* ?\d[3-6]\d\d)|graviton[3-9]",
    re.IGNORECASE,
)
"""Names of CPUs of 2020 and later: Core from the tenth generation, Ryzen and Threadripper from 5000, EPYC from Milan,
Xeon from Ice Lake."""
_DESKTOP = re.compile(r"core|ryzen|threadripper", re.IGNORECASE)


def kind_of(cpu: str, cores: int | None) -> HostKind:
    """Return the kind of host that a machine with this CPU is; :data:`USUAL_KIND` where its name does not say."""
    if cores is not None and cores <= WEAK_CORES:
        return "weak"
    if _SERVER.search(cpu):
        return "recent_server" if _RECENT.search(cpu) else "server" if re.search(r"\d{4}", cpu) else USUAL_KIND
    if _DESKTOP.search(cpu):
        return "recent_desktop" if _RECENT.search(cpu) else "desktop"
    return USUAL_KIND


def costs_of_kind(kind: HostKind, execution: Compiled) -> HostCosts:
    """Return the costs of a host of that kind for steps of that execution, labelled assumed."""
    own = _any_kind() if kind == "unnamed" else kinds()[kind]
    host = HostOverhead(**{name: getattr(own, name) for name in COSTS}, label="assumed")
    source, spread = f"Assumed for {KIND_WORDS[kind]}: {own.source}", own.spread
    step, op = (Cost(us, us / spread, us * spread) for us in (own.step_us, getattr(own, op_field(execution))))
    fit = FitCost(own.fit_us, own.fit_us / spread, own.fit_us * spread, source, "assumed")
    return HostCosts(host, execution, step, op, source, "assumed", fit, kind, spread)


@cache
def _any_kind() -> KindCosts:
    """Return the geometric means over all kinds, with a spread that covers the spread of each kind around them."""
    every = list(kinds().values())
    costs = {name: math.exp(fmean(math.log(max(getattr(each, name), 1.0)) for each in every)) for name in COSTS}
    middle = costs["per_op_us"]
    spread = max(each.spread * max(each.per_op_us / middle, middle / each.per_op_us) for each in every)
    return KindCosts(**costs, spread=spread, source="the middle of all kinds of hosts that published steps tell of")
