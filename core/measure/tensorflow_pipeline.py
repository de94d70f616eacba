"""How a batch reaches the step on TensorFlow: resident tensors, host arrays, or a tf.data pipeline."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from core.spec import Pipeline, Target, Workload

SEED = 20_160
POOL_BYTES = 64 * 2**20  # host batches kept to choose from: as many as fit in here, within these two bounds
MIN_POOL, MAX_POOL = 2, 8
CHUNK = 512  # values that one iteration of the preprocessing loop works on; small enough to stay in the first cache
CALIBRATION_ITERATIONS = 40
CALIBRATION_BATCH = 32


@dataclass(frozen=True)
class Feed:
    """What a step draws from. ``epoch_steps`` steps must run before a cache is filled (0: there is none)."""

    iterator: Iterator[Any]
    epoch_steps: int = 0


def make_arrays(workload: Workload, samples: int) -> tuple[np.ndarray, ...]:
    """Seeded random inputs (samples, *input_shape) float32 and, for training, labels (samples,) or (samples, 1)."""
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((samples, *workload.network.input_shape), dtype=np.float32)
    if not workload.training:
        return (x,)
    classes = workload.network.classes
    if classes == 1:
        return x, rng.integers(0, 2, (samples, 1)).astype(np.float32)
    return x, rng.integers(0, classes, samples)  # int64, which TensorFlow keeps on a GPU (int32 goes to the host)


def pool_size(workload: Workload, batch: int) -> int:
    """Number of different batches that a host or tf.data feed holds."""
    batch_bytes = 4 * batch * int(np.prod(workload.network.input_shape))
    return min(MAX_POOL, max(MIN_POOL, POOL_BYTES // batch_bytes))


def make_feed(workload: Workload, target: Target, pipeline: Pipeline, batch: int, device: str) -> Feed:
    """Feed of batches (x, y) for training or (x,) for inference; ``device`` is TensorFlow's name of the target."""
    if pipeline.kind == "resident":
        with tf.device(device):
            tensors = tuple(tf.identity(tf.constant(array)) for array in make_arrays(workload, batch))
        return Feed(itertools.repeat(tensors))
    count = pool_size(workload, batch)
    arrays = make_arrays(workload, count * batch)
    if pipeline.kind == "host":
        batches = [tuple(a[i * batch : (i + 1) * batch] for a in arrays) for i in range(count)]
        return Feed(itertools.cycle(batches))
    iterator = iter(make_dataset(arrays, pipeline, batch, target.threads))
    next(iterator)  # the pipeline's own functions are set up now, not within the step's first call
    return Feed(iterator, epoch_steps=count if pipeline.cache else 0)


def make_dataset(arrays: tuple[np.ndarray, ...], pipeline: Pipeline, batch: int, threads: int | None) -> Any:
    """Endless tf.data pipeline: map, cache, shuffle, repeat, batch, prefetch, each only where it is asked for."""
    with tf.device("/CPU:0"):
        dataset = tf.data.Dataset.from_tensor_slices(arrays)
    if pipeline.preprocess_us or pipeline.parallel_calls is not None:
        work = Preprocessing(pipeline.preprocess_us)
        dataset = dataset.map(work, num_parallel_calls=_number(pipeline.parallel_calls))
    if pipeline.cache:
        dataset = dataset.cache()
    if pipeline.shuffle:
        dataset = dataset.shuffle(len(arrays[0]), seed=SEED)
    dataset = dataset.repeat().batch(batch, drop_remainder=True)
    if pipeline.prefetch:
        dataset = dataset.prefetch(_number(pipeline.prefetch))
    return dataset.with_options(_options(threads))


def _options(threads: int | None) -> Any:
    options = tf.data.Options()
    # TensorFlow adds a prefetch to a pipeline that ends without one, and makes maps parallel: off must be off
    options.experimental_optimization.inject_prefetch = False
    options.experimental_optimization.map_parallelization = False
    if threads is not None:  # the target's threads are all that the pipeline may use, too
        options.threading.private_threadpool_size = threads
        options.autotune.cpu_budget = threads
    return options


def _number(value: int | str | None) -> Any:
    return tf.data.AUTOTUNE if value == "auto" else value


class Preprocessing:
    """Real arithmetic of a given cost a sample, run in the map function; the sample itself passes unchanged.

    ``microseconds`` are turned into iterations of a loop over :data:`CHUNK` values, whose cost is measured first.
    One iteration is the least (some 30 µs with the loop's fixed cost), and the finest step (about 6 µs).
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
        start = tf.reshape(x, [-1])[0]
        # the sum enters the sample times zero, so that no optimiser can drop the work
        return (x + 0.0 * _work(start, self._count), *rest)


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
    """Fixed cost a sample and cost an iteration of the preprocessing, µs, measured where it runs: in a map.

    One thread of its own runs it, so that neighbours on other cores disturb it least.
    """
    long, short = CALIBRATION_ITERATIONS, CALIBRATION_ITERATIONS // 10
    slow, fast = _sample_us(long), _sample_us(short)
    each = max(0.1, (slow - fast) / (long - short))
    return max(0.0, fast - short * each), each


def _sample_us(iterations: int) -> float:
    """Time a sample in a map that works ``iterations`` times, best of five batches."""
    count = tf.constant(iterations)  # an input of the map function, so that nothing is computed in advance
    numbers = tf.data.Dataset.range(10_000).map(lambda i: _work(tf.cast(i, tf.float32) * 1e-4, count))
    drawn = iter(numbers.batch(CALIBRATION_BATCH).with_options(_options(1)))
    next(drawn)
    took_us = []
    for _ in range(5):
        begin = time.perf_counter_ns()
        next(drawn)
        took_us.append((time.perf_counter_ns() - begin) * 1e-3)
    return min(took_us) / CALIBRATION_BATCH
