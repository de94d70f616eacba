"""Own data as TensorFlow reads it, in its own process as in the product: functions marked ``elsewhere`` run there."""

import functools
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from core.networks.families import network_from_name
from core.worker.protocol import CellFailed
from core.workload.spec import Workload

TRAIN = Workload(network=network_from_name("12-8-4"), mode="train")
INFER = Workload(network=network_from_name("12-8-4"), mode="infer")
SIGMOID = Workload(network=network_from_name("12-8-1"), mode="train")
X = np.arange(60, dtype=np.float32).reshape(5, 2, 2, 3) / 100
BYTES = np.arange(60, dtype=np.uint8).reshape(5, 2, 2, 3)
Y = np.array([0, 1, 2, 3, 1])


MAIN = sys.modules["__main__"]
"""First module of a new process. Later Streamlit's AppTest leaves the last page there."""


@functools.cache
def pool():
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=set_up)


def set_up():
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


def close_pool():
    pool().shutdown()
    pool.cache_clear()


def elsewhere(function):
    @functools.wraps(function)
    def call(*args, **more):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "__main__", MAIN)
            answer = pool().submit(run, function.__name__, args, more)
        return answer.result()

    return call


def run(name, args, more):
    return globals()[name].__wrapped__(*args, **more)


@elsewhere
def outcome(path, workload, calls):
    """Return every sample of one pass, stacked, or the reason of a failure."""
    from core.worker.tensorflow.data import own_dataset

    try:
        found = list(own_dataset(str(path), workload, calls).as_numpy_iterator())
    except CellFailed as failed:
        return f"{failed.outcome}: {failed.reason}", []
    return "", [np.stack(column) for column in zip(*found, strict=True)]


@elsewhere
def sample_count(path):
    from core.worker.tensorflow.data import sample_count

    return sample_count(str(path))


@elsewhere
def times_unpacked():
    from core.worker.tensorflow.data import _unpacked

    return _unpacked.cache_info().misses


@elsewhere
def later(path, workload=TRAIN, calls=2, removed=None):
    """Return the sentence on an error in a step, after the data set was built.

    A file may be removed by then.
    """
    import tensorflow as tf

    from core.worker.tensorflow.data import explain_reading, own_dataset

    iterator = iter(own_dataset(str(path), workload, calls).repeat().batch(4).prefetch(1))
    if removed is not None:
        removed.unlink()

    @tf.function
    def step(iterator):
        return tf.reduce_sum(next(iterator)[0])

    try:
        for _ in range(20):
            step(iterator)
    except tf.errors.OpError as error:
        return explain_reading(error, str(path))
    return "no error"


@elsewhere
def explained_without_reading(path):
    """Return the sentences on errors that have nothing to do with the data."""
    import tensorflow as tf

    from core.worker.tensorflow.data import explain_reading

    full = tf.errors.ResourceExhaustedError(None, None, "Iterator::Root: OOM when allocating")
    try:
        tf.gather(tf.range(3), 5)
    except tf.errors.InvalidArgumentError as error:
        return [explain_reading(e, str(path)) for e in (error, ValueError("Iterator::Root"), full)]


@elsewhere
def save_records(path, records, compression):
    import tensorflow as tf

    def feature(value):
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        if isinstance(value[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=value))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=value))

    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            if isinstance(record, dict):
                features = tf.train.Features(feature={name: feature(value) for name, value in record.items()})
                record = tf.train.Example(features=features).SerializeToString()
            writer.write(record)


@elsewhere
def encoded(pixels, kind="png"):
    import tensorflow as tf

    return (tf.io.encode_png if kind == "png" else tf.io.encode_jpeg)(pixels).numpy()


def samples(path, workload=TRAIN, calls=None):
    reason, columns = outcome(path, workload, calls)
    assert not reason
    return columns


def refused(path, workload=TRAIN):
    reason, _ = outcome(path, workload, None)
    assert reason.startswith("error: ")
    assert reason.endswith(".")
    return reason.removeprefix("error: ")


def write_records(path, *records, compression=""):
    save_records(path, records, compression)
    return path


def number_records(count=5, label="label"):
    return [{"x": X[i % 5].ravel().tolist(), label: [int(Y[i % 5])]} for i in range(count)]


def write_image(path, pixels, kind="png"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(pixels, kind))
    return path


def image_folder(folder, count=12):
    for number in range(count):
        write_image(folder / ("cat" if number % 2 else "dog") / f"{number:02}.png", BYTES[number % 5])
    return folder
