"""Pooling, and convolution: plain, grouped, dilated, transposed, depthwise and separable, over 1, 2 or 3 axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core.networks.architecture.kinds.activation import CHANNELS_LAST, activation
from core.networks.architecture.kinds.dense import product, with_activation
from core.networks.architecture.options import REQUIRED, Option, Options, flag, maybe, only, sizes, whole, word
from core.networks.architecture.rule import Counting, Rule, Shape, Work, joined, on_grid, pointwise, size

MAX_KERNEL = 4_096


def windows(shape: Shape, options: Options, kernel: str = "kernel_size") -> Shape:
    """Return the kernel's number of positions along each axis before the channels. Raises ValueError if none fits."""
    places = []
    dilations = options.get("dilation_rate", (1,) * len(options[kernel]))
    for length, extent, stride, dilation in zip(shape, options[kernel], options["strides"], dilations, strict=True):
        reach = dilation * (extent - 1) + 1
        usable = length if options["padding"] != "valid" else length - reach + 1
        if usable < 1:
            raise ValueError(
                f"a window of {reach} does not fit into an axis of {length}; its input has the shape {shape}"
            )
        places.append(-(-usable // stride))
    return tuple(places)


def _filters(options: Options, filters: int, channels: int, grid: Shape) -> Work:
    """Count ``filters`` kernels over ``channels`` channels each, at every position of ``grid``."""
    work = product(size(grid), size(options["kernel_size"]) * channels, filters, options["use_bias"])
    return replace(work, output=(*grid, filters))


@on_grid
def _plain(options: Options, grid: Shape, channels: int) -> Work:
    groups = options["groups"]
    if channels % groups or options["filters"] % groups:
        raise ValueError(
            f"{channels} input channels and {options['filters']} filters do not divide into {groups} groups"
        )
    work = _filters(options, options["filters"], channels // groups, windows(grid, options))
    return with_activation(work, options["activation"])


@on_grid
def _transposed(options: Options, grid: Shape, channels: int) -> Work:
    filters, bias = options["filters"], options["use_bias"]
    output = (*_spread(grid, options), filters)
    work = product(size(grid), channels, size(options["kernel_size"]) * filters, bias=False)
    work = replace(
        work,
        output=output,
        weights=work.weights + filters * bias,
        forward=work.forward + size(output) * bias,
        weight_gradient=work.weight_gradient + size(output) * bias,
    )
    return with_activation(work, options["activation"])


def _spread(grid: Shape, options: Options) -> Shape:
    """Return the output positions of a transposed convolution (Keras's rule for TensorFlow's padding)."""
    lengths = []
    extra = options["output_padding"] or (None,) * len(grid)
    each = zip(grid, options["kernel_size"], options["strides"], options["dilation_rate"], extra, strict=True)
    for length, extent, stride, dilation, padding in each:
        if padding is not None and padding >= stride:
            raise ValueError(f"option “output_padding” is {padding}; it must be less than the stride of {stride}")
        reach = (extent - 1) * dilation + 1
        if options["padding"] == "same":
            lengths.append(length * stride if padding is None else (length - 1) * stride + reach % 2 + padding)
        else:
            ends = max(reach, stride) if padding is None else reach + padding
            lengths.append((length - 1) * stride + ends)
    if min(lengths) < 1:
        raise ValueError(f"its output would have the shape {tuple(lengths)}")
    return tuple(lengths)


@on_grid
def _depthwise(options: Options, grid: Shape, channels: int) -> Work:
    work = _filters(options, channels * options["depth_multiplier"], 1, windows(grid, options))
    return with_activation(work, options["activation"])


@on_grid
def _separable(options: Options, grid: Shape, channels: int) -> Work:
    places = windows(grid, options)
    inner = channels * options["depth_multiplier"]
    depthwise = _filters({**options, "use_bias": False}, inner, 1, places)
    mixing = product(size(places), inner, options["filters"], options["use_bias"])
    return with_activation(joined((*places, options["filters"]), depthwise, mixing), options["activation"])


def _no_stride_with_dilation(options: dict[str, Any]) -> dict[str, Any]:
    if max(options["strides"]) > 1 and max(options["dilation_rate"]) > 1:
        raise ValueError("options “strides” and “dilation_rate” are both above 1; one of them must be 1")
    return options


def _grid(rank: int, *, causal: bool = False) -> dict[str, Option]:
    ones = (1,) * rank
    return {
        "kernel_size": sizes(rank, high=MAX_KERNEL),
        "strides": sizes(rank, high=MAX_KERNEL, default=ones),
        "padding": word("valid", "same", *(["causal"] if causal else []), default="valid"),
        **CHANNELS_LAST,
        "dilation_rate": sizes(rank, high=MAX_KERNEL, default=ones),
        "activation": activation(),
        "use_bias": flag(True),
    }


def _rule(options: dict[str, Option], work: Counting) -> Rule:
    return Rule(options, work, settle=_no_stride_with_dilation)


FILTERS = {"filters": whole()}
LORA = {"lora_rank": only(None), "lora_alpha": only(None)}
DEPTH = {"depth_multiplier": whole(default=1)}


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


def _pooling(rank: int, default: Any) -> Rule:
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
    **{
        f"Conv{rank}D": _rule(
            FILTERS | _grid(rank, causal=rank == 1) | {"groups": whole(default=1)} | LORA, _plain(rank)
        )
        for rank in (1, 2, 3)
    },
    **{
        f"Conv{rank}DTranspose": _rule(
            FILTERS | _grid(rank) | {"output_padding": maybe(sizes(rank, low=0, high=MAX_KERNEL))}, _transposed(rank)
        )
        for rank in (1, 2)
    },
    **{f"DepthwiseConv{rank}D": _rule(_grid(rank) | DEPTH, _depthwise(rank)) for rank in (1, 2)},
    **{
        f"SeparableConv{rank}D": _rule(FILTERS | _grid(rank, causal=rank == 1) | DEPTH, _separable(rank))
        for rank in (1, 2)
    },
    **{f"MaxPooling{rank}D": _pooling(rank, (2,) * rank) for rank in (1, 2, 3)},
    **{f"AveragePooling{rank}D": _pooling(rank, REQUIRED) for rank in (1, 2, 3)},
    **{
        f"Global{name}Pooling{rank}D": Rule({**CHANNELS_LAST, "keepdims": flag(False)}, _over_all(rank))
        for name in ("Max", "Average")
        for rank in (1, 2, 3)
    },
}
