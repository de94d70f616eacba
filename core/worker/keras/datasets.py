"""tf.data pipelines for Keras on a backend other than TensorFlow, where TensorFlow is installed beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from core.spec import Pipeline, Target, Workload
from core.worker.feeds import Feed, host_feed
from core.worker.protocol import CellFailed


def backend_feed(
    workload: Workload, target: Target, pipeline: Pipeline, batch: int, title: str, resident: Callable[[], Feed]
) -> Feed:
    """The pipeline's feed on a backend other than TensorFlow, which ``resident`` knows how to keep on its device."""
    if pipeline.kind == "tfdata":
        return numpy_feed(workload, target, pipeline, batch, title)
    return host_feed(workload, batch) if pipeline.kind == "host" else resident()


def numpy_feed(workload: Workload, target: Target, pipeline: Pipeline, batch: int, title: str) -> Feed:
    """Batches as NumPy arrays, which is how Keras hands those of a dataset to its other backends.

    Raises CellFailed where there is no TensorFlow to run the pipeline.
    """
    if find_spec("tensorflow") is None:
        raise CellFailed(
            "error",
            f"A tf.data pipeline needs TensorFlow beside {title}; install it there with “pip install tensorflow”, or "
            "choose the resident or host pipeline.",
        )
    import tensorflow as tf

    from core.worker.tensorflow.pipeline import dataset_feed

    tf.config.set_visible_devices([], "GPU")  # the pipeline is the CPU's work; the GPU is the other framework's
    feed = dataset_feed(workload, target, pipeline, batch)
    return dataclasses.replace(feed, open=lambda: map(_as_numpy, feed.open()))


def explain_reading(error: Exception, path: str) -> str | None:
    """As :func:`core.worker.tensorflow.data.explain_reading`."""
    from core.worker.tensorflow import data

    return data.explain_reading(error, path)


def _as_numpy(batch: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(part.numpy() for part in batch)
