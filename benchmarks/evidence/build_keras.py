"""Networks from the ``architecture`` strings of keras_notebook_steps.csv (“Flatten(784)-4x Dense512 relu-Dense10”).

Hidden Dense and Conv layers end in a ReLU unless another activation, or a normalisation, is written after them; the
last layer ends in a softmax, or with one unit in a sigmoid. Convolutions keep to the inside of the image unless “same”
or a stride is written; a Dense layer after an image flattens it. What vectorises text is no part of the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isqrt, prod
from typing import Any

from benchmarks.evidence.keras_graphs import BY_HAND
from core.networks.architecture.graph import Graph, Layer, chain
from core.networks.architecture.text import dump
from core.networks.families import Network
from core.networks.families.applications import Application
from core.networks.families.mlp import MIN_WIDTH, Mlp
from core.networks.families.own import MAX_LABEL, STRANGE, Own

Made = tuple[str, dict[str, Any]]
"""A layer's kind and options, before it has a name."""
LATER = re.compile(r", input | on |, length |, 28x28|, 40x57 one-hot input| \(all 3x3 same\)| \(dense Adam")
"""Pattern after which a string describes the input or comments."""
FULL = re.compile(
    r"(?P<name>[A-Z]\w+) (?:include_top=True weights=None (?P<image>\d+)x.*classes=(?P<classes>\d+)"
    r"|224x224x3 1000 classes|\(tf_cnn_benchmarks\))"
)
CONV = re.compile(r"Conv(?P<transposed>T?)(?P<filters>\d+)(?:\((?P<size>\d+)(?:x\d+)?(?P<same>,same)?\))?"
                  r"(?: (?P<padding>same))?(?: s(?P<stride>\d))?")  # fmt: skip
DENSE = re.compile(r"(?:(?P<times>\d+)x )?Dense(?P<units>\d+)(?: (?P<activation>relu|sigmoid|softmax))?")
EMBEDDING = re.compile(r"Embedding\((?P<words>[\d.]+)(?P<million>M?)[^,]*,(?P<width>\d+)(?:,len\d+)?\)")
CELL = re.compile(r"(?P<both>Bidirectional\()?(?:CuDNN)?(?P<cell>LSTM|GRU)(?P<units>\d+)(?P<all> return_sequences)?\)?")
PLAIN: Mapping[str, Made] = {
    "MaxPool": ("MaxPooling2D", {}),
    "MaxPool2": ("MaxPooling2D", {}),
    "BN": ("BatchNormalization", {}),
    "LReLU": ("LeakyReLU", {}),
    "Flatten": ("Flatten", {}),
    "GAP1D": ("GlobalAveragePooling1D", {}),
}
DROP = 0.5
"""Dropout rate if a string gives none; the time does not depend on it."""


class NotRebuilt(ValueError):
    """The string does not determine a network; the message names the part at fault."""


def network_of(architecture: str, input_text: str) -> Network:
    """Build the network of a row's ``architecture`` and ``input``, or raise NotRebuilt."""
    for pattern, build in BY_HAND.items():
        if re.match(pattern, architecture):
            return _own(build(), architecture)
    known = FULL.match(architecture)
    if known:
        name, image, classes = known["name"], int(known["image"] or 224), int(known["classes"] or 1000)
        return Application(application=name, image=image, outputs=classes)
    if architecture.startswith("EfficientNetB0 include_top=False 224x224x3 + GAP + Dense101"):
        return Application(application="EfficientNetB0", image=224, outputs=101)
    layers = _with_activations(list(_layers(architecture)))
    shape = _input_shape(input_text)
    vocabulary = layers[0][1]["input_dim"] if layers[0][0] == "Embedding" else None
    return _mlp(layers, shape) or _own(_graph(layers, shape, vocabulary), architecture)


def _own(graph: Graph, architecture: str) -> Own:
    label = STRANGE.sub(" ", architecture)[:MAX_LABEL].strip()
    return Own(architecture=dump(graph), label=label)


def _input_shape(input_text: str) -> tuple[int, ...]:
    """Parse a sample's shape from the column ``input``: 32x32x3, 784, “10000 float”, “600 int tokens”."""
    match = re.match(r"\d+(x\d+)*", input_text)
    if match is None or "+" in input_text:
        raise NotRebuilt(f"its input is “{input_text}”")
    return tuple(int(axis) for axis in match[0].split("x"))


