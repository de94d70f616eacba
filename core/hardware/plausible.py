"""Step times of a card with an unnamed host or build: the interval spans the plausible conditions.

Keras's own code and a vendor's fused build differ by half on some steps, a weak cloud machine and a desktop of today by
a factor of four on others. Each condition that was not named has the weights below; the interval of a step covers 95 %
of their mixture, and its time is the mixture's median. A measured host is always used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from core.analysis.numerics import bisect
from core.base.numbers import first_batch, percent
from core.hardware.catalogue import GpuSpec
from core.hardware.crossing import ModelledCrossover, cross
from core.hardware.host import (
    BUILD_WORDS,
    KIND_WORDS,
    NAMED_BUILDS,
    USUAL,
    Build,
    Conditions,
    HostCosts,
    HostKind,
    costs_of_kind,
)
from core.hardware.interval import Modelled, Withheld
from core.hardware.recorded import SPAN_95, CardCurve, Point, Recording, named_curve
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.workload.execution import expected
from core.workload.spec import Target, Workload

Array = NDArray[np.float64]

# Judgement: the hosts of each class of cards. Free notebooks have a T4 or P100 beside two virtual cores.
NOTEBOOK_CARDS = frozenset({"T4", "P100-PCIe", "P100-SXM2", "P4"})
DESKTOP_NAMES = ("GeForce", "RTX", "Quadro", "TITAN")
OLDER_ARCHITECTURES = frozenset({"Pascal", "Volta", "Turing"})
_BESIDE: dict[tuple[str, bool], dict[HostKind, float]] = {
    ("notebook", True): {"weak": 0.6, "server": 0.4},
    ("desktop", True): {"desktop": 0.7, "recent_desktop": 0.3},
    ("desktop", False): {"recent_desktop": 0.8, "desktop": 0.2},
    ("server", True): {"server": 0.7, "recent_server": 0.3},
    ("server", False): {"recent_server": 0.8, "server": 0.2},
}
NORMAL, LEVELS, FAR = NormalDist(), (0.025, 0.5, 0.975), 4.0
"""The standard normal, the levels of an interval's ends and middle, and deviations beyond which none of them lies."""


@dataclass(frozen=True)
class Case:
    """One plausible way of driving the card, with its weight; the weights of all cases add up to 1."""

    weight: float
    costs: HostCosts
    conditions: Conditions


def hosts_beside(spec: GpuSpec) -> dict[HostKind, float]:
    """Return the kinds of hosts in which such a card is found, with their weights."""
    older = spec.architecture in OLDER_ARCHITECTURES
    if spec.name in NOTEBOOK_CARDS:
        return _BESIDE["notebook", True]
    return _BESIDE["desktop" if any(word in spec.title for word in DESKTOP_NAMES) else "server", older]


def cases_of(
    spec: GpuSpec, workload: Workload, target: Target, costs: HostCosts, conditions: Conditions
) -> tuple[Case, ...]:
    """Return every plausible combination of the unnamed conditions; one case of weight 1 if all are named."""
    builds = NAMED_BUILDS if conditions.build == "unnamed" else {conditions.build: 1.0}
    made = []
    for build, share in builds.items():
        named = replace(conditions, build=build)
        execution = expected(workload.network, named.as_built(target)).execution
        if costs.kind == "unnamed":
            kinds = hosts_beside(spec)
            made += [Case(share * weight, costs_of_kind(kind, execution), named) for kind, weight in kinds.items()]
        else:
            own = costs if costs.kind is None else costs_of_kind(costs.kind, execution)
            made.append(Case(share, own, named))
    return tuple(made)


def card_curve(
    spec: GpuSpec,
    workload: Workload,
    target: Target,
    batches: Sequence[int],
    costs: HostCosts,
    conditions: Conditions = USUAL,
    recordings: Sequence[Recording] = (),
) -> CardCurve:
    """Return the card's step times at each batch: recorded, modelled, or as a mixture over unnamed conditions.

    Recordings of such a card ran Keras's own code, which is then the build.
    """
    if conditions.build == "unnamed" and any(each.gpu == spec.name for each in recordings):
        conditions = replace(conditions, build="keras")
    cases = cases_of(spec, workload, target, costs, conditions)
    curves = [
        named_curve(spec, workload, case.conditions.as_built(target), batches, case.costs, case.conditions, recordings)
        for case in cases
    ]
    if len(cases) == 1:
        return curves[0]
    weights = np.array([case.weight for case in cases])
    words = spanned_words(cases)
    points = zip(*(curve.points for curve in curves), strict=True)
    return CardCurve(spec.name, tuple(_mixed(each, weights, words) for each in points), curves[0].corrected_by)


