"""Actual placement of a step on TensorFlow, read from the executed graphs, the variables and the outputs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import op_callbacks

from core.worker import shares
from core.worker.cells import Placement
from core.worker.feeds import Feed, each, kept, make_arrays, pool_size
from core.worker.protocol import CellFailed
from core.worker.tensorflow.devices import Devices
from core.worker.tensorflow.pipeline import WARMUP_MS, dataset_feed
from core.workload.names import all_of
from core.workload.spec import Pipeline, Target, Workload

# Moving, naming and counting: no arithmetic on samples, and on the host by design for every target
BOOKKEEPING = frozenset({
    "_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "Const", "NoOp", "Identity", "IdentityN", "VarHandleOp",
    "ReadVariableOp", "IteratorGetNext", "IteratorGetNextAsOptional", "IteratorV2", "MakeIterator",
    "AnonymousIteratorV3", "OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone", "_Send",
    "_Recv", "_HostSend", "_HostRecv", "PartitionedCall", "StatefulPartitionedCall", "Shape", "ShapeN", "Size",
    "Rank", "Placeholder", "If", "StatelessIf", "Switch", "Merge", "_EagerConst",
})  # fmt: skip
# A block waits for the devices by this operation, which runs on each of them: counting it would hide idle devices
WAITING = "SyncDevice"
# Operations that hold a network's arithmetic; one of them on the host means that a GPU target was not measured
HEAVY = ("MatMul", "Conv", "Einsum", "RNN", "Attention")
CUDNN = "CudnnRNN"


@dataclass(frozen=True)
class Placed:
    """Counts of each placed (device, operation type), and the names of operations on the host."""

    counts: Counter[tuple[str, str]]
    host_nodes: frozenset[str] = frozenset()


def watch_first_step(step: Callable[[], Any]) -> tuple[Any, Placed]:
    """Run a compiled step for the first time; return its result and the placement of its operations.

    TensorFlow returns the graphs that it partitions over devices while run metadata are collected. A cluster compiled
    by XLA is one program on one device and shows no operations here; its outputs show the device.
    """
    ctx = context.context()
    ctx.enable_run_metadata()
    try:
        result = step()
        metadata = ctx.export_run_metadata()
    finally:
        ctx.disable_run_metadata()
    graphs = (graph for function in metadata.function_graphs for graph in function.partition_graphs)
    nodes = [node for graph in graphs for node in graph.node if node.op != WAITING]
    placed = Counter(
        (short_name(node.device), node.op)
        for node in nodes
        if node.op not in BOOKKEEPING and not node.op.endswith(("Dataset", "DatasetV2", "DatasetV3"))
    )
    return result, Placed(placed, frozenset(n.name for n in nodes if short_name(n.device).startswith("CPU")))


def watch_eager_step(step: Callable[[], Any]) -> tuple[Any, Placed]:
    """Run one step operation by operation; each operation's device is that of its outputs."""
    placed: Counter[tuple[str, str]] = Counter()

    def note(op_type: Any, _inputs: Any, _attrs: Any, outputs: Any, _name: Any = None, _graph: Any = None) -> None:
        name = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        devices = {short_name(output.backing_device) for output in outputs if hasattr(output, "backing_device")}
        if name not in BOOKKEEPING and name != WAITING:
            placed.update((device, name) for device in devices)

    op_callbacks.add_op_callback(note)
    try:
        return step(), Placed(placed)
    finally:
        op_callbacks.remove_op_callback(note)


