"""Cards, hosts and errors of known numbers for tests of the hardware model."""

from typing import Any

from core.hardware.catalogue import GpuSpec
from core.hardware.constants import NO_LIMIT, Constants
from core.hardware.host import USUAL, Conditions, Cost, FitCost, HostCosts, HostOverhead, Modelling
from core.hardware.interval import Coverage, ErrorClass, Errors
from core.workload.spec import Target, Workload

GPU = Target(device="gpu:0", execution="graph")
XLA = Target(device="gpu:0", execution="xla")
NETWORKS = ("784-512-512-10", "resnet8", "bert-tiny-like", "lstm-32x2-128x9-6", "cnn-32x32x3-64x6-k3-bn-max-10")

FACTS: dict[str, Any] = {
    "name": "Round", "title": "A card of round numbers", "vendor": "NVIDIA", "architecture": "Ampere",
    "fp32_tflops": 10.0, "tf32_tflops": None, "half_tflops": 100.0, "memory_gb": 16.0, "bandwidth_gb_s": 1000.0,
    "link": "PCIe 4.0 x16", "link_gb_s": 25.0, "launch_us": 2.0, "tdp_w": 300.0, "sources": {},
}  # fmt: skip


def round_card(**facts: Any) -> GpuSpec:
    """Return a card whose step times can be computed by hand: 10 TFLOP/s, 1 TB/s, 2 µs between launches."""
    return GpuSpec(**{**FACTS, **facts})


def plain_constants(**values: Any) -> Constants:
    """Return constants: full rates at any size, no overlap, no cache; a compiled step is one call."""
    shares = {f"other/{peak}": 1.0 for peak in ("fp32", "tf32", "half")}
    usual: dict[str, Any] = {
        "exponent": 1.0, "overlap": 1.0, "overlap_convolution": 1.0, "arithmetic": shares,
        "power": NO_LIMIT, "channels_first": 1.0, "sustained_ms": 1.0, "bandwidth": {"other": 1.0},
        "fused_op": 1.0, "xla_op": 0.0, "keras_xla_op": 0.0, "feed_gb_s": 1e9, "fill": 0.0,
        "cache_speed": 1.0, "cache_share": 0.5, "transfer_start_us": 0.0, "generations": {}, "found": {},
    }  # fmt: skip
    return Constants(**{**usual, **values})


def steady_host(**costs: Any) -> HostOverhead:
    """Return host costs of 5 µs per operation, 100 µs per step."""
    return HostOverhead(
        **{"per_op_us": 5, "xla_call_us": 50, "eager_op_us": 20, "step_us": 100, "label": "measured", **costs}
    )


def settings_of(
    workload: Workload, target: Target = GPU, host: HostOverhead | None = None, conditions: Conditions = USUAL
) -> Modelling:
    """Return settings on a host whose costs have no intervals, by default those of :func:`steady_host`."""
    host = host or steady_host()
    fit = FitCost(host.fit_us, None, None, "made up", "measured")
    step, op = Cost(host.step_us, None, None), Cost(host.per_op_us, None, None)
    return Modelling(workload, target, HostCosts(host, "graph", step, op, "made up", "measured", fit), conditions)


def flat_errors(between: float = 0.1, within: float = 0.1, gpus: int = 10) -> Errors:
    """Return one error class for all dense networks; zero beside an assumed host's own spread, as shipped."""
    none = ErrorClass(
        gpus=gpus, points=1000, median=0.0, between=between, low_90=0.0, high_90=0.0, low_95=0.0, high_95=0.0
    )
    spread = none.model_copy(
        update={
            "low_90": -1.64 * within, "high_90": 1.64 * within, "low_95": -1.96 * within, "high_95": 1.96 * within
        }
    )  # fmt: skip
    names = ("launch/train", "launch/infer", "bandwidth", "arithmetic")
    classes = {f"dense/{name}": spread for name in names} | {"dense/launch/assumed": none}
    coverage = {"dense/arithmetic": Coverage(points=1000, chip=0.9, source=0.9, high_over_low=1.4)}
    return Errors(
        dated="2026-01-01", gpus=(), sources=(), classes=classes, under_fit=1.0, coverage_90=coverage, goals=(),
        by_card=(), by_source=(),
    )  # fmt: skip


def workload(network: str = "784-512-512-10", **choices: Any) -> Workload:
    return Workload(network=network, **choices)
