"""Fit the hardware model's constants to published steps, and predict steps with them, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.table import Array, Evidence, groups
from core.hardware.catalogue import GpuSpec
from core.hardware.constants import Constants, Generation, PowerBudget
from core.hardware.model import arithmetic_time, bandwidth_time, joined, reordering
from core.hardware.work import OpTable

MS_PER_US, NS = 1e-3, 1e-6
SCALE = 0.15  # of the robust loss: errors beyond 15 % count by their size, no longer by its square
PRIOR = 0.02  # weight of a parameter's distance in log from where it starts, so that no row alone decides one
MAX_STEPS, MAX_TRIES, DONE = 40, 8, 1e-4
SAMPLE = 60  # points of each source and card in a fit, so that no source outweighs another by its size
CACHE_SPEED, CACHE_SHARE = 2.0, 0.5  # V100: 2.4 times its memory (Jia et al. 2018); fits with 1 and with 2 err alike
FEED_GB_S = 2.1
"""Rate of NumPy batches through Keras's own step (measured: core/data/example_gpu.json, 1.6 and 26 MB to an H200)."""
SERVER_OP_US = 8.7
"""Middle of 5 to 15 µs per operation, which the dense layers of TensorFlow 1 took on DGX-1 and P3 machines; networks of
fused kernels alone do not tell it from what a fused kernel costs more."""
NETWORKS = ("mlp", "cnn", "transformer")
PARTS = ("step", "op", "xla", "fit", "eager")
HOSTS = ("weak", "desktop", "server")
RECENT = {"recent_desktop": "desktop", "recent_server": "server"}
"""Kinds of hosts of 2020 and later, as a share of the older ones of that sort."""

GENERATIONS = ("Turing", "Ampere", "Ampere, HBM", "Ada", "Hopper", "Blackwell", "Blackwell, HBM")
BEFORE = {
    "Ampere": "Turing", "Ada": "Ampere", "Blackwell": "Ada", "Hopper": "Ampere, HBM", "Blackwell, HBM": "Hopper",
}  # fmt: skip
"""Generations that take after an earlier one where nothing of theirs is fitted: they are fitted as shares of it."""
PROCESSES = {
    "Pascal": "16 nm", "Volta": "12 nm", "Turing": "12 nm", "Ampere": "8 nm", "Ampere, HBM": "8 nm", "Ada": "5 nm",
    "Hopper": "5 nm", "Blackwell": "5 nm", "Blackwell, HBM": "5 nm",
}  # fmt: skip
"""Generations by their process, which decides the power per TFLOP/s; 7 nm counts with 8, 4 nm with 5."""
GENERATION_PARTS = ("dense", "convolution", "bandwidth")
MOST = 3.0
LEAST_OF = {"dense": 0.75, "convolution": 0.3, "bandwidth": 0.3}
"""Products of matrices were measured by themselves: no generation reaches less than three quarters of the best."""
# name: start, low, high
PARAMETERS: dict[str, tuple[float, float, float]] = {
    "exponent": (1.6, 1.0, 8.0),
    "overlap": (1.5, 1.0, 8.0),
    "overlap_convolution": (2.0, 1.0, 8.0),
    "fill": (0.3, 0.001, 3.0),
    "channels_first": (1.2, 1.0, 2.0),
    **{f"generation {name} {part}": (1.0, 0.2, MOST) for name in GENERATIONS for part in GENERATION_PARTS},
    "arithmetic dense/fp32": (0.8, 0.1, 1.0),
    "arithmetic dense/tf32": (0.6, 0.1, 1.0),
    "arithmetic dense/half": (0.75, 0.1, 1.0),
    "arithmetic pointwise/fp32": (0.8, 0.1, 1.0),
    "arithmetic pointwise/tf32": (0.5, 0.1, 1.0),
    "arithmetic pointwise/half": (0.5, 0.1, 1.0),
    "arithmetic winograd/fp32": (1.2, 0.1, 2.25),
    "arithmetic winograd/tf32": (0.5, 0.1, 1.0),
    "arithmetic winograd/half": (0.5, 0.1, 1.0),
    "arithmetic convolution/fp32": (0.7, 0.1, 1.0),
    "arithmetic convolution/tf32": (0.4, 0.05, 1.0),
    "arithmetic convolution/half": (0.4, 0.05, 1.0),
    "arithmetic grouped/fp32": (0.5, 0.02, 1.0),
    "arithmetic grouped/half": (0.2, 0.02, 1.0),
    "arithmetic depthwise/fp32": (0.2, 0.02, 1.0),
    "power 16 nm": (24.0, 1.0, 80.0),
    "power 12 nm": (17.0, 1.0, 60.0),
    "power 8 nm": (9.0, 0.5, 60.0),
    "power 5 nm": (9.0, 0.2, 60.0),
    "power on_tensor_cores": (0.12, 0.01, 1.0),
    "power exponent": (0.8, 0.1, 1.0),
    "sustained_ms": (0.5, 0.01, 100.0),
    "bandwidth dense": (0.7, 0.1, 1.0),
    "bandwidth other": (0.77, 0.1, 1.0),
    "bandwidth optimizer": (0.7, 0.1, 1.0),
    "bandwidth convolution": (0.6, 0.1, 1.0),
    "bandwidth normalisation": (0.6, 0.1, 1.0),
    "bandwidth attention": (0.6, 0.1, 1.0),
    "old depth_ns": (20.0, 0.0, 300.0),
    "old exponent": (1.25, 1.0, 8.0),
    "host server step_us": (300.0, 100.0, 600.0),
    "host desktop step_us": (300.0, 100.0, 1200.0),
    "host recent step_us": (100.0, 5.0, 600.0),
    "host weak step_us": (600.0, 200.0, 1200.0),
    "host recent_desktop": (0.3, 0.05, 1.0),
    "host recent_server": (0.6, 0.05, 1.0),
    "host op_us": (12.0, 1.0, 200.0),
    "host server eager_us": (30.0, 1.0, 200.0),
    "host fused_op": (3.0, 1.0, 12.0),
    "host xla_op": (2.0, 0.0, 20.0),
    "host keras_xla_op": (1.0, 0.0, 20.0),
    "host xla_us": (200.0, 10.0, 5000.0),
    "host server fit_us": (1000.0, 20.0, 20000.0),
    "host desktop fit_us": (1000.0, 20.0, 20000.0),
    "host weak fit_us": (1500.0, 20.0, 20000.0),
}


