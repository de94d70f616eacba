"""How far to trust a modelled step: intervals from the errors that the model made on cards held out of its fit.

Log errors (measured / modelled) fall into classes by family, region of batch and phase. A class keeps quantiles of the
errors about their own card's median, and how much those medians scatter from card to card. A card that was not in the
data is a new draw of the latter, so that a few cards give a wide interval by Student's t, however many points each
had. Without evidence near, the interval widens by a stated factor, or the number is withheld with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from core.analysis.execution import resolved
from core.analysis.statistics import normal_quantile, t_quantile
from core.families.code import Code
from core.hardware.catalogue import GpuSpec
from core.hardware.constants import Constants, constants
from core.hardware.model import HostOverhead, Limit, ModelledParts, predict, runs_tf32
from core.hardware.work import ops_of
from core.schema import Frozen
from core.spec import Target, Workload

FILE = Path(__file__).parent.parent / "data" / "hardware_errors.json"
CONFIDENCE = 0.95
DENSE_KINDS = frozenset({"dense", "elementwise", "loss", "optimizer"})

WITHHELD_MAKERS = {
    "apple": "Apple's GPUs run TensorFlow through Metal, whose launches and rates nothing here measures."
}
OTHER_MAKERS = {"amd": (1.5, "widened: the data hold products on two older AMD cards alone")}
MEASURED_ARCHITECTURES = frozenset({"Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper"})
DRIVER_SCATTER = 0.2
"""Assumed: a host measured without a GPU does not show what its driver takes to launch; about 20 % of an operation."""

Family = Literal["dense", "cnn", "transformer", "recurrent", "other"]
Region = Literal["launch", "knee", "work"]
ErrorPhase = Literal["train", "infer"]
HOST_WEIGHT: dict[Region, float] = {"launch": 1.0, "knee": 0.5, "work": 0.1}
"""How much of a host's log error reaches the step's, roughly its share of the step."""
REGION_WORDS: dict[Region, str] = {
    "launch": "where launches limit",
    "knee": "where launches and work are alike",
    "work": "where work limits",
}


class ErrorClass(Frozen):
    """Held-out log errors of one class. ``median`` is that of the cards' medians; ``between`` their standard deviation
    from card to card; ``low_90`` … ``high_95`` quantiles of points about their own card's median. ``borrowed`` says
    whose errors they are where the class has none of its own; they are then widened.
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

    def bounds(self, confidence: float = CONFIDENCE, more: float = 0.0, factor: float = 1.0) -> tuple[float, float]:
        """Log errors between which a new card's new point lies with that confidence, 0.9 or 0.95.

        ``more`` is a further standard deviation, of what the class does not hold; ``factor`` widens for thin evidence.
        """
        low, high = (self.low_95, self.high_95) if confidence > 0.9 else (self.low_90, self.high_90)
        scatter = math.inf
        if self.gpus > 1:
            scatter = t_quantile((1 + confidence) / 2, self.gpus - 1) * self.between * math.sqrt(1 + 1 / self.gpus)
        other = normal_quantile((1 + confidence) / 2) * more
        below, above = (factor * math.hypot(part, scatter, other) for part in (low, high))
        return self.median - below, self.median + above


class Coverage(Frozen):
    """Share of held-out points inside 90 % intervals that were made without their chip, each card and source alike."""

    share: Annotated[float, Field(ge=0, le=1)]
    cards_and_sources: Annotated[int, Field(ge=1)]


class ErrorShare(Frozen):
    """Median and 90th percentile of |modelled / measured − 1| over ``points`` measurements."""

    points: Annotated[int, Field(ge=1)]
    median: Annotated[float, Field(ge=0)]
    ninety: Annotated[float, Field(ge=0)]


class CardError(ErrorShare):
    """On one card held out of the fit: over all its points, and by the region of batch that they lie in."""

    family: str
    phase: ErrorPhase
    gpu: str
    by_region: dict[Region, ErrorShare]


class Errors(Frozen):
    """Error classes by “family/region/phase”, with the cards and sources behind them and their date.

    ``assumed_host`` is the standard deviation of the log error that an assumed host adds where the host limits.
    ``coverage_90`` and ``errors`` are the accuracy to report.
    """

    dated: str
    gpus: tuple[str, ...]
    sources: tuple[str, ...]
    assumed_host: Annotated[float, Field(ge=0)]
    classes: Mapping[str, ErrorClass]
    coverage_90: Mapping[str, Coverage]
    errors: tuple[CardError, ...]


