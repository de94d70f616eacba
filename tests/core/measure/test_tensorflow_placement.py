"""Where a step ran: real graphs on the CPU, and made-up placements of a GPU that is not there.

TensorFlow runs in a process of its own, since no other test may find it in pytest's.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.measure.process import worker_environment
from core.spec import Target

ROOT = Path(__file__).parents[3]
SCRIPT = """
import json, sys
from collections import Counter
from types import SimpleNamespace as Fake
import keras
import tensorflow as tf
from core.analysis.trace_names import operation
from core.measure.protocol import CellFailed, Hello, Prepare
from core.measure.tensorflow_placement import Placed, verify
from core.measure.tensorflow_trace import trace_steps
from core.measure.tensorflow_worker import start
from core.spec import Pipeline, Target, Workload

engine, _ = start(Hello(target=Target()))
workload = Workload(network="256-256-10")
engine.prepare(Prepare(workload=workload, pipeline=Pipeline(kind="tfdata"), batch=64, warmup_ms=100))
cell = engine._cells[64, 0]
with cell.step.fed():
    found = trace_steps(cell.step, 3, None)
named = [operation(kernel.name) for kernel in found["device"].top]
told = {"nodes": sorted(cell.host_nodes), "traced": sorted({name for name, _ in filter(None, named)}), "said": {}}

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
told["said"] = {
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
told["recurrent"] = {
    "cudnn": summary(cudnn, lstm, dense, gru),
    "both ways": summary(cudnn, both),
    "loop": summary(there, lstm),
    "none": summary(there, dense),
    "compiled": summary({}, lstm, xla=True),
    "cpu": summary({("CPU:0", "MatMul"): 3}, lstm, device="CPU:0"),
}
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=worker_environment(Target()),
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_graphs_name_the_operations_that_a_trace_shows(told):
    """What the graphs placed on the host is found again in a trace by the same names."""
    assert len(told["traced"]) > 3
    assert set(told["traced"]) <= set(told["nodes"])


def test_a_step_that_was_on_the_gpu_lists_what_fell_back(told):
    assert told["said"]["good"] == ["Cast"]
    assert told["said"]["xla"] == []


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
def test_recurrent_layers_on_a_gpu_are_told_to_have_run_by_cudnn_or_not(told, what, says):
    assert [text for text in told["recurrent"][what] if "recurrent" in text] == says


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("variables", "Variables of the network lie on CPU:0"),
        ("outputs", "outputs lie on CPU:0"),
        ("heavy", "MatMul ran on another device"),
        ("nothing", "No operation of the step ran on GPU:0"),
    ],
)
def test_a_step_that_silently_ran_elsewhere_is_misplaced(told, what, words):
    assert told["said"][what].startswith("misplaced: ")
    assert words in told["said"][what]
