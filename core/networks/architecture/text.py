"""A graph as text: the one form in which an architecture is stored in plans and files and sent to workers.

The text is compact JSON: ``input`` (a sample's shape), ``vocabulary`` if samples are token ids, ``layers`` and, unless
it is the last layer, ``output``. A layer holds ``name`` and ``kind`` and, unless empty or the previous layer,
``options``, ``inputs`` and ``shares``. Equal graphs have equal texts.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from core.base.schema import explain, printable
from core.networks.architecture.counts import ArchitectureError, count
from core.networks.architecture.graph import INPUT, Graph, Layer
from core.networks.architecture.options import MAX_LAYERS
from core.networks.architecture.rules import RULES
from core.networks.architecture.strict_json import parse

MAX_CHARACTERS = 500_000
MAX_NAME = 80


class _Text(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _LayerText(_Text):
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(printable)]
    kind: str
    options: dict[str, Any] = {}
    inputs: list[str] | None = None
    shares: str | None = None


class _GraphText(_Text):
    input: list[int]
    vocabulary: int | None = None
    layers: Annotated[list[_LayerText], Field(min_length=1, max_length=MAX_LAYERS)]
    output: str | None = None


def dump(graph: Graph) -> str:
    """Return the graph's text. Options are written as they are: :func:`checked` normalises them."""
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
    whole: dict[str, Any] = {"input": graph.input_shape, "layers": layers}
    if graph.vocabulary is not None:
        whole["vocabulary"] = graph.vocabulary
    if graph.output != before:
        whole["output"] = graph.output
    return json.dumps(whole, separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False)


@lru_cache(maxsize=64)
def load(text: str, *, public: bool = True) -> Graph:
    """Return the graph that a text describes, checked as by :func:`checked`. Raises UserError."""
    if len(text) > MAX_CHARACTERS:
        raise ArchitectureError(
            f"The architecture's text has {len(text):,} characters; at most {MAX_CHARACTERS:,} are accepted."
        )
    return checked(_graph(parse(text)), public=public)


def checked(graph: Graph, *, public: bool = True) -> Graph:
    """Return the graph with normalised options after checking and counting every layer.

    With ``public``, kinds that occur only in keras.applications are refused. Raises ArchitectureError for anything
    :func:`core.networks.architecture.counts.count` refuses, and for layers that do not lead to the output.
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
    normal = replace(graph, layers=tuple(layers))
    count(normal)
    _check_all_used(normal)
    return normal


def _check_all_used(graph: Graph) -> None:
    """Check that every layer leads to the output; Keras drops the others, so counting them would be wrong."""
    used = {graph.output}
    for layer in reversed(graph.layers):
        if layer.name not in used:
            raise ArchitectureError.at(layer.name, layer.kind, "it does not lead to the network's output")
        used.update(layer.inputs)


def _graph(data: Any) -> Graph:
    try:
        fields = _GraphText.model_validate(data)
    except ValidationError as error:
        raise ArchitectureError(f"The architecture's text is damaged: {explain(error)}") from None
    layers: list[Layer] = []
    for layer in fields.layers:
        before = layers[-1].name if layers else INPUT
        inputs = (before,) if layer.inputs is None else tuple(layer.inputs)
        layers.append(Layer(layer.name, layer.kind, layer.options, inputs, layer.shares))
    output = layers[-1].name if fields.output is None else fields.output
    return Graph(tuple(fields.input), tuple(layers), output, fields.vocabulary)
