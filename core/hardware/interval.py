"""Intervals of modelled steps, from the model's errors on steps held out of its fit.

Log errors (measured / modelled) fall into classes by family and by what limits the step. A class keeps quantiles of the
errors on chips and on sources to which the constants had not been fitted; each source and card has its own weight, so
that many rows of one table do not count as many tables. If launches limit the step, the host determines its time: the
error is then the host's spread (:mod:`core.hardware.host`), or what a host study leaves open, beside the error
with a known host. Without similar evidence the interval widens by a stated factor, or the number is withheld with the
reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from core.base.numbers import counted
from core.base.schema import Frozen
from core.hardware.catalogue import GpuSpec
from core.hardware.constants import Constants, constants
from core.hardware.host import Build, Modelling
from core.hardware.layers import CONVOLUTIONS
from core.hardware.model import Limit, ModelledParts, predict, runs_as
from core.hardware.work import ops_of
from core.networks.families.code import Code
from core.workload.spec import Target, Workload

FILE = Path(__file__).parent.parent / "data" / "hardware_errors.json"
CONFIDENCE = 0.95
FEED_SPREAD = 1.5
"""Factor up and down on the rate at which batches reach a card, a judgement: 2.1 GB/s were measured on one host (see
``feed_gb_s``), and published steps that wait for their batches take 0.7 to 1.4 times what follows from that.
"""
DENSE_KINDS = frozenset({"dense", "elementwise", "loss", "optimizer"})

WITHHELD_MAKERS = {
    "apple": "Apple's GPUs run TensorFlow through Metal, whose launches and rates nothing here measures."
}
OTHER_MAKERS = {"amd": (1.5, "widened: the data hold products on two older AMD cards alone")}
MEASURED_ARCHITECTURES = frozenset({
    "Pascal", "Volta", "Turing", "Ampere", "Ampere, HBM", "Ada", "Hopper", "Blackwell", "Blackwell, HBM",
})  # fmt: skip

Family = Literal["dense", "cnn", "transformer", "recurrent", "other"]
Region = Literal["launch", "bandwidth", "arithmetic"]
ErrorPhase = Literal["train", "infer"]
REGION_WORDS: dict[Region, str] = {
    "launch": "where launches limit",
    "bandwidth": "where memory traffic limits",
    "arithmetic": "where arithmetic limits",
}


class ErrorClass(Frozen):
    """Quantiles of the held-out log errors of one class; the more steps a source and card have, the less each one
    weighs.

    ``between``: standard deviation of the cards' medians. ``borrowed`` names the origin of the errors if the class has
    none of its own; they are then widened.
    """

    gpus: Annotated[int, Field(ge=1)]
    points: Annotated[int, Field(ge=1)]
    median: float
    between: Annotated[float, Field(ge=0)]
    low_90: Annotated[float, Field(le=0)]
    high_90: Annotated[float, Field(ge=0)]
    low_95: Annotated[float, Field(le=0)]
    high_95: Annotated[float, Field(ge=0)]
    borrowed: str | None = None

    def bounds(self, confidence: float = CONFIDENCE, factor: float = 1.0) -> tuple[float, float]:
        """Return the log errors between which a new point lies with that confidence, 0.9 or 0.95; ``factor`` widens
        them for thin evidence.
        """
        low, high = (self.low_95, self.high_95) if confidence > 0.9 else (self.low_90, self.high_90)
        return factor * low, factor * high


class Coverage(Frozen):
    """Coverage of 90 % intervals on held-out points: the share inside intervals made without their chip, and without
    their source, and the median ratio of upper to lower bound.
    """

    points: Annotated[int, Field(ge=1)]
    chip: Annotated[float, Field(ge=0, le=1)]
    source: Annotated[float, Field(ge=0, le=1)]
    high_over_low: Annotated[float, Field(ge=1)]


class ErrorShare(Frozen):
    """Median and 90th percentile of |modelled / measured − 1| over ``points`` measurements."""

    points: Annotated[int, Field(ge=1)]
    median: Annotated[float, Field(ge=0)]
    ninety: Annotated[float, Field(ge=0)]


class HeldOutError(ErrorShare):
    """Error on one chip's card or one source held out of the fit: over all its points, and by what limits them."""

    family: str
    phase: ErrorPhase
    name: str
    by_region: dict[Region, ErrorShare]


class Goal(Frozen):
    """A goal for the median error of a kind of network, with the errors reached when chips or sources are held out."""

    what: str
    points: Annotated[int, Field(ge=1)]
    goal: float
    chip: float
    source: float


class Errors(Frozen):
    """Error classes by “family/region”, with their date; a card's name ends its own class, and launch classes end
    in the mode, or in “/assumed” if the host is assumed. ``under_fit``: factor on the bounds of steps under ``fit``,
    without the host's spread.

    ``coverage_90``, by class and by “family, batch 32 and above”, ``goals``, ``by_card`` and ``by_source`` are the
    accuracy to report.
    """

    dated: str
    gpus: tuple[str, ...]
    sources: tuple[str, ...]
    classes: Mapping[str, ErrorClass]
    under_fit: Annotated[float, Field(ge=1)]
    coverage_90: Mapping[str, Coverage]
    goals: tuple[Goal, ...]
    by_card: tuple[HeldOutError, ...]
    by_source: tuple[HeldOutError, ...]


@dataclass(frozen=True)
class Withheld:
    """A batch without a number, and the reason as a sentence."""

    gpu: str
    batch: int
    reason: str


@dataclass(frozen=True)
class Modelled:
    """A modelled step time with its 95 % interval; ``basis`` names the evidence on which the interval rests."""

    gpu: str
    batch: int
    step_ms: float
    low_ms: float
    high_ms: float
    limited_by: Limit
    basis: str
    region: Region
    parts: ModelledParts
    label: Literal["modelled"] = "modelled"


