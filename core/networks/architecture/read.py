"""Reader of a user's own architecture from an untrusted file: Keras JSON, a .keras file's config.json, or an .h5 file's
model_config (:mod:`core.networks.architecture.hdf5`).

Nothing from the file is executed, unpickled, unpacked to disk or deserialised by Keras: its text is parsed as plain
data and turned into a :class:`core.networks.architecture.graph.Graph` of layers on the allow-list
(:data:`core.networks.architecture.rules.RULES`), which is built with fresh weights.

Dropped, since a step's time does not depend on them: weights, initialisers, regularisers, constraints, seeds, dtypes
(the target's precision decides), how the model was compiled, and names of nested models, whose layers are taken one by
one. Also dropped, and worth knowing: ``trainable`` and ``training=…``. The whole network is measured as trained, even
if the file froze a part of it. A layer used both inside and outside a nested model appears in the file twice, and is
two layers here, as it is for Keras when it loads the file.
"""

from __future__ import annotations

import heapq
import io
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from core.base.numbers import byte_size
from core.networks.architecture import hdf5
from core.networks.architecture.counts import ArchitectureError
from core.networks.architecture.graph import INPUT, Graph, Layer
from core.networks.architecture.keras_json import (
    MODELS,
    Ref,
    Spec,
    calls_of,
    ends_of,
    input_of,
    layers_of,
    options_of,
    shape_of,
    spec_of,
)
from core.networks.architecture.options import shown
from core.networks.architecture.rules import RULES
from core.networks.architecture.strict_json import MAX_BYTES, parse
from core.networks.architecture.text import checked

OPERATION_HINTS = {
    "NotEqual": "it makes the mask of an Embedding with mask_zero=True, and masks are not kept; set mask_zero=False",
    "GetItem": "it indexes a tensor, which is not read; accepted are pooling, cropping and Flatten",
}
OPERATION_NOT_READ = "it is an operation that is not read; accepted are x + y, x − y, x · y and the like"
MERGES = frozenset({"Add", "Subtract", "Multiply", "Maximum", "Minimum"})
SCALED: Mapping[tuple[str, bool], Callable[[float], dict[str, object]]] = {
    ("Add", True): lambda c: {"scale": 1.0, "offset": c},
    ("Add", False): lambda c: {"scale": 1.0, "offset": c},
    ("Subtract", True): lambda c: {"scale": 1.0, "offset": -c},
    ("Subtract", False): lambda c: {"scale": -1.0, "offset": c},
    ("Multiply", True): lambda c: {"scale": c},
    ("Multiply", False): lambda c: {"scale": c},
    ("Divide", True): lambda c: {"scale": 1.0 / c},
    ("TrueDivide", True): lambda c: {"scale": 1.0 / c},
}
"""Options of Rescaling for an operation with a number; the key's flag is True if the tensor comes first."""


def as_layer(spec: Spec, arguments: Sequence[str | float]) -> tuple[str, dict[str, object], tuple[str, ...]]:
    """Return kind, options and inputs of the built-in layer equivalent to the operation. Raises ArchitectureError."""
    tensors = tuple(a for a in arguments if isinstance(a, str))
    if len(arguments) == 2 and len(tensors) == 2 and spec.kind in MERGES:
        return spec.kind, {}, tensors
    if len(arguments) == 2 and len(tensors) == 1:
        number = next(a for a in arguments if not isinstance(a, str))
        make = SCALED.get((spec.kind, isinstance(arguments[0], str)))
        if make and (number or not spec.kind.endswith("Divide")):
            return "Rescaling", make(float(number)), tensors
    raise spec.refused(OPERATION_HINTS.get(spec.kind, OPERATION_NOT_READ))


MAX_NAME = 60
HINTS = {"Lambda": "it holds code, which is never read from a file; --model package.module:function runs your own code"}
NOT_READ = "it is not among the built-in layers that are read; --model package.module:function runs your own code"

MAX_STEPS = 20_000
"""Limit on layers read and calls followed over all model calls, so that nesting cannot make a file costly."""

Key = tuple[str, int]


