"""Pooling over windows and over all positions."""

from __future__ import annotations

from typing import Any

from core.networks.architecture.kinds.activation import CHANNELS_LAST
from core.networks.architecture.kinds.convolution import MAX_KERNEL, windows
from core.networks.architecture.options import REQUIRED, Options, flag, maybe, sizes, word
from core.networks.architecture.rule import Rule, Shape, Work, on_grid, pointwise, size


@on_grid
def _windowed(options: Options, grid: Shape, channels: int) -> Work:
    strided = {**options, "strides": options["strides"] or options["pool_size"]}
    output = (*windows(grid, strided, "pool_size"), channels)
    return pointwise(output, size(options["pool_size"]) * size(output))


@on_grid
def _over_all(options: Options, grid: Shape, channels: int) -> Work:
    ones = (1,) * len(grid) if options["keepdims"] else ()
    return pointwise((*ones, channels), size((*grid, channels)))


def _own_stride(options: dict[str, Any]) -> dict[str, Any]:
    """Drop strides that equal the window, which is Keras's default."""
    same = options["strides"] == options["pool_size"]
    return {**options, "strides": None} if same else options


def _windows(rank: int, default: Any) -> Rule:
    return Rule(
        {
            "pool_size": sizes(rank, high=MAX_KERNEL, default=default),
            "strides": maybe(sizes(rank, high=MAX_KERNEL)),
            "padding": word("valid", "same", default="valid"),
            **CHANNELS_LAST,
        },
        _windowed(rank),
        settle=_own_stride,
    )


RULES = {
    **{f"MaxPooling{rank}D": _windows(rank, (2,) * rank) for rank in (1, 2, 3)},
    **{f"AveragePooling{rank}D": _windows(rank, REQUIRED) for rank in (1, 2, 3)},
    **{
        f"Global{name}Pooling{rank}D": Rule({**CHANNELS_LAST, "keepdims": flag(False)}, _over_all(rank))
        for name in ("Max", "Average")
        for rank in (1, 2, 3)
    },
}
