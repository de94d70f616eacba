"""Layers that join several inputs into one output."""

from __future__ import annotations

from functools import reduce

from core.networks.architecture.options import MAX_INPUTS_OF_A_LAYER, Options, axis, only, real, sizes
from core.networks.architecture.rule import Rule, Shape, Work, pointwise, position, size


def _broadcast(shape: Shape, other: Shape) -> Shape:
    """Return the shape of the sum of both, in which axes of length 1 are broadcast. Raises ValueError."""
    if len(shape) != len(other) or any(m != n and 1 not in (m, n) for m, n in zip(shape, other, strict=True)):
        raise ValueError(f"its inputs have the unlike shapes {shape} and {other}")
    return tuple(n if m == 1 else m for m, n in zip(shape, other, strict=True))


def _each_value(_: Options, shapes: tuple[Shape, ...]) -> Work:
    output = reduce(_broadcast, shapes)
    return pointwise(output, (len(shapes) - 1) * size(output))


def _average(_: Options, shapes: tuple[Shape, ...]) -> Work:
    output = reduce(_broadcast, shapes)
    return pointwise(output, len(shapes) * size(output))


def _scaled_sum(_: Options, shapes: tuple[Shape, ...]) -> Work:
    output = reduce(_broadcast, shapes)
    return pointwise(output, 2 * size(output))


def _concatenate(options: Options, shapes: tuple[Shape, ...]) -> Work:
    first = shapes[0]
    place = position(options["axis"], len(first))
    for shape in shapes[1:]:
        if len(shape) != len(first) or any(
            m != n for i, (m, n) in enumerate(zip(first, shape, strict=True)) if i != place
        ):
            raise ValueError(f"its inputs of the shapes {first} and {shape} differ in more than axis {options['axis']}")
    return pointwise(tuple(sum(s[place] for s in shapes) if i == place else n for i, n in enumerate(first)))


def _dot(options: Options, shapes: tuple[Shape, ...]) -> Work:
    left, right = shapes
    axes = options["axes"]
    places = position(axes[0], len(left)), position(axes[1], len(right))
    if max(len(left), len(right)) > 2 or left[places[0]] != right[places[1]]:
        raise ValueError(f"its inputs of the shapes {left} and {right} have no product along the axes {axes}")
    rest = [n for shape, place in zip(shapes, places, strict=True) for i, n in enumerate(shape) if i != place]
    flops = 2 * size(tuple(rest)) * left[places[0]]
    return Work(tuple(rest) or (1,), forward=flops, input_gradient=2 * flops)


MANY = (2, MAX_INPUTS_OF_A_LAYER)

RULES = {
    **{name: Rule({}, _each_value, MANY, "list") for name in ("Add", "Multiply", "Maximum", "Minimum")},
    "Average": Rule({}, _average, MANY, "list"),
    "Subtract": Rule({}, _each_value, (2, 2), "list"),
    "Concatenate": Rule({"axis": axis(-1)}, _concatenate, MANY, "list"),
    "Dot": Rule({"axes": sizes(2, -8, 8), "normalize": only(False)}, _dot, (2, 2), "list"),
    "CustomScaleLayer": Rule({"scale": real(-1e6, 1e6)}, _scaled_sum, (2, 2), "list", public=False),
}