def graph_of(model: Spec) -> Graph:
    """Return the whole model as one graph, its options not yet checked. Raises ArchitectureError, which names the
    layer.
    """
    if model.kind not in MODELS:
        raise model.refused("the file holds one layer; accepted are Sequential and Functional models")
    shape, whole_numbers = _input(model)
    flat = _Flattener()
    outputs = flat.model(model, (), (INPUT,))
    if len(outputs) != 1:
        raise model.refused(f"it has {len(outputs)} outputs; accepted are models with one input and one output")
    if outputs[0] == INPUT:
        raise model.refused("it holds no layers between its input and its output")
    first = [layer for layer in flat.layers if INPUT in layer.inputs]
    sizes = [flat.options(layer).get("input_dim") for layer in first if layer.kind == "Embedding"]
    if whole_numbers and not sizes:
        raise model.refused("its input holds whole numbers and no Embedding reads them; give it the type float32")
    vocabulary = min((size for size in sizes if type(size) is int), default=None)
    return Graph(shape, tuple(flat.layers), outputs[0], vocabulary)


def _input(model: Spec) -> tuple[tuple[int, ...], bool]:
    """Return the shape of one sample, and True if it holds integers. Raises ArchitectureError."""
    specs = layers_of(model)
    if model.kind != "Sequential":
        ends = ends_of(model, "input_layers")
        if len(ends) != 1:
            raise model.refused(f"it has {len(ends)} inputs; accepted are models with one input and one output")
        named = [spec for spec in specs if spec.name == ends[0].layer]
        if not named:
            raise model.refused(f"its input {shown(ends[0].layer)} is none of its layers")
        shape, dtype = input_of(named[0])
    elif specs[0].kind in MODELS:
        return _input(specs[0])
    elif specs[0].kind != "InputLayer" and model.config.get("build_input_shape") is not None:
        shape, dtype = shape_of(model, model.config["build_input_shape"]), "float32"
    else:
        shape, dtype = input_of(specs[0])
        dtype = dtype if specs[0].kind == "InputLayer" else "float32"  # a layer's own dtype is that of its weights
    whole = dtype.startswith(("int", "uint"))
    if not whole and not dtype.startswith(("float", "bfloat")):
        raise model.refused(f"its input is of type {shown(dtype)}; accepted are numbers")
    return shape, whole


@dataclass(frozen=True)
class _Parts:
    """One model of the file, read once however often it is called. Only functional models use all fields."""

    specs: Mapping[str, Spec]
    inputs: Sequence[Ref] = ()
    outputs: Sequence[Ref] = ()
    calls: Mapping[Key, tuple[Ref | float, ...]] = field(default_factory=dict)
    order: Sequence[Key] = ()

    @property
    def steps(self) -> int:
        return len(self.specs) + len(self.outputs) + sum(map(len, self.calls.values()))


