"""Choice of a tf.train.Example's features for a network's sample and label, from the first record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import tensorflow as tf

from core.base.text import shown
from core.userdata.arrays import DataError, in_words
from core.userdata.source import image_shape
from core.workload.spec import Workload

Form = Literal["float", "int", "image", "uint8", "float32"]
X_NAMES = ("x", "image", "image_raw", "image/encoded", "encoded", "data", "input", "inputs", "features")
LABEL_NAMES = ("label", "y", "target", "class")  # the whole name or its last part, as in image/class/label
IMAGE_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")
MAX_LISTED = 12


@dataclass(frozen=True)
class Schema:
    """Names of the features. ``form`` is how x is stored: a list of numbers, an encoded image or raw bytes."""

    x: str
    form: Form
    label: str | None


def find_schema(record: bytes, workload: Workload, where: str) -> Schema:
    """Return the schema of a serialised record. Raises DataError, listing the features, if none or several fit."""
    try:
        features = dict(tf.train.Example.FromString(record).features.feature)
    except Exception:  # protobuf's DecodeError, without a dependency on protobuf
        features = {}
    if not features:
        raise DataError(f"The records in {where} are no tf.train.Example with features, which is what is read.")
    label = _label(features) if workload.training else None
    if workload.training and label is None:
        raise DataError(f"No feature in {where} is a label (an integer named label); found are {_list(features)}.")
    shape = workload.network.input_shape
    named_like_labels = {name for name in features if _is_label_name(name)}
    forms = {name: form for name, feature in features.items() if (form := _form(feature, shape)) and name != label}
    fitting = {name: form for name, form in forms.items() if name not in named_like_labels} or forms
    if not fitting:
        raise DataError(
            f"No feature in {where} holds the {in_words(shape)} values that the network takes; found are "
            f"{_list(features)}."
        )
    x = next((name for name in X_NAMES if name in fitting), None) or (
        next(iter(fitting)) if len(fitting) == 1 else None
    )
    if x is None:
        raise DataError(f"Several features in {where} fit the network; name one of them x: {_list(features)}.")
    return Schema(x, fitting[x], label)


def _is_label_name(name: str) -> bool:
    return name.lower().rpartition("/")[2] in LABEL_NAMES


def _label(features: Mapping[str, Any]) -> str | None:
    single = sorted(name for name, feature in features.items() if len(feature.int64_list.value) == 1)
    named = sorted((name for name in single if _is_label_name(name)), key=lambda name: (len(name), name))
    if named:
        return named[0]
    return single[0] if len(single) == 1 else None


def _form(feature: Any, shape: tuple[int, ...]) -> Form | None:
    count = math.prod(shape)
    if len(feature.float_list.value) == count:
        return "float"
    if len(feature.int64_list.value) == count:
        return "int"
    if len(feature.bytes_list.value) != 1:
        return None
    value = feature.bytes_list.value[0]
    if value.startswith(IMAGE_STARTS) and image_shape(shape) is not None:
        return "image"
    raw: dict[int, Form] = {count: "uint8", 4 * count: "float32"}
    return raw.get(len(value))


def _list(features: Mapping[str, Any]) -> str:
    words = []
    for name in sorted(features)[:MAX_LISTED]:
        kind = features[name].WhichOneof("kind") or "empty"
        values: Any = getattr(features[name], kind).value if kind != "empty" else ()
        size = f"{len(values[0]):,} bytes" if kind == "bytes_list" and len(values) == 1 else f"{len(values):,} values"
        words.append(f"{shown(name)} ({kind.removesuffix('_list')}, {size})")
    more = len(features) - len(words)
    return ", ".join(words) + (f" and {more} more" if more else "")


def parse(record: Any, schema: Schema, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return x and the label (None without one) of a record, in a map. x keeps its type; images are float32, 0 to 1."""
    numbers = {"float": tf.float32, "int": tf.int64}
    count = [math.prod(shape)] if schema.form in numbers else []
    wanted = {schema.x: tf.io.FixedLenFeature(count, numbers.get(schema.form, tf.string))}
    if schema.label is not None:
        wanted[schema.label] = tf.io.FixedLenFeature([], tf.int64)
    features = tf.io.parse_single_example(record, wanted)
    x = features[schema.x]
    if schema.form == "image":
        x = decoded(x, shape)
    elif schema.form not in numbers:
        x = tf.io.decode_raw(x, tf.uint8 if schema.form == "uint8" else tf.float32)
        x = tf.ensure_shape(x, [math.prod(shape)])  # a reshape to this shape would be optimised away, unchecked
    return x, None if schema.label is None else features[schema.label]


def decoded(value: Any, shape: tuple[int, ...]) -> Any:
    """Return an encoded image in the size of the network's input, float32 from 0 to 1."""
    size = image_shape(shape)
    assert size is not None  # guaranteed by find_schema and check_fits
    height, width, channels = size
    image = tf.io.decode_image(value, channels=channels, expand_animations=False)
    return tf.image.resize(image, (height, width)) / 255.0
