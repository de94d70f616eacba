"""Layers that move, repeat, pad or cut values."""

from __future__ import annotations

from typing import Any

from core.networks.architecture.kinds.activation import CHANNELS_LAST
from core.networks.architecture.options import MAX_OPTION, Option, Options, pair, pairs, sizes, whole, wholes, word
from core.networks.architecture.rule import Rule, Shape, Work, on_grid, pointwise, size, with_axes

BILINEAR_FLOPS = 8
"""Operations per output value: four neighbours, one multiply-add each."""


def _flatten(_: Options, shapes: tuple[Shape, ...]) -> Work:
    return pointwise((size(shapes[0]),))


def _reshape(options: Options, shapes: tuple[Shape, ...]) -> Work:
    target, values = options["target_shape"], size(shapes[0])
    known = size(tuple(n for n in target if n != -1))
    if target.count(-1) > 1 or 0 in target or values % known or (-1 not in target and values != known):
        raise ValueError(f"option “target_shape” is {target}; its input of the shape {shapes[0]} has {values} values")
    return pointwise(tuple(values // known if n == -1 else n for n in target))


def _permute(options: Options, shapes: tuple[Shape, ...]) -> Work:
    dims = options["dims"]
    if sorted(dims) != list(range(1, len(shapes[0]) + 1)):
        raise ValueError(f"option “dims” is {dims}; it must hold 1 to {len(shapes[0])} once each")
    return pointwise(tuple(shapes[0][dim - 1] for dim in dims))


def _repeat(options: Options, shapes: tuple[Shape, ...]) -> Work:
    output = (options["n"], *with_axes(shapes[0], 1, "features"))
    return Work(output, input_gradient=size(output))


def _each_axis(grid: Shape, value: Any) -> tuple[Any, ...]:
    """Wrap the value for a sequence's only axis, which Keras writes without a tuple."""
    return (value,) if len(grid) == 1 else value


@on_grid
def _pad(options: Options, grid: Shape, channels: int) -> Work:
    padded = (n + sum(pair) for n, pair in zip(grid, _each_axis(grid, options["padding"]), strict=True))
    return pointwise((*padded, channels))


@on_grid
def _crop(options: Options, grid: Shape, channels: int) -> Work:
    left = [n - sum(pair) for n, pair in zip(grid, _each_axis(grid, options["cropping"]), strict=True)]
    if min(left) < 1:
        raise ValueError(f"option “cropping” leaves nothing of its input of the shape {(*grid, channels)}")
    return pointwise((*left, channels))


@on_grid
def _enlarge(options: Options, grid: Shape, channels: int) -> Work:
    output = (*(n * times for n, times in zip(grid, _each_axis(grid, options["size"]), strict=True)), channels)
    if options.get("interpolation") == "bilinear":
        return pointwise(output, BILINEAR_FLOPS * size(output))
    return Work(output, input_gradient=size(output))


INTERPOLATION: dict[str, Option] = {"interpolation": word("nearest", "bilinear", default="nearest")}

RULES = {
    "Flatten": Rule({**CHANNELS_LAST}, _flatten),
    "Reshape": Rule({"target_shape": wholes(-1, MAX_OPTION)}, _reshape),
    "Permute": Rule({"dims": wholes(1, 8)}, _permute),
    "RepeatVector": Rule({"n": whole()}, _repeat),
    "ZeroPadding1D": Rule({"padding": pair((1, 1)), **CHANNELS_LAST}, _pad(1)),
    "ZeroPadding2D": Rule({"padding": pairs(2, ((1, 1),) * 2), **CHANNELS_LAST}, _pad(2)),
    "Cropping1D": Rule({"cropping": pair((1, 1))}, _crop(1)),
    "Cropping2D": Rule({"cropping": pairs(2, ((0, 0),) * 2), **CHANNELS_LAST}, _crop(2)),
    "UpSampling1D": Rule({"size": whole(default=2)}, _enlarge(1)),
    "UpSampling2D": Rule({"size": sizes(2, default=(2, 2)), **CHANNELS_LAST, **INTERPOLATION}, _enlarge(2)),
}