class _Flattener:
    """Collector of the layers of a model and of the models inside it, each under a unique name."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self._by_name: dict[str, Layer] = {}
        self._first_call: dict[tuple[str, ...], str] = {}
        self._numbers: dict[str, int] = {}
        self._parts: dict[int, _Parts] = {}
        self._steps = 0

    def options(self, layer: Layer) -> dict[str, object]:
        """Return the layer's options, or its first call's if it is a further call."""
        return dict(self._by_name[layer.shares or layer.name].options)

    def model(self, model: Spec, path: tuple[str, ...], sources: Sequence[str]) -> tuple[str, ...]:
        """Follow one call of a model; return the names of its outputs."""
        parts = self._parts.get(id(model.config))  # configs live until the file is read, so ids are unique
        if parts is None:
            parts = self._parts[id(model.config)] = _parts_of(model)
        self._steps += parts.steps
        if self._steps > MAX_STEPS:
            raise model.refused(f"the models in the file have more than {MAX_STEPS:,} layers and calls in all")
        if model.kind == "Sequential":
            return self._sequential(parts, path, sources)
        return self._functional(model, parts, path, sources)

    def _sequential(self, parts: _Parts, path: tuple[str, ...], sources: Sequence[str]) -> tuple[str, ...]:
        names = tuple(sources)
        for position, spec in enumerate(parts.specs.values()):
            if spec.kind != "InputLayer" or position > 0:
                names = self._call(spec, path, names)
        return names

    def _functional(self, model: Spec, parts: _Parts, path: tuple[str, ...], sources: Sequence[str]) -> tuple[str, ...]:
        if len(parts.inputs) != len(sources):
            raise model.refused(f"it has {len(parts.inputs)} inputs and is called with {len(sources)}")
        made: dict[Key, tuple[str, ...]] = {
            (ref.layer, 0): (source,) for ref, source in zip(parts.inputs, sources, strict=True)
        }
        for key in parts.order:
            spec = parts.specs[key[0]]
            arguments = [_made(spec, made, each) if isinstance(each, Ref) else each for each in parts.calls[key]]
            made[key] = self._call(spec, path, arguments)
        return tuple(_made(model, made, ref) for ref in parts.outputs)

    def _call(self, spec: Spec, path: tuple[str, ...], arguments: Sequence[str | float]) -> tuple[str, ...]:
        if spec.operation:
            kind, options, names = as_layer(spec, arguments)
            return (self._add(spec, kind, options, path, names),)
        names = tuple(a for a in arguments if isinstance(a, str))
        if len(names) < len(arguments):
            raise spec.refused("it is called with a number; accepted are the outputs of other layers")
        if spec.kind in MODELS:
            return self.model(spec, (*path, spec.name), names)
        if spec.kind == "InputLayer":
            raise spec.refused("an input stands in the middle of the model")
        return (self._add(spec, spec.kind, None, path, names),)

    def _add(
        self, spec: Spec, kind: str, options: dict[str, object] | None, path: tuple[str, ...], inputs: tuple[str, ...]
    ) -> str:
        """Add a layer; ``options`` are those of an operation, None stands for the layer's own."""
        if kind not in RULES:
            raise spec.refused(HINTS.get(kind, NOT_READ))
        identity = (*path, spec.name)
        name = self._fresh("_".join(identity))
        first = None
        if options is None:
            first = self._first_call.get(identity)
            options = {} if first else options_of(spec)
            self._first_call.setdefault(identity, name)
        layer = Layer(name, kind, options, inputs, first)
        self._by_name[name] = layer
        self.layers.append(layer)
        return name

    def _fresh(self, wanted: str) -> str:
        """Return an unused name: printable, and short enough for a table."""
        base = "".join(c for c in wanted if c.isprintable())[:MAX_NAME].strip() or "layer"
        name = base
        while name in self._by_name or name == INPUT:
            self._numbers[base] = self._numbers.get(base, 1) + 1
            name = f"{base}_{self._numbers[base]}"
        return name


def _parts_of(model: Spec) -> _Parts:
    """Return the parts of a model, each call placed after those whose outputs it takes. Raises ArchitectureError."""
    specs: dict[str, Spec] = {}
    for spec in layers_of(model):
        if spec.name in specs:
            raise model.refused(f"it holds two layers of the name {shown(spec.name)}; names must differ")
        specs[spec.name] = spec
    if model.kind == "Sequential":
        return _Parts(specs)
    inputs, outputs = ends_of(model, "input_layers"), ends_of(model, "output_layers")
    sources = {(ref.layer, 0) for ref in inputs}
    calls: dict[Key, tuple[Ref | float, ...]] = {}
    for spec in specs.values():
        if (spec.name, 0) in sources:
            continue
        if spec.kind == "InputLayer":
            raise spec.refused("it is an input that the model does not list among its input_layers")
        for number, arguments in enumerate(calls_of(spec)):
            calls[spec.name, number] = arguments
    return _Parts(specs, inputs, outputs, calls, _in_order(specs, calls, sources))


def _made(spec: Spec, made: dict[Key, tuple[str, ...]], ref: Ref) -> str:
    outputs = made.get((ref.layer, ref.call), ())
    if ref.output >= len(outputs):
        raise spec.refused(f"it takes output {ref.output} of call {ref.call} of {shown(ref.layer)}, which there is not")
    return outputs[ref.output]


def _in_order(specs: Mapping[str, Spec], calls: Mapping[Key, tuple[Ref | float, ...]], sources: set[Key]) -> list[Key]:
    """Return the calls, each after those whose outputs it takes, else in the file's order. A cycle raises an error."""
    position = {key: number for number, key in enumerate(calls)}
    sorter: TopologicalSorter[Key] = TopologicalSorter()
    for key, arguments in calls.items():
        refs = {(a.layer, a.call) for a in arguments if isinstance(a, Ref)}
        for ref in sorted(refs):
            if ref not in calls and ref not in sources:
                raise specs[key[0]].refused(f"it takes call {ref[1]} of {shown(ref[0])}, which the model does not hold")
        sorter.add(key, *(ref for ref in refs if ref in calls))
    try:
        sorter.prepare()
    except CycleError as error:
        name = error.args[1][0][0]
        raise specs[name].refused("it takes its own output, directly or through others") from None
    order: list[Key] = []
    ready: list[int] = []
    keys = list(calls)
    while sorter.is_active():
        for key in sorter.get_ready():
            heapq.heappush(ready, position[key])
        order.append(keys[heapq.heappop(ready)])
        sorter.done(order[-1])
    return order


