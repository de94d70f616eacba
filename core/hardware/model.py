"""Step time on a GPU, from the workload's own operations and the card's facts.

    T = T_base + (H^q + K^q)^(1/q) + T_transfer,    K = Σ launch · kernels + (t_c^p + t_m^p)^(1/p)

H is the time the host spends on handing the operations over, K the time the device spends on running them; the two
overlap. t_c and t_m are arithmetic and memory traffic at the rates that kernels of the class reach: an extended
roofline (Williams et al. 2009) with a rounded corner. By construction no step is faster than the peak rate, the memory
bandwidth or the link allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.base.frameworks import Precision
from core.hardware.catalogue import GpuSpec
from core.hardware.constants import AS_OTHERS, KINDS, PEAKS, Constants, Peak
from core.hardware.host import USUAL, Build, Conditions, HostOverhead, op_field
from core.hardware.layers import CONVOLUTIONS
from core.hardware.work import Floats, OpTable, step_table
from core.workload.execution import expected_words, resolved
from core.workload.spec import Target, Workload

Limit = Literal["launch", "bandwidth", "arithmetic", "transfer", "host"]
INPUT_BYTES, LABEL_BYTES = 4, 8
MIXED: tuple[Precision, ...] = ("mixed_float16", "mixed_bfloat16")
RECURRENT = KINDS.index("recurrent")
IS_DENSE = np.array([kind == "dense" for kind in KINDS])
IS_REORDERED = np.array([kind in CONVOLUTIONS - {"depthwise"} for kind in KINDS])
FLASH_ARCHITECTURES = frozenset({"Ampere", "Ampere, HBM", "Ada", "Hopper", "Blackwell", "Blackwell, HBM"})
TFLOPS_EACH, SMALL_L2_MB = 0.3, 4.0
_MS_PER_US = 1e-3

Times = TypeVar("Times", float, NDArray[np.float64])
"""Milliseconds (or the quantities behind them) of one operation, or of many at once, as in the accuracy benchmark."""


@dataclass(frozen=True)
class ModelledParts:
    """A modelled step and its parts in ms. The parts overlap, so they add up to more than ``step_ms``."""

    host_ms: float
    launch_ms: float
    arithmetic_ms: float
    bandwidth_ms: float
    transfer_ms: float
    step_ms: float
    limited_by: Limit


@dataclass(frozen=True)
class DeviceTime:
    """The time that the device spends on a step's kernels in ms: launch spacing, arithmetic, memory traffic, total."""

    launch_ms: float
    arithmetic_ms: float
    bandwidth_ms: float
    total_ms: float


def predict(
    spec: GpuSpec,
    workload: Workload,
    target: Target,
    batch: int,
    host: HostOverhead,
    constants: Constants,
    conditions: Conditions = USUAL,
) -> ModelledParts:
    """Compute the step time of ``workload`` on the card at ``batch`` samples, with its parts."""
    target = runs_as(workload, target, conditions.build)
    table = step_table(workload, target, batch, conditions.build, attends_in_one_kernel(spec, conditions))
    device = device_time(spec, target, table, constants, reordered=is_reordered(target, conditions))
    step_us = host.step_us + (host.fit_us if conditions.under_fit else 0.0)
    base_ms = step_us * _MS_PER_US / target.steps_per_execution
    host_ms = host_time(target, table, host, constants, conditions.build)
    transfer_ms = transfer_time(spec, workload, batch, constants, conditions.build) if conditions.fed else 0.0
    step_ms = base_ms + joined(host_ms, device.total_ms, constants.exponent) + transfer_ms
    parts: dict[Limit, float] = {
        "host": base_ms + host_ms,
        "launch": device.launch_ms,
        "arithmetic": device.arithmetic_ms,
        "bandwidth": device.bandwidth_ms,
        "transfer": transfer_ms,
    }
    limited_by = max(parts, key=lambda part: parts[part])
    return ModelledParts(**{f"{part}_ms": ms for part, ms in parts.items()}, step_ms=step_ms, limited_by=limited_by)


def runs_as(workload: Workload, target: Target, build: Build) -> Target:
    """Return the target as it runs in that build, with Keras's own choice of execution if it is left to Keras."""
    return resolved(workload, Conditions(build=build).as_built(target))


