"""The placement of a step: real graphs on the CPU, and made-up placements of a GPU that does not exist.

TensorFlow runs in its own process, since no other test may find it in pytest's.
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
from core.worker.tensorflow.placement import Placed, verify
from core.worker.tensorflow.devices import profiled_devices
from core.worker.tensorflow.engine import trace_steps
from core.worker.tensorflow.engine import start
from core.workload.spec import Pipeline, Target, Workload

engine, _ = start(Hello(target=Target()))
workload = Workload(network="256-256-10")
engine.prepare(Prepare(workload=workload, pipeline=Pipeline(kind="tfdata"), batch=64, warmup_ms=100))
cell = engine._cells[64, 0]
with cell.step.fed():
    sessions, start_profiler = [], tf.profiler.experimental.start
    tf.profiler.experimental.start = lambda folder, options=None: sessions.append(folder) or start_profiler(
        folder, options)
    found = trace_steps(cell.step, 3, None, ("CPU",))
    trace_steps(cell.step, 3, None, ("CPU",))
    try:
        trace_steps(cell.step, 3, None, ("GPU:0",))
    except CellFailed as failure:
        no_gpu = failure.reason
named = [operation(kernel.name) for kernel in found["device"].top]
seen = {"sessions": [bool(folder) for folder in sessions], "no GPU": no_gpu, "steps": len(found["device"].steps)}
seen |= {"nodes": sorted(cell.host_nodes), "traced": sorted({name for name, _ in filter(None, named)}), "said": {}}

shown = tf.config.get_visible_devices
tf.config.get_visible_devices = lambda kind: [Fake(name=f"/physical_device:{kind}:1")]
seen["profiled"] = [profiled_devices(False), profiled_devices(True)]
tf.config.get_visible_devices = shown

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
        return list(verify(model(variables), [output(out)], placed, ("GPU:0",), xla).host_ops)
    except CellFailed as failure:
        return f"{failure.outcome}: {failure.reason}"
def summary(counts, *layers, device="GPU:0", xla=False):
    where = GPU if device == "GPU:0" else CPU
    return verify(model(where, *layers), [output(where)], Placed(Counter(counts)), (device,), xla).summary
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
    """Check that operations placed on the host have the same names in a trace."""
    assert len(seen["traced"]) > 3
    assert set(seen["traced"]) <= set(seen["nodes"])


def test_the_profiler_is_loaded_once_a_process_before_its_first_trace(seen):
    assert seen["sessions"] == [False, True, True, True]
    assert seen["steps"] == 3


def test_a_trace_names_a_gpu_by_its_place_among_all_and_not_as_the_only_visible_one(seen):
    assert seen["profiled"] == [["CPU"], ["GPU:1"]]


def test_steps_of_the_cpu_are_no_trace_of_a_gpu(seen):
    assert "kernel of GPU:0" in seen["no GPU"]
    assert "libcupti" in seen["no GPU"]


TWO_DEVICES = """
import json
from types import SimpleNamespace as Fake
import tensorflow as tf
from core.worker.protocol import CellFailed
from core.worker.tensorflow.placement import verify, watch_eager_step, watch_first_step

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
compiled = tf.function(lambda x: tf.tanh(x) + x)
there = "/job:localhost/replica:0/task:0/device:CPU:1"
model = Fake(variables=[Fake(shape=(3, 4), value=Fake(device=there))])

def step():
    with tf.device("CPU:0"):
        compiled(tf.ones((3, 3)))
    tf.test.experimental.sync_devices()
    return Fake(backing_device=there, dtype=tf.float32)

seen = {}
for name, watch in {"graph": watch_first_step, "eager": watch_eager_step}.items():
    output, placed = watch(step)
    seen[name] = {"operations": sorted(f"{where} {op}" for where, op in placed.counts),
                  "waits": "SyncDevice" in placed.host_nodes}
    try:
        seen[name]["said"] = str(verify(model, [output], placed, ("CPU:1",), False))
    except CellFailed as failure:
        seen[name]["said"] = f"{failure.outcome}: {failure.reason}"
print(json.dumps(seen))
"""


def test_waiting_for_the_devices_is_no_operation_of_the_step():
    """Run a real step on one of two devices: the other one, for which the block waits too, has run nothing."""
    seen = answered("-c", TWO_DEVICES)
    assert seen["graph"]["operations"] == ["CPU:0 AddV2", "CPU:0 Fill", "CPU:0 Tanh"]
    for watched in seen.values():
        assert not watched["waits"]
        assert not any("SyncDevice" in operation for operation in watched["operations"])
        assert watched["said"].startswith("misplaced:")
        assert watched["said"].endswith("CPU:1.")


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
