"""Feeds of a step, and the arrays behind them, for any framework."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from core.base.frameworks import Padding
from core.workload.lengths import padded
from core.workload.spec import Workload

SEED = 20_160
POOL_BYTES = 64 * 2**20  # size of the pool of host batches, within these two bounds on their number
MIN_POOL, MAX_POOL = 2, 8


@dataclass(frozen=True)
class Feed:
    """The source of a step's batches.

    ``epoch_steps`` steps must run before a cache is filled (0: there is no cache). ``open`` returns the iterator to
    draw from. A ``tf.data`` pipeline returns a new one, which must run for ``warmup_ms`` before it is timed and be
    dropped afterwards: a kept one would go on prefetching while other cells are measured, and then serve those batches
    for free.
    """

    open: Callable[[], Iterator[Any]]
    epoch_steps: int = 0
    warmup_ms: float = 0.0


def kept(iterator: Iterator[Any]) -> Feed:
    """Return a feed whose iterator can be kept, because it does nothing between draws."""
    return Feed(lambda: iterator)


def host_feed(workload: Workload, batch: int, padding: Padding = "none") -> Feed:
    """Return a feed of a few different NumPy batches in turn, copied from the host in every step."""
    batches = _of_lengths(workload, batch, padding) if workload.lengths else host_batches(workload, batch)
    return kept(itertools.cycle(batches))


def _of_lengths(workload: Workload, batch: int, padding: Padding) -> list[tuple[np.ndarray, ...]]:
    """Return the batches of one pass through the workload's lengths."""
    lengths = padded(workload.lengths, padding)
    arrays = {
        length: make_arrays(Workload(network=workload.network.with_length(length), mode=workload.mode), batch)
        for length in set(lengths)
    }
    return [arrays[length] for length in lengths]


def host_batches(workload: Workload, batch: int) -> list[tuple[Any, ...]]:
    count = pool_size(workload, batch)
    arrays = make_arrays(workload, count * batch)
    return [each(itemgetter(slice(i * batch, (i + 1) * batch)), arrays) for i in range(count)]


def each(function: Callable[[Any], Any], parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what the function makes of each array of a batch; a network's several inputs are a tuple in it."""
    return tuple(each(function, part) if isinstance(part, tuple) else function(part) for part in parts)


def make_arrays(workload: Workload, samples: int) -> tuple[Any, ...]:
    """Return seeded random samples (samples, *input_shape) and, for training, labels (samples, *label_shape).

    Samples are float32, or int64 token ids below the network's vocabulary; with caches, a tuple of them and of float32
    arrays. Labels are int64 class numbers; for one class they are float32 zeros and ones with a last axis of length 1.
    """
    rng = np.random.default_rng(SEED)
    network = workload.network
    shape = (samples, *network.input_shape)
    # integers are int64 throughout, which TensorFlow keeps on a GPU (int32 goes to the host)
    tokens = network.vocabulary
    x: Any = rng.standard_normal(shape, dtype=np.float32) if tokens is None else rng.integers(0, tokens, shape)
    if network.caches:
        x = (x, *(rng.standard_normal((samples, *cache), dtype=np.float32) for cache in network.caches))
    if not workload.training:
        return (x,)
    labels = (samples, *network.label_shape)
    if network.classes == 1:
        return x, rng.integers(0, 2, (*labels, 1)).astype(np.float32)
    return x, rng.integers(0, network.classes, labels)


def pool_size(workload: Workload, batch: int) -> int:
    """Return the number of different batches that a host or tf.data feed holds."""
    value_bytes = 4 if workload.network.vocabulary is None else 8
    batch_bytes = value_bytes * batch * workload.network.sample_values
    return min(MAX_POOL, max(MIN_POOL, POOL_BYTES // batch_bytes))
