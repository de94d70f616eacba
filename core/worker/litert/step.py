"""One cell's step under LiteRT."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from core.worker.feeds import Feed
from core.worker.protocol import CellFailed
from core.worker.step import Step, check_outputs


class InterpreterStep(Step):
    """The calls of a user's loop: ``set_tensor``, ``invoke``, ``get_tensor``, which all copy and run synchronously.

    A resident batch stays in the interpreter's input tensor, which no operation overwrites: it is set once, and the
    step is ``invoke`` and ``get_tensor``.
    """

    def __init__(self, program: bytes, feed: Feed, threads: int, batch: int, resident: bool) -> None:
        super().__init__(feed)
        self.interpreter = interpreter(program, threads)
        (taken,), (given,) = self.interpreter.get_input_details(), self.interpreter.get_output_details()
        if taken["shape"][0] != batch:
            raise CellFailed("error", f"LiteRT's program takes batches of {taken['shape'][0]}, not of {batch}.")
        self._input, self._output = taken["index"], given["index"]
        self.call = self._fetched if resident else self._fed
        self.compare: Callable[[], None] | None = None
        """Compares its outputs with Keras's, once; leaves another batch in the input tensor."""
        self.hold()

    def hold(self) -> None:
        """Put the batch into the input tensor, if the feed is resident."""
        if self.call == self._fetched:
            self.interpreter.set_tensor(self._input, next(self.feed.open())[0])

    def _fed(self) -> Any:
        self.interpreter.set_tensor(self._input, next(self._iterator)[0])
        self.interpreter.invoke()
        return self.interpreter.get_tensor(self._output)

    def _fetched(self) -> Any:
        self.interpreter.invoke()
        return self.interpreter.get_tensor(self._output)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Return the outputs of one batch, which stays in the input tensor."""
        self.interpreter.set_tensor(self._input, x)
        return np.asarray(self._fetched())

    def wait(self, last: Any) -> None:
        """Do nothing: ``invoke`` is synchronous."""

    def check_finite(self) -> None:
        check_outputs(bool(np.isfinite(self.last).all()))


def interpreter(program: bytes, threads: int) -> Any:
    """Return an interpreter with its memory allocated; XNNPACK runs the operations it can, LiteRT's default."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the deprecation names a new package of the same interpreter
        made = tf.lite.Interpreter(model_content=program, num_threads=threads)
    made.allocate_tensors()
    return made
