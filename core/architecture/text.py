"""A graph as text: the one form in which an architecture travels in plans, stores and to workers.

The text is compact JSON: ``input`` (a sample's shape), ``vocabulary`` where samples are token ids, ``layers`` and,
where it is not the last layer, ``output``. A layer holds ``name`` and ``kind`` and, where they are not empty or the
layer before it, ``options``, ``inputs`` and ``shares``. Equal graphs have equal texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from core.architecture.counts import ArchitectureError, count
from core.architecture.graph import INPUT, Graph, Layer
from core.architecture.limits import MAX_LAYERS
from core.architecture.options import shown
from core.architecture.rules import RULES
from core.architecture.strict_json import parse

MAX_CHARACTERS = 500_000
MAX_NAME = 80
GRAPH_KEYS = frozenset({"input", "vocabulary", "layers", "output"})
LAYER_KEYS = frozenset({"name", "kind", "options", "inputs", "shares"})


def dump(graph: Graph) -> str:
    """The graph's text. Options are written as they are: :func:`checked` brings them to their normal form."""
    layers: list[dict[str, Any]] = []
    before = INPUT
    for layer in graph.layers:
        data: dict[str, Any] = {"name": layer.name, "kind": layer.kind}
        if layer.options:
            data["options"] = dict(layer.options)
        if layer.inputs != (before,):
            data["inputs"] = layer.inputs
        if layer.shares is not None:
            data["shares"] = layer.shares
        layers.append(data)
        before = layer.name
    found: dict[str, Any] = {"input": graph.input_shape, "layers": layers}
    if graph.vocabulary is not None:
        found["vocabulary"] = graph.vocabulary
    if graph.output != before:
        found["output"] = graph.output
    return json.dumps(found, separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False)


@lru_cache(maxsize=64)
def load(text: str, *, public: bool = True) -> Graph:
    """The graph that a text describes, checked as :func:`checked` does. Raises ValueError with a sentence."""
    if len(text) > MAX_CHARACTERS:
        raise ArchitectureError(
            f"The architecture's text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are accepted."
        )
    return checked(_graph(parse(text)), public=public)


def checked(graph: Graph, *, public: bool = True) -> Graph:
    """The graph with its options in normal form, once every layer was checked and counted.

    With ``public`` no kinds are accepted that occur in keras.applications alone. Raises ArchitectureError for what
    :func:`core.architecture.counts.count` refuses, and for layers that do not lead to the output.
    """
    layers = []
    for layer in graph.layers:
        rule = RULES.get(layer.kind)
        if rule is None or (public and not rule.public):
            raise ArchitectureError.at(layer.name, layer.kind, "it is not among the built-in layers that are read")
        if layer.shares is not None:
            layers.append(layer)
            continue
        try:
            layers.append(replace(layer, options=rule.check(layer.options)))
        except ValueError as error:
            raise ArchitectureError.at(layer.name, layer.kind, str(error)) from None
    found = replace(graph, layers=tuple(layers))
    count(found)
    _check_all_used(found)
    return found


def _check_all_used(graph: Graph) -> None:
    """Keras leaves layers that lead nowhere out of a model; counting them would be wrong."""
    used = {graph.output}
    for layer in reversed(graph.layers):
        if layer.name not in used:
            raise ArchitectureError.at(layer.name, layer.kind, "it does not lead to the network's output")
        used.update(layer.inputs)


def _graph(data: Any) -> Graph:
    fields = _fields(data, GRAPH_KEYS, "the architecture")
    shape, given, vocabulary = fields.get("input"), fields.get("layers"), fields.get("vocabulary")
    if not isinstance(shape, list) or not all(type(length) is int for length in shape):
        raise _damaged("input is no shape")
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_LAYERS:
        raise _damaged(f"layers is no list of 1 to {MAX_LAYERS:,} layers")
    if vocabulary is not None and type(vocabulary) is not int:
        raise _damaged("vocabulary is no whole number")
    layers: list[Layer] = []
    for item in given:
        layers.append(_layer(item, layers[-1].name if layers else INPUT))
    output = fields.get("output", layers[-1].name)
    if not isinstance(output, str):
        raise _damaged("output is no name")
    return Graph(tuple(shape), tuple(layers), output, vocabulary)


def _layer(data: Any, before: str) -> Layer:
    fields = _fields(data, LAYER_KEYS, "a layer")
    name, kind, shares = (fields.get(key) for key in ("name", "kind", "shares"))
    options, inputs = fields.get("options", {}), fields.get("inputs", [before])
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise _damaged(f"a layer's name is no text of 1 to {MAX_NAME} printable characters")
    if not isinstance(kind, str) or not isinstance(options, dict) or not isinstance(shares, str | None):
        raise _damaged(f"kind, options or shares of the layer {shown(name)} are of the wrong type")
    if not isinstance(inputs, list) or not all(isinstance(source, str) for source in inputs):
        raise _damaged(f"inputs of the layer {shown(name)} is no list of names")
    return Layer(name, kind, options, tuple(inputs), shares)


def _fields(data: Any, keys: frozenset[str], what: str) -> Mapping[str, Any]:
    if not isinstance(data, dict) or not data.keys() <= keys:
        raise _damaged(f"{what} is no object with the keys {', '.join(sorted(keys))}")
    return data


def _damaged(why: str) -> ArchitectureError:
    return ArchitectureError(f"The architecture's text is damaged: {why}.")
