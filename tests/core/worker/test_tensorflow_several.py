"""Real steps on two logical devices of the CPU: their data, their placement, and the sum of their gradients.

TensorFlow runs in its own processes, since no other test may find it in pytest's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from core.networks.families import network_from_name
from core.worker.process import ProcessWorker, launch_processes
from core.worker.protocol import CellFailed, OpenTraining, Prepare, RunBlock, TimeLoop, TraceSteps
from core.workload.spec import KERAS_ON_CPU, Pipeline, Target, Workload
from tests.support.framework import answered

pytestmark = pytest.mark.tensorflow

START_S = CELL_S = 120.0
TWO = Target.parse("cpu:2,threads=2")
TRAIN = Workload(network=network_from_name("20-16-4"), mode="train", optimizer="adam")
INFER = Workload(network=network_from_name("20-16-4"), mode="infer")
TFDATA = Pipeline(kind="tfdata", prefetch=2, parallel_calls=2, cache=True, shuffle=True, preprocess_us=20)


def cell(workload: Workload = TRAIN, batch: int = 4, pipeline: Pipeline | None = None) -> Prepare:
    return Prepare(workload=workload, batch=batch, pipeline=pipeline or Pipeline(), warmup_ms=100, block_ms=5)


@pytest.fixture(scope="module")
def two() -> Iterator[ProcessWorker]:
    (worker,) = launch_processes((TWO,), START_S)
    yield worker
    worker.close()


def test_a_worker_of_two_devices_names_both(two: ProcessWorker) -> None:
    assert (two.ready.device, two.ready.threads) == ("CPU:0, CPU:1", 2)


@pytest.mark.parametrize("workload", [TRAIN, INFER], ids=["train", "infer"])
@pytest.mark.parametrize("pipeline", [Pipeline(), Pipeline(kind="host"), TFDATA], ids=lambda p: p.kind)
def test_a_step_runs_on_both_devices_however_it_is_fed(
    two: ProcessWorker, workload: Workload, pipeline: Pipeline
) -> None:
    prepared = two.ask(cell(workload, 8, pipeline), CELL_S)
    assert [text.split()[0] for text in prepared.placement] == ["CPU:0", "CPU:1"]
    assert prepared.host_ops == ()
    assert (prepared.execution, prepared.execution_why) == ("graph", KERAS_ON_CPU)
    assert two.ask(RunBlock(batch=8, steps=prepared.steps_per_block), CELL_S).block_ms > 0


@pytest.mark.parametrize("network", ["lenet5", "lstm-4x1-5x3-2", "transformer-16x1-h2-s8-f2-v32-2"])
def test_other_networks_run_on_both_devices(two: ProcessWorker, network: str) -> None:
    prepared = two.ask(cell(Workload(network=network_from_name(network), optimizer="momentum")), CELL_S)
    assert [text.split()[0] for text in prepared.placement] == ["CPU:0", "CPU:1"]


def test_mixed_precision_runs_on_both_devices() -> None:
    (worker,) = launch_processes((Target.parse("cpu:2,precision=mixed_bfloat16"),), START_S)
    try:
        assert len(worker.ask(cell(), CELL_S).placement) == 2
    finally:
        worker.close()


@pytest.mark.parametrize("batch", [1, 5])
def test_a_batch_that_is_not_shared_out_evenly_is_refused_and_the_worker_lives_on(
    two: ProcessWorker, batch: int
) -> None:
    with pytest.raises(CellFailed, match="evenly among") as caught:
        two.ask(cell(batch=batch), CELL_S)
    assert caught.value.outcome == "error"
    assert two.ask(cell(batch=2), CELL_S).placement


def test_a_trace_tells_the_all_reduce_of_training_and_finds_none_in_inference(two: ProcessWorker) -> None:
    for workload in (TRAIN, INFER):
        two.ask(cell(workload, 16), CELL_S)
        traced = two.ask(TraceSteps(batch=16, steps=5), CELL_S)
        assert (traced.device.device, len(traced.device.steps)) == ("CPU", 5)
        shares = traced.device.all_reduce_shares
        assert len(shares) == (5 if workload.training else 0)
        assert all(0 < share < 1 for share in shares)


def test_what_is_measured_on_one_device_only_says_so(two: ProcessWorker) -> None:
    two.ask(cell(batch=16), CELL_S)
    with pytest.raises(CellFailed, match="CPU:0 and CPU:1"):
        two.ask(TimeLoop(batch=16, limit_ms=100), CELL_S)
    with pytest.raises(CellFailed, match="Real training"):
        two.ask(OpenTraining(workload=TRAIN, batch=16, learning_rate=0.01), CELL_S)


SUMMED = """
import itertools
import json
import numpy as np
import tensorflow as tf
from core.workload.spec import Pipeline, Target, Workload
from core.worker.feeds import kept, make_arrays
from core.worker.protocol import CellFailed
from core.worker.tensorflow.devices import start_devices
from core.worker.tensorflow.placement import check_copies, check_shares, shared_feed
from core.worker.tensorflow.model import CellStep, build_model

BATCH, several = 32, Target.parse("cpu:2")
devices, _ = start_devices(several, None)
workload = Workload(network="20-16-4", optimizer="sgd")

