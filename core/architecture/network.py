"""Families whose networks are graphs: everything follows from the graph."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from typing import Any

from core.architecture.build import build
from core.architecture.counts import count, output_shape
from core.architecture.graph import Graph
from core.families.base import LayerCount, Network

MOVING = frozenset({"Flatten", "Reshape", "Permute", "Identity", "Dropout"})


class GraphNetwork(Network):
    """A family gives :attr:`graph`; its class, which is frozen, must be hashable, since counts are kept by network."""

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """The network's layers."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        return _graph(self).input_shape

    @property
    def vocabulary(self) -> int | None:
        return _graph(self).vocabulary

    @property
    def classes(self) -> int:
        return _output_shape(self)[-1]

    @property
    def label_shape(self) -> tuple[int, ...]:
        return _output_shape(self)[:-1]

    @property
    def from_logits(self) -> bool:
        """Whether the outputs still await their softmax or, with one class, their sigmoid."""
        return ends_in(_graph(self)) != ("sigmoid" if self.classes == 1 else "softmax")

    @property
    def layers(self) -> tuple[LayerCount, ...]:
        return _counts(self)

    def build(self, keras: Any) -> Any:
        return build(keras, _graph(self))


def ends_in(graph: Graph) -> str:
    """Name of the activation function that the network's output comes out of, through layers that only move values."""
    by_name = {layer.name: layer for layer in graph.layers}
    last = by_name[graph.output]
    while last.kind in MOVING and last.inputs[0] in by_name:
        last = by_name[last.inputs[0]]
    options = by_name[last.shares].options if last.shares else last.options
    return "softmax" if last.kind == "Softmax" else str(options.get("activation") or "linear")


@lru_cache(maxsize=256)
def _graph(network: GraphNetwork) -> Graph:
    return network.graph


@lru_cache(maxsize=256)
def _counts(network: GraphNetwork) -> tuple[LayerCount, ...]:
    return count(_graph(network))


@lru_cache(maxsize=256)
def _output_shape(network: GraphNetwork) -> tuple[int, ...]:
    return output_shape(_graph(network))