def verify(model: Any, outputs: Any, placed: Placed, devices: tuple[str, ...], xla: bool) -> Placement:
    """Return the placement of a step that belongs on ``devices`` (CPU:0, or GPU:0 and GPU:1).

    Each of several devices must hold a copy of every variable and run the network's arithmetic; Keras joins their
    outputs on any device. NumPy outputs have left the device. Raises CellFailed ``misplaced`` otherwise.
    """
    words = all_of(devices)
    lying = {_devices_of(variable.value) for variable in model.variables if len(variable.shape) >= 1} - {devices}
    if lying:
        strays = " or ".join(sorted(map(all_of, lying)))
        raise CellFailed("misplaced", f"Variables of the network lie on {strays}, not on {words}.")
    tensors = [output for output in tf.nest.flatten(outputs) if hasattr(output, "backing_device")]
    lie_on = {short_name(t.backing_device) for t in tensors if t.dtype.is_floating}
    if len(devices) == 1 and tensors and lie_on != {*devices}:
        raise CellFailed("misplaced", f"The step's outputs lie on {', '.join(sorted(lie_on))}, not on {words}.")
    elsewhere = Counter({op: n for (where, op), n in placed.counts.items() if where not in devices})
    if heavy := sorted(op for op in elsewhere if _heavy(op)):
        raise CellFailed("misplaced", f"{', '.join(heavy)} ran on another device than {words}.")
    counts: Counter[str] = Counter()
    for (where, _), number in placed.counts.items():
        counts[where] += number
    _check_none_idle(placed, counts, devices, xla)
    summary = [f"{where} ({number} operations)" for where, number in sorted(counts.items())]
    if xla:
        summary.insert(0, f"{words} (program compiled by XLA)")
    if words.startswith("GPU"):
        summary += [line for device in devices for line in _recurrent(model, placed, device)]
    return Placement(tuple(summary), tuple(sorted(elsewhere)), placed.host_nodes)


def _check_none_idle(placed: Placed, counts: Counter[str], devices: tuple[str, ...], xla: bool) -> None:
    """Raise CellFailed ``misplaced`` if a device ran nothing, or none of the arithmetic that another one ran."""
    if idle := [device for device in devices if not xla and not counts[device]]:
        raise CellFailed("misplaced", f"No operation of the step ran on {all_of(idle)}.")
    at_work = {where for where, op in placed.counts if _heavy(op)}
    if at_work and (idle := [device for device in devices if device not in at_work]):
        raise CellFailed(
            "misplaced", f"{all_of(sorted(at_work))} computed the whole step; nothing of the network ran on {idle[0]}."
        )


def _heavy(op: str) -> bool:
    return any(name in op for name in HEAVY)


def _devices_of(value: Any) -> tuple[str, ...]:
    """Return the devices of a variable and all its copies."""
    parts = value.values if isinstance(value, tf.distribute.DistributedValues) else (value,)
    return tuple(short_name(part.device) for part in parts)


def _recurrent(model: Any, placed: Placed, device: str) -> list[str]:
    """Return a line on cuDNN's kernels among the operations, if the network has recurrent layers."""
    layers = sum(isinstance(layer, keras.layers.RNN) for layer in model._flatten_layers(include_self=False))
    if not layers:
        return []
    kernels = {op: n for (where, op), n in sorted(placed.counts.items()) if where == device and op.startswith(CUDNN)}
    ran = ", ".join(f"{n} {op}" for op, n in kernels.items()) or "no kernel of cuDNN, but Keras's own loop"
    return [f"{device} ({layers} recurrent layer{'s' if layers > 1 else ''} ran by {ran})"]


def short_name(device: str) -> str:
    """Return ``GPU:0`` for ``/job:localhost/replica:0/task:0/device:GPU:0``."""
    return device.rpartition("device:")[2]


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

    return each(put, make_arrays(workload, batch))


def check_shares(drawn: Iterator[Any], devices: Devices) -> None:
    """Draw a batch. Raises CellFailed unless every device holds an equal share of it."""
    for column in tf.nest.flatten(next(drawn)):
        parts = devices.strategy.experimental_local_results(column)
        sizes = [int(part.shape[0]) for part in parts]
        shares.check_sizes(sizes, sum(sizes), devices.names)
        if parts[0].dtype.is_floating:
            shares.check_lying([short_name(part.backing_device) for part in parts], devices.names)


def check_copies(model: Any, devices: Devices) -> None:
    """Check after a training step. Raises CellFailed unless the devices' copies of the network agree."""
    for variable in shares.compared(model.trainable_variables):
        shares.check_copies(variable.path, [part.numpy() for part in variable.value.values], devices.names)