SIGNATURE = b"PK\x03\x04"
MEMBER = "config.json"
MAX_ARCHIVE_BYTES = 500_000_000
"""The file is held in memory while its one small member is extracted."""
MAX_MEMBERS = 1_000
MAX_DIRECTORY_BYTES = 1_000_000
MAX_RATIO = 500
"""Limit of unpacked over packed size. Deflate's own limit is about 1030; descriptions of models reach about 40."""
DAMAGED = "The .keras file is damaged or cut short; save it again."

_END = b"PK\x05\x06"
_END_64 = b"PK\x06\x07"
_END_BYTES = 22
_ENCRYPTED = 0x1
_MAX_COMMENT = 0xFFFF


def config_json(data: bytes) -> bytes:
    """Return the bytes of ``config.json`` in a .keras file. Raises ArchitectureError."""
    _check_size(data)
    _check_directory(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            member = _member(archive)
            with archive.open(member) as file:
                return file.read(MAX_BYTES + 1)
    except ArchitectureError:
        raise
    except Exception:  # zipfile may raise almost anything on a damaged archive
        raise ArchitectureError(DAMAGED) from None


def _check_size(data: bytes) -> None:
    if len(data) > MAX_ARCHIVE_BYTES:
        raise ArchitectureError(
            f"The file is too large ({byte_size(len(data))}); accepted are files of up to "
            f"{byte_size(MAX_ARCHIVE_BYTES)}. The text of model.to_json() is enough."
        )


def _check_directory(data: bytes) -> None:
    """Refuse a directory that would take a lot of memory to list, before listing it."""
    start = data.rfind(_END, max(0, len(data) - _END_BYTES - _MAX_COMMENT))
    if start < 0 or start + _END_BYTES > len(data):
        raise ArchitectureError(DAMAGED)
    if data[max(0, start - 20) : start].startswith(_END_64):
        raise ArchitectureError("The .keras file uses ZIP64, which is meant for archives larger than is accepted here.")
    members, size = struct.unpack_from("<HI", data, start + 10)
    if members > MAX_MEMBERS or size > MAX_DIRECTORY_BYTES:
        raise ArchitectureError(f"The .keras file holds {members:,} members; at most {MAX_MEMBERS:,} are accepted.")


def _member(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [info for info in archive.infolist() if info.filename == MEMBER]
    if len(members) != 1:
        raise ArchitectureError(f"The .keras file holds {MEMBER} {len(members)} times; a saved model holds it once.")
    (info,) = members
    if info.flag_bits & _ENCRYPTED or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ArchitectureError(
            f"The {MEMBER} in the .keras file is encrypted or packed in a way Keras does not write."
        )
    if info.file_size > min(MAX_BYTES, MAX_RATIO * max(1, info.compress_size)):
        raise ArchitectureError(
            f"The {MEMBER} in the .keras file unpacks to {byte_size(info.file_size)}; accepted are "
            f"{byte_size(MAX_BYTES)}, and at most {MAX_RATIO} times its packed size."
        )
    return info


ACCEPTED = "accepted are the text of model.to_json(), .keras files and .h5 files"


def read_architecture(data: bytes, filename: str = "", *, public: bool = True) -> Graph:
    """Return the network described by a file.

    ``public`` as in :func:`core.networks.architecture.text.checked`. Raises UserError, which names the faulty layer, if
    there is one.
    """
    if not data.strip():
        raise ArchitectureError(f"The file is empty; {ACCEPTED}.")
    if data.startswith(hdf5.SIGNATURE) or filename.lower().endswith(hdf5.ENDINGS):
        _check_size(data)
        data = hdf5.model_config(data)
    elif data.startswith(SIGNATURE) or filename.lower().endswith(".keras"):
        data = config_json(data)
    model = parse(data)
    if not isinstance(model, dict) or "class_name" not in model:
        raise ArchitectureError(f"The file describes no Keras model; {ACCEPTED}.")
    return checked(graph_of(spec_of(model)), public=public)