def attends_in_one_kernel(spec: GpuSpec, conditions: Conditions) -> bool:
    """Check that attention never writes its scores (FlashAttention, Dao et al. 2022).

    The fused builds of today do so on cards of 2020 and later; Keras's own code on TensorFlow never does.
    """
    in_build = conditions.build == "fused" and not conditions.separate_attention
    return in_build and spec.architecture in FLASH_ARCHITECTURES


def is_reordered(target: Target, conditions: Conditions) -> bool:
    """Check that images come with their channels first, and that no compiler reorders them once for all."""
    return conditions.channels_first and target.execution != "xla"


def joined(first: Times, second: Times, exponent: float | Floats) -> Times:
    """Return (one^q + other^q)^(1/q): two parts that overlap, at least the larger of them and at most their sum."""
    return (first**exponent + second**exponent) ** (1 / exponent)  # type: ignore[return-value]


def host_time(
    target: Target, table: OpTable, host: HostOverhead, constants: Constants, build: Build = "keras"
) -> float:
    """Return the time in ms for handing the operations over on a resolved target: per operation, or as one compiled
    call and the kernels that it launches.
    """
    kernels = float(table.kernels.sum())
    handed = kernels
    if build == "fused":  # cuDNN itself launches the time steps of a recurrent layer
        handed = float(np.where(table.kind == RECURRENT, 1.0, constants.fused_op) @ table.kernels)
    if target.execution == "xla":
        each = constants.keras_xla_op if build == "keras" else constants.xla_op
        return (host.xla_call_us + each * host.per_op_us * kernels) * _MS_PER_US
    return float(getattr(host, op_field(target.execution))) * handed * _MS_PER_US


def device_time(
    spec: GpuSpec, target: Target, table: OpTable, constants: Constants, *, reordered: bool = False
) -> DeviceTime:
    """Return the time that the card takes for the operations, one after the other."""
    launch = spec.launch_us * table.kernels * _MS_PER_US
    arithmetic = arithmetic_time(spec, target.precision, table, constants)
    bandwidth = bandwidth_time(spec, table, constants)
    order = reordering(spec, target.precision, table, constants, reordered)
    total = launch + order * joined(arithmetic, bandwidth, constants.overlaps[table.kind])
    return DeviceTime(*(float(part.sum()) for part in (launch, arithmetic, bandwidth, total)))


def arithmetic_time(spec: GpuSpec, precision: Precision, table: OpTable, constants: Constants) -> Floats:
    """Return the arithmetic of each operation in ms, at the rate that its class reaches and its blocks can fill.

    A product in float32 runs with or without TF32, whichever is faster: libraries choose, and Winograd's convolutions
    outside tensor cores outrun those on the tensor cores of a GeForce card. A product reaches its rate if every
    multiprocessor has blocks to work on; with ``fill`` blocks per multiprocessor it reaches half.
    """
    usable = table.tensor
    times = [
        np.where(usable, _at_rate(spec, peak, table, constants), np.inf) for peak in _tensor_peaks(spec, precision)
    ]
    plain = _at_rate(spec, "fp32", table, constants)
    if precision in MIXED and times:
        plain = np.where(usable, np.inf, plain)
    blocks = constants.fill * multiprocessors_of(spec)
    return np.minimum.reduce([plain, *times]) * (1 + blocks / table.tiles)


def reordering(
    spec: GpuSpec, precision: Precision, table: OpTable, constants: Constants, reordered: bool | NDArray[np.bool_]
) -> Floats:
    """Return the factor on the time of each operation where images are reordered at every convolution.

    Tensor cores multiply with channels last, so that cuDNN copies what its convolutions read and write.
    """
    on_cores = table.tensor & IS_REORDERED[table.kind] & bool(_tensor_peaks(spec, precision))
    return np.where(on_cores & reordered, constants.channels_first, 1.0)


def _tensor_peaks(spec: GpuSpec, precision: Precision) -> tuple[Peak, ...]:
    """Return the card's rate on tensor cores in that precision, if it has one."""
    if precision in MIXED:
        return ("half",) if spec.half_tflops is not None else ()
    return ("tf32",) if runs_as_tf32(spec, precision) else ()


