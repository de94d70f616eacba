"""Activation functions, as layers and as options of other layers, and the layers that only add noise."""

from __future__ import annotations

from typing import Any

from core.networks.architecture.options import MAX_RANK, REQUIRED, Option, Options, axis, maybe, only, real, wholes
from core.networks.architecture.rule import Rule, Shape, Work, pointwise, position, size, with_axes

FROM_OUTPUT = frozenset({"linear", "relu", "relu6", "sigmoid", "tanh", "softmax", "elu", "selu"})
"""Functions whose gradient TensorFlow computes from their output; for the others a layer keeps their input, too."""
FROM_INPUT = frozenset(
    {"leaky_relu", "celu", "softplus", "softsign", "squareplus", "soft_shrink", "sparse_plus", "silu", "gelu"}
    | {"tanh_shrink", "sparse_sigmoid", "exponential", "hard_sigmoid", "hard_silu", "hard_tanh", "hard_shrink"}
    | {"mish", "log_softmax", "log_sigmoid", "sparsemax"}
)
SAME = {"swish": "silu", "hard_swish": "hard_silu"}
SOFTMAX_FLOPS = 5
"""Operations per value (TensorFlow's profiler): shift by the maximum 2, exponential 1, sum and division 2."""
MAX_SLOPE = 1e6


def activation(default: Any = "linear") -> Option:
    """Return the option for one of Keras's activation functions; none and “linear” are the same."""

    def read(value: Any) -> str:
        name = "linear" if value is None else value
        if not isinstance(name, str) or SAME.get(name, name) not in FROM_OUTPUT | FROM_INPUT:
            raise ValueError
        return SAME.get(name, name)

    return Option("one of " + ", ".join(sorted(FROM_OUTPUT | FROM_INPUT)), read, default)


def activated(name: str, values: int) -> Work:
    """Return the work an activation adds to the layer it ends: softmax's operations, and an input that is kept."""
    flops = SOFTMAX_FLOPS * values if name == "softmax" else 0
    kept = 0 if name in FROM_OUTPUT else values
    return Work((values,), forward=flops, weight_gradient=flops, internal=kept)


def _activation(options: Options, shapes: tuple[Shape, ...]) -> Work:
    work = activated(options["activation"], size(shapes[0]))
    return pointwise(shapes[0], work.forward)


def _softmax(options: Options, shapes: tuple[Shape, ...]) -> Work:
    position(options["axis"], len(shapes[0]))
    return pointwise(shapes[0], SOFTMAX_FLOPS * size(shapes[0]))


def _prelu(options: Options, shapes: tuple[Shape, ...]) -> Work:
    shape = shapes[0]
    shared = {position(each, len(shape)) for each in options["shared_axes"] or ()}
    slopes = size(tuple(1 if i in shared else n for i, n in enumerate(shape)))
    return Work(shape, weights=slopes, weight_gradient=2 * size(shape))


def _unchanged(_: Options, shapes: tuple[Shape, ...]) -> Work:
    return pointwise(shapes[0])


def _noisy(_: Options, shapes: tuple[Shape, ...]) -> Work:
    return pointwise(shapes[0], internal=size(shapes[0]))


def _noise_shape() -> Option:
    """Return the option of a noise shape: None, or None for the batch and, per axis, None (full) or 1 (broadcast)."""

    def read(value: Any) -> tuple[int | None, ...] | None:
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or not 2 <= len(value) <= MAX_RANK + 1 or value[0] is not None:
            raise ValueError
        if not all(n is None or (n == 1 and not isinstance(n, bool)) for n in value[1:]):
            raise ValueError
        return tuple(value)

    return Option("none, or none for the batch and none or 1 for each axis", read, None)


def _dropped(options: Options, shapes: tuple[Shape, ...]) -> Work:
    shape, noise = shapes[0], options["noise_shape"] or (None, *(None for _ in shapes[0]))
    if len(noise) != len(shape) + 1:
        raise ValueError(f"option “noise_shape” has {len(noise)} axes; its input has {len(shape)} beside the batch")
    drawn = size(tuple(n if fixed is None else 1 for n, fixed in zip(shape, noise[1:], strict=True)))
    return pointwise(shape, internal=drawn if options["rate"] else 0)


def _spatial(axes: int, words: str) -> Any:
    def work(_: Options, shapes: tuple[Shape, ...]) -> Work:
        return pointwise(with_axes(shapes[0], axes, words), internal=shapes[0][-1])

    return work


RATE = {"rate": real(0, 1)}
SHAPED = {"noise_shape": _noise_shape()}
CHANNELS_LAST = {"data_format": only("channels_last")}

RULES = {
    "Activation": Rule({"activation": activation(REQUIRED)}, _activation),
    "ReLU": Rule(
        {
            "max_value": maybe(real(0, MAX_SLOPE)),
            "negative_slope": real(0, MAX_SLOPE, 0.0),
            "threshold": real(0, MAX_SLOPE, 0.0),
        },
        _unchanged,
    ),
    "LeakyReLU": Rule({"negative_slope": real(0, MAX_SLOPE, 0.3)}, _unchanged),
    "ELU": Rule({"alpha": real(0, MAX_SLOPE, 1.0)}, _unchanged),
    "PReLU": Rule({"shared_axes": maybe(wholes(-8, 8))}, _prelu),
    "Softmax": Rule({"axis": axis(-1)}, _softmax),
    "Identity": Rule({}, _unchanged),
    "Dropout": Rule(RATE | SHAPED, _dropped),
    "AlphaDropout": Rule(RATE | SHAPED, _dropped),
    "GaussianDropout": Rule(RATE, _noisy),
    "GaussianNoise": Rule({"stddev": real(0, MAX_SLOPE)}, _noisy),
    "SpatialDropout1D": Rule(RATE, _spatial(2, "steps and features")),
    "SpatialDropout2D": Rule(RATE | CHANNELS_LAST, _spatial(3, "rows, columns and channels")),
    "StochasticDepth": Rule({"drop_path_rate": real(0, 1)}, _unchanged, public=False),
}
