"""What a step draws from, and the arrays behind it, whatever the framework."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.spec import Workload

SEED = 20_160
POOL_BYTES = 64 * 2**20  # host batches kept to choose from: as many as fit in here, within these two bounds
MIN_POOL, MAX_POOL = 2, 8


@dataclass(frozen=True)
class Feed:
    """What a step draws from. ``epoch_steps`` steps must run before a cache is filled (0: there is none).

    ``open`` gives the iterator to draw from now. A ``tf.data`` pipeline gives a new one, which must run for
    ``warmup_ms`` before it is timed and be dropped afterwards: one that is kept goes on working while other cells are
    measured, and hands out what it prepared then for nothing.
    """

    open: Callable[[], Iterator[Any]]
    epoch_steps: int = 0
    warmup_ms: float = 0.0


def kept(iterator: Iterator[Any]) -> Feed:
    """A feed that does nothing while nobody draws from it, so that its iterator can stay."""
    return Feed(lambda: iterator)


def host_feed(workload: Workload, batch: int) -> Feed:
    """NumPy batches, handed over in every step: a few different ones in turn."""
    return kept(itertools.cycle(host_batches(workload, batch)))


def host_batches(workload: Workload, batch: int) -> list[tuple[np.ndarray, ...]]:
    count = pool_size(workload, batch)
    arrays = make_arrays(workload, count * batch)
    return [tuple(a[i * batch : (i + 1) * batch] for a in arrays) for i in range(count)]


def make_arrays(workload: Workload, samples: int) -> tuple[np.ndarray, ...]:
    """Seeded random samples (samples, *input_shape) and, for training, labels (samples, *label_shape).

    Samples are float32, or int64 token ids below the network's vocabulary. Labels are int64 class numbers; for one
    class float32 zeros and ones, with a last axis of length 1.
    """
    rng = np.random.default_rng(SEED)
    network = workload.network
    shape = (samples, *network.input_shape)
    # whole numbers are int64 throughout, which TensorFlow keeps on a GPU (int32 goes to the host)
    tokens = network.vocabulary
    x = rng.standard_normal(shape, dtype=np.float32) if tokens is None else rng.integers(0, tokens, shape)
    if not workload.training:
        return (x,)
    labels = (samples, *network.label_shape)
    if network.classes == 1:
        return x, rng.integers(0, 2, (*labels, 1)).astype(np.float32)
    return x, rng.integers(0, network.classes, labels)


def pool_size(workload: Workload, batch: int) -> int:
    """Number of different batches that a host or tf.data feed holds."""
    value_bytes = 4 if workload.network.vocabulary is None else 8
    batch_bytes = value_bytes * batch * math.prod(workload.network.input_shape)
    return min(MAX_POOL, max(MIN_POOL, POOL_BYTES // batch_bytes))
