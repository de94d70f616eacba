"""Reader of one layer in a Keras file: its kind, options and calls, read as plain data and never deserialised.

Formats: ``model.to_json()`` and ``config.json`` of Keras 3, and of Keras 2 (``tf.keras``), whose calls are lists
``[layer, call, output, arguments]`` and whose input shape is ``batch_input_shape``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.networks.architecture.counts import ArchitectureError
from core.networks.architecture.options import shown

MODELS = frozenset({"Functional", "Model", "Sequential"})
OPERATIONS = "keras.src.ops."
MAX_RANK = 8
MAX_NAME = 250

IRRELEVANT = frozenset(
    {"name", "trainable", "dtype", "autocast", "seed", "batch_shape", "batch_input_shape", "input_length"}
    | {"implementation", "zero_output_for_mask", "query_shape", "key_shape", "value_shape"}
)
"""Options that change neither the shapes nor the work of a trained layer (:mod:`core.networks.architecture.read`)."""
IRRELEVANT_ENDINGS = ("_initializer", "_regularizer", "_constraint")
DEFAULTS = {"attention_axes": ([1], 1), "time_major": (False,)}
"""Values Keras writes for defaults on inputs of steps and features."""
LAYERS_INSIDE = frozenset({"layer", "backward_layer"})
RENAMED = {("LeakyReLU", "alpha"): "negative_slope"}
"""Options of Keras 2, mapped to their names in Keras 3."""
TENSOR_ARGUMENTS = ("inputs", "input", "x", "sequences", "query", "value", "key")
"""Keywords under which layers take tensors, in positional order."""
NO_MATTER = frozenset({"training", "name"})


@dataclass(frozen=True)
class Ref:
    """An output of a layer's call: layer name, index of the call, index of the output."""

    layer: str
    call: int
    output: int


@dataclass(frozen=True)
class Spec:
    """One layer (or nested model) as described in the file."""

    kind: str
    name: str
    config: Mapping[str, Any]
    nodes: Sequence[Any]
    operation: bool

    def refused(self, why: str) -> ArchitectureError:
        return ArchitectureError.at(self.name, self.kind, why)


def spec_of(value: Any) -> Spec:
    """Return the layer that a JSON object describes. Raises ArchitectureError if it is not one of Keras's own."""
    if not isinstance(value, dict) or not isinstance(value.get("class_name"), str):
        raise ArchitectureError(f"The file holds {shown(value)} where a layer belongs.")
    kind, config = value["class_name"], value.get("config")
    if kind == "Sequential" and isinstance(config, list):
        config = {"layers": config}  # tf.keras before 2.2
    if not isinstance(config, dict):
        raise ArchitectureError.at(str(value.get("name")), kind, "it has no config")
    name = value.get("name", config.get("name", kind))
    nodes = value.get("inbound_nodes", [])
    if not isinstance(name, str) or not isinstance(nodes, list):
        raise ArchitectureError.at(str(name), kind, "it has no name or no list of calls")
    if len(name) > MAX_NAME:
        raise ArchitectureError.at(name, kind, f"its name has {len(name):,} characters; accepted are {MAX_NAME}")
    module, registered = value.get("module"), value.get("registered_name")
    if module is None:  # an .h5 file names none, but a layer's config holds more than a name
        operation = config.keys() == {"name"} and bool(nodes) and isinstance(nodes[0], dict)
    else:
        operation = isinstance(module, str) and module.startswith(OPERATIONS)
    spec = Spec(kind, name, config, nodes, operation)
    if registered not in (None, kind) or ">" in kind:
        raise spec.refused(f"it is the custom object {shown(registered or kind)}; only Keras's own layers are read")
    if not (module is None or (isinstance(module, str) and f"{module}.".startswith("keras."))):
        raise spec.refused(f"it comes from {shown(module)}; only Keras's own layers are read")
    return spec


def layers_of(model: Spec) -> list[Spec]:
    """Return the layers of a model, in the file's order. Raises ArchitectureError."""
    layers = model.config.get("layers")
    if not isinstance(layers, list) or not layers:
        raise model.refused("it holds no layers")
    return [spec_of(value) for value in layers]


def calls_of(spec: Spec) -> list[tuple[Ref | float, ...]]:
    """Return the tensors (and, for an operation, numbers) of each call of a layer. Raises ArchitectureError."""
    return [_call(spec, node) for node in spec.nodes]


def _call(spec: Spec, node: Any) -> tuple[Ref | float, ...]:
    if isinstance(node, dict):
        kwargs = node.get("kwargs", {})
        tensors = _tensors(spec, node.get("args", []))
    elif isinstance(node, list):
        items = [node] if node and isinstance(node[0], str) else node
        tensors, kwargs = [], {}
        for item in items:
            if not isinstance(item, list) or not 3 <= len(item) <= 4:
                raise spec.refused("a call of it is neither what Keras 3 nor what Keras 2 writes")
            tensors.append(_ref(spec, item[:3]))
            kwargs = item[3] if len(item) == 4 else kwargs
    else:
        raise spec.refused("a call of it is neither what Keras 3 nor what Keras 2 writes")
    if not isinstance(kwargs, dict):
        raise spec.refused("a call of it has arguments that are no object")
    for key in sorted(kwargs, key=lambda key: TENSOR_ARGUMENTS.index(key) if key in TENSOR_ARGUMENTS else 0):
        value = kwargs[key]
        if value is None or value is False or key in NO_MATTER:
            continue
        if key not in TENSOR_ARGUMENTS:
            raise spec.refused(f"it is called with the argument {shown(key)}, which is not read")
        tensors += [_ref(spec, value)] if _looks_like_ref(value) else _tensors(spec, value)
    if not tensors:
        raise spec.refused("a call of it takes no input")
    return tuple(tensors)


