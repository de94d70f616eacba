"""tf.data pipelines for Keras on a backend other than TensorFlow, with TensorFlow installed beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from core.worker.feeds import Feed, each, host_feed
from core.worker.protocol import CellFailed
from core.workload.spec import Pipeline, Target, Workload


def backend_feed(
    workload: Workload, target: Target, pipeline: Pipeline, batch: int, title: str, resident: Callable[[], Feed]
) -> Feed:
    """Return the pipeline's feed on a backend other than TensorFlow; ``resident`` makes one on its device."""
    if pipeline.kind == "tfdata":
        return numpy_feed(workload, target, pipeline, batch, title)
    return host_feed(workload, batch, target.pad) if pipeline.kind == "host" else resident()


def numpy_feed(workload: Workload, target: Target, pipeline: Pipeline, batch: int, title: str) -> Feed:
    """Return a feed of NumPy batches, the form in which Keras hands a dataset's batches to its other backends.

    Raises CellFailed if there is no TensorFlow to run the pipeline.
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
    """Explain an error as :func:`core.worker.tensorflow.data.explain_reading` does."""
    from core.worker.tensorflow import data

    return data.explain_reading(error, path)


def _as_numpy(batch: tuple[Any, ...]) -> tuple[Any, ...]:
    return each(lambda part: part.numpy(), batch)