def if_named(
    run: Run, answer: Answer, index: int, curve_of: Callable[[Conditions], CardCurve], conditions: Conditions
) -> tuple[tuple[Build, ModelledCrossover], ...]:
    """Return the crossover with the run's target ``index`` under each plausible build; empty if a build was named.

    Args:
        curve_of: Returns the card's curve under given conditions.
    """
    if conditions.build != "unnamed":
        return ()
    named = ((build, replace(conditions, build=build)) for build in NAMED_BUILDS)
    return tuple((build, cross(run, answer, curve_of(each), index)) for build, each in named)


def named_sentence(named: Sequence[tuple[Build, ModelledCrossover]]) -> str:
    """Say how much naming the build would change; empty if it is named or nothing is claimed."""
    parts = [f"with {BUILD_WORDS[build]} {short}" for build, crossing in named if (short := _in_short(crossing))]
    return f"If its code were named: {', '.join(parts)}." if parts else ""


def _in_short(crossing: ModelledCrossover) -> str:
    if crossing.kind == "from" and crossing.batch is not None and crossing.high is not None:
        low = f"{crossing.first:,} or less" if crossing.low is None else first_batch(crossing.low)
        return f"from batch {first_batch(crossing.batch)} ({low} to {first_batch(crossing.high)})"
    if crossing.kind == "gpu ahead throughout":
        return "faster throughout"
    if crossing.kind == "cpu ahead throughout":
        return "slower throughout"
    return "not clear" if crossing.kind == "not resolved" and crossing.cpu_noise_known else ""


def spanned_words(cases: Sequence[Case]) -> str:
    """List the conditions that the interval spans, most likely first."""
    builds: dict[str, float] = {}
    hosts: dict[str, float] = {}
    for case in cases:
        build = BUILD_WORDS[case.conditions.build]
        builds[build] = builds.get(build, 0.0) + case.weight
        host = KIND_WORDS[case.costs.kind] if case.costs.kind is not None else "the measured host"
        hosts[host] = hosts.get(host, 0.0) + case.weight
    return "; ".join(
        " or ".join(f"{name} ({percent(share)})" for name, share in sorted(each.items(), key=lambda item: -item[1]))
        for each in (builds, hosts)
        if len(each) > 1
    )


def _mixed(points: tuple[Point, ...], weights: Array, words: str) -> Point:
    """Return the median and the 95 % bounds of the points' mixture, each a two-piece normal in log time.

    A recorded point needs no mixture, and a withheld one rules it out.
    """
    known = [point for point in points if isinstance(point, Modelled)]
    if len(known) < len(points):
        withheld = [point for point in points if isinstance(point, Withheld)]
        return withheld[0] if withheld else points[int(np.argmax(weights))]
    center = np.log([point.step_ms for point in known])
    down = np.maximum(center - np.log([point.low_ms for point in known]), 1e-6)
    up = np.maximum(np.log([point.high_ms for point in known]) - center, 1e-6)
    low, middle, high = mixture_quantiles(center, down / (SPAN_95 / 2), up / (SPAN_95 / 2), weights)
    main = known[int(np.argmax(weights))]
    basis = f"the conditions that nobody named: {words}; {main.basis}"
    step_ms, low_ms, high_ms = np.exp([middle, low, high]).tolist()
    return replace(main, step_ms=step_ms, low_ms=low_ms, high_ms=high_ms, basis=basis)


def mixture_quantiles(center: Array, down: Array, up: Array, weights: Array) -> tuple[float, float, float]:
    """Return the 2.5 %, 50 % and 97.5 % quantiles of a mixture of two-piece normals (a deviation for each side)."""
    ends = float(np.min(center - FAR * down)), float(np.max(center + FAR * up))
    parts = list(zip(center.tolist(), down.tolist(), up.tolist(), weights.tolist(), strict=True))

    def share_below(log_ms: float) -> float:
        return sum(
            weight * NORMAL.cdf((log_ms - middle) / (below if log_ms < middle else above))
            for middle, below, above, weight in parts
        )

    low, middle, high = (bisect(lambda x, level=level: share_below(x) < level, *ends) for level in LEVELS)  # type: ignore[misc]
    return low, middle, high
