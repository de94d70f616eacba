"""Every family really trains and infers on TensorFlow, in every execution. One process for all of it."""

from collections.abc import Iterator

import pytest

from core.networks.families import network_from_name
from core.worker.process import ProcessWorker
from core.worker.protocol import Prepare, Release, RunBlock
from core.workload.spec import Pipeline, Target, Workload

pytestmark = pytest.mark.tensorflow

PATIENCE_S = 240.0
RESIDUAL, TOKENS, LSTM = "cnn-8x8x1-4x2-k3-residual-bn-strides-3", "transformer-8x1-h2-s6-f2-v50-3", "lstm-4x1-5x3-3"
YES_OR_NO = ("cnn-8x8x1-4x1-k3-max-1", "gru-4x2-5x3-1")
HOW = ("cpu,threads=1", "cpu,threads=1,execution=xla", "cpu,threads=1,execution=eager",
       "cpu,threads=1,precision=mixed_bfloat16")  # fmt: skip
TFDATA = Pipeline(kind="tfdata", prefetch=1, preprocess_us=50)
IN_PYTHON = Pipeline(kind="tfdata", prefetch=1, preprocess_us=50, preprocess_python=True)


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessWorker]:
    worker = ProcessWorker(Target(threads=1))
    worker.wait_ready(PATIENCE_S)
    yield worker
    worker.close()


def measure(worker: ProcessWorker, name: str, mode: str, how: str, pipeline: Pipeline | None = None) -> tuple[str, ...]:
    """Run a cell of batch 2, check that its results are finite, and return the placement of its operations."""
    workload = Workload.model_validate({"network": network_from_name(name), "mode": mode})
    request = Prepare(workload=workload, batch=2, pipeline=pipeline or Pipeline(), warmup_ms=1, block_ms=0.1,
                      variant=Target.parse(how))  # fmt: skip
    prepared = worker.ask(request, PATIENCE_S)
    assert worker.ask(RunBlock(batch=2, steps=2), PATIENCE_S).block_ms > 0
    worker.ask(Release(batch=2), 60)
    assert prepared.host_ops == ()
    return prepared.placement


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", [RESIDUAL, TOKENS, LSTM])
def test_each_family_trains(worker: ProcessWorker, name: str, how: str) -> None:
    assert ("XLA" in measure(worker, name, "train", how)[0]) == ("xla" in how)


@pytest.mark.parametrize("name", YES_OR_NO)
def test_one_output_trains_with_binary_labels(worker: ProcessWorker, name: str) -> None:
    assert measure(worker, name, "train", HOW[0])[0].startswith("CPU:0")


@pytest.mark.parametrize("name", [RESIDUAL, TOKENS, LSTM])
def test_each_family_infers(worker: ProcessWorker, name: str) -> None:
    assert measure(worker, name, "infer", HOW[0])[0].startswith("CPU:0")


@pytest.mark.parametrize("pipeline", [Pipeline(kind="host"), TFDATA, IN_PYTHON], ids=["host", "tfdata", "in Python"])
def test_tokens_come_through_every_pipeline(worker: ProcessWorker, pipeline: Pipeline) -> None:
    assert measure(worker, TOKENS, "infer", HOW[0], pipeline)
