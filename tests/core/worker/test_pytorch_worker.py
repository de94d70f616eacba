"""Real workers of native PyTorch on tiny modules of the user's own; on one thread, since two spin beside neighbours."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.networks.families.code import Code
from core.worker.process import ProcessWorker, launch_processes
from core.worker.protocol import CellFailed, Describe, Prepare, Release, RunBlock, TimeLoop, TraceSteps
from core.workload.spec import Mode, Pipeline, Target, Workload
from tests.support.torch_models import NAME, SOURCE

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
]
ANSWER_S = 180.0
ONE = Target(framework="pytorch", threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / f"{NAME}.py").write_text(SOURCE)
    return folder


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessWorker]:
    (started,) = launch_processes((ONE,), ANSWER_S, allow_code=True)
    yield started
    started.close()


@pytest.fixture(scope="module")
def network(worker: ProcessWorker, folder: Path) -> Any:
    def described(function: str) -> Code:
        entry = f"{NAME}:{function}"
        found = worker.ask(Describe(entry=entry, folder=str(folder)), ANSWER_S)
        return found.network(entry, str(folder), "pytorch")

    return described


def cell(network: Code, batch: int = 4, mode: Mode = "train", kind: Any = "resident", **more: Any) -> Prepare:
    workload, pipeline = Workload(network=network, mode=mode), Pipeline(kind=kind)
    return Prepare(workload=workload, pipeline=pipeline, batch=batch, warmup_ms=50, block_ms=3, **more)


def refused(worker: ProcessWorker, request: Any) -> CellFailed:
    with pytest.raises(CellFailed) as failed:
        worker.ask(request, ANSWER_S)
    return failed.value


def test_a_worker_says_what_it_runs_on(worker: ProcessWorker) -> None:
    ready = worker.ready
    assert (ready.device, ready.threads, ready.tf32) == ("CPU:0", 1, None)
    assert set(ready.versions) == {"torch"}


@pytest.mark.parametrize(
    ("function", "sample", "output", "parameters", "tokens"),
    [
        ("plain", (20,), (4,), 21 * 16 + 17 * 4, None),
        ("Images", (1, 8, 8), (1,), 10 * 4 + 8 + 145, None),
        ("tokens", (12,), (12, 50), 50 * 16 + 17 * 50, 50),
        ("regression", (8,), (3,), 27, None),
    ],
)
def test_a_module_is_described(
    network: Any, function: str, sample: tuple[int, ...], output: tuple[int, ...], parameters: int, tokens: int | None
) -> None:
    found = network(function)
    assert (found.input_shape, (*found.label_shape, found.classes)) == (sample, output)
    assert (found.parameters, found.vocabulary, found.returns) == (parameters, tokens, "pytorch")


def test_flops_are_those_of_the_forward_pass(network: Any) -> None:
    found = network("plain")
    assert found.flops_per_sample(training=False) == 2 * (20 * 16 + 16 * 4)
    assert found.flops_per_sample(training=True) == 3 * found.flops_per_sample(training=False)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("unknown", "example_input_array"),
        ("mismatched", "cannot run a batch of 2 samples of shape"),
        ("nothing", "must return an nn.Module"),
        ("half", "are in float16; leave them in float32"),
        ("odd", "example of torch_models:odd must be one tensor"),
        ("flat", "the first axis must stay"),
        ("missing", "has nothing called"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(
    worker: ProcessWorker, folder: Path, function: str, words: str
) -> None:
    said = refused(worker, Describe(entry=f"{NAME}:{function}", folder=str(folder)))
    assert (said.outcome, words in said.reason) == ("error", True), said.reason


@pytest.mark.parametrize("function", ["plain", "whole", "regression", "Images", "tokens", "labelled"])
@pytest.mark.parametrize("kind", ["resident", "host"])
def test_a_training_step_is_prepared_and_timed(worker: ProcessWorker, network: Any, function: str, kind: str) -> None:
    prepared = worker.ask(cell(network(function), kind=kind), ANSWER_S)
    assert (prepared.execution, prepared.execution_why) == ("eager", "as PyTorch runs by default")
    assert all(place.startswith("CPU:0 (") for place in prepared.placement)
    assert prepared.first_call_ms > 0
    assert prepared.memory_peak_bytes
    done = worker.ask(RunBlock(batch=4, steps=prepared.steps_per_block), ANSWER_S)
    assert done.block_ms > 0
    worker.ask(Release(batch=4), ANSWER_S)
    assert "was not prepared" in refused(worker, RunBlock(batch=4, steps=1)).reason


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_half_precision_is_autocast(worker: ProcessWorker, network: Any, mode: Mode, precision: Any) -> None:
    """Check that it casts the weights to 16 bits in every step: operations that float32 does not have."""
    plain = network("plain")
    operations = []
    for variant in (ONE, ONE.model_copy(update={"precision": precision})):
        (placement,) = worker.ask(cell(plain, mode=mode, variant=variant), ANSWER_S).placement
        operations.append(int(placement.removeprefix("CPU:0 (").partition(" ")[0]))
    assert operations[1] >= operations[0] + 4


def test_a_traces_parts_sum_to_its_steps(worker: ProcessWorker, network: Any) -> None:
    worker.ask(cell(network("plain"), batch=8), ANSWER_S)
    traced = worker.ask(TraceSteps(batch=8, steps=6), ANSWER_S)
    assert (traced.device.device, traced.device.steps_from, len(traced.device.steps)) == ("CPU", "host steps", 6)
    assert all(step.compute_ms > 0 and step.launch_ms > 0 for step in traced.device.steps)
    assert {"aten::linear", "aten::cross_entropy_loss"} <= {kernel.name for kernel in traced.device.top}
    assert traced.profiled_step_ms > 0
    assert any("cost of starting" in note for note in traced.notes)


def test_one_thread_uses_one_core(worker: ProcessWorker, network: Any) -> None:
    wide = network("wide")
    prepared = worker.ask(cell(wide, batch=256, mode="infer"), ANSWER_S)
    before_s, spent_s = worker.cpu_time_s(), 0.0
    for _ in range(5):
        spent_s += worker.ask(RunBlock(batch=256, steps=4 * prepared.steps_per_block), ANSWER_S).block_ms / 1000
    assert worker.cpu_time_s() - before_s < 1.3 * spent_s + 0.1


def test_failures_are_outcomes_and_the_worker_lives_on(worker: ProcessWorker, network: Any) -> None:
    raises = network("raises")
    said = refused(worker, cell(raises, batch=7))
    assert said.outcome == "error"
    assert "seven samples are" in said.reason
    assert refused(worker, cell(raises, batch=5)).outcome == "nan_loss"
    assert refused(worker, cell(raises, batch=5, mode="infer")).outcome == "nan_loss"
    assert worker.ask(cell(raises, batch=4), ANSWER_S).execution == "eager"
    assert "no parameters to" in refused(worker, cell(network("untrainable"))).reason
    worker.ask(cell(raises, batch=3), ANSWER_S)
    assert "no loop of" in refused(worker, TimeLoop(batch=3, limit_ms=100)).reason


def test_a_data_loader_feeds_sample_by_sample(worker: ProcessWorker, network: Any) -> None:
    for pipeline in (Pipeline(kind="tfdata"), Pipeline(kind="tfdata", shuffle=True)):
        request = cell(network("plain"), batch=6).model_copy(update={"pipeline": pipeline})
        assert worker.ask(request, ANSWER_S).execution == "eager"
        device = worker.ask(TraceSteps(batch=6, steps=4), ANSWER_S).device
        assert all(step.input_ms > 0 for step in device.steps)
    ahead = request.model_copy(update={"pipeline": Pipeline(kind="tfdata", prefetch=2)})
    assert "has shuffle alone" in refused(worker, ahead).reason


def test_what_does_not_fit_is_out_of_memory(network: Any) -> None:
    small = network("wide")
    (limited,) = launch_processes((ONE,), ANSWER_S, allow_code=True, limit_bytes=700_000_000)
    try:
        said = refused(limited, cell(small, batch=65_536))
        assert said.outcome == "out_of_memory"
    finally:
        limited.close()


def test_a_compiled_step_is_whole_or_an_error(worker: ProcessWorker, network: Any) -> None:
    """Use two batch sizes, since from the second one on PyTorch would compile for any, and the first one again."""
    compiled = ONE.model_copy(update={"execution": "compile"})
    for batch in (2, 3, 2):
        prepared = worker.ask(cell(network("plain"), batch=batch, variant=compiled), ANSWER_S)
        assert (prepared.execution, prepared.execution_why) == ("compile", "as asked")
        assert prepared.placement == ("CPU:0 (program compiled by torch.compile)",)
        assert worker.ask(RunBlock(batch=batch, steps=prepared.steps_per_block), ANSWER_S).block_ms > 0
    said = refused(worker, cell(network("branches"), variant=compiled, mode="infer"))
    assert "torch.compile cannot" in said.reason
