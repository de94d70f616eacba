"""Arithmetic implied by a published step against its card's peak, to find steps that no card could have run."""

from __future__ import annotations

from functools import cache

from benchmarks.evidence.operations import OLDER
from benchmarks.evidence.rows import NetworkRow
from core.hardware.catalogue import GpuSpec, catalogue
from core.networks.architecture.graph import Layer
from core.networks.families.graph_network import GraphNetwork
from core.workload.spec import Workload

TRANSFORMED = 4
"""Factor by which a convolution multiplies less outside tensor cores in tiles of 4 × 4 outputs (Lavin & Gray 2016: 36
for 144) or by Fourier transform; cuDNN does either for windows of 3 and 5 at stride 1.
"""
TRANSFORMED_WINDOWS = (3, 5)


def implied_tflops(row: NetworkRow) -> float:
    """Return the nominal arithmetic of the step over its time."""
    return row.workload.flops_per_sample * row.batch / row.step_ms * 1e-9


def peak_tflops(row: NetworkRow) -> float:
    """Return the card's fastest rate for products in the row's precision, or raise KeyError for an unknown card."""
    card = _cards()[row.gpu]
    if row.target.is_mixed:
        return card.half_tflops or card.fp32_tflops
    strict = row.target.precision == "float32_strict"
    return card.fp32_tflops if strict else max(card.fp32_tflops, card.tf32_tflops or 0.0)


def beyond_the_card(row: NetworkRow) -> bool:
    """Check that the step exceeds the card's peak, even with every convolution in its cheapest form."""
    plain = peak_tflops(row) == _cards()[row.gpu].fp32_tflops
    share = _least_share(row.workload) if plain else 1.0
    return share * implied_tflops(row) > peak_tflops(row)


@cache
def _cards() -> dict[str, GpuSpec]:
    return catalogue() | OLDER


@cache
def _least_share(workload: Workload) -> float:
    """Return the least arithmetic that the network needs, as a share of the nominal."""
    network = workload.network
    if not isinstance(network, GraphNetwork):
        return 1.0
    both = list(zip(network.graph.layers, network.layers, strict=True))
    saved = sum(
        count.forward_flops + workload.training * (count.weight_gradient_flops + count.input_gradient_flops)
        for layer, count in both
        if _transforms(layer)
    ) * (1 - 1 / TRANSFORMED)
    return 1 - saved / workload.flops_per_sample


def _transforms(layer: Layer) -> bool:
    options = layer.options
    one_stride = max(options.get("strides", (1,))) == 1
    return layer.kind == "Conv2D" and one_stride and options["kernel_size"][0] in TRANSFORMED_WINDOWS