def stepped(model, feed):
    step = CellStep(model, workload, feed)
    with step.fed(warm_pipeline=False):
        step.run(1)
    return float(step.last["loss"])

def gradient(model, before):
    return np.concatenate([(old - new).ravel() for old, new in zip(before, model.get_weights())]).astype(float)

with devices.scope():
    shared = build_model(workload, several)
shared.optimizer.learning_rate.assign(1.0)
before = shared.get_weights()

def alone(part):
    '''Loss and gradient of some samples of the batch, on one device.'''
    with tf.device("CPU:0"):
        model = build_model(workload, Target())
    model.optimizer.learning_rate.assign(1.0)
    model.set_weights(before)
    arrays = tuple(tf.constant(array[part]) for array in make_arrays(workload, BATCH))
    loss = stepped(model, kept(itertools.repeat(arrays)))
    return loss, gradient(model, before)

found = {"loss": [stepped(shared, shared_feed(workload, several, Pipeline(), BATCH, devices))]}
sum_of_both = gradient(shared, before)
copies = [[part.numpy() for part in variable.value.values] for variable in shared.trainable_variables]
found["copies differ by"] = float(max(np.abs(first - second).max() for first, second in copies))
check_copies(shared, devices)
shared.trainable_variables[1].value.values[1].assign_add(tf.ones((16,)))
try:
    check_copies(shared, devices)
except CellFailed as failure:
    found["apart"] = failure.reason
half = BATCH // 2
whole, first, second = alone(slice(0, BATCH)), alone(slice(0, half)), alone(slice(half, BATCH))
found["loss"].append(whole[0])
scale = np.abs(whole[1]).max()
found["off by"] = float(np.abs(sum_of_both - whole[1]).max() / scale)
found["halves off by"] = [float(np.abs(one[1] - whole[1]).max() / scale) for one in (first, second)]

odd = devices.strategy.experimental_distribute_dataset(tf.data.Dataset.range(30).batch(3))
try:
    check_shares(iter(odd), devices)
except CellFailed as failure:
    found["uneven"] = failure.reason
on_first = devices.strategy.experimental_distribute_values_from_function(lambda _: tf.ones((2, 3)))
try:
    check_shares(iter([(on_first,)]), devices)
except CellFailed as failure:
    found["stray"] = f"{failure.outcome}: {failure.reason}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def summed() -> dict[str, Any]:
    found: dict[str, Any] = answered("-c", SUMMED)
    return found


def test_the_gradient_of_two_devices_is_that_of_one_with_the_whole_batch(summed: dict[str, Any]) -> None:
    """Compare gradients; neither half alone comes near, so without an all-reduce they would differ."""
    assert summed["off by"] < 1e-5
    assert min(summed["halves off by"]) > 0.1
    assert summed["loss"][0] == pytest.approx(summed["loss"][1], rel=1e-5)
    assert summed["copies differ by"] == 0


def test_copies_that_differ_after_a_step_are_an_error_in_words(summed: dict[str, Any]) -> None:
    assert summed["apart"].startswith("After one step ")
    assert "CPU:0 and CPU:1:" in summed["apart"]


def test_shares_that_are_not_alike_or_lie_elsewhere_are_refused(summed: dict[str, Any]) -> None:
    assert "2 and 1" in summed["uneven"]
    assert summed["stray"].startswith("misplaced:")


IDLE = """
import json
from collections import Counter
from types import SimpleNamespace as Fake
import tensorflow as tf
from core.workload.spec import Target
from core.worker.protocol import CellFailed
from core.worker.tensorflow.devices import start_devices
from core.worker.tensorflow.placement import Placed, verify

devices, _ = start_devices(Target.parse("cpu:2"), None)
with devices.scope():
    both = tf.Variable(tf.ones((3, 4)))
with tf.device("CPU:0"):
    one = tf.Variable(tf.ones((3, 4)))
output = tf.constant(1.0)

def said(variable, counts):
    model = Fake(variables=[Fake(shape=(3, 4), value=variable)])
    try:
        return list(verify(model, [output], Placed(Counter(counts)), devices.names, False).summary)
    except CellFailed as failure:
        return f"{failure.outcome}: {failure.reason}"

there = {("CPU:0", "MatMul"): 3, ("CPU:1", "MatMul"): 3, ("CPU:1", "Relu"): 1}
print(json.dumps({
    "good": said(both, there), "variable": said(one, there),
    "nothing": said(both, {("CPU:0", "MatMul"): 3}),
    "light": said(both, {("CPU:0", "MatMul"): 3, ("CPU:1", "AddV2"): 2}),
    "elsewhere": said(both, there | {("CPU:2", "MatMul"): 1}),
}))
"""


def test_a_device_that_runs_nothing_or_holds_no_copy_is_an_error_in_words() -> None:
    assert answered("-c", IDLE) == {
        "good": ["CPU:0 (3 operations)", "CPU:1 (4 operations)"],
        "variable": "misplaced: Variables of the network lie on CPU:0, not on CPU:0 and CPU:1.",
        "nothing": "misplaced: No operation of the step ran on CPU:1.",
        "light": "misplaced: CPU:0 computed the whole step; nothing of the network ran on CPU:1.",
        "elsewhere": "misplaced: MatMul ran on another device than CPU:0 and CPU:1.",
    }
