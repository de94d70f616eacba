"""Whole calls of a model in inference: what one ``predict(x)`` in a loop costs, and its alternatives.

A call takes a NumPy batch from the feed and returns a NumPy result, so it holds all that lies between them: Python, the
copy to the device, for ``predict`` the ``tf.data`` pipeline and the callbacks that Keras sets up for every call, the
network, and the copy back. The first call traces and compiles, and warm-up follows it. Blocks run without Python's
collection of garbage, as for any other step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from core.base.frameworks import Call
from core.worker.feeds import Feed
from core.worker.tensorflow.model import CellStep
from core.workload.spec import Workload


class CalledStep(CellStep):
    """One cell's call of the model, with a compiled function of its own."""

    def __init__(self, model: Any, workload: Workload, feed: Feed, call: Call) -> None:
        super().__init__(model, workload, feed)
        calls: Mapping[Call, Callable[[], Any]] = {
            "predict": self._predict,
            "predict_on_batch": lambda: model.predict_on_batch(self._next()),
            "model": lambda: model(self._next(), training=False).numpy(),
            "function": self._compiled,
            "relaxed": self._compiled,
        }
        signature = None
        if not workload.lengths:
            (samples,) = next(feed.open())
            signature = [tf.TensorSpec(samples.shape, samples.dtype)]
        self._own = tf.function(
            lambda x: model(x, training=False), input_signature=signature, jit_compile=model.jit_compile,
            reduce_retracing=call == "relaxed",
        )  # fmt: skip
        self.call = calls[call]

    @contextlib.contextmanager
    def mode(self) -> Iterator[None]:
        """Let the model use this cell's function, as it keeps the one that it made itself from call to call."""
        self.model.predict_function = self._function
        try:
            yield
        finally:
            self.model.predict_function = None

    def traces(self) -> int | None:
        return max(super().traces() or 0, int(self._own.experimental_get_tracing_count()))

    def _compiled(self) -> Any:
        return self._own(self._next()).numpy()

    def _next(self) -> Any:
        return next(self._iterator)[0]

    def _predict(self) -> Any:
        samples = self._next()
        return self.model.predict(samples, batch_size=len(samples), verbose=0)
