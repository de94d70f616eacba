"""Fits the hardware model's constants to published points, and predicts points with them, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.published import Array, Points
from core.hardware.catalogue import GpuSpec
from core.hardware.constants import Constants
from core.hardware.model import arithmetic_time, bandwidth_time, joined

MS_PER_US, NS = 1e-3, 1e-6
SCALE = 0.1  # of the robust loss: errors beyond 10 % count by their size, no longer by its square
MAX_STEPS, MAX_TRIES, DONE = 60, 8, 1e-6
SAMPLE = 200  # points of each source and card in a fit, so that no source outweighs another by its size

# name: start, low, high
PARAMETERS: dict[str, tuple[float, float, float]] = {
    "exponent": (1.6, 1.0, 8.0),
    "overlap": (1.5, 1.0, 8.0),
    "arithmetic dense/fp32": (0.8, 0.1, 1.0),
    "arithmetic dense/half": (0.75, 0.1, 1.0),
    "arithmetic convolution/fp32": (0.6, 0.1, 1.0),
    "power_limited dense/fp32": (0.33, 0.1, 1.0),
    "power_limited dense/half": (0.45, 0.1, 1.0),
    "sustained_ms": (0.5, 0.01, 100.0),
    "bandwidth dense": (0.6, 0.1, 1.0),
    "bandwidth other": (0.77, 0.1, 1.0),
    "bandwidth optimizer": (0.75, 0.1, 1.0),
    "bandwidth convolution": (0.45, 0.1, 1.0),
    "old depth_ns": (20.0, 0.0, 300.0),
}


@dataclass(frozen=True)
class Fitted:
    """Constants, and what one step of a sum takes in products of few rows with cuBLAS of 2017 and 2018, which no card
    shows with today's libraries: it explains old measurements and enters no prediction."""

    constants: Constants
    old_depth_ns: float


@dataclass(frozen=True)
class MachineHost:
    """A machine's host in ms: each step, each operation."""

    step_ms: float
    op_ms: float


@dataclass(frozen=True)
class Predicted:
    """Modelled ms of points, and their parts."""

    step_ms: Array
    overhead_ms: Array
    work_ms: Array


def fitted_of(values: Iterable[float]) -> Fitted:
    """Constants of the parameters' values, in the order of :data:`PARAMETERS`. Assumed ones follow from fitted ones."""
    by_name = dict(zip(PARAMETERS, map(float, values), strict=True))
    groups: dict[str, dict[str, float]] = {"arithmetic": {}, "power_limited": {}, "bandwidth": {}}
    for name, value in by_name.items():
        group, _, rest = name.partition(" ")
        if group in groups:
            groups[group][rest] = value
    share, limited = groups["arithmetic"], groups["power_limited"]
    share["dense/tf32"] = share["convolution/half"] = share["convolution/tf32"] = share["dense/half"]
    limited["dense/tf32"] = limited["dense/half"]
    share |= {"other/fp32": share["convolution/fp32"]}
    share |= {f"other/{peak}": share[f"convolution/{peak}"] for peak in ("tf32", "half")}
    limited |= {f"other/{peak}": limited[f"dense/{peak}"] for peak in ("fp32", "tf32", "half")}
    groups["bandwidth"] |= dict.fromkeys(("normalisation", "pooling"), groups["bandwidth"]["convolution"])
    constants = Constants(
        exponent=by_name["exponent"],
        overlap=by_name["overlap"],
        arithmetic=share,
        power_limited=limited,
        sustained_ms=by_name["sustained_ms"],
        bandwidth=groups["bandwidth"],
        transfer_start_us=1.0,
        found={},
    )
    return Fitted(constants, by_name["old depth_ns"])


def predict_points(
    points: Points, cards: Mapping[str, GpuSpec], hosts: Mapping[str, MachineHost], fitted: Fitted
) -> Predicted:
    """The model's step time for each point, by the same functions that predict a user's step."""
    constants = fitted.constants
    size = len(points.measured_ms)
    launch, arithmetic, bandwidth, device = (np.zeros(size) for _ in range(4))
    for name in np.unique(points.gpu):
        at, spec = points.gpu == name, cards[str(name)]
        for column in points.columns:
            c = arithmetic_time(spec, column.kind, column.peak, column.flops[at], constants)
            if column.depth is not None:
                c = c + column.depth[at] * fitted.old_depth_ns * NS
            m = bandwidth_time(spec, column.kind, column.moved[at], constants)
            spacing = spec.launch_us * MS_PER_US * column.launches[at]
            launch[at] += spacing.sum(axis=1)
            arithmetic[at] += c.sum(axis=1)
            bandwidth[at] += m.sum(axis=1)
            device[at] += (spacing + joined(c, m, constants.overlap)).sum(axis=1)
    step, op = (np.array([getattr(hosts[str(m)], part) for m in points.machine]) for part in ("step_ms", "op_ms"))
    host = op * points.host_ops
    total = step + joined(host, device, constants.exponent)
    return Predicted(total, np.maximum(step + host, launch), np.maximum(arithmetic, bandwidth))


