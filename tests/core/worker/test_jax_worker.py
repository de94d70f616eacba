"""Keras on JAX, really run in worker processes; skipped with the reason if JAX is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from core.machine.installed import why_missing
from core.worker.process import ROOT, ProcessWorker, launch_processes, worker_environment
from core.worker.protocol import (
    LOOP_PAIRS,
    CellFailed,
    Examine,
    Prepare,
    Prepared,
    RunBlock,
    TimeLoop,
    TraceSteps,
    WorkerError,
)
from core.workload.spec import Pipeline, Target, Workload

MISSING = why_missing("jax")
pytestmark = [pytest.mark.tensorflow, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]

WAIT_S = 180.0
ONE = Target(framework="jax", threads=1)
TRAIN, INFER = Workload(network="20-16-4"), Workload(network="20-16-4", mode="infer")
HOST = Pipeline(kind="host")
TFDATA = Pipeline(kind="tfdata", prefetch=2, cache=True, shuffle=True)

POISONED = """
import core.worker.jax.engine as engine
real = engine.make_arrays
def poisoned(workload, samples):
    arrays = real(workload, samples)
    if samples == 8:
        arrays[0][0, 0] = float("nan")
    return arrays
engine.make_arrays = poisoned
from core.worker.server import main
main()
"""

# Five of our steps, and fit's five from the same start; then a state that a failed step took down with it
STEPS = """
import io, json, contextlib
import numpy as np, keras, jax
from core.workload.spec import Pipeline, Target, Workload
from core.worker.feeds import make_arrays, kept
from core.worker.jax.step import JaxStep, Network
from core.worker.keras.loop import call_loop
import itertools
workload, target = Workload(network="20-16-4"), Target(framework="jax")
x, y = make_arrays(workload, 8)
def stepped():
    network = Network(workload, target)
    return network, JaxStep(network, workload, kept(itertools.repeat(jax.device_put((x, y)))))
def weights(network):
    network.give_back()
    return np.concatenate([np.ravel(w) for w in network.model.get_weights()])
ours, step = stepped()
copies = jax.live_arrays()
with step.fed():
    step.run(5)
fits, other = stepped()
fits.give_back()
fits.model.fit(np.tile(x, (5, 1)), np.tile(y, 5), batch_size=8, shuffle=False, verbose=0)
fits.take()
said = {"ours": float(np.abs(weights(ours) - weights(fits)).max()), "moved": float(np.abs(weights(ours)).max())}
ours.take()
looped, third = stepped()
with third.fed(), contextlib.redirect_stdout(io.StringIO()):
    third.run(2)
    call_loop(third, True, 3)
    said["loop"] = float(np.abs(weights(looped) - weights(ours)).max())
    looped.take()
for leaf in jax.tree_util.tree_leaves(third.network.state):
    leaf.delete()
with third.fed():
    third.run(1)