@dataclass(frozen=True)
class MachineHost:
    """Costs of a machine's host in ms: per step, per operation, per compiled step, per step of ``fit``, per eager
    operation.
    """

    step_ms: float
    op_ms: float
    xla_ms: float = 0.0
    fit_ms: float = 0.0
    eager_ms: float = 0.0


class Fitted(NamedTuple):
    """Constants and hosts by kind; and two that explain old measurements and enter no prediction: what one step of a
    sum takes in products of few rows with cuBLAS of 2017 and 2018, which no card shows with today's libraries, and how
    host and device join where TensorFlow 1 waits for the device after each step.
    """

    constants: Constants
    old_depth_ns: float
    old_exponent: float
    hosts: Mapping[str, MachineHost]


@dataclass(frozen=True)
class Predicted:
    """Modelled ms of steps, and their parts."""

    step_ms: Array
    overhead_ms: Array
    arithmetic_ms: Array
    bandwidth_ms: Array


def fitted_of(values: Iterable[float]) -> Fitted:
    """Return the constants of the parameters' values, in the order of :data:`PARAMETERS`.

    Constants that are assumed follow from fitted ones.
    """
    by_name = dict(zip(PARAMETERS, map(float, values), strict=True))
    taken: dict[str, dict[str, float]] = {"arithmetic": {}, "bandwidth": {}, "power": {}}
    for name, value in by_name.items():
        group, _, rest = name.partition(" ")
        if group in taken:
            taken[group][rest] = value
    share = _shares(taken["arithmetic"])
    width = taken["bandwidth"]
    width |= dict.fromkeys(("pointwise", "winograd", "grouped", "depthwise"), width["convolution"])
    width |= {"pooling": width["normalisation"]}
    constants = Constants(
        exponent=by_name["exponent"],
        overlap=by_name["overlap"],
        overlap_convolution=by_name["overlap_convolution"],
        arithmetic=share,
        power=PowerBudget(
            watts_per_tflop={name: taken["power"][process] for name, process in PROCESSES.items()},
            on_tensor_cores=taken["power"]["on_tensor_cores"],
            exponent=taken["power"]["exponent"],
        ),
        sustained_ms=by_name["sustained_ms"],
        bandwidth=width,
        fill=by_name["fill"],
        channels_first=by_name["channels_first"],
        generations={
            name: Generation(**{part: _own(by_name, name, part) for part in GENERATION_PARTS}) for name in GENERATIONS
        },
        cache_speed=CACHE_SPEED,
        cache_share=CACHE_SHARE,
        fused_op=by_name["host fused_op"],
        xla_op=by_name["host xla_op"],
        keras_xla_op=by_name["host keras_xla_op"],
        transfer_start_us=33.0,
        feed_gb_s=FEED_GB_S,
        found={},
    )
    return Fitted(constants, by_name["old depth_ns"], by_name["old exponent"], _kinds(by_name))


