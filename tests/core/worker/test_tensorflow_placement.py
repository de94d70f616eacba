"""Where a step ran: real graphs on the CPU, and made-up placements of a GPU that is not there.

TensorFlow runs in a process of its own, since no other test may find it in pytest's.
"""

import pytest

from tests.support.framework import answered

pytestmark = pytest.mark.tensorflow

SCRIPT = """
import json, sys
from collections import Counter
from types import SimpleNamespace as Fake
import keras
import tensorflow as tf
from core.traces.trace_names import operation
from core.worker.protocol import CellFailed, Hello, Prepare
from core.worker.tensorflow_placement import Placed, verify
from core.worker.tensorflow_trace import trace_steps
from core.worker.tensorflow_worker import start
from core.spec import Pipeline, Target, Workload

engine, _ = start(Hello(target=Target()))
workload = Workload(network="256-256-10")
engine.prepare(Prepare(workload=workload, pipeline=Pipeline(kind="tfdata"), batch=64, warmup_ms=100))
cell = engine._cells[64, 0]
with cell.step.fed():
    found = trace_steps(cell.step, 3, None)
named = [operation(kernel.name) for kernel in found["device"].top]
seen = {"nodes": sorted(cell.host_nodes), "traced": sorted({name for name, _ in filter(None, named)}), "said": {}}

GPU, CPU = (f"/job:localhost/replica:0/task:0/device:{name}:0" for name in ("GPU", "CPU"))
def output(device):
    return Fake(backing_device=device, dtype=tf.float32)
def model(device, *layers):
    variables = [Fake(shape=(3, 4), value=Fake(device=device)), Fake(shape=(), value=Fake(device=CPU))]
    inside = lambda include_self: [inner for layer in layers for inner in layer._flatten_layers()]
    return Fake(variables=variables, _flatten_layers=inside)
def said(variables, out, counts, xla=False, nodes=()):
    try:
        placed = Placed(Counter(counts), frozenset(nodes))
        return list(verify(model(variables), [output(out)], placed, "GPU:0", xla).host_ops)
    except CellFailed as failure:
        return f"{failure.outcome}: {failure.reason}"
def summary(counts, *layers, device="GPU:0", xla=False):
    where = GPU if device == "GPU:0" else CPU
    return verify(model(where, *layers), [output(where)], Placed(Counter(counts)), device, xla).summary
there = {("GPU:0", "MatMul"): 3, ("CPU:0", "Cast"): 1}
seen["said"] = {
    "good": said(GPU, GPU, there),
    "variables": said(CPU, GPU, there),
    "outputs": said(GPU, CPU, there),
    "heavy": said(GPU, GPU, {("GPU:0", "Relu"): 1, ("CPU:0", "MatMul"): 1}),
    "nothing": said(GPU, GPU, {("CPU:0", "Cast"): 1}),
    "xla": said(GPU, GPU, {}, xla=True),
}
lstm, gru, dense = keras.layers.LSTM(2), keras.layers.GRU(2), keras.layers.Dense(2)
both = keras.layers.Bidirectional(keras.layers.LSTM(2))
cudnn = {("GPU:0", "CudnnRNNV3"): 2, ("GPU:0", "CudnnRNNBackpropV3"): 2, ("GPU:0", "MatMul"): 1}
seen["recurrent"] = {
    "cudnn": summary(cudnn, lstm, dense, gru),
    "both ways": summary(cudnn, both),
    "loop": summary(there, lstm),
    "none": summary(there, dense),
    "compiled": summary({}, lstm, xla=True),
    "cpu": summary({("CPU:0", "MatMul"): 3}, lstm, device="CPU:0"),
}
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def seen():
    return answered("-c", SCRIPT)


def test_the_graphs_name_the_operations_that_a_trace_shows(seen):
    """What the graphs placed on the host is found again in a trace by the same names."""
    assert len(seen["traced"]) > 3
    assert set(seen["traced"]) <= set(seen["nodes"])


def test_a_step_that_was_on_the_gpu_lists_what_fell_back(seen):
    assert seen["said"]["good"] == ["Cast"]
    assert seen["said"]["xla"] == []


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("cudnn", ["GPU:0 (2 recurrent layers ran by 2 CudnnRNNBackpropV3, 2 CudnnRNNV3)"]),
        ("both ways", ["GPU:0 (2 recurrent layers ran by 2 CudnnRNNBackpropV3, 2 CudnnRNNV3)"]),
        ("loop", ["GPU:0 (1 recurrent layer ran by no kernel of cuDNN, but Keras's own loop)"]),
        ("compiled", ["GPU:0 (1 recurrent layer ran by no kernel of cuDNN, but Keras's own loop)"]),
        ("none", []),
        ("cpu", []),
    ],
)
def test_recurrent_layers_on_a_gpu_are_reported_to_have_run_by_cudnn_or_not(seen, what, says):
    assert [text for text in seen["recurrent"][what] if "recurrent" in text] == says


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("variables", "Variables of the network lie on CPU:0"),
        ("outputs", "outputs lie on CPU:0"),
        ("heavy", "MatMul ran on another device"),
        ("nothing", "No operation of the step ran on GPU:0"),
    ],
)
def test_a_step_that_silently_ran_elsewhere_is_misplaced(seen, what, words):
    assert seen["said"][what].startswith("misplaced: ")
    assert words in seen["said"][what]