def hosts_of(sets: Iterable[Points]) -> dict[str, MachineHost]:
    """Each machine's host by its own tiny points: a line through the median time at each number of operations.

    Where all have one number it is the floor of a measurement that waits after every operation. Machines without tiny
    points have the median host of their source.
    """
    found: dict[str, MachineHost] = {"none": MachineHost(0.0, 0.0)}
    times: dict[str, dict[float, list[float]]] = {}
    sources: dict[str, set[str]] = {}
    for points in sets:
        for machine in np.unique(points.machine):
            if machine == "none":
                continue
            sources.setdefault(points.source, set()).add(str(machine))
            at = (points.machine == machine) & points.tiny
            for ops, ms in zip(points.host_ops[at], points.measured_ms[at], strict=True):
                times.setdefault(str(machine), {}).setdefault(float(ops), []).append(float(ms))
    for machine, by_ops in times.items():
        found[machine] = _line({ops: float(np.median(ms)) for ops, ms in by_ops.items()})
    for machines in sources.values():
        known = [found[m] for m in machines if m in found]
        middle = MachineHost(*(float(np.median([getattr(h, p) for h in known])) for p in ("step_ms", "op_ms")))
        found |= {m: middle for m in machines if m not in found}
    return found


def _line(medians: Mapping[float, float]) -> MachineHost:
    ops, ms = np.array(list(medians)), np.array(list(medians.values()))
    if len(ops) < 2:
        return MachineHost(float(ms[0]), 0.0)
    slope, start = np.polyfit(ops, ms, 1)
    if start < 0 or slope < 0:
        return MachineHost(0.0, float(np.median(ms / ops)))
    return MachineHost(float(start), float(slope))


def sampled(sets: Iterable[Points], without: frozenset[str], seed: int = 0) -> list[Points]:
    """At most :data:`SAMPLE` points of each source, phase and card, tiny ones and the cards ``without`` left out."""
    chance = np.random.default_rng(seed)
    found = []
    for points in sets:
        keep = np.zeros(len(points.measured_ms), dtype=bool)
        for name in np.unique(points.gpu):
            at = np.flatnonzero((points.gpu == name) & ~points.tiny)
            if str(name) not in without:
                keep[chance.permutation(at)[:SAMPLE]] = True
        if keep.any():
            found.append(points.where(keep))
    return found


def fit(
    sets: list[Points], cards: Mapping[str, GpuSpec], hosts: Mapping[str, MachineHost], start: Array | None = None
) -> tuple[Array, Fitted]:
    """Parameters with the least robust sum of squared log errors, each source and card weighing the same."""
    logs = np.concatenate([np.log(points.measured_ms) for points in sets])
    groups = np.concatenate([np.array([f"{p.source}/{p.phase}/{name}" for name in p.gpu]) for p in sets])
    _, index, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weights = 1 / np.sqrt(counts[index])  # between one vote a point and one vote a card

    def residuals(values: Array) -> Array:
        fitted = fitted_of(values)
        steps = [predict_points(points, cards, hosts, fitted).step_ms for points in sets]
        return logs - np.log(np.concatenate(steps))

    first, low, high = np.array(list(PARAMETERS.values())).T
    values = robust_least_squares(residuals, first if start is None else start, low, high, weights)
    return values, fitted_of(values)


def robust_least_squares(
    residuals: Callable[[Array], Array], start: Array, low: Array, high: Array, weights: Array
) -> Array:
    """Levenberg–Marquardt on iteratively reweighted squares (pseudo-Huber loss of scale :data:`SCALE`), in a box."""
    x, damping = np.clip(start, low, high), 1e-2

    def cost(r: Array) -> float:
        return float(np.sum(weights * 2 * SCALE**2 * (np.sqrt(1 + (r / SCALE) ** 2) - 1)))

    r = residuals(x)
    now = cost(r)
    for _ in range(MAX_STEPS):
        slopes = np.stack([_slope(residuals, x, r, k, high) for k in range(len(x))], axis=1)
        weighted = weights / np.sqrt(1 + (r / SCALE) ** 2)
        square, gradient = slopes.T @ (slopes * weighted[:, None]), slopes.T @ (weighted * r)
        for _ in range(MAX_TRIES):
            damped = square + damping * np.diag(np.diag(square) + 1e-9)
            tried = np.clip(x - np.linalg.solve(damped, gradient), low, high)
            tried_r = residuals(tried)
            if cost(tried_r) < now:
                break
            damping *= 4
        else:
            return x
        before, x, r, now = now, tried, tried_r, cost(tried_r)
        damping /= 4
        if before - now < DONE * before:
            break
    return x


def _slope(residuals: Callable[[Array], Array], x: Array, r: Array, k: int, high: Array) -> Array:
    step = 1e-4 * max(abs(x[k]), 1e-3)
    step = -step if x[k] + step > high[k] else step
    moved = x.copy()
    moved[k] += step
    return (residuals(moved) - r) / step
