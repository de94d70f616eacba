"""Real steps of Keras on JAX on logical devices of the CPU: their data, placement, and sum of gradients.

Skipped with the reason if JAX is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from core.machine.installed import why_missing
from core.worker.process import ProcessWorker, launch_processes
from core.worker.protocol import LOOP_PAIRS, CellFailed, Prepare, RunBlock, TimeLoop, TraceSteps
from core.workload.spec import Pipeline, Target, Workload
from tests.support.framework import answered

MISSING = why_missing("jax")
pytestmark = [pytest.mark.tensorflow, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]

WAIT_S = 180.0
TWO = Target.parse("cpu:2,framework=jax")
TRAIN, INFER = Workload(network="20-16-4"), Workload(network="20-16-4", mode="infer")
TFDATA = Pipeline(kind="tfdata", prefetch=2, parallel_calls=2, cache=True, shuffle=True, preprocess_us=20)


def cell(workload: Workload = TRAIN, batch: int = 4, pipeline: Pipeline | None = None, **more: object) -> Prepare:
    fields = {"warmup_ms": 100, "block_ms": 5} | more
    return Prepare(workload=workload, batch=batch, pipeline=pipeline or Pipeline(), **fields)


@pytest.fixture(scope="module")
def two() -> Iterator[ProcessWorker]:
    (worker,) = launch_processes((TWO,), WAIT_S)
    yield worker
    worker.close()


def test_a_worker_of_two_devices_names_both(two: ProcessWorker) -> None:
    assert two.ready.device == "CPU:0, CPU:1"


@pytest.mark.parametrize("workload", [TRAIN, INFER], ids=lambda workload: workload.mode)
@pytest.mark.parametrize("pipeline", [Pipeline(), Pipeline(kind="host"), TFDATA], ids=lambda p: p.kind)
def test_a_step_runs_on_both_devices_however_it_is_fed(
    two: ProcessWorker, workload: Workload, pipeline: Pipeline
) -> None:
    prepared = two.ask(cell(workload, 8, pipeline), WAIT_S)
    exchanges = ", 1 all-reduce" if workload.training else ""
    assert prepared.placement == tuple(f"{name} (program compiled by XLA{exchanges})" for name in ("CPU:0", "CPU:1"))
    assert prepared.execution == "xla"
    assert "by default" in prepared.execution_why
    assert two.ask(RunBlock(batch=8, steps=prepared.steps_per_block), WAIT_S).block_ms > 0


@pytest.mark.parametrize("network", ["lenet5", "lstm-4x1-5x3-2", "transformer-16x1-h2-s8-f2-v32-2"])
def test_other_networks_run_on_both_devices(two: ProcessWorker, network: str) -> None:
    for workload in (Workload(network=network, optimizer="momentum"), Workload(network=network, mode="infer")):
        assert [text.split()[0] for text in two.ask(cell(workload), WAIT_S).placement] == ["CPU:0", "CPU:1"]


def test_eager_and_mixed_precision_run_on_both_devices(two: ProcessWorker) -> None:
    for option, how in (("execution=eager", "step run operation by operation"), ("precision=mixed_bfloat16", "XLA")):
        prepared = two.ask(cell(batch=2, slot=3, variant=Target.parse(f"{TWO},{option}")), WAIT_S)
        assert len(prepared.placement) == 2
        assert how in prepared.placement[1]


@pytest.mark.parametrize("batch", [1, 5])
def test_a_batch_that_is_not_shared_out_evenly_is_refused_and_the_worker_lives_on(
    two: ProcessWorker, batch: int
) -> None:
    with pytest.raises(CellFailed, match="evenly among") as caught:
        two.ask(cell(batch=batch), WAIT_S)
    assert caught.value.outcome == "error"
    assert two.ask(cell(batch=2), WAIT_S).placement


@pytest.mark.parametrize("workload", [TRAIN, INFER], ids=lambda workload: workload.mode)
def test_a_trace_tells_the_all_reduce_of_training_and_finds_none_in_inference(
    two: ProcessWorker, workload: Workload
) -> None:
    """Record a real trace; Keras's own loop runs the same steps on the data of both devices."""
    two.ask(cell(workload, 16, Pipeline(kind="host")), WAIT_S)
    traced = two.ask(TraceSteps(batch=16, steps=5), WAIT_S)
    assert (traced.device.device, len(traced.device.steps)) == ("CPU", 5)
    shares = traced.device.all_reduce_shares
    assert len(shares) == (5 if workload.training else 0)
    assert all(0 < share < 1 for share in shares)
    timed = two.ask(TimeLoop(batch=16, limit_ms=300.0), WAIT_S)
    assert len(timed.pairs) >= LOOP_PAIRS
    assert two.ask(RunBlock(batch=16, steps=2), WAIT_S).block_ms > 0, "the state came back to the step"


