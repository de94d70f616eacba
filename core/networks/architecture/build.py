"""Construction of a graph's Keras model, layer by layer; nothing is deserialised."""

from __future__ import annotations

import re
from typing import Any

from core.networks.architecture.counts import count
from core.networks.architecture.graph import INPUT, Graph
from core.networks.architecture.rules import RULES

MAX_NAME = 60


def build(keras: Any, graph: Graph) -> Any:
    """Build an uncompiled functional ``keras.Model`` with fresh weights. Raises ArchitectureError for an invalid graph.

    ``keras`` is passed in because only a worker may import it.
    """
    count(graph)
    # int64, the type the feed supplies: TensorFlow keeps int32 on the host, and a cast would be part of every step
    tokens = None if graph.vocabulary is None else "int64"
    tensors = {INPUT: keras.layers.Input(graph.input_shape, dtype=tokens, name=INPUT)}
    owners = {layer.name: layer.shares or layer.name for layer in graph.layers}
    names = _names(graph)
    built: dict[str, Any] = {}
    for layer in graph.layers:
        if layer.shares is None:
            # float32 output: with mixed precision a float16 loss would overflow (Keras' own advice)
            precision = {"dtype": "float32"} if layer.name == owners[graph.output] else {}
            built[layer.name] = _made(keras, layer.kind, layer.options, name=names[layer.name], **precision)
        given = [tensors[name] for name in layer.inputs]
        call = built[owners[layer.name]]
        tensors[layer.name] = call(*given) if RULES[layer.kind].call != "list" else call(given)
    return keras.Model(tensors[INPUT], tensors[graph.output])


def _made(keras: Any, kind: str, options: Any, **more: Any) -> Any:
    """Build a new layer of an allowed kind."""
    checked = RULES[kind].check(options)
    if "layer" in checked:
        checked["layer"] = _made(keras, checked["layer"]["class_name"], checked["layer"]["config"])
    return getattr(keras.layers, kind)(**checked, **more)


def _names(graph: Graph) -> dict[str, str]:
    """Return a unique name for each layer that Keras and TensorFlow accept."""
    names: dict[str, str] = {}
    taken = {INPUT}
    for layer in (layer for layer in graph.layers if layer.shares is None):
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", layer.name)[:MAX_NAME]
        plain = plain if re.match(r"[A-Za-z0-9]", plain) else f"layer_{plain}"
        name, further = plain, 1
        while name.lower() in taken:
            further += 1
            name = f"{plain}_{further}"
        taken.add(name.lower())
        names[layer.name] = name
    return names
