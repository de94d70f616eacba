"""Real workers of Keras on PyTorch on tiny cells; on one thread, since two spin beside neighbours."""

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from core.networks.families import network_from_name
from core.worker.process import ProcessWorker, launch_processes
from core.worker.protocol import (
    LOOP_PAIRS,
    CellFailed,
    Describe,
    Prepare,
    RunBlock,
    TimeLoop,
    TraceSteps,
    WorkerError,
)
from core.workload.spec import Mode, Pipeline, Target, Workload

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
]
ANSWER_S = 240.0
ONE = Target(framework="torch", threads=1)


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessWorker]:
    (started,) = launch_processes((ONE,), ANSWER_S)
    yield started
    started.close()


def cell(name: str = "20-16-4", batch: int = 4, mode: Mode = "train", kind: Any = "resident", **more: Any) -> Prepare:
    workload, pipeline = Workload(network=network_from_name(name), mode=mode), Pipeline(kind=kind)
    return Prepare(workload=workload, pipeline=pipeline, batch=batch, warmup_ms=50, block_ms=3, **more)


def refused(worker: ProcessWorker, request: Any) -> str:
    with pytest.raises(CellFailed) as failed:
        worker.ask(request, ANSWER_S)
    return failed.value.reason


def test_a_worker_says_what_it_runs_on(worker: ProcessWorker) -> None:
    assert (worker.ready.device, worker.ready.threads) == ("CPU:0", 1)
    assert set(worker.ready.versions) == {"torch", "keras"}


@pytest.mark.parametrize("mode", ["train", "infer"])
@pytest.mark.parametrize("kind", ["resident", "host", "tfdata"])
@pytest.mark.parametrize("name", ["20-16-4", "20-16-1", "bert-tiny-like", "lenet5", "gru-8x1-4x3-2"])
def test_keras_step_is_prepared_and_timed(worker: ProcessWorker, name: str, mode: Mode, kind: str) -> None:
    prepared = worker.ask(cell(name, mode=mode, kind=kind), ANSWER_S)
    assert prepared.execution == "eager"
    assert all(place.startswith("CPU:0 (") for place in prepared.placement)
    assert prepared.memory_peak_bytes
    assert worker.ask(RunBlock(batch=4, steps=prepared.steps_per_block), ANSWER_S).block_ms > 0


def test_mixed_precision_is_kerass_policy(worker: ProcessWorker) -> None:
    for precision in ("mixed_bfloat16", "mixed_float16"):
        variant = ONE.model_copy(update={"precision": precision})
        assert worker.ask(cell(variant=variant), ANSWER_S).execution == "eager"
    worker.ask(cell(variant=ONE), ANSWER_S)


def test_a_trace_and_fits_own_loop(worker: ProcessWorker) -> None:
    worker.ask(cell(batch=8), ANSWER_S)
    traced = worker.ask(TraceSteps(batch=8, steps=6), ANSWER_S)
    assert (traced.device.device, traced.device.steps_from, len(traced.device.steps)) == ("CPU", "host steps", 6)
    assert all(step.compute_ms > 0 and step.launch_ms > 0 for step in traced.device.steps)
    timed = worker.ask(TimeLoop(batch=8, limit_ms=500), ANSWER_S)
    assert len(timed.pairs) >= LOOP_PAIRS
    worker.ask(cell(batch=8, mode="infer"), ANSWER_S)
    assert worker.ask(TimeLoop(batch=8, limit_ms=500), ANSWER_S).steps >= 1


def test_what_it_does_not_serve_is_one_sentence(worker: ProcessWorker) -> None:
    assert "not with Keras" in refused(worker, Describe(entry="a:b", folder="/"))


def test_there_is_no_gpu_here_and_pytorch_says_so() -> None:
    for device, words in (("gpu:0", "PyTorch found no GPU"), ("mps", "PyTorch found no GPU of Apple's")):
        with pytest.raises(WorkerError, match=words):
            launch_processes((Target(framework="torch", device=device),), ANSWER_S)


def test_a_compiled_step_of_keras_breaks_at_its_backward_pass_alone(worker: ProcessWorker) -> None:
    compiled = ONE.model_copy(update={"execution": "compile"})
    prepared = worker.ask(cell(batch=3, variant=compiled), ANSWER_S)
    assert (prepared.execution, prepared.execution_why) == ("compile", "as asked")
    assert worker.ask(RunBlock(batch=3, steps=prepared.steps_per_block), ANSWER_S).block_ms > 0