def _at_rate(spec: GpuSpec, peak: Peak, table: OpTable, constants: Constants) -> Floats:
    """Return the arithmetic of each operation in ms at one of the card's rates.

    Generations of tensor cores reach different shares, none more than the full rate. A card whose power budget binds
    runs at its full clock for a while and slows in long arithmetic: the share falls to what the budget allows, half way
    at ``constants.sustained_ms`` of arithmetic.
    """
    at_peak = table.flops / rate_of(spec, peak) * 1e-9
    column = PEAKS.index(peak)
    shares = constants.shares[table.kind, column]
    if peak != "fp32":
        shares = np.minimum(1.0, shares * constants.on_tensor_cores(spec.architecture)[table.kind])
    kept = constants.power.share(spec.architecture, peak, rate_of(spec, peak), spec.tdp_w)
    return at_peak / shares / (kept + (1 - kept) / (1 + at_peak / constants.sustained_ms))


def bandwidth_time(spec: GpuSpec, table: OpTable, constants: Constants) -> Floats:
    """Return the memory traffic of each operation in ms; traffic of one kernel that fits in the card's cache is
    faster.
    """
    own = constants.generations.get(spec.architecture, AS_OTHERS).bandwidth
    shares = np.minimum(1.0, constants.bandwidth_shares * np.where(IS_DENSE, 1.0, own))[table.kind]
    at_once = table.bytes / np.maximum(table.kernels, 1)
    kept = constants.cache_share * l2_mb_of(spec) * 1e6
    saved = (1 - 1 / constants.cache_speed) / (1 + (at_once / kept) ** 2)
    return table.bytes / (spec.bandwidth_gb_s * shares) * 1e-6 * (1 - saved)


def peaks_of(spec: GpuSpec, precision: Precision, table: OpTable) -> NDArray[np.int64]:
    """Return the highest of the card's rates that each operation may use, as indices into
    :data:`~core.hardware.constants.PEAKS`.
    """
    wanted = max(("fp32", *_tensor_peaks(spec, precision)), key=lambda peak: rate_of(spec, peak))
    return np.where(table.tensor, PEAKS.index(wanted), PEAKS.index("fp32"))


def multiprocessors_of(spec: GpuSpec) -> float:
    """Return the card's multiprocessors; if unstated, as many as recent NVIDIA cards of that rate have."""
    return spec.multiprocessors or max(1.0, spec.fp32_tflops / TFLOPS_EACH)


def l2_mb_of(spec: GpuSpec) -> float:
    """Return the card's L2 cache in MB, or a small default if it is unstated."""
    return spec.l2_mb or SMALL_L2_MB


def runs_as_tf32(spec: GpuSpec, precision: Precision) -> bool:
    """Check that products may run as TF32: TensorFlow does so in float32 by default if the card has it."""
    return precision == "float32" and spec.tf32_tflops is not None


def modelled_as(spec: GpuSpec, workload: Workload, target: Target) -> str:
    """Describe how the card is modelled to run, such as ``XLA, as Keras chooses by default; float32 (TF32)``."""
    return expected_words(workload, target, runs_as_tf32(spec, target.precision))


def rate_of(spec: GpuSpec, peak: Peak) -> float:
    """Return the card's peak rate in TFLOP/s; a rate that it lacks falls back to fp32."""
    rates = {"fp32": spec.fp32_tflops, "tf32": spec.tf32_tflops, "half": spec.half_tflops}
    return rates[peak] or spec.fp32_tflops


def transfer_time(spec: GpuSpec, workload: Workload, batch: int, constants: Constants, build: Build = "keras") -> float:
    """Return the time in ms for copying one batch, with its labels in training, from the host to the card."""
    network = workload.network
    labels = math.prod(network.label_shape) * LABEL_BYTES if workload.training else 0
    moved = batch * (network.sample_values * INPUT_BYTES + labels)
    rate_gb_s = min(spec.link_gb_s, constants.feed_gb_s) if build == "keras" else spec.link_gb_s
    return constants.transfer_start_us * _MS_PER_US + moved / rate_gb_s * 1e-6
