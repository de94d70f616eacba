"""Intervals of the hardware model from its held-out errors: quantiles by class, hosts' spreads, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.table import Array, Words
from benchmarks.hardware_cv import Data, HeldOut
from benchmarks.hardware_fit import HOSTS, NETWORKS, RECENT
from core.hardware.interval import ErrorClass, Region, feed_part

FAMILIES = {"mlp": "dense", "dense layer": "dense", "linear operation": "dense", "GEMM": "dense"} | {
    name: name for name in ("cnn", "transformer")
}
REGIONS: tuple[Region, ...] = ("launch", "bandwidth", "arithmetic")
APART = ("P4", "T4")
"""Cards whose errors say nothing of others. A T4 reaches half of its fp32 peak at most in products of matrices; a P4's
were published twice, with different kernels of cuBLAS at 0.8 and at 0.2 of its peak (NeuSight: layers, random sizes).
"""
CLUSTER = 0.25
"""Power of the number of steps of one source and card by which each weighs less: between one vote per step (0), which
counts a table of 60 rows 60 times, and one vote per table (1), which lets tables of one row decide."""
FEWEST = 20
"""Points below which a class has no quantiles of its own, and a kind of host no spread."""
LENT = {"launch": "errors of dense layers, whose hosts were known"}
ALIKE = "errors of such networks where something else limits, widened: too few published steps there"
ALL_NETWORKS = "errors of all networks, widened: too few published steps of such a network there"
WIDER = 1.25
"""Factor on borrowed errors, a matter of judgement."""
LEVEL, HELD = 0.95, 0.92
"""Level of the intervals that are calibrated, and the share of steps of an unknown source or chip that they have to
hold; of known ones they hold more.
"""
WIDEST = 1.6
"""Largest factor on a class's bounds, since few steps ask for more."""
AS_SEEN: Mapping[str, float] = {}
UNDER_FIT = "under fit"
LEAST_SHARE = 0.5
"""Least share of the host in a step from which the host's spread is estimated."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Held-out errors, each step twice: without its chip, and without its source (``way``)."""

    error: Array
    family: Words
    kind: Words
    region: Words
    way: Words
    fold: Words
    gpu: Words
    source: Words
    phase: Words
    machine: Words
    host_share: Array
    feed_share: Array
    shares: Array
    batch: Array
    under_fit: NDArray[np.bool_]
    weight: Array

    def where(self, keep: NDArray[np.bool_]) -> Judged:
        """Return the entries that ``keep`` marks."""
        return Judged(*(values[keep] for values in vars(self).values()))

    @property
    def network(self) -> NDArray[np.bool_]:
        """Return a mask of the whole networks, whose host is known by its kind alone."""
        return np.isin(self.kind, NETWORKS)

    @property
    def apart(self) -> Words:
        """Return the name of each card that has classes of its own, else an empty word."""
        return np.where(np.isin(self.gpu, APART), self.gpu, "")


def judged(data: Data, ways: Mapping[str, HeldOut]) -> Judged:
    """Return the errors of both ways together; steps of a source and card weigh the less the more there are."""
    parts = []
    known = data.evidence
    for way, held_out in ways.items():
        at = ~np.isnan(held_out.error) & np.isin(known.family, list(FAMILIES))
        part = known.where(at)
        _, index, counts = np.unique(_cluster(part.source, part.gpu), return_inverse=True, return_counts=True)
        parts.append(
            Judged(
                error=held_out.error[at],
                family=np.array([FAMILIES[name] for name in part.family]),
                kind=part.family,
                region=_regions(held_out, at),
                way=np.full(len(part), way),
                fold=held_out.fold[at],
                gpu=part.gpu,
                source=part.source,
                phase=part.phase,
                machine=part.machine,
                host_share=held_out.host_share[at],
                feed_share=held_out.feed_share[at],
                shares=_shares(held_out, at),
                batch=part.batch,
                under_fit=part.under_fit,
                weight=counts[index] ** -CLUSTER,
            )
        )
    return Judged(*(np.concatenate(columns) for columns in zip(*(vars(p).values() for p in parts), strict=True)))


def _cluster(source: Words, gpu: Words) -> Words:
    return np.char.add(np.char.add(source, "|"), gpu)