def _own(by_name: Mapping[str, float], name: str, part: str) -> float:
    """Return a generation's factor: its share of the one before it, within what is plausible."""
    before = _own(by_name, BEFORE[name], part) if name in BEFORE else 1.0
    return min(MOST, max(LEAST_OF[part], before * by_name[f"generation {name} {part}"]))


def _shares(share: dict[str, float]) -> dict[str, float]:
    """Return the shares of the peak with the assumed ones.

    Depthwise convolutions do without tensor cores; classes without a share of their own have that of dense layers.
    """
    shares = dict(share)
    shares["grouped/tf32"] = share["grouped/half"]
    shares |= {f"depthwise/{peak}": share["depthwise/fp32"] for peak in ("tf32", "half")}
    return shares | {f"other/{peak}": share[f"dense/{peak}"] for peak in ("fp32", "tf32", "half")}


def _kinds(by_name: Mapping[str, float]) -> dict[str, MachineHost]:
    hosts = {}
    by_name = {**by_name, "host server op_us": SERVER_OP_US}
    for kind in HOSTS:
        # what no host has of its own is shared: too few steps were published to tell weak machines from desktops there
        shared = {part: by_name.get(f"host {part}_us", 0.0) for part in PARTS}
        costs = {part: by_name.get(f"host {kind} {part}_us", shared[part]) * MS_PER_US for part in PARTS}
        hosts[f"kind:{kind}"] = MachineHost(*costs.values())
    eager_ms, server_op_ms = hosts["kind:server"].eager_ms, hosts["kind:server"].op_ms
    for kind, older in RECENT.items():
        base = hosts[f"kind:{older}"]
        share, eager = by_name[f"host {kind}"], eager_ms * base.op_ms / server_op_ms
        hosts[f"kind:{kind}"] = MachineHost(
            by_name["host recent step_us"] * MS_PER_US, share * base.op_ms, share * base.xla_ms, share * base.fit_ms,
            share * eager,
        )  # fmt: skip
    return hosts


@dataclass(frozen=True, eq=False)
class Prepared:
    """Evidence with its operations taken apart by card and precision, and its machines numbered."""

    evidence: Evidence
    parts: list[tuple[str, str, NDArray[np.int64], OpTable]]
    machines: tuple[str, ...]
    machine: NDArray[np.int64]


def prepare(evidence: Evidence) -> Prepared:
    """Return the parts of a prediction that do not change while constants do."""
    parts = [
        (gpu, precision, at, OpTable(*(getattr(evidence.ops, name)[at] for name in OpTable.__dataclass_fields__)))
        for gpu, precision, at in groups(evidence)
    ]
    machines, number = np.unique(evidence.machine, return_inverse=True)
    return Prepared(evidence, parts, tuple(str(m) for m in machines), number)


def predict_rows(
    prepared: Prepared, cards: Mapping[str, GpuSpec], hosts: Mapping[str, MachineHost], fitted: Fitted
) -> Predicted:
    """Return the model's time of each step, by the same functions that predict a user's."""
    constants, known = fitted.constants, {**hosts, **fitted.hosts}
    overlaps = constants.overlaps
    evidence = prepared.evidence
    size = len(evidence)
    launch, arithmetic, bandwidth, device = (np.zeros(size) for _ in range(4))
    for gpu, precision, at, table in prepared.parts:
        spec, row = cards[gpu], evidence.row[at]
        c = arithmetic_time(spec, precision, table, constants)  # type: ignore[arg-type]
        c = c + evidence.depth[at] * fitted.old_depth_ns * NS
        m = bandwidth_time(spec, table, constants)
        spacing = spec.launch_us * MS_PER_US * table.kernels
        order = reordering(spec, precision, table, constants, evidence.reordered[row])  # type: ignore[arg-type]
        total = spacing + order * joined(c, m, overlaps[table.kind])
        for summed, part in ((launch, spacing), (arithmetic, c), (bandwidth, m), (device, total)):
            summed += np.bincount(row, part * evidence.times[at], size)
    costs = np.array([list(vars(known[m]).values()) for m in prepared.machines])
    step, op, xla, fit, eager = costs[prepared.machine].T
    graph = np.where(evidence.eager, eager, op) * np.where(evidence.fused, constants.fused_op, 1.0) * evidence.host_ops
    compiled = xla + op * np.where(evidence.fused, constants.xla_op, constants.keras_xla_op) * evidence.host_ops
    host = np.where(evidence.compiled, compiled, graph)
    base = step + fit * evidence.under_fit
    kinds = np.char.startswith(evidence.machine, "kind:")
    exponent = np.where(kinds, constants.exponent, fitted.old_exponent)
    total = base + joined(host, device, exponent) + evidence.transfer_ms
    return Predicted(total, np.maximum(base + host, launch), arithmetic, bandwidth)


