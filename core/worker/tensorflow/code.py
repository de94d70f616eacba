"""Description of the model that user code builds: shapes, vocabulary, loss, and counts. Loaded by a worker only.

Counts come from the architecture if :mod:`core.networks.architecture` knows all its layers. Otherwise parameters and
activations are Keras's own (every layer's weights once, the outputs of every call, without a custom layer's
intermediate values), and the forward pass's FLOPs are those that TensorFlow's profiler finds in its graph (a
multiply-add counts 2; a loop's body counts once, an operation without registered statistics not at all). These FLOPs
have a line of their own, with the backward pass at twice the forward pass, once for weights and once for inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from core.networks.architecture.counts import count
from core.networks.architecture.read import read_architecture
from core.networks.families import LayerCount
from core.networks.families.code import MAX_NAME, CodeError, call_entry, check_entry, refuse_modules_of, shapes_of
from core.worker.protocol import CellFailed, Describe, Described

PIXEL_VALUES = 256
FLAGS = 2  # 0 and 1 are valid for any integer input
PROBABILITIES = ("softmax", "sigmoid")


def describe_model(request: Describe) -> Described:
    """Call the user's function and describe the model it builds. Raises CellFailed."""
    try:
        entry = check_entry(request.entry)
        model = call_entry(entry, request.folder)
        if request.apart_from is not None:
            refuse_modules_of(request.apart_from, request.folder)
        sample, output = shapes_of(keras, model, entry)
        layers = _counts(model, sample)
        return Described(
            name=_shown(model.name),
            input_shape=sample,
            vocabulary=_vocabulary(model, entry),
            classes=output[-1],
            label_shape=output[:-1],
            from_logits=not _ends_in_probabilities(model),
            layers=tuple(vars(layer) for layer in layers),
        )
    except CodeError as error:
        raise CellFailed("error", str(error)) from error


def _vocabulary(model: Any, entry: str) -> int | None:
    """Return the number of valid integer samples, None if samples are real numbers. Raises CodeError for text.

    With several embeddings (tokens, positions) the smallest is valid for all.
    """
    dtype = str(model.inputs[0].dtype)
    if dtype == "string":
        raise CodeError(f"The model of {entry} takes text; begin it with the whole numbers that text is turned into.")
    whole = "int" in dtype
    first = [sublayer for layer in _first_layers(model) for sublayer in (layer, *_sublayers(layer))]
    candidates = [*first, *_sublayers(model)] if whole else first
    sizes = [int(layer.input_dim) for layer in candidates if isinstance(layer, keras.layers.Embedding)]
    return min(sizes) if sizes else (PIXEL_VALUES if dtype == "uint8" else FLAGS) if whole else None


def _first_layers(model: Any) -> Iterator[Any]:
    """Yield the layers that take the model's input, also inside a nested model."""
    graph = _functional(model)
    nodes = [node for nodes in graph._nodes_by_depth.values() for node in nodes]
    for node in nodes:
        if any(tensor is graph.inputs[0] for tensor in node.input_tensors):
            inner = _is_functional(node.operation)
            yield from _first_layers(node.operation) if inner else [node.operation]


def _sublayers(operation: Any) -> list[Any]:
    return list(operation._flatten_layers(include_self=False)) if isinstance(operation, keras.Layer) else []


def _ends_in_probabilities(model: Any) -> bool:
    last = model.outputs[0]._keras_history.operation
    while _is_functional(last):
        last = last.outputs[0]._keras_history.operation
    activation = getattr(last, "activation", None)
    return isinstance(last, keras.layers.Softmax) or getattr(activation, "__name__", "") in PROBABILITIES


def _counts(model: Any, sample: tuple[int, ...]) -> tuple[LayerCount, ...]:
    """Return the counts of the architecture's layers, or Keras's own; both hold exactly the model's parameters."""
    try:
        known = count(read_architecture(model.to_json().encode()))
    except Exception:  # a custom layer's get_config may raise anything
        known = ()
    if known and sum(layer.parameters for layer in known) == model.count_params():
        return known
    flops = profiled_flops(model, sample)
    whole = LayerCount(f"{_shown(model.name)} (TensorFlow's profiler)", 0, flops, flops, flops, 0)
    return (*_layers(model), whole)


def _layers(model: Any) -> tuple[LayerCount, ...]:
    """Return parameters and outputs of every call; weights of no call get a line of their own."""
    seen: set[int] = set()
    counts = []
    for node in _calls(model):
        weights = [w for w in getattr(node.operation, "weights", ()) if id(w) not in seen]
        seen |= {id(weight) for weight in weights}
        sizes = [math.prod(size or 1 for size in tensor.shape[1:]) for tensor in node.output_tensors]
        counts.append(LayerCount(_shown(node.operation.name), _parameters(weights), 0, 0, 0, sum(sizes)))
    if rest := _parameters([weight for weight in model.weights if id(weight) not in seen]):
        counts.append(LayerCount("weights of the model", rest, 0, 0, 0, 0))
    return tuple(counts)


def _calls(model: Any) -> Iterator[Any]:
    """Yield Keras's node of every call of a layer, first to last, including nested models."""
    depths = _functional(model)._nodes_by_depth
    for node in (node for depth in sorted(depths, reverse=True) for node in depths[depth]):
        if _is_functional(node.operation):
            yield from _calls(node.operation)
        elif not node.is_input:
            yield node


def _functional(model: Any) -> Any:
    return model._functional if isinstance(model, keras.Sequential) else model


def _is_functional(operation: Any) -> bool:
    """Return whether Keras knows the model's layers call by call, unlike a subclass with its own ``call``."""
    return isinstance(operation, keras.Model) and hasattr(_functional(operation), "_nodes_by_depth")


def _parameters(weights: list[Any]) -> int:
    return sum(math.prod(weight.shape) for weight in weights)


def profiled_flops(model: Any, sample: tuple[int, ...]) -> int:
    """Return the floating-point operations of one sample's forward pass, by TensorFlow's profiler."""
    spec = tf.TensorSpec((1, *sample), model.inputs[0].dtype)
    graph = tf.function(lambda x: model(x, training=False)).get_concrete_function(spec).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    profile = tf.compat.v1.profiler.profile(graph=graph, options=options | {"output": "none"})
    return int(profile.total_float_ops)


def _shown(name: str) -> str:
    return "".join(c for c in name if c.isprintable())[: MAX_NAME // 2] or "model"