def _regions(held_out: HeldOut, at: NDArray[np.bool_]) -> Words:
    overhead, arithmetic, bandwidth = held_out.overhead_ms[at], held_out.arithmetic_ms[at], held_out.bandwidth_ms[at]
    work = np.where(arithmetic >= bandwidth, "arithmetic", "bandwidth")
    return np.where(overhead >= np.maximum(arithmetic, bandwidth), "launch", work)


def _shares(held_out: HeldOut, at: NDArray[np.bool_]) -> Array:
    """Return the weights of each region's errors (steps × regions), as :func:`core.hardware.interval.region_shares`."""
    parts = np.stack([held_out.overhead_ms[at], held_out.bandwidth_ms[at], held_out.arithmetic_ms[at]], axis=1) ** 2
    return parts / parts.sum(axis=1, keepdims=True)


def quantiles(values: Array, weights: Array, levels: tuple[float, ...]) -> Array:
    """Return weighted quantiles, by linear interpolation of the cumulated weights at their middles."""
    order = np.argsort(values)
    places = np.cumsum(weights[order]) - weights[order] / 2
    return np.interp(np.array(levels) * weights.sum(), places, values[order])


def error_class(mine: Judged, wider: float = 1.0, borrowed: str | None = None) -> ErrorClass:
    """Return the quantiles of a class's errors."""
    medians = [np.median(mine.error[mine.gpu == gpu]) for gpu in np.unique(mine.gpu)]
    low_95, low_90, middle, high_90, high_95 = quantiles(mine.error, mine.weight, (0.025, 0.05, 0.5, 0.95, 0.975))
    return ErrorClass(
        gpus=len(medians),
        points=max(1, len(mine.error) // len(np.unique(mine.way))),
        median=float(middle),
        between=float(np.std(medians, ddof=1)) if len(medians) > 1 else 0.0,
        low_90=min(0.0, wider * float(low_90)),
        high_90=max(0.0, wider * float(high_90)),
        low_95=min(0.0, wider * float(low_95)),
        high_95=max(0.0, wider * float(high_95)),
        borrowed=borrowed,
    )


def classes(errors: Judged, wider: Mapping[str, float] = AS_SEEN) -> dict[str, ErrorClass]:
    """Return every class.

    Where launches limit, steps of a known host count: those of dense layers. Beside an assumed host's spread, which is
    made of whole networks' errors there, nothing is left to hold.
    """
    work = errors.region != "launch"
    launch = errors.region == "launch"
    # without its source nobody knows how these sessions wait for the device, which no user's step does
    known_host = launch & (errors.kind == "dense layer") & (errors.way == "chip")
    made = {}
    for mode in ("train", "infer"):
        mine = known_host & (errors.phase == mode)
        made[f"dense/launch/{mode}"] = error_class(errors.where(mine if mine.any() else launch))
    assumed = error_class(errors.where(launch & errors.network), 0.0)
    made["dense/launch/assumed"] = assumed
    for family in (*NETWORKS_LIKE, "other"):
        made[f"{family}/launch/assumed"] = assumed
        for mode in ("train", "infer"):
            lent = made[f"dense/launch/{mode}"]
            made[f"{family}/launch/{mode}"] = lent.model_copy(update={"borrowed": LENT["launch"]})
    for family in ("dense", *NETWORKS_LIKE):
        for region in REGIONS[1:]:
            mine = errors.where((errors.family == family) & (errors.region == region))
            names = {"": f"{family}/{region}", **{card: f"{family}/{region}/{card}" for card in APART}}
            for card, name in names.items():
                if _enough(own := mine.where(mine.apart == card)):
                    made[name] = error_class(own)
    everything = error_class(errors.where(errors.network & work), WIDER, ALL_NETWORKS)
    for family in ("dense", *NETWORKS_LIKE, "other"):
        alike = errors.where((errors.family == family) & errors.network & work)
        lent = error_class(alike, WIDER, ALIKE) if _enough(alike) else everything
        for region in REGIONS[1:]:
            made.setdefault(f"{family}/{region}", lent)
    return {name: _widened(each, wider.get(name.split("/")[0], 1.0)) for name, each in made.items()}


def _widened(original: ErrorClass, factor: float) -> ErrorClass:
    bounds_of = ("low_90", "high_90", "low_95", "high_95")
    return original.model_copy(update={name: factor * getattr(original, name) for name in bounds_of})


def calibrated(errors: Judged) -> dict[str, float]:
    """Return by family the factor on the classes' bounds with which intervals hold enough networks of other folds, and
    the factor on top of it for steps under ``fit``.

    :data:`LEVEL` and :data:`HELD` say how many. A new source or chip is off by more than the steps of the others
    scatter. Only steps that the device decides count; hosts have spreads of their own.
    """
    decided = errors.network & (errors.host_share < LEAST_SHARE)
    made = _needed(errors, {family: decided & (errors.family == family) for family in ("dense", *NETWORKS_LIKE)}, {})
    return made | _needed(errors, {UNDER_FIT: decided & errors.under_fit}, made)


def _needed(errors: Judged, groups: Mapping[str, NDArray[np.bool_]], wider: Mapping[str, float]) -> dict[str, float]:
    """Return by group of steps the factor on the bounds that holds :data:`HELD` of them, whichever way is worse."""
    low, high = without_own_fold(errors, LEVEL, wider)
    needed = np.where(errors.error >= 0, errors.error / high, errors.error / low)
    made = {}
    for name, mine in groups.items():
        ways = [mine & (errors.way == way) for way in np.unique(errors.way)]
        factors = [float(quantiles(needed[at], errors.weight[at], (HELD,))[0]) for at in ways if at.any()]
        made[name] = min(WIDEST, max(1.0, *factors)) if factors else 1.0
    return made


NETWORKS_LIKE = ("cnn", "transformer")


def _enough(mine: Judged) -> bool:
    return len(mine.error) >= FEWEST * max(1, len(np.unique(mine.way)))


def spreads(errors: Judged, level: float) -> dict[str, float]:
    """Return the factor up and down that holds so many launch-bound steps of a kind of host, or of all kinds."""
    launch = errors.where(errors.network & (errors.region == "launch"))
    made = {}
    for kind in (f"kind:{name}" for name in (*HOSTS, *RECENT)):
        mine = launch.where(launch.machine == kind)
        mine = mine if _enough(mine) else launch
        off = np.abs(mine.error) / np.maximum(mine.host_share, LEAST_SHARE)
        made[kind] = float(np.exp(quantiles(off, mine.weight, (level,))[0]))
    return made


def bounds(
    errors: Judged, by: Mapping[str, ErrorClass], spread: Mapping[str, float], level: float, under_fit: float
) -> tuple[Array, Array]:
    """Return the log bounds of each step's interval as a user gets it, by its class, its kind of host's spread, the
    spread of the copy, and the factor ``under_fit`` on all but the host's spread.
    """
    low, high = np.zeros(len(errors.error)), np.zeros(len(errors.error))
    keys = np.stack([errors.family, errors.phase, errors.apart, errors.network.astype(str)], axis=1)
    for family, mode, card, assumed in np.unique(keys, axis=0):
        at = np.all(keys == [family, mode, card, assumed], axis=1)
        for region, share in zip(REGIONS, errors.shares[at].T, strict=True):
            name = f"{family}/{region}"
            if region == "launch":
                name += "/assumed" if assumed == "True" else f"/{mode}"
            mine = by.get(f"{name}/{card}") or by[name]
            lower, upper = mine.bounds(level)
            low[at] += share * lower
            high[at] += share * upper
    host = np.array([np.log(spread.get(str(machine), 1.0)) for machine in errors.machine]) * errors.host_share
    fed = np.array([feed_part(share) for share in errors.feed_share]).reshape(-1, 2).T
    wider = np.where(errors.under_fit, under_fit, 1.0)
    down, up = (np.hypot(host, wider * np.hypot(*parts)) for parts in ((low, fed[0]), (high, fed[1])))
    return -down, up


def without_own_fold(errors: Judged, level: float, wider: Mapping[str, float] = AS_SEEN) -> tuple[Array, Array]:
    """Return the same bounds where classes and spreads come from other chips, or other sources, alone."""
    low, high = np.zeros(len(errors.error)), np.zeros(len(errors.error))
    for way in np.unique(errors.way):
        for fold in np.unique(errors.fold[errors.way == way]):
            own = (errors.way == way) & (errors.fold == fold)
            others = errors.where((errors.way == way) & (errors.fold != fold))
            made = classes(others, wider), spreads(others, level)
            low[own], high[own] = bounds(errors.where(own), *made, level, wider.get(UNDER_FIT, 1.0))
    return low, high