@dataclass(frozen=True)
class Withheld:
    """No number, and why: a sentence."""

    gpu: str
    batch: int
    reason: str


@dataclass(frozen=True)
class Modelled:
    """A modelled step time with its 95 % interval; ``basis`` says what evidence the interval rests on."""

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
    """The errors that Breakeven ships."""
    return Errors.model_validate_json(FILE.read_text(encoding="utf-8"))


def modelled_step(
    spec: GpuSpec,
    workload: Workload,
    target: Target,
    batch: int,
    host: HostOverhead,
    fed: bool = False,
    model: Constants | None = None,
    known: Errors | None = None,
) -> Modelled | Withheld:
    """Step time on the card with its 95 % interval, or the reason why there is none."""
    known = known or errors()
    target = resolved(workload, target)
    parts = predict(spec, workload, target, batch, host, model or constants(), fed)
    region = region_of(parts)
    family, phase = family_of(workload), "train" if workload.training else "infer"
    found = known.classes.get(f"{family}/{region}/{phase}")
    maker = spec.vendor.strip().casefold()
    if maker in WITHHELD_MAKERS:
        return Withheld(spec.name, batch, WITHHELD_MAKERS[maker])
    if found is None:
        why = f"Nothing published here says how far the model errs for {family} networks {REGION_WORDS[region]}."
        return Withheld(spec.name, batch, why)
    thin = thin_evidence(spec, target, region)
    more = (known.assumed_host if host.label == "assumed" else DRIVER_SCATTER) * HOST_WEIGHT[region]
    low, high = found.bounds(more=more, factor=math.prod((factor for factor, _ in thin), start=1.0))
    # the model's own number is always inside, also where the median error says that it leans
    low, high = min(low, 0.0), max(high, 0.0)
    words = [f"errors on {found.gpus} cards held out of the fit ({found.points:,} points)"]
    words += ([found.borrowed] if found.borrowed else []) + [reason for _, reason in thin]
    low_ms, high_ms = parts.step_ms * math.exp(low), parts.step_ms * math.exp(high)
    basis = "; ".join(words)
    return Modelled(spec.name, batch, parts.step_ms, low_ms, high_ms, parts.limited_by, basis, region, parts)


def thin_evidence(spec: GpuSpec, target: Target, region: Region) -> tuple[tuple[float, str], ...]:
    """Factors by which the interval widens because the measurements are of something else, each with the reason.

    The factors are judgement, not measured: half as wide again where there is little of a maker, twice where there is
    nothing, a quarter for a newer generation, another execution or a rate that nobody measured.
    """
    found = []
    maker = spec.vendor.strip().casefold()
    if maker != "nvidia":
        found.append(OTHER_MAKERS.get(maker, (2.0, f"widened: no measurement on cards of {spec.vendor}")))
    elif spec.architecture not in MEASURED_ARCHITECTURES:
        found.append((1.25, f"widened: hardly any measurement of the {spec.architecture} generation"))
    if target.execution != "graph":
        found.append((1.25, f"widened: no measurement of {target.execution} execution"))
    if region == "work" and runs_tf32(spec, target):
        found.append((1.25, "widened: no measurement of products in TF32"))
    return tuple(found)


def region_of(parts: ModelledParts) -> Region:
    """Whether overhead (host and launches) or work (arithmetic and traffic) makes the step, or both do."""
    overhead = max(parts.host_ms, parts.launch_ms)
    work = max(parts.arithmetic_ms, parts.bandwidth_ms)
    if work < overhead / 2:
        return "launch"
    return "work" if work > 2 * overhead else "knee"


def family_of(workload: Workload) -> Family:
    """Which kind of network the workload is, by the layers that it has."""
    kinds = {op.kind for op in ops_of(workload, Target(device="gpu:0"), 1)}
    if "attention" in kinds:
        return "transformer"
    if "recurrent" in kinds:
        return "recurrent"
    if kinds & {"convolution", "depthwise"}:
        return "cnn"
    return "dense" if kinds <= DENSE_KINDS and not isinstance(workload.network, Code) else "other"
