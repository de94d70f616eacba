"""Kernels counted from a description against the operations of the graph that TensorFlow traces."""

import numpy as np
import pytest

from core.hardware.work import ops_of
from core.workload.spec import Target, Workload
from simulated.hardware import GPU

pytestmark = pytest.mark.tensorflow

# operations that launch nothing: constants, shapes, and views of the same values
FREE = {
    *("Const", "Placeholder", "NoOp", "Identity", "IdentityN", "ReadVariableOp", "StopGradient", "PreventGradient"),
    *("Shape", "ShapeN", "StridedSlice", "Pack", "Reshape", "ExpandDims", "Squeeze", "BroadcastGradientArgs"),
    *("Range", "Prod", "Fill", "DynamicStitch", "Size"),
}


def traced(workload: Workload) -> int:
    """Count the operations of one step that compute something."""
    import tensorflow as tf

    from core.worker.tensorflow.model import build_model

    network = workload.network
    model = build_model(workload, Target())
    x = tf.constant(np.zeros((4, *network.input_shape), "float32" if network.vocabulary is None else "int32"))
    y = tf.constant(np.zeros((4, *network.label_shape), "int64"))
    step = (lambda: model.train_step((x, y))) if workload.training else (lambda: model(x, training=False))
    graph = tf.function(step).get_concrete_function().graph
    return sum(operation.type not in FREE for operation in graph.get_operations())


@pytest.mark.parametrize(
    ("network", "mode", "optimizer", "slack"),
    [
        ("784-64-64-10", "train", "sgd", 0.0),
        ("784-64-64-10", "train", "momentum", 0.0),
        ("784-64-64-10", "train", "adam", 0.0),
        ("784-64-64-10", "infer", "sgd", 0.0),
        ("cnn-32x32x3-16x3-k3-bn-max-10", "train", "sgd", 0.06),
        ("transformer-64x1-h2-s16-f4-v100-2", "train", "sgd", 0.06),
    ],
)
def test_kernels_are_the_graphs_operations(network: str, mode: str, optimizer: str, slack: float) -> None:
    workload = Workload(network=network, mode=mode, optimizer=optimizer)
    counted = sum(op.kernels for op in ops_of(workload, GPU, 4))
    assert counted == pytest.approx(traced(workload), rel=slack)
