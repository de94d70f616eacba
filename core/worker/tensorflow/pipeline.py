"""Feeds on TensorFlow: resident tensors, host arrays, or a tf.data pipeline."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from core.machine.environment import quota_cores
from core.worker.feeds import SEED, Feed, each, host_batches, host_feed, kept, make_arrays, pool_size
from core.worker.tensorflow.data import own_dataset, sample_count
from core.workload.spec import Pipeline, Target, Workload


class ResidentBatch(tf.data.Iterator, tf.experimental.Optional):
    """An endless iterator over the same tensors, and an optional that is never empty.

    With ``steps_per_execution`` Keras trains in a compiled loop, only from a ``tf.data`` iterator (its trainer.py,
    ``multi_step_on_iterator``). TensorFlow's own iterators live on the host: prefetched to a GPU, each batch is fetched
    by a remote call and copied over the link. This one consists of the tensors themselves, which are arguments of the
    compiled function and variables of its loop, and are never copied.
    """

    def __init__(self, tensors: tuple[Any, ...]) -> None:
        super().__init__()
        self.tensors = tuple(tensors)
        self._spec = _ResidentSpec(tuple(tf.TensorSpec(t.shape, t.dtype) for t in self.tensors))

    @property
    def _type_spec(self) -> _ResidentSpec:
        return self._spec

    @property
    def element_spec(self) -> tuple[Any, ...]:
        return self._spec.element_spec

    def get_next(self) -> tuple[Any, ...]:
        return self.tensors

    def __next__(self) -> tuple[Any, ...]:
        return self.tensors

    def get_next_as_optional(self) -> ResidentBatch:
        return self

    def has_value(self, name: str | None = None) -> Any:  # noqa: ARG002
        return tf.constant(True)

    def get_value(self, name: str | None = None) -> tuple[Any, ...]:  # noqa: ARG002
        return self.tensors


class _ResidentSpec(tf.TypeSpec):
    """Type of a :class:`ResidentBatch`, by which TensorFlow decomposes and rebuilds it."""

    __slots__ = ("element_spec",)

    def __init__(self, element_spec: tuple[Any, ...]) -> None:
        self.element_spec = element_spec

    @property
    def value_type(self) -> type[ResidentBatch]:
        return ResidentBatch

    @property
    def _component_specs(self) -> tuple[Any, ...]:
        return self.element_spec

    def _serialize(self) -> tuple[Any, ...]:
        return (self.element_spec,)

    def _to_components(self, value: ResidentBatch) -> tuple[Any, ...]:
        return value.tensors

    def _from_components(self, components: tuple[Any, ...]) -> ResidentBatch:
        return ResidentBatch(components)


# Warm-up of a new tf.data iterator before it is timed: buffers fill, and AUTOTUNE, which re-tunes after 10, 20, 40, …
# ms, has settled (measured: benchmarks/pipeline.py)
WARMUP_MS, AUTOTUNE_WARMUP_MS = 150.0, 400.0
MAX_SHUFFLED = 10_000  # samples in a shuffle buffer; more user data could fill the memory
CHUNK = 512  # values per iteration of the preprocessing loop; few enough to stay in the L1 cache
CALIBRATION_ITERATIONS = 40
CALIBRATION_BATCH = 32
PYTHON_LOOPS = 20_000  # about 1 ms


def make_feed(workload: Workload, target: Target, pipeline: Pipeline, batch: int, device: str) -> Feed:
    """Return a feed of batches (x, y) for training or (x,) for inference; ``device`` is TensorFlow's name.

    Keras trains several steps per call only from a ``tf.data`` iterator, so with ``steps_per_execution`` host batches
    come through one, as in ``fit``; resident ones stay where they are.
    """
    many = target.steps_per_execution > 1
    if pipeline.kind == "resident":
        with tf.device(device):
            tensors = each(lambda array: tf.identity(tf.constant(array)), make_arrays(workload, batch))
        return kept(ResidentBatch(tensors) if many else itertools.repeat(tensors))
    if pipeline.kind == "host":
        return kept(_iterate(host_batches(workload, batch))) if many else host_feed(workload, batch, target.pad)
    return dataset_feed(workload, target, pipeline, batch)


def dataset_feed(
    workload: Workload, target: Target, pipeline: Pipeline, batch: int, share_out: Callable[[Any], Any] | None = None
) -> Feed:
    """Return a feed of a ``tf.data`` pipeline, a new iterator each time; ``share_out`` distributes its batches."""
    samples, dataset = make_samples(workload, pipeline, batch)
    batches = make_dataset(dataset, samples, pipeline, batch, target.threads or quota_cores())
    batches = batches if share_out is None else share_out(batches)
    tuned = "auto" in (pipeline.prefetch, pipeline.parallel_calls)
    warmup_ms = AUTOTUNE_WARMUP_MS if tuned else WARMUP_MS
    return Feed(lambda: iter(batches), -(-samples // batch) if pipeline.cache else 0, warmup_ms)


def _iterate(batches: list[tuple[Any, ...]]) -> Iterator[Any]:
    """Repeat the batches in a ``tf.data`` iterator that adds only its own cost."""
    stacked = tf.nest.map_structure(lambda *column: tf.stack(column), *batches)
    return iter(tf.data.Dataset.from_tensor_slices(stacked).cache().repeat())


def make_samples(workload: Workload, pipeline: Pipeline, batch: int) -> tuple[int, Any]:
    """Return the number of samples (0: unknown and not needed), and the samples as a ``tf.data`` pipeline."""
    if pipeline.data is not None:
        dataset = own_dataset(pipeline.data, workload, _number(pipeline.parallel_calls))
        return sample_count(pipeline.data) if pipeline.cache or pipeline.shuffle else 0, dataset
    samples = pool_size(workload, batch) * batch
    with tf.device("/CPU:0"):
        return samples, tf.data.Dataset.from_tensor_slices(make_arrays(workload, samples))


def make_dataset(dataset: Any, samples: int, pipeline: Pipeline, batch: int, threads: int | None) -> Any:
    """Return endless batches of samples: map, cache, shuffle, repeat, batch, prefetch, each if the pipeline has it."""
    if pipeline.preprocess_us or (pipeline.parallel_calls is not None and pipeline.data is None):
        work = (PythonPreprocessing if pipeline.preprocess_python else Preprocessing)(pipeline.preprocess_us)
        dataset = dataset.map(work, num_parallel_calls=_number(pipeline.parallel_calls))
    if pipeline.cache:
        dataset = dataset.cache()
    if pipeline.shuffle:
        dataset = dataset.shuffle(min(samples, MAX_SHUFFLED), seed=SEED)
    dataset = dataset.repeat().batch(batch, drop_remainder=True)
    if pipeline.prefetch:
        dataset = dataset.prefetch(_number(pipeline.prefetch))
    return dataset.with_options(_options(threads))


def _options(threads: int | None) -> Any:
    options = tf.data.Options()
    # TensorFlow adds a prefetch to a pipeline that ends without one, and makes maps parallel: off must mean off
    options.experimental_optimization.inject_prefetch = False
    options.experimental_optimization.map_parallelization = False
    if threads is not None:  # the pipeline is limited to the target's threads, too
        options.threading.private_threadpool_size = threads
        options.autotune.cpu_budget = threads
    return options


def _number(value: int | str | None) -> Any:
    return tf.data.AUTOTUNE if value == "auto" else value


class Preprocessing:
    """Real arithmetic of a given cost per sample, run in the map function; the sample itself passes unchanged.

    ``microseconds`` are converted to iterations of a loop over :data:`CHUNK` values, whose cost is measured first. The
    minimum is one iteration (some 30 µs with the loop's fixed cost), the resolution about 6 µs.
    """

    def __init__(self, microseconds: float) -> None:
        self.iterations = 0
        if microseconds:
            fixed_us, each_us = work_cost_us()
            self.iterations = max(1, round((microseconds - fixed_us) / each_us))
        self._count = tf.constant(self.iterations)

    def __call__(self, *sample: Any) -> tuple[Any, ...]:
        if not self.iterations:
            return sample
        x, *rest = sample
        value = self._worked(tf.cast(tf.reshape(x, [-1])[0], tf.float32))
        # adds zero times the value to the sample, so that no optimiser can drop the work
        return (x + tf.cast(0.0 * value, x.dtype), *rest)

    def _worked(self, start: Any) -> Any:
        return _work(start, self._count)


class PythonPreprocessing(Preprocessing):
    """:class:`Preprocessing` in Python, through ``tf.numpy_function``.

    It holds the GIL, so that calls never run in parallel, whatever the number allowed.
    """

    def __init__(self, microseconds: float) -> None:
        self.iterations = round(microseconds / python_loop_us()) if microseconds else 0

    def _worked(self, start: Any) -> Any:
        value = tf.numpy_function(self._run, [start], tf.float32, stateful=False)
        value.set_shape([])
        return value

    def _run(self, start: Any) -> Any:
        return np.float32(_python_work(float(start), self.iterations))


def _python_work(value: float, loops: int) -> float:
    for _ in range(loops):
        value = 0.5 * value + 0.25
    return value


def python_loop_us() -> float:
    """Return the cost of one iteration of the Python loop, in µs."""
    return _best_us(lambda: _python_work(0.1, PYTHON_LOOPS)) / PYTHON_LOOPS


def _best_us(work: Callable[[], Any]) -> float:
    """Return the µs that ``work`` takes, best of five."""
    took_ns = []
    for _ in range(5):
        begin = time.perf_counter_ns()
        work()
        took_ns.append(time.perf_counter_ns() - begin)
    return min(took_ns) * 1e-3


def _work(start: Any, iterations: Any) -> Any:
    values = tf.fill([CHUNK], tf.clip_by_value(start, -1.0, 1.0))
    _, values = tf.while_loop(
        lambda i, _: i < iterations,
        lambda i, v: (i + 1, tf.sin(v) * 0.5 + 0.25),
        (tf.constant(0), values),
        parallel_iterations=1,
    )
    return tf.reduce_sum(values)


def work_cost_us() -> tuple[float, float]:
    """Return the preprocessing's fixed cost per sample and cost per iteration, in µs, measured in a map.

    It runs on a single thread of its own, so that neighbours on other cores disturb it least.
    """
    long, short = CALIBRATION_ITERATIONS, CALIBRATION_ITERATIONS // 10
    slow, fast = _sample_us(long), _sample_us(short)
    each = max(0.1, (slow - fast) / (long - short))
    return max(0.0, fast - short * each), each


def _sample_us(iterations: int) -> float:
    """Return the µs per sample of a map with that many ``iterations``, best of five batches."""
    count = tf.constant(iterations)  # an input of the map function, so that nothing is constant-folded
    numbers = tf.data.Dataset.range(10_000).map(lambda i: _work(tf.cast(i, tf.float32) * 1e-4, count))
    drawn = iter(numbers.batch(CALIBRATION_BATCH).with_options(_options(1)))
    next(drawn)
    return _best_us(lambda: next(drawn)) / CALIBRATION_BATCH
