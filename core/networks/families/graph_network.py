"""Base classes of families whose networks are defined by a graph, and the parsing of short names."""

from __future__ import annotations

import re
from abc import abstractmethod
from functools import lru_cache
from typing import Any, Self

from pydantic import model_validator

from core.base.schema import UserError, as_user_error
from core.networks.architecture.counts import LayerCount, count, output_shape
from core.networks.architecture.graph import INPUT, Graph, Layer
from core.networks.architecture.rules import RULES
from core.networks.families.base import Network
from core.networks.families.decoder_layers import decoder_layers

MAX_NAME = 200  # characters of a short name
MOVING = frozenset({"Flatten", "Reshape", "Permute", "Identity", "Dropout"})


class GraphNetwork(Network):
    """A family defined by its :attr:`graph`. The frozen class must be hashable, since counts are cached per network."""

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """The network's layers as a graph."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        return _graph(self).input_shape

    @property
    def vocabulary(self) -> int | None:
        return _graph(self).vocabulary

    @property
    def caches(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_graph(self).caches.values())

    @property
    def classes(self) -> int:
        return _output_shape(self)[-1]

    @property
    def label_shape(self) -> tuple[int, ...]:
        return _output_shape(self)[:-1]

    @property
    def from_logits(self) -> bool:
        """True if the outputs still lack their softmax or, with one class, their sigmoid."""
        return ends_in(_graph(self)) != ("sigmoid" if self.classes == 1 else "softmax")

    @property
    def layers(self) -> tuple[LayerCount, ...]:
        return _counts(self)

    def build(self, keras: Any) -> Any:
        return build(keras, _graph(self))

    def build_open(self, keras: Any) -> Any:
        return build(keras, _graph(self), any_length=True)

    @property
    def is_sequence(self) -> bool:
        """True if its samples are tokens, or values at each of several positions."""
        return len(self.input_shape) == (2 if self.vocabulary is None else 1)


class SizedNetwork(GraphNetwork):
    """A graph determined by a few sizes, which may in combination be too large to count."""

    def check_sizes(self) -> None:
        """Raise ValueError with a clause if the sizes are inconsistent."""

    def with_length(self, length: int) -> Self:
        if "sequence" not in type(self).model_fields:
            return super().with_length(length)
        with as_user_error():
            return type(self).model_validate(self.model_dump() | {"sequence": length})

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        self.check_sizes()
        _ = self.layers  # counting refuses anything too large
        return self


def outputs_layer(classes: int, source: str) -> Layer:
    """Return the Dense layer at the end: logits, or the probability if there is one class."""
    sigmoid = {"activation": "sigmoid"} if classes == 1 else {}
    return Layer("outputs", "Dense", {"units": classes, **sigmoid}, (source,))


def ends_in(graph: Graph) -> str:
    """Return the activation function of the network's output, ignoring layers that only move values."""
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


def parts_of(name: str, pattern: re.Pattern[str], what: str, example: str) -> dict[str, str]:
    """Return the named groups of a short name, without absent ones. Raises UserError."""
    match = pattern.fullmatch(name.strip().lower()) if len(name) <= MAX_NAME else None
    if match is None:
        raise UserError(f"“{name[:60]}” is no {what}; write it as in {example}.")
    return {key: value for key, value in match.groupdict().items() if value is not None}


def number_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a short name, in which ``{group}`` stands for an integer of at most nine digits."""
    return re.compile(re.sub(r"\{([a-z_]+)\}", r"(?P<\1>\\d{1,9})", text), re.ASCII)


MAX_LAYER_NAME = 60


def build(keras: Any, graph: Graph, any_length: bool = False) -> Any:
    """Build an uncompiled functional ``keras.Model`` with fresh weights. Raises ArchitectureError for an invalid graph.

    ``keras`` is passed in because only a worker may import it. ``any_length`` leaves the first axis of a sample open.
    """
    count(graph)
    shape = (None, *graph.input_shape[1:]) if any_length else graph.input_shape
    # int64, the type the feed supplies: TensorFlow keeps int32 on the host, and a cast would be part of every step
    tokens = None if graph.vocabulary is None else "int64"
    tensors = {INPUT: keras.layers.Input(shape, dtype=tokens, name=INPUT)}
    tensors |= {name: keras.layers.Input(shape, name=name) for name, shape in graph.caches.items()}
    inputs = tuple(tensors.values())
    owners = {layer.name: layer.shares or layer.name for layer in graph.layers}
    names = _names(graph)
    built: dict[str, Any] = {}
    for layer in graph.layers:
        if layer.shares is None:
            # float32 output: with mixed precision a float16 loss would overflow (Keras' own advice)
            precision = {"dtype": "float32"} if layer.name == owners[graph.output] else {}
            built[layer.name] = _made(keras, layer.kind, layer.options, name=names[layer.name], **precision)
        sources = [tensors[name] for name in layer.inputs]
        call = built[owners[layer.name]]
        tensors[layer.name] = call(*sources) if RULES[layer.kind].call != "list" else call(sources)
    return keras.Model(inputs if graph.caches else inputs[0], tensors[graph.output])


def _made(keras: Any, kind: str, options: Any, **more: Any) -> Any:
    """Build a new layer of an allowed kind."""
    checked = RULES[kind].check(options)
    if "layer" in checked:
        checked["layer"] = _made(keras, checked["layer"]["class_name"], checked["layer"]["config"])
    layer = decoder_layers(keras)[kind] if RULES[kind].ours else getattr(keras.layers, kind)
    return layer(**checked, **more)


def _names(graph: Graph) -> dict[str, str]:
    """Return a unique name for each layer that Keras and TensorFlow accept."""
    names: dict[str, str] = {}
    taken = {INPUT}
    for layer in (layer for layer in graph.layers if layer.shares is None):
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", layer.name)[:MAX_LAYER_NAME]
        plain = plain if re.match(r"[A-Za-z0-9]", plain) else f"layer_{plain}"
        name, further = plain, 1
        while name.lower() in taken:
            further += 1
            name = f"{plain}_{further}"
        taken.add(name.lower())
        names[layer.name] = name
    return names
