"""Keras's own loop beside blocks, in a real worker: every way to run and feed a cell, and a planted cost found."""

import pytest

from core.networks.families import network_from_name
from core.rounds.answer.loop import added
from core.rounds.run import LoopCost
from core.worker.process import launch_processes
from core.worker.protocol import LOOP_PAIRS, CellFailed, LoopTimed, Prepare, RunBlock, TimeLoop
from core.workload.spec import Pipeline, Target, Workload
from tests.support.framework import answered

pytestmark = pytest.mark.tensorflow

WAIT_S = 120.0
NETWORK = network_from_name("20-16-4")
TRAIN, INFER = Workload(network=NETWORK), Workload(network=NETWORK, mode="infer")
VARIANTS = [
    Target(threads=1),
    Target(threads=1, execution="graph"),
    Target(threads=1, execution="xla"),
    Target(threads=1, execution="eager"),
    Target(threads=1, steps_per_execution=4),
]
FEEDS = [Pipeline(kind="host"), Pipeline(kind="tfdata", prefetch=2)]

# One process: what is planted in Keras's loop, what is printed, and what the model holds afterwards
PLANTED = """
import io, json, sys, time
import keras
from keras.src.callbacks.callback_list import CallbackList
from keras.src.utils.progbar import Progbar
from core.networks.families import network_from_name
from core.workload.spec import Pipeline, Target, Workload
from core.worker.keras.loop import time_loop
from core.worker.tensorflow.model import CellStep, build_model
from core.worker.tensorflow.pipeline import make_feed

def slowed(kind, name, seconds):
    real = getattr(kind, name)
    def slow(*given, **named):
        time.sleep(seconds)
        return real(*given, **named)
    setattr(kind, name, slow)

slowed(CallbackList, "on_train_batch_begin", 0.004)
slowed(CallbackList, "on_train_begin", 0.02)
bars = []
update = Progbar.update
Progbar.update = lambda self, *given, **named: bars.append(self.verbose) or update(self, *given, **named)

workload, target = Workload(network=network_from_name("20-16-4")), Target(threads=1)
model = build_model(workload, target)
traced = []
real_step = model.train_step
model.train_step = lambda data: traced.append(1) or real_step(data)
steps = {batch: CellStep(model, workload, make_feed(workload, target, Pipeline(), batch, "CPU:0")) for batch in (4, 8)}
for step in steps.values():
    with step.fed():
        step.run(3)
before, printed = len(traced), io.StringIO()
sys.stdout, usual = printed, sys.stdout
with steps[4].fed():
    count, pairs = time_loop(steps[4], True, 3000.0)
    steps[4].check_finite()
with steps[8].fed():
    steps[8].run(3)
sys.stdout = usual
print(json.dumps({
    "steps": count, "pairs": [pair.model_dump() for pair in pairs], "retraced": len(traced) - before,
    "printed": printed.getvalue(), "verbose": sorted(set(bars)), "bars": len(bars),
    "left": [model.train_function is None, model.predict_function is None],
}))
"""


@pytest.fixture(scope="module")
def worker():
    (one,) = launch_processes((Target(threads=1),), WAIT_S)
    yield one
    one.close()


def timed(worker, workload, pipeline, variant) -> LoopTimed:
    request = Prepare(
        workload=workload, batch=4, pipeline=pipeline, variant=variant, warmup_ms=200, block_ms=5, latency_samples=1
    )
    prepared = worker.ask(request, WAIT_S)
    found = worker.ask(TimeLoop(batch=4, limit_ms=300), WAIT_S)
    assert worker.ask(RunBlock(batch=4, steps=prepared.steps_per_block), WAIT_S).block_ms > 0
    return found


@pytest.mark.parametrize("workload", [TRAIN, INFER], ids=["train", "infer"])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_execution_can_be_timed_and_its_cell_stays_sound(worker, workload, variant) -> None:
    found = timed(worker, workload, Pipeline(), variant)
    assert len(found.pairs) >= LOOP_PAIRS
    assert found.steps % variant.steps_per_execution == 0


@pytest.mark.parametrize("workload", [TRAIN, INFER], ids=["train", "infer"])
@pytest.mark.parametrize("pipeline", FEEDS, ids=lambda p: p.kind)
def test_every_other_feed_can_be_timed(worker, workload, pipeline) -> None:
    assert len(timed(worker, workload, pipeline, None).pairs) >= LOOP_PAIRS


def test_a_cell_that_is_not_there_is_refused(worker) -> None:
    with pytest.raises(CellFailed, match="not prepared"):
        worker.ask(TimeLoop(batch=9, limit_ms=300), WAIT_S)


def test_a_planted_cost_is_found_and_nothing_is_left_behind() -> None:
    said = answered("-c", PLANTED)
    times = LoopTimed(batch=4, steps=said["steps"], pairs=said["pairs"]).to_times()
    found = added(LoopCost(target=0, batch=4, times=times))
    assert (said["retraced"], said["left"]) == (0, [True, True])
    assert (said["printed"], said["verbose"]) == ("", [1])
    assert said["bars"] > LOOP_PAIRS * 4 * said["steps"]
    assert found.step_ms > 2.0, "4 ms were planted in each step of the loop"
    assert found.call_ms > 5.0, "20 ms were planted in each call"