def _tensors(spec: Spec, value: Any) -> list[Ref | float]:
    if value is None:
        return []
    if isinstance(value, list):
        return [tensor for item in value for tensor in _tensors(spec, item)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [value]
    if isinstance(value, dict) and value.get("class_name") == "__tuple__":
        return _tensors(spec, value.get("items"))
    if isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
        config = value.get("config")
        return [_ref(spec, config.get("keras_history") if isinstance(config, dict) else None)]
    raise spec.refused(f"it is called with {shown(value)}, which is not read")


def _looks_like_ref(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and isinstance(value[0], str)


def _ref(spec: Spec, value: Any) -> Ref:
    if not _looks_like_ref(value) or not all(type(n) is int and 0 <= n < 2**31 for n in value[1:]):
        raise spec.refused(f"it names {shown(value)} where the output of a layer belongs")
    return Ref(value[0], value[1], value[2])


def ends_of(model: Spec, which: str) -> list[Ref]:
    """Return the ``input_layers`` or ``output_layers`` of a functional model. Raises ArchitectureError."""
    value = model.config.get(which)
    if isinstance(value, dict):
        value = list(value.values())
    if _looks_like_ref(value):
        value = [value]
    if not isinstance(value, list) or not value:
        raise model.refused(f"its {which} are missing")
    return [_ref(model, item) for item in value]


def options_of(spec: Spec) -> dict[str, Any]:
    """Return the options that affect a layer's shapes or work. Raises ArchitectureError."""
    options: dict[str, Any] = {}
    for key, value in spec.config.items():
        if key in IRRELEVANT or key.endswith(IRRELEVANT_ENDINGS) or value in DEFAULTS.get(key, ()):
            continue
        wraps = key in LAYERS_INSIDE and isinstance(value, dict)
        options[RENAMED.get((spec.kind, key), key)] = _inner(value) if wraps else plain(spec, key, value)
    if "backward_layer" in options:
        _check_backward(spec, options.get("layer"), options.pop("backward_layer"))
    return options


def _inner(value: Any) -> dict[str, Any]:
    inner = spec_of(value)
    return {"class_name": inner.kind, "config": options_of(inner)}


def _check_backward(spec: Spec, forward: Any, backward: Any) -> None:
    """Check that the layers of both directions are alike, which the rule assumes."""
    if backward is None or not isinstance(forward, dict) or not isinstance(backward, dict):
        return
    unlike = "go_backwards"
    alike = {**forward["config"], unlike: None} == {**backward["config"], unlike: None}
    if not alike or forward["class_name"] != backward["class_name"]:
        raise spec.refused("its backward layer differs from its forward layer; accepted are layers that are alike")
    if bool(forward["config"].get(unlike)) == bool(backward["config"].get(unlike)):
        raise spec.refused("both of its layers run in the same direction")


def plain(spec: Spec, key: str, value: Any) -> Any:
    """Return an option's value as plain data. Raises ArchitectureError for objects (code or custom classes)."""
    if isinstance(value, list):
        return [plain(spec, key, item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("class_name") == "__tuple__" and isinstance(value.get("items"), list):
        return [plain(spec, key, item) for item in value["items"]]
    raise spec.refused(f"its {shown(key)} is an object or code; accepted are the names and numbers that Keras knows")


def input_of(spec: Spec) -> tuple[tuple[int, ...], str]:
    """Return one sample's shape and type from an InputLayer or a layer with its own. Raises ArchitectureError."""
    config = spec.config
    shape = config.get("batch_shape", config.get("batch_input_shape"))
    if shape is None:
        raise spec.refused("its input shape is missing; build the model, or begin it with Input(shape=…)")
    if config.get("sparse") or config.get("ragged"):
        raise spec.refused("it takes sparse or ragged tensors; accepted are dense ones")
    dtype = config.get("dtype") or "float32"
    if isinstance(dtype, dict):
        inner = dtype.get("config")
        dtype = inner.get("name") if isinstance(inner, dict) else None
    return shape_of(spec, shape), dtype if isinstance(dtype, str) else "unknown"


def shape_of(spec: Spec, value: Any) -> tuple[int, ...]:
    """Return one sample's shape from a shape with the batch axis. Raises ArchitectureError."""
    if isinstance(value, dict):
        value = plain(spec, "shape", value)
    if not isinstance(value, list) or not 2 <= len(value) <= MAX_RANK:
        raise spec.refused(f"its input shape must have the batch and 1 to {MAX_RANK - 1} more axes")
    for axis, length in enumerate(value[1:], start=1):
        if length is None:
            raise spec.refused(f"axis {axis} of its input has no length (None); give one, since time depends on it")
        if type(length) is not int or length < 1:
            raise spec.refused(f"axis {axis} of its input has the length {shown(length)}")
    return tuple(value[1:])
