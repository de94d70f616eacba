"""A network as a graph of Keras layers: plain data, from which counts follow and a worker builds the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

INPUT = "input"
"""Name by which layers refer to the sample that goes in."""


@dataclass(frozen=True)
class Layer:
    """One call of a Keras layer. ``kind`` is Keras's class name, ``options`` its constructor's arguments where they
    differ from Keras's defaults. ``inputs`` name earlier layers, or :data:`INPUT`. ``shares`` names an earlier layer
    that this is a further call of: same weights, no options of its own.
    """

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = (INPUT,)
    shares: str | None = None


@dataclass(frozen=True)
class Graph:
    """Layers in an order in which each comes after its inputs. ``input_shape`` is one sample's, without the batch.

    ``output`` names the layer whose output the network gives. With ``vocabulary`` samples are whole numbers below it.
    """

    input_shape: tuple[int, ...]
    layers: tuple[Layer, ...]
    output: str
    vocabulary: int | None = None


def chain(*layers: Layer, after: str = INPUT) -> tuple[Layer, ...]:
    """The layers one after the other, each taking the one before it; the first takes ``after``."""
    chained: list[Layer] = []
    for layer in layers:
        chained.append(Layer(layer.name, layer.kind, layer.options, (chained[-1].name if chained else after,)))
    return tuple(chained)