@cache
def errors() -> Errors:
    """Return the errors that Breakeven ships."""
    return Errors.model_validate_json(FILE.read_text(encoding="utf-8"))


def modelled_step(
    spec: GpuSpec, how: Modelling, batch: int, model: Constants | None = None, known: Errors | None = None
) -> Modelled | Withheld:
    """Return the step time on the card with its 95 % interval, or the reason why it is withheld."""
    known = known or errors()
    workload, host, build = how.workload, how.costs.host, how.conditions.build
    if workload.lengths:
        return Withheld(spec.name, batch, "Inputs of several lengths are not modelled: each has kernels of its own.")
    target = runs_as(workload, how.target, build)
    parts = predict(spec, workload, target, batch, host, model or constants(), how.conditions)
    region = region_of(parts)
    family, host_known = family_of(workload), host.label != "assumed"
    by_region = {each: class_of(known, spec, workload, each, host_known=host_known) for each in REGION_WORDS}
    own = by_region[region]
    maker = spec.vendor.strip().casefold()
    if maker in WITHHELD_MAKERS:
        return Withheld(spec.name, batch, WITHHELD_MAKERS[maker])
    if own is None:
        why = f"Nothing published here says how far the model errs for {family} networks {REGION_WORDS[region]}."
        return Withheld(spec.name, batch, why)
    thin = thin_evidence(spec, target, build=build, host_known=host_known)
    factor = math.prod((factor for factor, _ in thin), start=1.0)
    low, high = 0.0, 0.0
    for each, share in region_shares(parts).items():
        bounds = (by_region[each] or own).bounds(factor=factor)
        low, high = low + share * bounds[0], high + share * bounds[1]
    cards = f"errors on {counted(own.gpus, 'card')} held out of the fit ({own.points:,} points)"
    words = [f"{cards} {REGION_WORDS[region]}"]
    words += ([own.borrowed] if own.borrowed else []) + [reason for _, reason in thin]
    low_ms, high_ms = parts.step_ms * math.exp(low), parts.step_ms * math.exp(high)
    basis = "; ".join(words)
    return Modelled(spec.name, batch, parts.step_ms, low_ms, high_ms, parts.limited_by, basis, region, parts)


def feed_part(share: float) -> tuple[float, float]:
    """Return by how many logs a step is shorter and longer with the copy of its batch, a ``share`` of it, at the bounds
    of its rate.
    """
    return math.log1p(share * (1 / FEED_SPREAD - 1)), math.log1p(share * (FEED_SPREAD - 1))


def class_of(
    known: Errors, spec: GpuSpec, workload: Workload, region: Region, *, host_known: bool
) -> ErrorClass | None:
    """Return the error class of such a network in that region, or None.

    Launch classes go by mode if the host is known; with an assumed host the class may be missing, since the host's
    spread covers those errors. Elsewhere a card whose errors say nothing of others has a class of its own.
    """
    family = family_of(workload)
    if region == "launch":
        mode = "train" if workload.training else "infer"
        return known.classes.get(f"{family}/launch/{mode if host_known else 'assumed'}")
    return known.classes.get(f"{family}/{region}/{spec.name}") or known.classes.get(f"{family}/{region}")


def thin_evidence(
    spec: GpuSpec, target: Target, *, build: Build = "keras", host_known: bool = False
) -> tuple[tuple[float, str], ...]:
    """Factors by which the interval widens because the measurements are of something else, each with the reason.

    The factors are a judgement, not measured: half as wide again with little evidence from a maker, twice with none, a
    quarter more for a newer generation or an execution that was not measured.
    """
    factors = []
    maker = spec.vendor.strip().casefold()
    if maker != "nvidia":
        factors.append(OTHER_MAKERS.get(maker, (2.0, f"widened: no measurement on cards of {spec.vendor}")))
    elif spec.architecture not in MEASURED_ARCHITECTURES:
        factors.append((1.25, f"widened: hardly any measurement of the {spec.architecture} generation"))
    if target.execution == "eager" and build != "fused":
        factors.append((1.25, "widened: Keras run eagerly was not measured"))
    if target.execution == "xla" and host_known:
        factors.append((1.25, "widened: no compiled step with a known host was measured"))
    return tuple(factors)


def region_shares(parts: ModelledParts) -> dict[Region, float]:
    """Return the weight of each region's errors: by the square of overhead (host and launches), memory traffic and
    arithmetic, so that intervals change continuously as another part becomes the largest.
    """
    times: dict[Region, float] = {
        "launch": max(parts.host_ms, parts.launch_ms),
        "bandwidth": parts.bandwidth_ms,
        "arithmetic": parts.arithmetic_ms,
    }
    total = sum(ms**2 for ms in times.values())
    return {region: ms**2 / total for region, ms in times.items()} if total > 0 else {"launch": 1.0}


def region_of(parts: ModelledParts) -> Region:
    """Return the largest part of the step on the card: overhead (host and launches), memory traffic or arithmetic."""
    shares = region_shares(parts)
    return max(shares, key=lambda region: shares[region])


def family_of(workload: Workload) -> Family:
    """Classify the workload's network by its layers."""
    kinds = {op.kind for op in ops_of(workload, Target(device="gpu:0"), 1)}
    if "recurrent" in kinds:  # first, since its kernels decide the step
        return "recurrent"
    if "attention" in kinds:
        return "transformer"
    if kinds & CONVOLUTIONS:
        return "cnn"
    return "dense" if kinds <= DENSE_KINDS and not isinstance(workload.network, Code) else "other"
