"""User data, read with tf.data's own readers: arrays, TFRecord files, folders of images.

Files are read and samples decoded within the pipeline, step by step, so that a step's input has its real cost. The
order is the same each time; shuffling, caching, repeating and batching are the pipeline's.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from core.base.text import shown
from core.userdata.arrays import DataError, check_finite, class_labels, in_words, load
from core.userdata.source import Source, check_fits, check_memory, image_shape, inspect_data
from core.worker.protocol import CellFailed
from core.workload.spec import Workload

SEED = 20_160
PROBED = 8  # samples read through the pipeline before it is used
CHECKED_BYTES = 256 * 2**20  # of an .npy file, checked for values that are not finite
WORKER_SHARE = 0.5  # of the free memory when arrays are loaded, which briefly holds them twice
SEARCH_S = 2.0
MAX_DETAIL = 160
READING_SIGNS = re.compile(r"Iterator::|(node |Op:)IteratorGetNext")  # not just a neighbour of the failed node
OTHER_SIZE_SIGNS = ("is not compatible with expected shape", "DecodeRaw")  # for raw bytes in a record


def own_dataset(path: str, workload: Workload, parallel_calls: int | None) -> Any:
    """Return a ``tf.data.Dataset`` of single samples (x,), or (x, y) for training, as the network takes them.

    x is float32 of the input's shape; y an int64 scalar, or float32 (1,) for one class. The dataset is finite.
    ``parallel_calls`` is the decoding map's ``num_parallel_calls``. The first samples are read to check that they fit.
    Raises CellFailed ``error``.
    """
    with _sentences(path), tf.device("/CPU:0"):
        source = inspect_data(path)
        check_fits(source, workload)
        read = {"arrays": _arrays, "tfrecord": _records, "images": _images}[source.kind]
        dataset = read(source, workload, parallel_calls)
        _probe(dataset, source)
        return dataset


def sample_count(path: str) -> int:
    """Return the samples in one pass over the data; TFRecord files are read whole. Raises CellFailed ``error``."""
    with _sentences(path), tf.device("/CPU:0"):
        source = inspect_data(path)
        if source.samples is not None:
            return source.samples
        return int(record_files(source.paths).reduce(np.int64(0), lambda count, _: count + 1))


def _probe(dataset: Any, source: Source) -> None:
    seen = 0
    for sample in dataset.take(PROBED):
        seen += 1
        if not np.isfinite(sample[0].numpy()).all():
            raise DataError(f"{source.name}: sample {seen} holds values that are not finite (NaN or infinite).")
    if not seen:
        raise DataError(f"{source.name} holds no samples.")


def _arrays(source: Source, workload: Workload, calls: int | None) -> Any:
    make = _packed if source.path.lower().endswith(".npz") else _plain
    return make(source, workload, calls)


def _packed(source: Source, workload: Workload, calls: int | None) -> Any:
    """Return the dataset of an .npz file, which must be unpacked whole and stays in memory, once for all cells."""
    stat = Path(source.path).stat()
    x, raw = _unpacked(source, stat.st_mtime_ns, stat.st_ino)
    if not workload.training:
        slices = tf.data.Dataset.from_tensor_slices((x,))
        return slices.map(lambda x: _as_sample(x, None, workload), num_parallel_calls=calls)
    count, classes = int(x.shape[0]), workload.network.classes
    if raw is None or source.y is None:
        labels = np.random.default_rng(SEED).integers(0, max(2, classes), count)
    else:
        labels = class_labels(raw, count, classes, f"{shown(source.y.name)} in {source.name}")
    slices = tf.data.Dataset.from_tensor_slices((x, labels))
    return slices.map(lambda x, y: _as_sample(x, y, workload), num_parallel_calls=calls)


@functools.lru_cache(maxsize=1)
def _unpacked(source: Source, modified_ns: int, inode: int) -> tuple[Any, np.ndarray | None]:  # noqa: ARG001
    """Return samples as a tensor, and the labels unchanged; the other arguments detect a replaced file."""
    assert source.x is not None
    check_memory(source, WORKER_SHARE)
    path = Path(source.path)
    x = load(path, source.x)
    check_finite(x, f"{shown(source.x.name)} in {source.name}")
    return tf.convert_to_tensor(x), None if source.y is None else load(path, source.y)


def _plain(source: Source, workload: Workload, calls: int | None) -> Any:
    """Return the dataset of an .npy file: samples of fixed length, which tf.data reads from the file step by step."""
    array = source.x
    assert array is not None
    sample_bytes = array.values * array.dtype.itemsize
    checked = max(1, min(array.samples, CHECKED_BYTES // sample_bytes))
    check_finite(np.load(source.path, mmap_mode="r", allow_pickle=False)[:checked], source.name)
    footer = source.bytes - array.offset - array.bytes
    raw = tf.data.FixedLengthRecordDataset([os.fsencode(source.path)], sample_bytes, array.offset, footer)
    dtype, little = tf.as_dtype(array.dtype.newbyteorder("=")), array.dtype.newbyteorder("<") == array.dtype

    def x_of(value: Any) -> Any:
        return tf.io.decode_raw(value, dtype, little_endian=little)

    if not workload.training:
        return raw.map(lambda value: _as_sample(x_of(value), None, workload), num_parallel_calls=calls)
    outputs = max(2, workload.network.classes)
    both = tf.data.Dataset.zip((raw, tf.data.Dataset.random(seed=SEED)))
    return both.map(lambda value, drawn: _as_sample(x_of(value), drawn % outputs, workload), num_parallel_calls=calls)


def _records(source: Source, workload: Workload, calls: int | None) -> Any:
    records = record_files(source.paths)
    first = next(iter(records.take(1)), None)
    if first is None:
        raise DataError(f"{source.name} holds no records.")
    schema = find_schema(first.numpy(), workload, source.name)

    def sample(record: Any) -> tuple[Any, ...]:
        return _as_sample(*parse(record, schema, workload.network.input_shape), workload)

    return records.map(sample, num_parallel_calls=calls)


def record_files(paths: tuple[str, ...]) -> Any:
    """Return a dataset of the serialised records of TFRecord files of one kind, file after file."""
    compression = "GZIP" if paths[0].lower().endswith(".gz") else ""
    return tf.data.TFRecordDataset([os.fsencode(path) for path in paths], compression)


def _images(source: Source, workload: Workload, calls: int | None) -> Any:
    number = {folder: index for index, folder in enumerate(source.folders)}
    labels = np.array([number[source.folder_of(path)] for path in source.paths], np.int64)

    def sample(path: Any, label: Any) -> tuple[Any, ...]:
        return _as_sample(decoded(tf.io.read_file(path), workload.network.input_shape), label, workload)

    names = [os.fsencode(path) for path in source.paths]
    return tf.data.Dataset.from_tensor_slices((names, labels)).map(sample, num_parallel_calls=calls)


def _as_sample(x: Any, label: Any, workload: Workload) -> tuple[Any, ...]:
    x = _as_input(x, workload)
    return (x, _as_label(label, workload)) if workload.training else (x,)


def _as_input(x: Any, workload: Workload) -> Any:
    scaled = tf.cast(x, tf.float32) / 255.0 if x.dtype == tf.uint8 else tf.cast(x, tf.float32)
    return tf.reshape(scaled, workload.network.input_shape)


def _as_label(label: Any, workload: Workload) -> Any:
    classes = workload.network.classes
    # gather is the cheapest operation that fails for a label out of range, with the number in its message
    label = tf.gather(tf.range(max(2, classes), dtype=tf.int64), label)
    return tf.cast(label, tf.float32)[tf.newaxis] if classes == 1 else label


@contextlib.contextmanager
def _sentences(path: str) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise CellFailed("error", str(error)) from None
    except tf.errors.OpError as error:
        sentence = explain_reading(error, path, reading=True)
        if sentence is None:
            raise
        raise CellFailed("error", sentence) from None
    except OSError as error:
        raise CellFailed("error", f"{shown(path)} cannot be read: {error.strerror or error}.") from None


def explain_reading(error: BaseException, path: str, reading: bool = False) -> str | None:
    """Return one sentence for tf.data's error when a step read the data at ``path``; None for any other error.

    With ``reading`` the error is known to come from there. The faulty file is searched for, for at most
    :data:`SEARCH_S`.
    """
    text = str(error)
    if not isinstance(error, tf.errors.OpError) or isinstance(error, tf.errors.ResourceExhaustedError):
        return None
    if not reading and not READING_SIGNS.search(text):
        return None
    where = shown(Path(path).name or path)
    if match := re.search(r"indices\S* = (-?\d+) is not in \[0, (\d+)\)", text):
        return f"A label in {where} is {match[1]}; the network takes labels from 0 to {int(match[2]) - 1}."
    if match := re.search(r"(?:Key: |Feature: )(.{1,80}?)(?:\. |, Index| \(data type)", text):
        return f"A record in {where} has no feature “{match[1]}” of the length and type that the first record has."
    if "Could not parse example" in text or "ParseSingleExample" in text:
        return f"A record in {where} is not a tf.train.Example."
    if any(sign in text for sign in OTHER_SIZE_SIGNS):
        return f"A sample in {where} has another number of values than the network's input."
    return _damage(error, text, path, where)


def _damage(error: BaseException, text: str, path: str, where: str) -> str:
    if isinstance(error, tf.errors.NotFoundError):
        return f"A file of {where} is gone: it was moved or deleted during the measurement."
    damaged = _damaged_file(path) or where
    if match := re.search(r"(truncated|corrupted) record at (\d+)", text):
        how = "cut short" if match[1] == "truncated" else "damaged"
        return f"{damaged} is {how}: the record near byte {int(match[2]):,} cannot be read."
    if "DecodeImage" in text or "DecodePng" in text or "DecodeJpeg" in text:
        subject = damaged if damaged != where else f"An image in {where}"
        return f"{subject} cannot be decoded as a PNG or JPEG image; it is damaged or something else."
    detail = " ".join(text.rpartition("Iterator::")[2].split())[:MAX_DETAIL]
    return f"{damaged} could not be read by TensorFlow: {type(error).__name__}: {detail}"


def _damaged_file(path: str) -> str | None:
    """Return the name of the first file that cannot be read to its end, if found in time."""
    end_s = time.monotonic() + SEARCH_S
    with contextlib.suppress(DataError):
        source = inspect_data(path)
        for file in source.paths:
            try:
                for _ in _pieces(source, file):
                    if time.monotonic() > end_s:
                        return None
            except tf.errors.OpError:
                return shown(os.path.relpath(file, source.path) if file != source.path else Path(file).name)
    return None


def _pieces(source: Source, file: str) -> Iterator[Any]:
    if source.kind == "tfrecord":
        yield from record_files((file,))
    elif source.kind == "images":
        yield tf.io.decode_image(tf.io.read_file(os.fsencode(file)), expand_animations=False)


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
