"""Normalisation layers: over the batch, over a sample's values or groups of them, and by fixed numbers."""

from __future__ import annotations

from core.networks.architecture.options import Option, Options, axis, flag, maybe, numbers, only, real, whole, wholes
from core.networks.architecture.rule import Rule, Shape, Work, pointwise, position, size

BATCH_INPUT_GRADIENT_FLOPS = 4
"""Operations per value once both sums are computed: scale, subtract two means, scale again (Ioffe & Szegedy 2015)."""
MOMENTS_FLOPS = 4
"""Operations per value by the count of TensorFlow's profiler: mean 1, squared difference 2, mean 1."""
SCALING_FLOPS = 2
"""Operations per value: one product, one sum."""


def _batch(options: Options, shapes: tuple[Shape, ...]) -> Work:
    """Count the forward pass as in inference, with scale and shift folded; the moments of training are memory-bound."""
    shape = shapes[0]
    channels = shape[position(options["axis"], len(shape))]
    trained = options["center"] + options["scale"]
    return Work(
        shape,
        weights=channels * trained,
        statistics=2 * channels,
        forward=SCALING_FLOPS * size(shape),
        weight_gradient=(2 * options["scale"] + options["center"]) * size(shape),
        input_gradient=BATCH_INPUT_GRADIENT_FLOPS * size(shape),
    )


def _normalised(shape: Shape, weights: int, flops: int, options: Options) -> Work:
    """Count a normalisation within each sample, ``flops`` per value; its gradients run through the moments."""
    return Work(
        shape,
        weights=weights,
        forward=flops * size(shape),
        weight_gradient=(2 * options.get("scale", True) + options.get("center", False)) * size(shape),
        input_gradient=flops * size(shape),
        internal=size(shape),
    )


def _values_along(axes: tuple[int, ...], shape: Shape) -> int:
    """Return the number of values in one position's slice along the given Keras axes. Raises ValueError."""
    return size(tuple(shape[place] for place in {position(axis, len(shape)) for axis in axes}))


def _layer(options: Options, shapes: tuple[Shape, ...]) -> Work:
    shape = shapes[0]
    weights = _values_along(options["axis"], shape) * (options["center"] + options["scale"])
    # Keras folds scale and centre into the factor and the summand of every value (Ba et al. 2016 write them separately)
    flops = MOMENTS_FLOPS + SCALING_FLOPS + 2 * options["scale"] + options["center"]
    return _normalised(shape, weights, flops, options)


def _root_mean_square(options: Options, shapes: tuple[Shape, ...]) -> Work:
    return _normalised(shapes[0], _values_along(options["axis"], shapes[0]), 4, {"scale": True})


def _group(options: Options, shapes: tuple[Shape, ...]) -> Work:
    shape = shapes[0]
    channels = shape[position(options["axis"], len(shape))]
    groups = channels if options["groups"] == -1 else options["groups"]
    if groups == 0 or channels % groups:
        raise ValueError(f"option “groups” is {groups}; it must divide its {channels} channels")
    weights = channels * (options["center"] + options["scale"])
    return _normalised(shape, weights, MOMENTS_FLOPS + SCALING_FLOPS, options)


def _unit(options: Options, shapes: tuple[Shape, ...]) -> Work:
    _values_along(options["axis"], shapes[0])
    return pointwise(shapes[0], 3 * size(shapes[0]), internal=size(shapes[0]))


def _fixed(options: Options, shapes: tuple[Shape, ...]) -> Work:
    """Count fixed normalisation; unless given, mean, variance and a count are untrained weights in Keras."""
    shape = shapes[0]
    learnt = options["mean"] is None
    return Work(
        shape,
        statistics=(2 * _values_along(options["axis"] or (), shape) + 1) * learnt,
        forward=SCALING_FLOPS * size(shape),
        input_gradient=size(shape),
    )


def _rescaled(_: Options, shapes: tuple[Shape, ...]) -> Work:
    return Work(shapes[0], forward=SCALING_FLOPS * size(shapes[0]), input_gradient=size(shapes[0]))


def _layer_scale(options: Options, shapes: tuple[Shape, ...]) -> Work:
    shape = shapes[0]
    if shape[-1] != options["projection_dim"]:
        raise ValueError(f"option “projection_dim” is {options['projection_dim']}; its input has {shape[-1]} channels")
    values = size(shape)
    return Work(shape, weights=shape[-1], forward=values, weight_gradient=2 * values, input_gradient=values)


def _moments(epsilon: float) -> dict[str, Option]:
    return {"epsilon": real(0, 1, epsilon), "center": flag(True), "scale": flag(True)}


LAST = wholes(-8, 8, default=(-1,))

RULES = {
    "BatchNormalization": Rule(
        {
            "axis": axis(-1),
            "momentum": real(0, 1, 0.99),
            **_moments(1e-3),
            "renorm": only(False),
            "renorm_clipping": only(None),
            "renorm_momentum": real(0, 1, 0.99),
            "synchronized": only(False),
        },
        _batch,
    ),
    "LayerNormalization": Rule({"axis": LAST, **_moments(1e-3), "rms_scaling": only(False)}, _layer),
    "GroupNormalization": Rule({"groups": whole(-1, default=32), "axis": axis(-1), **_moments(1e-3)}, _group),
    "RMSNormalization": Rule({"axis": LAST, "epsilon": real(0, 1, 1e-6)}, _root_mean_square),
    "UnitNormalization": Rule({"axis": LAST}, _unit),
    "Normalization": Rule(
        {
            "axis": maybe(LAST, LAST.default),
            "mean": maybe(numbers()),
            "variance": maybe(numbers()),
            "invert": flag(False),
        },
        _fixed,
    ),
    "Rescaling": Rule({"scale": numbers(), "offset": numbers(0.0)}, _rescaled),
    "LayerScale": Rule({"init_values": real(-1e6, 1e6), "projection_dim": whole()}, _layer_scale, public=False),
}
