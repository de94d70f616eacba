"""Batches for several devices, which share each out evenly, and proof that every device is given its share.

Keras's own train and predict functions run the step on every device at once where the model was made in the scope of
TensorFlow's MirroredStrategy: each computes the gradients of its share, an all-reduce sums them, and every device
updates its own copy of the weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from core.spec import Pipeline, Target, Workload
from core.worker.feeds import Feed, kept, make_arrays, pool_size
from core.worker.protocol import CellFailed
from core.worker.tensorflow.devices import Devices
from core.worker.tensorflow.pipeline import WARMUP_MS, dataset_feed
from core.worker.tensorflow.placement import short_name

COMPARED = 8  # variables of which all copies are looked at: the smallest, such as biases
ALIKE = 1e-3  # of the largest value: devices of different kinds round differently


def shared_feed(workload: Workload, target: Target, pipeline: Pipeline, batch: int, devices: Devices) -> Feed:
    """Feed of whole batches, each shared out among the devices.

    Resident ones stay on them. Host arrays and a ``tf.data`` pipeline come through the strategy's distributed dataset,
    as ``fit`` has it, which copies the next shares to the devices while a step runs.
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
    """Draws a batch. Raises CellFailed where a device is not given a share of it like the others', on itself."""
    for column in _columns(next(drawn)):
        parts = devices.strategy.experimental_local_results(column)
        sizes = [int(part.shape[0]) for part in parts]
        if len(sizes) != len(devices.names) or len(set(sizes)) > 1:
            shares = " and ".join(map(str, sizes))
            raise CellFailed("error", f"{devices.words} were given {shares} samples of a batch, not as many each.")
        lie_on = tuple(short_name(part.backing_device) for part in parts)
        if lie_on != devices.names and parts[0].dtype.is_floating:
            raise CellFailed("misplaced", f"The shares of a batch lie on {', '.join(lie_on)}, not on {devices.words}.")


def check_copies(model: Any, devices: Devices) -> None:
    """After a training step. Raises CellFailed where a device's copy of the network is another one than the first's:
    then it was updated by other gradients than the sum.
    """
    variables = sorted(model.trainable_variables, key=lambda variable: math.prod(variable.shape))[:COMPARED]
    for variable in variables:
        first, *others = (part.numpy() for part in variable.value.values)
        apart = max(float(np.abs(other - first).max()) for other in others)
        if apart > ALIKE * float(np.abs(first).max()):
            raise CellFailed(
                "error",
                f"After one step {variable.path} is not the same on {devices.words}: gradients were not summed.",
            )


def _columns(batch: Any) -> Iterable[Any]:
    return batch if isinstance(batch, tuple) else (batch,)
