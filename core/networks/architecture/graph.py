"""A network as a graph of Keras layers: plain data from which counts are derived and a worker builds the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

INPUT = "input"
"""Name by which layers refer to the input sample."""


@dataclass(frozen=True)
class Layer:
    """One call of a Keras layer.

    ``kind`` is Keras's class name, ``options`` its constructor's arguments that differ from Keras's defaults.
    ``inputs`` name earlier layers, or :data:`INPUT`. ``shares`` names the earlier layer that this call repeats, with
    the same weights and no options of its own.
    """

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = (INPUT,)
    shares: str | None = None


@dataclass(frozen=True)
class Graph:
    """Layers, each placed after its inputs.

    ``input_shape`` is one sample's, without the batch. ``output`` names the layer whose output is the network's. With
    ``vocabulary``, samples are integers below it. ``caches`` are further inputs of real numbers: shapes by name.
    """

    input_shape: tuple[int, ...]
    layers: tuple[Layer, ...]
    output: str
    vocabulary: int | None = None
    caches: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def chain(*layers: Layer, after: str = INPUT) -> tuple[Layer, ...]:
    """Return the layers chained one after the other; the first takes ``after``."""
    chained: list[Layer] = []
    for layer in layers:
        chained.append(Layer(layer.name, layer.kind, layer.options, (chained[-1].name if chained else after,)))
    return tuple(chained)