def _layers(architecture: str) -> Iterator[Made]:
    text = re.sub(r"Conv2D\((\d+),", r"Conv\1(", architecture.removeprefix("AE: "))
    same = "(all 3x3 same)" in text or " s2" in text
    parts = re.split(r"-(?![^(]*\))", LATER.split(text)[0].strip())
    for part in parts:
        if re.fullmatch(r"\d+|Flatten\(\d+\)", part):
            continue  # the input or its flattening, which is free
        layers = _part(part, same)
        if not layers:
            raise NotRebuilt(f"“{part}” is not understood")
        yield from layers


def _part(part: str, same: bool) -> list[Made]:
    if part in PLAIN:
        return [PLAIN[part]]
    if match := DENSE.fullmatch(part):
        activation = {"activation": match["activation"]} if match["activation"] else {}
        return [("Dense", {"units": int(match["units"]), **activation})] * int(match["times"] or 1)
    if match := CONV.fullmatch(part):
        padding = "same" if same or match["same"] or match["padding"] else "valid"
        kernel, stride = int(match["size"] or 3), int(match["stride"] or 1)
        options = {"filters": int(match["filters"]), "kernel_size": kernel, "strides": stride, "padding": padding}
        return [("Conv2DTranspose" if match["transposed"] else "Conv2D", options)]
    if match := re.fullmatch(r"drop(\.\d+)?", part):
        return [("Dropout", {"rate": float(match[1] or DROP)})]
    if match := EMBEDDING.fullmatch(part):
        words = round(float(match["words"]) * (1e6 if match["million"] else 1))
        return [("Embedding", {"input_dim": words, "output_dim": int(match["width"])})]
    if match := CELL.fullmatch(part):
        options = {"units": int(match["units"]), **({"return_sequences": True} if match["all"] else {})}
        both = {"layer": {"class_name": match["cell"], "config": options}}
        return [("Bidirectional", both) if match["both"] else (match["cell"], options)]
    return []


def _with_activations(made: list[Made]) -> list[Made]:
    """Return each layer with the activation that is not written."""
    done = []
    for index, (kind, options) in enumerate(made):
        following = made[index + 1][0] if index + 1 < len(made) else None
        sized = kind == "Dense" or kind.startswith("Conv")
        if sized and "activation" not in options and following not in ("BatchNormalization", "LeakyReLU"):
            units = options.get("units", options.get("filters"))
            last = "sigmoid" if units == 1 else "softmax"
            done.append((kind, {**options, "activation": "relu" if following else last}))
        else:
            done.append((kind, options))
    return done


def _mlp(layers: list[Made], shape: tuple[int, ...]) -> Mlp | None:
    """Return the network as one of the MLP family, or None if it is not one."""
    hidden = [options for _, options in layers[:-1]]
    if {kind for kind, _ in layers} != {"Dense"} or not hidden:
        return None
    if any(each["units"] < MIN_WIDTH or each["activation"] != "relu" for each in hidden):
        return None
    return Mlp(
        inputs=prod(shape), hidden=tuple(each["units"] for each in hidden), outputs=layers[-1][1]["units"]
    )  # fmt: skip


def _graph(made: list[Made], shape: tuple[int, ...], vocabulary: int | None) -> Graph:
    image = made[0][0].startswith("Conv")
    start = (prod(shape),) if made[0][0] == "Dense" else shape
    layers = [Layer(f"{kind.lower()}_{n}", kind, options) for n, (kind, options) in enumerate(_reshaped(made, image))]
    return Graph(start, chain(*layers), layers[-1].name, vocabulary)


def _reshaped(made: list[Made], image: bool) -> Iterator[Made]:
    """Yield the layers with the implied ones between an image and a row of values, and back."""
    flat = not image
    for index, (kind, options) in enumerate(made):
        if kind == "Dense" and not flat:
            yield "Flatten", {}
        if kind == "Conv2DTranspose" and flat:
            filters = options["filters"]
            side = isqrt(made[index - 1][1]["units"] // filters)
            yield "Reshape", {"target_shape": (side, side, filters)}
        flat = {"Dense": True, "Flatten": True, "Conv2DTranspose": False}.get(kind, flat)
        yield kind, options
