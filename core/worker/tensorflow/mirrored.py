"""Batches for several devices in equal shares, and proof that every device gets its share.

If the model was created in the scope of TensorFlow's MirroredStrategy, Keras's own train and predict functions run the
step on every device at once: each computes the gradients of its share, an all-reduce sums them, and every device
updates its own copy of the weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from core.spec import Pipeline, Target, Workload
from core.worker import shares
from core.worker.feeds import Feed, kept, make_arrays, pool_size
from core.worker.tensorflow.devices import Devices
from core.worker.tensorflow.pipeline import WARMUP_MS, dataset_feed
from core.worker.tensorflow.placement import short_name


def shared_feed(workload: Workload, target: Target, pipeline: Pipeline, batch: int, devices: Devices) -> Feed:
    """Return a feed of whole batches, each distributed over the devices.

    Resident ones stay on them. Host arrays and a ``tf.data`` pipeline come through the strategy's distributed dataset,
    as in ``fit``, which copies the next shares to the devices while a step runs.
    """
    if pipeline.kind == "resident":
        return kept(itertools.repeat(_resident(workload, batch, devices)))
    share_out = devices.strategy.experimental_distribute_dataset
    if pipeline.kind == "tfdata":
        return dataset_feed(workload, target, pipeline, batch, share_out)
    with tf.device("/CPU:0"):
        samples = tf.data.Dataset.from_tensor_slices(make_arrays(workload, pool_size(workload, batch) * batch))
    shared = share_out(samples.batch(batch, drop_remainder=True).cache().repeat())
    return Feed(lambda: iter(shared), pool_size(workload, batch), WARMUP_MS)


def _resident(workload: Workload, batch: int, devices: Devices) -> tuple[Any, ...]:
    share = batch // len(devices.names)

    def put(array: Any) -> Any:
        def part(replica: int) -> Any:
            with tf.device(devices.names[replica]):
                return tf.identity(tf.constant(array[replica * share : (replica + 1) * share]))

        return devices.strategy.experimental_distribute_values_from_function(
            lambda context: part(context.replica_id_in_sync_group)
        )

    return tuple(put(array) for array in make_arrays(workload, batch))


def check_shares(drawn: Iterator[Any], devices: Devices) -> None:
    """Draw a batch. Raises CellFailed unless every device holds an equal share of it."""
    for column in _columns(next(drawn)):
        parts = devices.strategy.experimental_local_results(column)
        sizes = [int(part.shape[0]) for part in parts]
        shares.check_sizes(sizes, sum(sizes), devices.names)
        if parts[0].dtype.is_floating:
            shares.check_lying([short_name(part.backing_device) for part in parts], devices.names)


def check_copies(model: Any, devices: Devices) -> None:
    """Check after a training step. Raises CellFailed unless the devices' copies of the network agree."""
    for variable in shares.compared(model.trainable_variables):
        shares.check_copies(variable.path, [part.numpy() for part in variable.value.values], devices.names)


def _columns(batch: Any) -> Iterable[Any]:
    return batch if isinstance(batch, tuple) else (batch,)