third.check_finite()
said["again"] = True
import sys
said["tensorflow"] = "tensorflow" in sys.modules
print(json.dumps(said))
"""


def cell(workload: Workload = TRAIN, batch: int = 4, pipeline: Pipeline | None = None, **more: object) -> Prepare:
    fields = {"warmup_ms": 100, "block_ms": 5} | more
    return Prepare(workload=workload, batch=batch, pipeline=pipeline or Pipeline(), **fields)


@pytest.fixture(scope="module")
def worker():
    (one,) = launch_processes((ONE,), WAIT_S)
    yield one
    one.close()


def test_a_worker_says_what_it_is(worker: ProcessWorker) -> None:
    assert set(worker.ready.versions) == {"jax", "jaxlib", "keras"}
    assert (worker.ready.device, worker.ready.threads) == ("CPU:0", 1)


@pytest.mark.parametrize(
    ("workload", "pipeline"),
    [(TRAIN, Pipeline()), (TRAIN, HOST), (TRAIN, TFDATA), (INFER, Pipeline()), (INFER, HOST), (INFER, TFDATA)],
    ids=lambda value: value.mode if isinstance(value, Workload) else value.kind,
)
def test_every_feed_trains_and_infers(worker: ProcessWorker, workload: Workload, pipeline: Pipeline) -> None:
    prepared: Prepared = worker.ask(cell(workload, 4, pipeline), WAIT_S)
    assert prepared.placement == ("CPU:0 (program compiled by XLA)",)
    assert (prepared.execution, prepared.execution_why) == ("xla", "as JAX runs by default")
    assert prepared.first_call_ms > 3 * min(prepared.latency_ms)  # it compiles
    assert (prepared.memory_peak_bytes or 0) > 10**8
    assert worker.ask(RunBlock(batch=4, steps=prepared.steps_per_block), WAIT_S).block_ms > 0


@pytest.mark.parametrize("workload", [TRAIN, INFER], ids=lambda workload: workload.mode)
def test_keras_own_loop_and_a_trace_whose_parts_make_the_step(worker: ProcessWorker, workload: Workload) -> None:
    worker.ask(cell(workload), WAIT_S)
    timed = worker.ask(TimeLoop(batch=4, limit_ms=300.0), WAIT_S)
    assert len(timed.pairs) >= LOOP_PAIRS
    assert all(pair.long_ms > 0 for pair in timed.pairs)
    traced = worker.ask(TraceSteps(batch=4, steps=4), WAIT_S)
    assert len(traced.device.steps) == 4
    for step in traced.device.steps:
        parts = [value for name, value in step.model_dump().items() if name not in ("step_ms",)]
        assert sum(parts) == pytest.approx(step.step_ms, rel=1e-6)
        assert step.compute_ms > 0  # without a wait in each step its work lies outside of it
    assert any("was waited for" in note for note in traced.notes)
    worker.ask(RunBlock(batch=4, steps=2), WAIT_S)  # the state came back


def test_eager_is_run_operation_by_operation(worker: ProcessWorker) -> None:
    eager = Target(framework="jax", threads=1, execution="eager")
    prepared = worker.ask(cell(batch=2, slot=3, variant=eager), WAIT_S)
    assert (prepared.execution, prepared.execution_why) == ("eager", "as asked")
    assert prepared.placement == ("CPU:0 (step run operation by operation)",)


@pytest.mark.parametrize("workload", [TRAIN, INFER], ids=lambda workload: workload.mode)
def test_mixed_precision_computes_in_16_bits_and_predict_keeps_such_outputs(
    worker: ProcessWorker, workload: Workload
) -> None:
    half = Target(framework="jax", threads=1, precision="mixed_bfloat16")
    assert worker.ask(cell(workload, 4, slot=4, variant=half), WAIT_S).execution == "xla"
    assert len(worker.ask(TimeLoop(batch=4, slot=4, limit_ms=100.0), WAIT_S).pairs) >= LOOP_PAIRS


def test_what_is_not_served_is_said(worker: ProcessWorker) -> None:
    with pytest.raises(CellFailed, match="not with JAX"):
        worker.ask(Examine(look="factor"), WAIT_S)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes are bound to cores on Linux only")
def test_one_thread_is_one_core(worker: ProcessWorker) -> None:
    assert len(psutil.Process(worker.ready.pid).cpu_affinity()) == 1
    big = Workload(network="256-512x2-10")
    prepared = worker.ask(cell(big, 256, block_ms=200), WAIT_S)
    begin_s, before_s = time.monotonic(), worker.cpu_time_s()
    for _ in range(3):
        worker.ask(RunBlock(batch=256, steps=prepared.steps_per_block), WAIT_S)
    busy = (worker.cpu_time_s() - before_s) / (time.monotonic() - begin_s)
    assert 0.0 < busy < 1.15


def test_our_steps_are_those_of_fit_and_a_lost_state_is_renewed() -> None:
    command = (sys.executable, "-c", STEPS)
    done = subprocess.run(
        command, env=worker_environment(ONE), cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["moved"] > 0.01
    assert said["ours"] < 1e-6
    assert said["loop"] < 1e-6  # two of ours and three of fit's, of the same function
    assert said["again"] is True
    assert said["tensorflow"] is False  # importing it would take seconds and counted memory


def test_a_loss_that_is_not_finite_and_too_little_memory_are_outcomes() -> None:
    worker = ProcessWorker(ONE, None, (sys.executable, "-c", POISONED))
    try:
        worker.wait_ready(WAIT_S)
        with pytest.raises(CellFailed) as caught:
            worker.ask(cell(batch=8), WAIT_S)
        assert caught.value.outcome == "nan_loss"
        assert worker.ask(cell(batch=4), WAIT_S).batch == 4  # shares nothing with the failed cell
    finally:
        worker.close()
    worker = ProcessWorker(ONE, 1_000_000_000)
    try:
        worker.wait_ready(WAIT_S)
        with pytest.raises(WorkerError) as failed:
            worker.ask(cell(Workload(network="784-2048x2-10"), 60_000), WAIT_S)
        assert failed.value.outcome == "out_of_memory"
    finally:
        worker.close()


@pytest.mark.parametrize(("device", "says"), [("gpu:0", "JAX found no GPU. A GPU needs NVIDIA's"), ("tpu:0", "no TPU")])
def test_a_device_that_is_not_here_is_refused_in_a_sentence(device: str, says: str) -> None:
    with pytest.raises(CellFailed) as caught:
        launch_processes((Target(framework="jax", device=device),), WAIT_S)
    assert caught.value.reason.startswith(f"There is no {device}: ")
    assert says in caught.value.reason