def hosts_of(evidence: Evidence) -> dict[str, MachineHost]:
    """Return each machine's host from its own tiny points: a line through the median time at each number of operations.

    Where all have one number it is the floor of a measurement that waits after every operation. Machines without tiny
    points have the median host of their source.
    """
    hosts: dict[str, MachineHost] = {"none": MachineHost(0.0, 0.0)}
    sources: dict[str, set[str]] = {}
    for machine in np.unique(evidence.machine):
        if machine == "none" or str(machine).startswith("kind:"):
            continue
        mine = evidence.machine == machine
        sources.setdefault(str(evidence.source[mine][0]), set()).add(str(machine))
        at = mine & evidence.tiny
        times: dict[float, list[float]] = {}
        for ops, ms in zip(evidence.host_ops[at], evidence.measured_ms[at], strict=True):
            times.setdefault(float(ops), []).append(float(ms))
        if times:
            hosts[str(machine)] = _line({ops: float(np.median(ms)) for ops, ms in times.items()})
    for machines in sources.values():
        known = [hosts[m] for m in machines if m in hosts]
        middle = MachineHost(*(float(np.median([getattr(h, p) for h in known])) for p in ("step_ms", "op_ms")))
        hosts |= {m: middle for m in machines if m not in hosts}
    return hosts


def _line(medians: Mapping[float, float]) -> MachineHost:
    ops, ms = np.array(list(medians)), np.array(list(medians.values()))
    if len(ops) < 2:
        return MachineHost(float(ms[0]), 0.0)
    slope, start = np.polyfit(ops, ms, 1)
    if start < 0 or slope < 0:
        return MachineHost(0.0, float(np.median(ms / ops)))
    return MachineHost(float(start), float(slope))


def sampled(evidence: Evidence, without: NDArray[np.bool_]) -> Evidence:
    """Return at most :data:`SAMPLE` steps of each source, phase and card without those marked."""
    chance = np.random.default_rng(0)
    keep = np.zeros(len(evidence), dtype=bool)
    names = _vote(evidence)
    for name in np.unique(names):
        at = np.flatnonzero((names == name) & ~without)
        keep[chance.permutation(at)[:SAMPLE]] = True
    return evidence.where(keep)


def _vote(evidence: Evidence) -> NDArray[np.str_]:
    name = evidence.source
    for more in (evidence.phase, evidence.gpu):
        name = np.char.add(np.char.add(name, "/"), more)
    return name


def fit(
    evidence: Evidence, cards: Mapping[str, GpuSpec], hosts: Mapping[str, MachineHost], start: Array | None = None
) -> tuple[Array, Fitted]:
    """Return the parameters with the least robust sum of squared log errors; each source and card weighs the same."""
    logs = np.log(evidence.measured_ms)
    _, index, counts = np.unique(_vote(evidence), return_inverse=True, return_counts=True)
    network = np.isin(evidence.family, NETWORKS)
    weights = np.where(network, NETWORK_WEIGHT, 1.0) / np.sqrt(counts[index])
    first, low, high = np.array(list(PARAMETERS.values())).T
    prepared = prepare(evidence)

    def residuals(values: Array) -> Array:
        predicted = predict_rows(prepared, cards, hosts, fitted_of(values)).step_ms
        return np.concatenate([logs - np.log(predicted), np.log(np.maximum(values, 1e-6) / np.maximum(first, 1e-6))])

    weights = np.concatenate([weights, np.full(len(first), PRIOR * float(np.sum(weights)) / len(first))])
    values = robust_least_squares(residuals, first if start is None else start, low, high, weights)
    return values, fitted_of(values)


NETWORK_WEIGHT = 3.0
"""Whole networks are what is predicted; single operations stand in for what nobody published of them."""


def robust_least_squares(
    residuals: Callable[[Array], Array], start: Array, low: Array, high: Array, weights: Array
) -> Array:
    """Return the minimum in a box, by Levenberg–Marquardt on iteratively reweighted squares.

    The loss is pseudo-Huber of scale :data:`SCALE`.
    """
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
