"""Whole calls of a model, measured in a real worker: what they return, what they cost, and what is refused."""

import pytest

from core.base.frameworks import Call
from core.networks.families import network_from_name
from core.worker.process import launch_processes
from core.worker.protocol import CellFailed, Prepare, RunBlock, TimeLoop
from core.workload.spec import Pipeline, Target, Workload
from tests.support.framework import answered

pytestmark = pytest.mark.tensorflow

WAIT_S = 120.0
TINY = Workload(network=network_from_name("20-16-4"), mode="infer")
CALLS: tuple[Call, ...] = ("predict", "predict_on_batch", "model", "function")
HOST = Pipeline(kind="host")

# One process: every call's result beside the model's own, for two cells of one model, and how often it was traced
RESULTS = """
import json
import numpy as np
from core.networks.families import network_from_name
from core.workload.spec import Pipeline, Target, Workload
from core.worker.feeds import host_batches
from core.worker.tensorflow.calls import CalledStep
from core.worker.tensorflow.model import build_model
from core.worker.tensorflow.pipeline import make_feed

workload, results = Workload(network=network_from_name("20-16-4"), mode="infer"), {}
for call in ("predict", "predict_on_batch", "model", "function"):
    target = Target(threads=1, call=call)
    model, traced = build_model(workload, target), []
    calls_of_layer = model.layers[-1].call
    model.layers[-1].call = lambda *given, **named: traced.append(1) or calls_of_layer(*given, **named)
    feeds = {batch: make_feed(workload, target, Pipeline(kind="host"), batch, "CPU:0") for batch in (40, 3)}
    cells = {batch: CalledStep(model, workload, feed, call) for batch, feed in feeds.items()}
    error, again = 0.0, []
    for _ in range(2):
        for batch, step in cells.items():
            before = len(traced)
            with step.fed():
                step.run(5)
                step.check_finite()
            again.append(len(traced) - before)
            expected = [np.asarray(model(x, training=False)) for (x,) in host_batches(workload, batch)]
            error = max(error, min(float(np.abs(step.last - each).max()) for each in expected))
    results[call] = {"kind": type(step.last).__name__, "shape": step.last.shape, "error": error, "again": again[2:],
                     "left": model.predict_function is None}
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def worker():
    (process,) = launch_processes((Target(threads=1),), WAIT_S)
    yield process
    process.close()


def prepared(worker, call: Call, **changes):
    target = Target(threads=1, call=call)
    values = {"workload": TINY, "batch": 4, "slot": CALLS.index(call), "pipeline": HOST, "variant": target}
    return worker.ask(Prepare(**values | {"warmup_ms": 300, "latency_samples": 1} | changes), WAIT_S)


def test_a_predict_in_a_loop_costs_many_times_a_function_and_each_call_says_how_it_runs(worker) -> None:
    setups = {call: prepared(worker, call) for call in CALLS}
    assert {call: setup.execution for call, setup in setups.items()} == {
        "predict": "graph", "predict_on_batch": "graph", "model": "eager", "function": "graph",
    }  # fmt: skip
    steps_ms = dict.fromkeys(CALLS, float("inf"))
    for _ in range(3):
        for slot, call in enumerate(CALLS):
            block = worker.ask(RunBlock(batch=4, slot=slot, steps=setups[call].steps_per_block), WAIT_S)
            steps_ms[call] = min(steps_ms[call], block.block_ms / block.steps)
    assert steps_ms["predict"] > 5 * steps_ms["function"]
    assert steps_ms["predict"] > 5 * steps_ms["predict_on_batch"]
    assert steps_ms["model"] > steps_ms["function"]


def test_a_call_compiles_with_xla_where_it_is_chosen(worker) -> None:
    for call in ("predict", "function"):
        setup = prepared(worker, call, variant=Target(threads=1, call=call, execution="xla"))
        assert (setup.execution, "XLA" in setup.placement[0]) == ("xla", True)


def test_what_no_call_can_take_is_refused_with_a_sentence(worker) -> None:
    for changes, words in (
        ({"pipeline": Pipeline()}, "choose the host pipeline"),
        ({"workload": Workload(network=TINY.network)}, "choose inference"),
    ):
        with pytest.raises(CellFailed, match=words):
            prepared(worker, "predict", **changes)
    prepared(worker, "function")
    with pytest.raises(CellFailed, match="no loop around call=function"):
        worker.ask(TimeLoop(batch=4, slot=CALLS.index("function"), limit_ms=300), WAIT_S)


def test_every_call_returns_the_model_s_result_as_numpy_whatever_other_batch_ran_between() -> None:
    results = answered("-c", RESULTS)
    assert set(results) == set(CALLS)
    for call, result in results.items():
        assert result["again"] == ([5, 5] if call == "model" else [0, 0])  # else traced in the first run alone
        assert (result["kind"], result["shape"], result["left"]) == ("ndarray", [3, 4], True)
        assert result["error"] < 1e-5