@pytest.mark.parametrize("target", ["cpu:2,framework=jax,threads=1", "cpu:4,framework=jax,threads=2"])
def test_devices_do_not_wait_for_each_other_for_ever_where_threads_are_few(target: str) -> None:
    """Use a pool with as many threads as devices, in which XLA's all-reduce holds those that the last device needs."""
    (worker,) = launch_processes((Target.parse(target),), WAIT_S)
    try:
        worker.ask(cell(Workload(network="784-512-10"), 64, latency_samples=2), WAIT_S)
        for _ in range(5):
            assert worker.ask(RunBlock(batch=64, steps=200), WAIT_S).block_ms > 0
    finally:
        worker.close()


SUMMED = """
import itertools, json
import jax, keras, numpy as np
from core.workload.spec import Pipeline, Target, Workload
from core.worker.feeds import kept, make_arrays
from core.worker.jax import engine as data_parallel
from core.worker.jax.devices import Devices, start_devices
from core.worker.jax.step import JaxStep, Network
from core.worker.keras.loop import call_loop
from core.worker.protocol import CellFailed

BATCH, target = 32, Target.parse("cpu:2,framework=jax")
devices = start_devices(target)
workload = Workload(network="20-16-4", optimizer="sgd")
arrays = make_arrays(workload, BATCH)
found = {}

def refused(name, call):
    try:
        call()
        found[name] = "accepted"
    except CellFailed as failure:
        found[name] = f"{failure.outcome}: {failure.reason}"

def network():
    made = Network(workload, target)
    with made.held():
        made.model.optimizer.learning_rate.assign(1.0)
        return made, [np.array(w) for w in made.model.get_weights()]

def gradient(made, before):
    with made.held():
        return np.concatenate([(old - new).ravel() for old, new in zip(before, made.model.get_weights())]).astype(float)

def stepped(part, of=devices):
    made, before = network()
    step = JaxStep(made, workload, kept(itertools.repeat(of.put(tuple(array[part] for array in arrays)))))
    with step.fed():
        _, placed = data_parallel.first_step(step, of)
    return float(step.last["loss"]), gradient(made, before), placed, made, step

both = stepped(slice(0, BATCH))
found["placed"] = both[2].summary
pieces = [[np.asarray(piece.data) for piece in value.addressable_shards] for value in both[3].state[0]]
found["copies differ by"] = float(max(np.abs(first - second).max() for first, second in pieces))

# the same batch and its halves on one device: Keras is told of one, and its weights begin alike
keras.distribution.set_distribution(None)
one = Devices(devices.chosen[:1])
def alone(part):
    made, before = network()
    step = JaxStep(made, workload, kept(itertools.repeat(one.put(tuple(array[part] for array in arrays)))))
    with step.fed():
        step.run(1)
    return float(step.last["loss"]), gradient(made, before)
whole, first, second = alone(slice(0, BATCH)), alone(slice(0, BATCH // 2)), alone(slice(BATCH // 2, BATCH))
scale = np.abs(whole[1]).max()
found["loss"] = [both[0], whole[0]]
found["off by"] = float(np.abs(both[1] - whole[1]).max() / scale)
found["halves off by"] = [float(np.abs(half[1] - whole[1]).max() / scale) for half in (first, second)]
keras.distribution.set_distribution(devices.distribution)

# what a feed could do wrong: every device has the whole batch, in the other order, or one has it all
mesh = devices.distribution.device_mesh.backend_mesh
everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
other = jax.sharding.NamedSharding(
    jax.sharding.Mesh(np.array(devices.chosen[::-1]), ("batch",)), jax.sharding.PartitionSpec("batch"))
class Fed(Devices):
    layout = None
    def put(self, batch):
        return tuple(jax.device_put(part, self.layout) for part in batch)
for name, layout in (("whole", everywhere), ("turned", other), ("first", devices.chosen[0])):
    wrong = Fed(devices.chosen, devices.distribution)
    object.__setattr__(wrong, "layout", layout)
    refused(name, lambda: stepped(slice(0, BATCH), wrong))

# what a step could do wrong: copies that differ, a network on one device, and a program that sums nothing
made, step = both[3:]
bias = made.state[0][1]
parts = [jax.device_put(np.asarray(bias) + number, device) for number, device in enumerate(devices.chosen)]
made.state[0][1] = jax.make_array_from_single_device_arrays(bias.shape, bias.sharding, parts)
class Broken(JaxStep):
    def run(self, steps):
        self.last = step.last
        return 1.0
broken = Broken(network()[0], workload, step.feed)
broken.network = made
with broken.fed():
    refused("apart", lambda: data_parallel.first_step(broken, devices))
made.state[0][1] = parts[0]
with broken.fed():
    refused("stray", lambda: data_parallel.first_step(broken, devices))
made.state[0][1] = jax.device_put(np.asarray(parts[0]), devices.distribution.get_data_layout((16,)).backend_layout)
with broken.fed():
    refused("divided", lambda: data_parallel.first_step(broken, devices))
made.state[0][1] = jax.device_put(np.asarray(parts[0]), everywhere)
summed = JaxStep.program
JaxStep.program = lambda self, batch: summed(self, batch).replace("all-reduce", "add")
with broken.fed():
    refused("not summed", lambda: data_parallel.first_step(broken, devices))
JaxStep.program = summed

# fit under the same distribution, from the same start, and in Keras's own loop around our step
def weights(made):
    with made.held():
        return np.concatenate([np.ravel(w) for w in made.model.get_weights()])
ours, _ = network()
step = JaxStep(ours, workload, kept(itertools.repeat(devices.put(arrays))))
with step.fed():
    step.run(5)
fits, _ = network()
with fits.held():
    x, y = (np.tile(array, (5, *[1] * (array.ndim - 1))) for array in arrays)
    fits.model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
found["fit off by"] = float(np.abs(weights(ours) - weights(fits)).max())
found["moved"] = float(np.abs(weights(ours) - weights(network()[0])).max())

# a state that a failed step took down with it
for leaf in jax.tree_util.tree_leaves(ours.state):
    leaf.delete()
again = JaxStep(ours, workload, step.feed)
with again.fed():
    found["again"] = data_parallel.first_step(again, devices)[1].summary
with step.fed():
    step.run(1)
    step.check_finite()

# inference whose outputs every device holds whole
asked = Workload(network="20-16-4", mode="infer")
told = JaxStep(Network(asked, target), asked, kept(itertools.repeat(devices.put(arrays[:1]))))
with told.fed():
    data_parallel.first_step(told, devices)
    run = told.run
    def gathered(steps):
        run(steps)
        told.last = jax.device_put(told.last, everywhere)
        return 1.0
    told.run = gathered
    refused("gathered", lambda: data_parallel.first_step(told, devices))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def summed() -> dict[str, Any]:
    found: dict[str, Any] = answered("-c", SUMMED, target=TWO)
    return found


def test_the_gradient_of_two_devices_is_that_of_one_with_the_whole_batch(summed: dict[str, Any]) -> None:
    """Compare gradients; neither half alone comes near, so without an all-reduce they would differ."""
    assert summed["placed"] == [f"CPU:{number} (program compiled by XLA, 1 all-reduce)" for number in (0, 1)]
    assert summed["off by"] < 1e-5
    assert min(summed["halves off by"]) > 0.1
    assert summed["loss"][0] == pytest.approx(summed["loss"][1], rel=1e-5)
    assert summed["copies differ by"] == 0


def test_our_steps_on_two_devices_are_those_of_fit_there(summed: dict[str, Any]) -> None:
    assert summed["moved"] > 0.01
    assert summed["fit off by"] < 1e-6
    assert summed["again"] == summed["placed"], "a network whose state was lost begins anew on both"


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("whole", "error: CPU:0 and CPU:1 were given 32 and 32 samples of a batch of 32, not an equal share each."),
        ("first", "error: CPU:0 and CPU:1 were given 32 samples of a batch of 32, not an equal share each."),
        ("turned", "misplaced: The shares of a batch lie on CPU:1, CPU:0, not on CPU:0 and CPU:1."),
        ("stray", "misplaced: Parts of the network's state or outputs lie on CPU:0, not on CPU:0 and CPU:1."),
        ("divided", "misplaced: Parts of the network are divided among CPU:0 and CPU:1, not copied to each."),
        ("not summed", "error: The program that XLA compiled for CPU:0 and CPU:1 has no all-reduce: gradients are not "
         "summed."),
        ("gathered", "error: CPU:0 and CPU:1 were given 32 and 32 samples of a batch of 32, not an equal share each."),
    ],
)  # fmt: skip
def test_what_could_go_wrong_on_several_devices_is_refused_in_words(
    summed: dict[str, Any], what: str, says: str
) -> None:
    assert summed[what] == says


def test_copies_that_differ_after_a_step_are_an_error_in_words(summed: dict[str, Any]) -> None:
    assert summed["apart"].startswith("error: After one")
    assert "CPU:0 and CPU:1:" in summed["apart"]


REPLICATED = """
import jax
from core.worker.jax.devices import Devices

