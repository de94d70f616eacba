"""Real cells under LiteRT and in Keras's own int8: fed in every way, placed, compared with float32, refused."""

from collections.abc import Iterator

import numpy as np
import pytest

from core.base.evidence import OutputDifference
from core.networks.families import network_from_name
from core.worker.process import ProcessWorker, launch_processes
from core.worker.protocol import CellFailed, Prepare, Prepared, Release, RunBlock, TimeLoop
from core.workload.spec import ONLY_WAY, Pipeline, Target, Workload
from tests.support.framework import answered

pytestmark = pytest.mark.tensorflow

WAIT_S = 120.0
FLOAT, KERAS = Target(threads=1, framework="litert"), Target(threads=1)
INT8, KERAS_INT8 = (target.model_copy(update={"precision": "int8"}) for target in (FLOAT, KERAS))
MLP = Workload(network=network_from_name("20-16-4"), mode="infer")
LSTM = Workload(network=network_from_name("lstm-4x1-5x3-2"), mode="infer")
FEEDS = [Pipeline(), Pipeline(kind="host"), Pipeline(kind="tfdata", prefetch=2)]

# One process: a resident batch stays what it is over many steps; a program of other outputs is refused; a network
# without a layer that Keras has int8 for is refused
INSIDE = """
import json
import keras
import numpy as np
from core.networks.families import network_from_name
from core.workload.spec import Pipeline, Target, Workload
from core.worker.feeds import make_arrays
from core.worker.keras.model import quantise
from core.worker.litert import engine as litert
from core.worker.protocol import CellFailed, Hello, Prepare

said = {}
workload = Workload(network=network_from_name("20-16-4"), mode="infer")
target = Target(threads=1, framework="litert")
engine, ready = litert.start(Hello(target=target))
said["threads"] = ready.threads
engine.prepare(Prepare(workload=workload, pipeline=Pipeline(), batch=8, warmup_ms=20, block_ms=5))
step = engine.cell(8, 0).step
with step.fed():
    step.run(300)
(x,) = make_arrays(workload, 8)
model = engine._models[workload, target]
said["apart"] = float(np.abs(step.last - np.asarray(model(x, training=False))).max())

int8 = target.model_copy(update={"precision": "int8"})
engine.prepare(Prepare(workload=workload, pipeline=Pipeline(), batch=8, slot=1, variant=int8, warmup_ms=20, block_ms=5))
step = engine.cell(8, 1).step
with step.fed():
    step.run(300)
said["int8_apart"] = float(np.abs(step.last - step.outputs(x)).max())

real = litert.convert
def other(model, *given):
    model.set_weights([1.5 * weights for weights in model.get_weights()])
    program = real(model, *given)
    model.set_weights([weights / 1.5 for weights in model.get_weights()])
    return program
litert.convert = other
try:
    engine.prepare(Prepare(workload=workload, pipeline=Pipeline(), batch=4))
except CellFailed as error:
    said["other"] = str(error)

inputs = keras.Input((8, 8, 3))
pixels = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3)(inputs))
bare = Workload(network=network_from_name("cnn-8x8x3-8x1-k3-max-2"), mode="infer")
try:
    quantise(keras.Model(inputs, pixels), bare)
except CellFailed as error:
    said["bare"] = str(error)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def workers() -> Iterator[tuple[ProcessWorker, ...]]:
    """Yield LiteRT and TensorFlow workers side by side; each serves int8 too."""
    pair = launch_processes((FLOAT, KERAS), WAIT_S)
    yield pair
    for worker in pair:
        worker.close()


def prepared(worker: ProcessWorker, variant: Target, workload: Workload = MLP, **more: object) -> Prepared:
    request = {"pipeline": Pipeline(), "batch": 4, "warmup_ms": 50, "block_ms": 5, **more}
    return worker.ask(Prepare(workload=workload, variant=variant, **request), WAIT_S)


def differs_a_little(found: OutputDifference | None) -> bool:
    assert found is not None
    assert found.samples >= 128
    return 0 < found.mean <= found.largest < 0.2 and found.mean < 0.02 and 0.8 <= found.agreeing <= 1


@pytest.mark.parametrize("variant", [FLOAT, INT8], ids=["float32", "int8"])
@pytest.mark.parametrize("feed", FEEDS, ids=["resident", "host", "tfdata"])
def test_a_cell_runs_in_the_interpreter(workers: tuple[ProcessWorker, ...], feed: Pipeline, variant: Target) -> None:
    ready = prepared(workers[0], variant, pipeline=feed, batch=3)
    assert (ready.execution, ready.execution_why) == ("interpreter", ONLY_WAY.format(framework="LiteRT"))
    assert ready.placement == (
        f"CPU (XNNPACK: {4 if variant is INT8 else 2} of {4 if variant is INT8 else 2} operations)",
    )
    assert ready.build_ms > ready.first_call_ms, "converting belongs to building"
    assert max(ready.latency_ms) < 50, "converting belongs to no step"
    if variant is INT8:
        assert differs_a_little(ready.output_difference)
        assert ready.output_difference.quantised == "2 of 2 operations"
    else:
        assert ready.output_difference is None
    done = workers[0].ask(RunBlock(batch=3, steps=ready.steps_per_block), WAIT_S)
    assert done.block_ms > 0
    with pytest.raises(CellFailed, match="of its own"):
        workers[0].ask(TimeLoop(batch=3, limit_ms=100), WAIT_S)
    workers[0].ask(Release(batch=3), WAIT_S)


def test_keras_own_int8_is_int8_and_says_of_which_layers(workers: tuple[ProcessWorker, ...]) -> None:
    found = prepared(workers[1], KERAS_INT8)
    assert found.execution == "graph"
    assert differs_a_little(found.output_difference)
    assert found.output_difference.quantised == "2 Dense layers"
    assert prepared(workers[1], KERAS).output_difference is None
    convolutions = Workload(network=network_from_name("cnn-8x8x3-8x1-k3-max-2"), mode="infer")
    partly = prepared(workers[1], KERAS_INT8, convolutions).output_difference
    assert partly is not None
    assert "Dense layer" in partly.quantised


def test_a_loop_runs_in_float32_and_is_refused_in_int8(workers: tuple[ProcessWorker, ...]) -> None:
    with pytest.raises(CellFailed, match="with a loop"):
        prepared(workers[0], INT8, LSTM)
    assert "LiteRT's own kernels" in prepared(workers[0], FLOAT, LSTM).placement[1]


@pytest.mark.parametrize("target", [0, 1], ids=["litert", "tensorflow"])
def test_int8_does_not_train(workers: tuple[ProcessWorker, ...], target: int) -> None:
    with pytest.raises(
        CellFailed, match="does not train" if target == 0 else "does not train" if target == 0 else "for inference"
    ):
        prepared(workers[target], (INT8, KERAS_INT8)[target], MLP.model_copy(update={"mode": "train"}))


@pytest.mark.parametrize("target", [0, 1], ids=["litert", "tensorflow"])
def test_one_thread_is_one(workers: tuple[ProcessWorker, ...], target: int) -> None:
    large = Workload(network=network_from_name("784-512-512-10"), mode="infer")
    ready = prepared(workers[target], (FLOAT, KERAS)[target], large, batch=256, block_ms=50)
    blocks = [workers[target].ask(RunBlock(batch=256, steps=ready.steps_per_block), WAIT_S) for _ in range(5)]
    assert np.median([block.cpu_ms / block.block_ms for block in blocks]) < 1.25


def test_inside_a_worker() -> None:
    said = answered("-c", INSIDE)
    assert said["threads"] == 1
    assert said["apart"] < 1e-5
    assert said["int8_apart"] == 0.0
    assert "than Keras does" in said["other"]
    assert "Dense, EinsumDense and" in said["bare"]
