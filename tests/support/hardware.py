"""Cards, hosts and errors of known numbers for tests of the hardware model."""

from typing import Any

from core.hardware.catalogue import GpuSpec
from core.hardware.constants import Constants
from core.hardware.interval import Coverage, ErrorClass, Errors
from core.hardware.model import HostOverhead
from core.spec import Target, Workload

GPU = Target(device="gpu:0", execution="graph")
XLA = Target(device="gpu:0", execution="xla")
NETWORKS = ("784-512-512-10", "resnet8", "bert-tiny-like", "lstm-32x2-128x9-6", "cnn-32x32x3-64x6-k3-bn-max-10")

FACTS: dict[str, Any] = {
    "name": "Round", "title": "A card of round numbers", "vendor": "NVIDIA", "architecture": "Ampere",
    "fp32_tflops": 10.0, "tf32_tflops": None, "half_tflops": 100.0, "memory_gb": 16.0, "bandwidth_gb_s": 1000.0,
    "link": "PCIe 4.0 x16", "link_gb_s": 25.0, "launch_us": 2.0, "power_limited": False, "tdp_w": 300.0, "sources": {},
}  # fmt: skip


def round_card(**facts: Any) -> GpuSpec:
    """A card with which step times can be computed by hand: 10 TFLOP/s, 1 TB/s, 2 µs between launches."""
    return GpuSpec(**{**FACTS, **facts})


def plain_constants(**values: Any) -> Constants:
    """Every rate is reached in full, nothing overlaps."""
    shares = {f"other/{peak}": 1.0 for peak in ("fp32", "tf32", "half")}
    given: dict[str, Any] = {
        "exponent": 1.0, "overlap": 1.0, "arithmetic": shares, "power_limited": shares, "sustained_ms": 1.0,
        "bandwidth": {"other": 1.0}, "transfer_start_us": 0.0, "found": {},
    }  # fmt: skip
    return Constants(**{**given, **values})


def steady_host(**costs: Any) -> HostOverhead:
    """5 µs an operation, 100 µs a step."""
    return HostOverhead(
        **{"per_op_us": 5, "xla_call_us": 50, "eager_op_us": 20, "step_us": 100, "label": "measured", **costs}
    )


def flat_errors(between: float = 0.1, within: float = 0.1, gpus: int = 10) -> Errors:
    """The same error class everywhere."""
    one = ErrorClass(
        gpus=gpus, points=1000, median=0.0, between=between,
        low_90=-1.64 * within, high_90=1.64 * within, low_95=-1.96 * within, high_95=1.96 * within,
    )  # fmt: skip
    classes = {f"dense/{region}/{phase}": one for region in ("launch", "knee", "work") for phase in ("train", "infer")}
    coverage = {"dense/work/train": Coverage(share=0.9, cards_and_sources=gpus)}
    return Errors(
        dated="2026-01-01", gpus=(), sources=(), assumed_host=0.4, classes=classes, coverage_90=coverage, errors=()
    )


def workload(network: str = "784-512-512-10", **choices: Any) -> Workload:
    return Workload(network=network, **choices)
