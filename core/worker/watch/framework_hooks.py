"""Changes that the watch makes in TensorFlow and JAX: waiting for input, tracing, the script's own loops.

Loaded by path, beside that module, into the process of a user's script.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.worker.watch.script import Watch

MAX_LENGTH = 4_095
"""Longest input that is counted by its own length."""
OWN = ("own", "callbacks")
"""Parts in which a call of TensorFlow's is the script's own, not Keras's."""


class InputClock:
    """Seconds that TensorFlow's graphs waited for input, and the samples that arrived, added up in a variable.

    A step's graph takes its batch itself, so that no clock in Python sees the wait. Two time stamps are traced into the
    graph around it (measured: benchmarks/watching.py).
    """

    def __init__(self) -> None:
        self._sums: Any = None
        self._lengths: Any = None
        self._seen = (0.0, 0.0)

    def around(self, tf: Any, take: Callable[[], Any]) -> Any:
        """Trace ``take`` between two time stamps, and return what it returns."""
        if self._sums is None:
            with tf.init_scope(), tf.device("/CPU:0"):
                self._sums = tf.Variable([0.0, 0.0], dtype=tf.float64, trainable=False, name="breakeven_input")
        with tf.device("/CPU:0"):
            begin = tf.timestamp()
        with tf.control_dependencies([begin]):
            batch = take()
        first = [part for part in tf.nest.flatten(batch, expand_composites=True) if isinstance(part, tf.Tensor)][:1]
        with tf.device("/CPU:0"), tf.control_dependencies(first):
            sized = bool(first) and first[0].dtype.is_numpy_compatible and first[0].shape.rank != 0
            samples = tf.cast(tf.shape(first[0])[0], tf.float64) if sized else tf.constant(0.0, tf.float64)
            self._sums.assign_add(tf.stack([tf.timestamp() - begin, samples]))
            if sized and (first[0].shape.rank or 0) > 1 and first[0].shape[1] is None:
                self._count_length(tf, tf.shape(first[0])[1])
        return batch

    def _count_length(self, tf: Any, length: Any) -> None:
        """Trace one more batch of a length that only the data tell."""
        if self._lengths is None:
            with tf.init_scope():
                self._lengths = tf.Variable(
                    tf.zeros(MAX_LENGTH + 1, tf.int64), trainable=False, name="breakeven_lengths"
                )
        self._lengths.scatter_nd_add([[tf.minimum(length, MAX_LENGTH)]], [1])

    def lengths_since_last(self) -> dict[int, int]:
        """Return the lengths counted since this was last asked, each with its number of batches."""
        if self._lengths is None:
            return {}
        counts = self._lengths.numpy()
        self._lengths.assign(0 * counts)
        return {int(length): int(counts[length]) for length in counts.nonzero()[0]}

    def since_last(self) -> tuple[float, int]:
        """Return seconds waited and samples since this was last asked; reading costs about 20 µs."""
        if self._sums is None:
            return 0.0, 0
        waited, samples = (float(value) for value in self._sums.numpy())
        before, self._seen = self._seen, (waited, samples)
        return waited - before[0], round(samples - before[1])


INPUT = InputClock()


def install_tensorflow(watch: Watch) -> None:
    import tensorflow as tf
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.eager.polymorphic_function import polymorphic_function
    from tensorflow.python.framework import func_graph

    watch.versions["tensorflow"] = tf.__version__
    trace = func_graph.func_graph_from_py_func

    @functools.wraps(trace)
    def traced(*args: Any, **kwargs: Any) -> Any:
        watch.traced = watch.traced or watch.here
        return trace(*args, **kwargs)

    func_graph.func_graph_from_py_func = traced
    _watch_input(watch, tf, iterator_ops.OwnedIterator)
    _watch_functions(watch, tf, polymorphic_function.Function)
    tf.GradientTape.gradient = watch.around(tf.GradientTape.gradient, "steps")


def _watch_input(watch: Watch, tf: Any, iterator: Any) -> None:
    take = iterator._next_internal

    @functools.wraps(take)
    def taken(self: Any) -> Any:
        if not watch.here:
            return take(self)
        if not tf.executing_eagerly():
            return INPUT.around(tf, lambda: take(self))
        watch.enter("input")
        try:
            return take(self)
        finally:
            watch.leave()

    iterator._next_internal = taken
    take_optional = iterator.get_next_as_optional

    @functools.wraps(take_optional)
    def taken_optional(self: Any) -> Any:
        """Wait inside the graph until the optional is there, whose samples are not known yet."""
        if not watch.here or tf.executing_eagerly():
            return take_optional(self)
        taken_parts: list[Any] = []

        def wait() -> Any:
            taken_parts.append(take_optional(self))
            return taken_parts[0].has_value()

        INPUT.around(tf, wait)
        return taken_parts[0]

    iterator.get_next_as_optional = taken_optional


def _watch_functions(watch: Watch, tf: Any, function: Any) -> None:
    """Count calls of a ``tf.function`` that the script makes itself as steps of that function."""
    call = function.__call__

    @functools.wraps(call)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not watch.here or watch.part not in OWN or not tf.executing_eagerly():
            return call(self, *args, **kwargs)
        phase = watch.phase(f"function {getattr(self.python_function, '__name__', 'without a name')[:60]}")
        phase.calls += 1
        phase.take(*sizes_of(args))
        return watch.step(phase, lambda: call(self, *args, **kwargs))

    function.__call__ = called


def sizes_of(batch: Any) -> tuple[int | None, int | None]:
    """Return the first two sizes of the first array in nested tuples, lists and dicts; None for what it lacks."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, list | tuple):
        return next((sizes for part in batch[:4] if (sizes := sizes_of(part))[0] is not None), (None, None))
    shape = getattr(batch, "shape", None)
    if shape is None or isinstance(shape, dict):
        return None, None
    rows, length, *_ = (*(size if isinstance(size, int) else None for size in shape), None, None)
    return rows, length


def install_jax(watch: Watch) -> None:
    import jax
    from jax import monitoring

    watch.versions["jax"] = jax.__version__

    def heard(event: str, _seconds: float, **_: Any) -> None:
        if "compile" in event or "trac" in event:
            watch.traced = watch.traced or watch.here

    monitoring.register_event_duration_secs_listener(heard)