def put(self, batch):
    mesh = self.distribution.device_mesh.backend_mesh
    return tuple(jax.device_put(part, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())) for part in batch)

Devices.put = put
from core.worker.server import main
main()
"""


@pytest.mark.parametrize("pipeline", [Pipeline(), Pipeline(kind="host")], ids=lambda p: p.kind)
def test_a_cell_whose_devices_all_compute_the_whole_batch_is_refused(pipeline: Pipeline) -> None:
    worker = ProcessWorker(TWO, None, (sys.executable, "-c", REPLICATED))
    try:
        worker.wait_ready(WAIT_S)
        with pytest.raises(CellFailed, match="4 and 4"):
            worker.ask(cell(pipeline=pipeline), WAIT_S)
    finally:
        worker.close()


CARDS = """
import json
import jax
from unittest import mock
from types import SimpleNamespace as Fake
from core.workload.spec import Target
from core.worker.jax.devices import Devices, start_devices
from core.worker.protocol import CellFailed

class Card:
    platform, device_kind = "gpu", "NVIDIA H100"
    def __init__(self, number, held):
        self.id = self.local_hardware_id = number
        self.held = held
    def memory_stats(self):
        return {"bytes_in_use": self.held, "peak_bytes_in_use": 2 * self.held} if self.held else None

three = [Card(0, 5), Card(1, 30), Card(2, 20)]
two = Devices((three[1], three[2]))
allocator = two.allocator()
said = {"names": two.names, "kind": two.kind, "profiled": two.profiled, "held": allocator.held(),
        "peak": allocator.peak(), "stray": two.name_of(three[0]) == str(three[0])}
with mock.patch.object(jax, "devices", lambda: three):
    try:
        start_devices(Target.parse("gpu:1+3,framework=jax"))
    except CellFailed as failure:
        said["missing"] = failure.reason
print(json.dumps(said))
"""


def test_gpus_are_named_in_the_target_s_order_and_the_fullest_tells_the_memory() -> None:
    """Simulate cards: nothing here has run on a real one."""
    assert answered("-c", CARDS, target=TWO) == {
        "names": ["GPU:0", "GPU:1"],
        "kind": "NVIDIA H100",
        "profiled": ["GPU:1", "GPU:2"],
        "held": 30,
        "peak": 60,
        "stray": True,
        "missing": "There is no gpu:3: JAX found 3 GPUs, counted from gpu:0.",
    }
