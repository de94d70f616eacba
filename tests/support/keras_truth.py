"""Ground truth of Keras and TensorFlow for a graph: parameters, shapes, operations of the compiled functions.

Keras runs in a separate process (this file as a script), since no other test may find TensorFlow in pytest's.
"""

import contextlib
import inspect
import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from core.networks.architecture.graph import INPUT, Graph, Layer
from tests.support.framework import answered


@dataclass(frozen=True)
class Truth:
    """The truth about one graph with a batch of 1.

    ``built`` are parameters, output shape and output type of our builder's model in mixed precision; the others come
    from Keras's own constructors. ``forward`` and ``backward`` count operations by TensorFlow's kind.
    """

    parameters: int
    shape: tuple[int, ...]
    built: tuple[int, tuple[int, ...], str]
    forward: dict[str, int]
    backward: dict[str, int]


Defaults = dict[str, dict[str, list[Any]]]
"""By kind, its constructor's arguments by name: an empty list if required, else its default."""


def truths(
    graphs: Sequence[Graph], kinds: Sequence[str] = (), operations: bool = False
) -> tuple[list[Truth], Defaults]:
    """Return Keras's answers for graphs and for kinds of layers, all from one process."""
    question = {"graphs": [asdict(graph) for graph in graphs], "operations": operations, "kinds": list(kinds)}
    found = answered("-m", "tests.support.keras_truth", question=question)
    told = [
        Truth(parameters, tuple(shape), (built[0], tuple(built[1]), built[2]), *operations)
        for parameters, shape, built, *operations in found["graphs"]
    ]
    return told, found["defaults"]


def _answer(asked: dict[str, Any]) -> Any:
    import keras

    return {
        "graphs": _graphs(keras, asked),
        "defaults": {kind: _defaults(getattr(keras.layers, kind)) for kind in asked["kinds"]},
    }


def _defaults(kind: type) -> dict[str, list[Any]]:
    """Return the arguments of the class, and of its bases as far as it passes further arguments on."""
    found: dict[str, list[Any]] = {}
    for base in kind.__mro__:
        if "__init__" in vars(base) and base.__module__.startswith("keras.src.layers"):
            arguments = inspect.signature(base.__init__).parameters.values()
            for each in arguments:
                found.setdefault(each.name, [] if each.default is each.empty else [each.default])
            if not any(each.kind is each.VAR_KEYWORD for each in arguments):
                break
    return {name: value for name, value in found.items() if _is_plain(value)}


def _is_plain(value: list[Any]) -> bool:
    return not value or isinstance(value[0], (str, int, float, bool, tuple, type(None)))


def _graphs(keras: Any, asked: dict[str, Any]) -> list[tuple[Any, ...]]:
    from core.networks.families.graph_network import build

    found = []
    for data in asked["graphs"]:
        layers = tuple(Layer(**{**layer, "inputs": tuple(layer["inputs"])}) for layer in data["layers"])
        graph = Graph(tuple(data["input_shape"]), layers, data["output"], data["vocabulary"])
        model = _plain(keras, graph)
        keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
        built = build(keras, graph)
        keras.mixed_precision.set_dtype_policy("float32")
        sizes = built.count_params(), built.output_shape[1:], str(built.output.dtype)
        operations = _operations(model) if asked["operations"] else ({}, {})
        found.append((model.count_params(), model.output_shape[1:], sizes, *operations))
    return found


def _plain(keras: Any, graph: Graph) -> Any:
    """Return the model as a person writes it, from the given options."""
    tensors = {INPUT: keras.layers.Input(graph.input_shape, dtype="int32" if graph.vocabulary else None)}
    made: dict[str, Any] = {}
    for layer in graph.layers:
        call = made[layer.shares] if layer.shares else _plain_layer(keras, layer.kind, layer.options)
        made[layer.name] = call
        given = [tensors[name] for name in layer.inputs]
        apart = layer.kind in {"MultiHeadAttention", "GroupQueryAttention"} or len(given) == 1
        tensors[layer.name] = call(*given) if apart else call(given)
    return keras.Model(tensors[INPUT], tensors[graph.output])


def _plain_layer(keras: Any, kind: str, options: Any) -> Any:
    options = dict(options)
    if "layer" in options:
        options["layer"] = _plain_layer(keras, options["layer"]["class_name"], options["layer"]["config"])
    return getattr(keras.layers, kind)(**options)


def _operations(model: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Return operations of the inference pass, and of its weights' gradients beyond that, by TensorFlow's kind."""
    import tensorflow as tf

    spec = tf.TensorSpec((1, *model.input_shape[1:]), model.input.dtype)

    def backward(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = model(x, training=False)
        return tape.gradient(y, model.trainable_variables)

    forward = _counted(tf.function(lambda x: model(x, training=False)).get_concrete_function(spec).graph)
    both = _counted(tf.function(backward).get_concrete_function(spec).graph)
    return forward, {kind: both[kind] - forward.get(kind, 0) for kind in both}


def _counted(graph: Any) -> dict[str, int]:
    """Count by kind, with TensorFlow's profiler on what the outputs need.

    Einsum, which the profiler omits, is counted from its equation, and a batched product from its shapes, since for a
    transposed one the profiler takes the wrong axis.
    """
    import tensorflow as tf

    profiler = tf.compat.v1.profiler
    options = profiler.ProfileOptionBuilder(profiler.ProfileOptionBuilder.float_operation())
    with contextlib.redirect_stdout(io.StringIO()):
        flops = _each_node(profiler.profile(graph, cmd="scope", options=options.with_empty_output().build()))
    kinds: dict[str, int] = {}
    for operation in _needed(graph):
        own = {"Einsum": _einsum, "BatchMatMulV2": _batched}.get(operation.type)
        done = own(operation) if own else flops.get(operation.name, 0)
        if done:
            kinds[operation.type] = kinds.get(operation.type, 0) + done
    return kinds


def _each_node(found: Any) -> dict[str, int]:
    """Return each node's own ``float_ops``; its ``total_float_ops`` would include its children's."""
    nodes = {found.name: found.float_ops}
    for child in found.children:
        nodes |= _each_node(child)
    return nodes


def _needed(graph: Any) -> list[Any]:
    """Return operations that the outputs depend on; TensorFlow prunes the others before it runs the function."""
    found: dict[str, Any] = {}
    waiting = [output.op for output in graph.outputs]
    while waiting:
        operation = waiting.pop()
        if operation.name not in found:
            found[operation.name] = operation
            waiting += [tensor.op for tensor in operation.inputs]
    return list(found.values())


def _batched(operation: Any) -> int:
    left = operation.inputs[0].shape.as_list()
    inner = left[-2] if operation.get_attr("adj_x") else left[-1]
    return 2 * inner * operation.outputs[0].shape.num_elements()


def _einsum(operation: Any) -> int:
    letters = re.split(",|->", operation.get_attr("equation").decode())[:-1]
    lengths: dict[str, int] = {}
    for part, tensor in zip(letters, operation.inputs, strict=True):
        lengths |= dict(zip(part, tensor.shape.as_list(), strict=True))
    flops = 2
    for length in lengths.values():
        flops *= length
    return flops


if __name__ == "__main__":
    print(json.dumps(_answer(json.loads(sys.stdin.read()))))
