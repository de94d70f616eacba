"""Step time on a GPU, from the workload's own operations and the card's facts.

    T = T_base + (H^q + K^q)^(1/q) + T_transfer,    K = Σ launch · kernels + (t_c^p + t_m^p)^(1/p)

H is what the host spends on handing the operations over, K what the device spends on running them; the two overlap.
t_c and t_m are arithmetic and memory traffic at the rates that kernels of the class reach: an extended roofline
(Williams et al. 2009) whose corner is rounded. By construction no step is faster than the peak rate, the memory
bandwidth or the link allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from core.analysis.execution import expected_words, resolved
from core.hardware.catalogue import GpuSpec
from core.hardware.constants import Constants, Peak
from core.hardware.work import Op, OpClass, ops_of
from core.schema import Frozen
from core.spec import Target, Workload

Limit = Literal["launch", "bandwidth", "arithmetic", "transfer", "host"]
TENSOR_CLASSES = frozenset({"dense", "convolution", "attention", "recurrent"})
INPUT_BYTES, LABEL_BYTES = 4, 8
_MS_PER_US = 1e-3

Times = TypeVar("Times", float, NDArray[np.float64])
"""Milliseconds (or what they follow from) of one operation, or of many at once, as the accuracy benchmark has them."""

Cost = Annotated[float, Field(ge=0)]


class HostOverhead(Frozen):
    """What the machine's CPU spends on driving a device, in microseconds.

    ``per_op_us`` for each operation of a graph, ``eager_op_us`` for each one run eagerly, ``xla_call_us`` for each
    compiled step, ``step_us`` for each step whatever it runs.
    """

    per_op_us: Cost
    xla_call_us: Cost
    eager_op_us: Cost
    step_us: Cost
    label: Literal["measured", "assumed"]


@dataclass(frozen=True)
class ModelledParts:
    """A modelled step and its parts in ms. The parts overlap, so that they add up to more than ``step_ms``."""

    host_ms: float
    launch_ms: float
    arithmetic_ms: float
    bandwidth_ms: float
    transfer_ms: float
    step_ms: float
    limited_by: Limit


@dataclass(frozen=True)
class DeviceTime:
    """What the device spends on a step's kernels in ms: spacing of launches, arithmetic, memory traffic, together."""

    launch_ms: float
    arithmetic_ms: float
    bandwidth_ms: float
    total_ms: float


def predict(
    spec: GpuSpec, workload: Workload, target: Target, batch: int, host: HostOverhead, constants: Constants, fed: bool
) -> ModelledParts:
    """Step time of ``workload`` on the card at ``batch`` samples; with ``fed`` the batch crosses the link each step."""
    target = resolved(workload, target)
    ops = ops_of(workload, target, batch)
    device = device_time(spec, target, ops, constants)
    base_ms = host.step_us * _MS_PER_US / target.steps_per_execution
    host_ms = host_time(target, ops, host)
    transfer_ms = transfer_time(spec, workload, batch, constants) if fed else 0.0
    q = constants.exponent
    step_ms = base_ms + joined(host_ms, device.total_ms, q) + transfer_ms
    parts: dict[Limit, float] = {
        "host": base_ms + host_ms,
        "launch": device.launch_ms,
        "arithmetic": device.arithmetic_ms,
        "bandwidth": device.bandwidth_ms,
        "transfer": transfer_ms,
    }
    limited_by = max(parts, key=lambda part: parts[part])
    return ModelledParts(**{f"{part}_ms": ms for part, ms in parts.items()}, step_ms=step_ms, limited_by=limited_by)


def joined(one: Times, other: Times, exponent: float) -> Times:
    """(one^q + other^q)^(1/q): two parts that overlap, the larger of them at least and their sum at most."""
    return (one**exponent + other**exponent) ** (1 / exponent)


def host_time(target: Target, ops: tuple[Op, ...], host: HostOverhead) -> float:
    """What handing the operations over takes on a resolved target, in ms: by operation, or as one compiled call."""
    if target.execution == "xla":
        return host.xla_call_us * _MS_PER_US
    each = host.eager_op_us if target.execution == "eager" else host.per_op_us
    return each * sum(op.kernels for op in ops) * _MS_PER_US


def device_time(spec: GpuSpec, target: Target, ops: tuple[Op, ...], constants: Constants) -> DeviceTime:
    """What the card takes for the operations, one after the other."""
    launch = arithmetic = bandwidth = total = 0.0
    for op in ops:
        launch_ms = spec.launch_us * op.kernels * _MS_PER_US
        arithmetic_ms = arithmetic_time(spec, op.kind, peak_of(spec, target, op), op.flops, constants)
        bandwidth_ms = bandwidth_time(spec, op.kind, op.bytes, constants)
        launch += launch_ms
        arithmetic += arithmetic_ms
        bandwidth += bandwidth_ms
        total += launch_ms + joined(arithmetic_ms, bandwidth_ms, constants.overlap)
    return DeviceTime(launch, arithmetic, bandwidth, total)


def arithmetic_time(spec: GpuSpec, kind: OpClass, peak: Peak, flops: Times, constants: Constants) -> Times:
    """Arithmetic of one operation in ms, at the rate its class reaches.

    A card whose power budget binds runs at its clock for a while and slows in long arithmetic: the reached share falls
    from the class's own to the class's under the power limit, half way at ``constants.sustained_ms`` of arithmetic.
    """
    at_peak = flops / rate_of(spec, peak) * 1e-9
    share = constants.arithmetic_share(kind, peak)
    limited = constants.limited_share(kind, peak) if spec.power_limited else share
    return at_peak / (limited + (share - limited) / (1 + at_peak / constants.sustained_ms))


def bandwidth_time(spec: GpuSpec, kind: OpClass, moved: Times, constants: Constants) -> Times:
    """Memory traffic of one operation in ms."""
    return moved / (spec.bandwidth_gb_s * constants.bandwidth_share(kind)) * 1e-6


def peak_of(spec: GpuSpec, target: Target, op: Op) -> Peak:
    """Which of the card's rates bounds the operation."""
    if op.kind not in TENSOR_CLASSES:
        return "fp32"
    if target.is_mixed and spec.half_tflops is not None:
        return "half"
    return "tf32" if runs_tf32(spec, target) else "fp32"


def runs_tf32(spec: GpuSpec, target: Target) -> bool:
    """Whether products in float32 run as TF32: TensorFlow lets them where the card has it, unless it is told not to."""
    return target.precision == "float32" and spec.tf32_tflops is not None


def modelled_as(spec: GpuSpec, workload: Workload, target: Target) -> str:
    """How the card is modelled to run, such as ``XLA, as Keras chooses by default; float32 (TF32)``."""
    return expected_words(workload, target, runs_tf32(spec, target))


def rate_of(spec: GpuSpec, peak: Peak) -> float:
    """The card's peak rate in TFLOP/s."""
    rates = {"fp32": spec.fp32_tflops, "tf32": spec.tf32_tflops, "half": spec.half_tflops}
    return rates[peak] or spec.fp32_tflops


def transfer_time(spec: GpuSpec, workload: Workload, batch: int, constants: Constants) -> float:
    """Copying one batch, with its labels in training, from the host to the card, in ms."""
    network = workload.network
    labels = math.prod(network.label_shape) * LABEL_BYTES if workload.training else 0
    moved = batch * (math.prod(network.input_shape) * INPUT_BYTES + labels)
    return constants.transfer_start_us * _MS_PER_US + moved / spec.link_gb_s * 1e-6
