"""Rule for one kind of Keras layer: its options, its output shape and its counts.

Conventions of all counts, for one sample. A multiply-add counts 2 and an added bias 1 per value. Element-wise work
counts as in TensorFlow's profiler if that covers it (``tensorflow/python/profiler/internal/flops_registry.py``): 1 per
value and primitive operation, 5 per value of a softmax, and for pooling the window's size per output value. Activation
functions other than softmax, dropout and moving values count 0, as they do there. Gradients of matrix products and
convolutions count as the products do, once for the weights and once for the input; gradients of other work count like
that work unless a rule says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from core.base.numbers import counted
from core.networks.architecture.options import Option, Options, read_options

Shape = tuple[int, ...]
GRID = {1: "steps and channels", 2: "rows, columns and channels", 3: "depth, rows, columns and channels"}


@dataclass(frozen=True)
class Work:
    """Counts of one call of a layer for one sample.

    ``weights`` are trained parameters, ``statistics`` untrained ones (moving averages). ``weight_gradient`` is the
    backward pass without the gradient of the layer's own input, but with backpropagation through time in a recurrent
    layer and through the scores of an attention. ``internal`` counts inner values that the backward pass needs again.
    """

    output: Shape
    weights: int = 0
    statistics: int = 0
    forward: int = 0
    weight_gradient: int = 0
    input_gradient: int = 0
    internal: int = 0


Counting = Callable[[Options, tuple[Shape, ...]], Work]
"""Function that counts one call from complete options and the inputs' shapes. Raises ValueError with the reason."""


@dataclass(frozen=True)
class Rule:
    """Rule for one kind of layer.

    ``settle`` brings equivalent options to one form. ``call`` says how a built layer takes its inputs: one tensor, a
    list of them, or several arguments. Kinds that are not ``public`` occur only in ``keras.applications``, or are
    ``ours`` (:mod:`core.networks.families.decoder_layers`).
    """

    options: Mapping[str, Option]
    work: Counting
    inputs: tuple[int, int] = (1, 1)
    call: Literal["one", "list", "several"] = "one"
    takes_tokens: bool = False
    public: bool = True
    ours: bool = False
    settle: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    def check(self, options: Options) -> dict[str, Any]:
        """Return the options in normal form without those that equal Keras's default.

        Raises ValueError that names the option and what is accepted; the caller adds the layer.
        """
        complete = self.complete(options)
        return {name: value for name, value in complete.items() if value != self.options[name].default}

    def complete(self, options: Options) -> dict[str, Any]:
        """Return every option in normal form, Keras's defaults included. Raises ValueError as :meth:`check` does."""
        read = read_options(self.options, options)
        return self.settle(read) if self.settle else read


def size(shape: Shape) -> int:
    """Return the number of values in a tensor of that shape."""
    return math.prod(shape)


def with_axes(shape: Shape, axes: int, words: str) -> Shape:
    """Return ``shape`` if it has that many axes, else raise ValueError with what the layer takes."""
    if len(shape) != axes:
        raise ValueError(f"takes {words}, {counted(axes, 'axis', 'axes')}; its input has the shape {shape}")
    return shape


def on_grid(count: Callable[[Options, Shape, int], Work]) -> Callable[[int], Counting]:
    """Make a rule's ``work`` by number of axes from a ``count`` of options, grid and channels."""

    def over(axes: int) -> Counting:
        def work(options: Options, shapes: tuple[Shape, ...]) -> Work:
            *grid, channels = with_axes(shapes[0], axes + 1, GRID[axes])
            return count(options, tuple(grid), channels)

        return work

    return over


def position(axis: int, rank: int) -> int:
    """Return the index of Keras's ``axis``, which counts the batch, in a shape without it. Raises ValueError."""
    place = axis - 1 if axis > 0 else rank + axis
    if not 0 <= place < rank:
        raise ValueError(f"option “axis” is {axis}; its input has {rank} axes beside the batch")
    return place


def joined(output: Shape, *parts: Work) -> Work:
    """Count parts in sequence as one layer.

    Inner gradients belong to the layer, its input gradient is the first part's, and all outputs but the last are
    internal.
    """
    first, *rest = parts
    return Work(
        output=output,
        weights=sum(part.weights for part in parts),
        statistics=sum(part.statistics for part in parts),
        forward=sum(part.forward for part in parts),
        weight_gradient=sum(part.weight_gradient for part in parts) + sum(part.input_gradient for part in rest),
        input_gradient=first.input_gradient,
        internal=sum(part.internal for part in parts) + sum(size(part.output) for part in parts[:-1]),
    )


def repeated(work: Work, times: int) -> Work:
    """Count the same layer on each of ``times`` steps, with one set of weights."""
    return replace(
        work,
        output=(times, *work.output),
        forward=times * work.forward,
        weight_gradient=times * work.weight_gradient,
        input_gradient=times * work.input_gradient,
        internal=times * work.internal,
    )


def pointwise(output: Shape, forward: int = 0, internal: int = 0) -> Work:
    """Count a layer without weights whose gradient counts like its forward work."""
    return Work(output, forward=forward, input_gradient=forward, internal=internal)
