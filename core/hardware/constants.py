"""The model's constants, read from ``core/data/hardware_model.json``, each with its origin."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from core.base.frameworks import FRAMEWORKS, Execution, Precision
from core.base.schema import Frozen
from core.hardware.layers import CONVOLUTIONS, LayerClass

FILE = Path(__file__).parent.parent / "data" / "hardware_model.json"

EXECUTIONS: tuple[Execution, ...] = FRAMEWORKS["tensorflow"].executions
PRECISIONS: tuple[Precision, ...] = tuple(p for p in FRAMEWORKS["tensorflow"].precisions if p != "int8")
"""Executions and precisions that the model covers: Keras on TensorFlow, without quantisation."""
Peak = Literal["fp32", "tf32", "half"]
PEAKS: tuple[Peak, ...] = get_args(Peak)
KINDS: tuple[str, ...] = (*get_args(LayerClass), "loss", "optimizer")
"""Classes of operations; arrays of shares are indexed by this tuple and by :data:`PEAKS`."""
Shares = NDArray[np.float64]
Share = Annotated[float, Field(gt=0, le=1)]
WINOGRAD = 2.25
"""Factor by which Winograd's F(2 × 2, 3 × 3) saves multiplications (Lavin and Gray 2016)."""
ArithmeticShare = Annotated[float, Field(gt=0, le=WINOGRAD)]


class Generation(Frozen):
    """Factors on the shares that other generations reach: of tensor cores by class of product, and of the memory by
    kernels that are no products of matrices, which are too small to fill the newest memories."""

    dense: Annotated[float, Field(gt=0)] = 1.0
    convolution: Annotated[float, Field(gt=0)] = 1.0
    bandwidth: Annotated[float, Field(gt=0)] = 1.0


AS_OTHERS = Generation()
SHARPNESS = 4
"""Exponent that rounds the corner where a power budget begins to bind."""


class PowerBudget(Frozen):
    """Power that products take at their full rate, by which a card with less of it slows down in long arithmetic.

    ``watts_per_tflop``: by generation, outside tensor cores. ``on_tensor_cores``: share of it per TFLOP/s in half
    precision; TF32 takes twice as much. ``exponent``: power of the watts with which the rate falls, at most 1, since a
    higher peak makes no card slower.
    """

    watts_per_tflop: Mapping[str, Annotated[float, Field(gt=0)]]
    on_tensor_cores: Annotated[float, Field(gt=0, le=1)]
    exponent: Annotated[float, Field(ge=0, le=1)]

    def share(self, generation: str, peak: Peak, tflops: float, watts: float | None) -> float:
        """Return the share of its clock that a card keeps in long arithmetic at a peak of ``tflops``; 1 where the power
        is unstated or the generation unknown.
        """
        needed = self.watts_per_tflop.get(generation)
        if needed is None or watts is None:
            return 1.0
        on_cores = {"fp32": 1.0, "tf32": 2 * self.on_tensor_cores, "half": self.on_tensor_cores}
        short = needed * on_cores[peak] * tflops / watts
        return float((1 + short**SHARPNESS) ** (-self.exponent / SHARPNESS))


NO_LIMIT = PowerBudget(watts_per_tflop={}, on_tensor_cores=1.0, exponent=0.0)


class Constants(Frozen):
    """Constants of the model.

    ``arithmetic`` holds the reachable share of the peak rate by operation class and peak (“dense/half”); a missing
    class uses “other”. ``power``: what is left of it where the power budget binds in long arithmetic. ``bandwidth`` is
    the reachable share of the memory bandwidth by operation class. ``exponent`` is q, the exponent that joins host and
    device time; ``overlap`` is p, which joins arithmetic and traffic of one operation, and ``overlap_convolution`` is p
    for convolutions, whose kernels load while they multiply. ``sustained_ms``: arithmetic time from which arithmetic
    counts as long. ``fused_op``: operations that one kernel of a fused build costs the host; ``xla_op``: the same for
    one kernel of a compiled step; ``keras_xla_op`` where Keras 3 compiles the whole step as one program, of which a
    vendor's build compiled parts. ``fill``: blocks per multiprocessor at which products reach half their rate.
    ``channels_first``: factor on convolutions on tensor cores if images come with their channels first.
    ``cache_speed``: speed of the last-level cache relative to memory, for what fits in ``cache_share`` of it.
    ``transfer_start_us``: fixed cost of a copy over the link. ``feed_gb_s``: rate at which Keras hands NumPy arrays to
    the card, if the link is faster. ``found``: the origin of each constant.
    """

    exponent: Annotated[float, Field(ge=1, le=10)]
    overlap: Annotated[float, Field(ge=1, le=10)]
    overlap_convolution: Annotated[float, Field(ge=1, le=10)]
    arithmetic: Mapping[str, ArithmeticShare]
    power: PowerBudget
    sustained_ms: Annotated[float, Field(gt=0)]
    bandwidth: Mapping[str, Share]
    fused_op: Annotated[float, Field(ge=1)]
    xla_op: Annotated[float, Field(ge=0)]
    keras_xla_op: Annotated[float, Field(ge=0)]
    fill: Annotated[float, Field(ge=0)]
    channels_first: Annotated[float, Field(ge=1)]
    generations: Mapping[str, Generation]
    cache_speed: Annotated[float, Field(ge=1)]
    cache_share: Annotated[float, Field(gt=0)]
    transfer_start_us: Annotated[float, Field(ge=0)]
    feed_gb_s: Annotated[float, Field(gt=0)]
    found: Mapping[str, str]

    @cached_property
    def shares(self) -> Shares:
        """Arithmetic shares: an array over :data:`KINDS` and :data:`PEAKS`."""
        return np.array([[self.arithmetic_share(kind, peak) for peak in PEAKS] for kind in KINDS])

    @cached_property
    def bandwidth_shares(self) -> Shares:
        """Share of the memory bandwidth: an array over :data:`KINDS`."""
        return np.array([self.bandwidth_share(kind) for kind in KINDS])

    def on_tensor_cores(self, generation: str) -> Shares:
        """Return the generation's factors for products on tensor cores: an array over :data:`KINDS`."""
        own = self.generations.get(generation, AS_OTHERS)
        return np.array([own.convolution if kind in CONVOLUTIONS else own.dense for kind in KINDS])

    @cached_property
    def overlaps(self) -> Shares:
        """Exponents of the overlap: an array over :data:`KINDS`."""
        return np.array([self.overlap_convolution if kind in CONVOLUTIONS else self.overlap for kind in KINDS])

    def arithmetic_share(self, kind: str, peak: Peak) -> float:
        """Return the share of the peak rate that kernels of this class reach."""
        return self.arithmetic.get(f"{kind}/{peak}") or self.arithmetic[f"other/{peak}"]

    def bandwidth_share(self, kind: str) -> float:
        """Return the share of the memory bandwidth that kernels of this class reach."""
        return self.bandwidth.get(kind, self.bandwidth["other"])


@cache
def constants() -> Constants:
    """Return the constants that Breakeven ships."""
    return Constants.model_validate_json(FILE.read_text(encoding="utf-8"))
