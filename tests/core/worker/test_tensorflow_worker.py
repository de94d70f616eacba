"""Real TensorFlow workers on tiny cells. As few processes as possible are started: each costs seconds."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from core.machine.cores import spread
from core.networks.families import network_from_name
from core.worker.process import KEEPER, ProcessWorker, launch_processes, worker_environment
from core.worker.protocol import CellFailed, Prepare, Release, RunBlock, TraceSteps, WorkerError, WorkerLost
from core.workload.spec import KERAS_ON_CPU, Pipeline, Target, Workload

pytestmark = pytest.mark.tensorflow

START_S = 120.0
CELL_S = 120.0
TRAIN = Workload(network=network_from_name("20-16-4"), mode="train", optimizer="adam")
INFER = Workload(network=network_from_name("20-16-4"), mode="infer")
SIGMOID = Workload(network=network_from_name("20-16-1"), mode="train", optimizer="momentum")
LINUX = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes are bound to cores on Linux only")
TFDATA = Pipeline(kind="tfdata", prefetch=2, parallel_calls=2, cache=True, shuffle=True, preprocess_us=20)

# A worker whose batches hold a NaN once a block runs, and one that reads stdin but prints where it must not
POISONED = """
import core.worker.tensorflow.pipeline as pipeline
real = pipeline.make_arrays
def poisoned(workload, samples):
    arrays = real(workload, samples)
    if samples == 8:
        arrays[0][0, 0] = float("nan")
    print("a library prints to stdout")
    return arrays
pipeline.make_arrays = poisoned
from core.worker.server import main
main()
"""


def cell(workload=TRAIN, batch=4, pipeline=None, **more):
    return Prepare(workload=workload, batch=batch, pipeline=pipeline or Pipeline(), warmup_ms=200, block_ms=5, **more)


def started(target, limit=None, command=None):
    worker = ProcessWorker(target, limit, *([command] if command else []))
    worker.wait_ready(START_S)
    return worker


@pytest.fixture(scope="module")
def workers():
    """Yield two workers side by side, as in a sweep: one thread, graph; all threads, XLA."""
    pair = launch_processes((Target(threads=1), Target(execution="xla")), START_S)
    yield pair
    for worker in pair:
        worker.close()
        assert not psutil.pid_exists(worker.pid)


@pytest.fixture(scope="module")
def graph(workers):
    return workers[0]


def cores_of(worker):
    """Return the sets of cores that its threads may use."""
    tasks = Path(f"/proc/{worker.ready.pid}/task").iterdir()
    return {frozenset(os.sched_getaffinity(int(task.name))) for task in tasks}


@LINUX
def test_one_thread_computes_on_one_core_and_a_pipeline_works_beside_it(workers):
    one, every = workers
    cores = frozenset(os.sched_getaffinity(0))
    own = {frozenset(spread(cores, 1))}
    one.ask(cell(batch=2), CELL_S)
    assert cores_of(one) == own
    prepared = one.ask(cell(batch=2, slot=1, pipeline=TFDATA), CELL_S)
    assert cores_of(one) == {cores}
    one.ask(RunBlock(batch=2, steps=5), CELL_S)
    assert cores_of(one) == own
    one.ask(RunBlock(batch=2, slot=1, steps=prepared.steps_per_block), CELL_S)
    assert cores_of(one) == {cores}
    every.ask(cell(batch=2), CELL_S)
    assert cores_of(every) == {cores}


def test_ready_tells_the_device_and_its_threads(workers):
    one, every = workers
    assert (one.ready.device, one.ready.threads) == ("CPU:0", 1)
    assert every.ready.threads == len(os.sched_getaffinity(0))
    assert psutil.Process(one.ready.pid).ppid() == (one.pid if KEEPER else os.getpid())
    assert one.ready.startup_ms > 100
    assert set(one.ready.versions) == {"tensorflow", "keras"}


@pytest.mark.parametrize("workload", [TRAIN, INFER, SIGMOID], ids=["train", "infer", "sigmoid"])
@pytest.mark.parametrize("pipeline", [Pipeline(), Pipeline(kind="host"), TFDATA], ids=lambda p: p.kind)
def test_a_cell_is_prepared_and_measured(graph, workload, pipeline):
    prepared = graph.ask(cell(workload, 4, pipeline), CELL_S)
    assert prepared.first_call_ms > max(prepared.latency_ms)
    assert len(prepared.latency_ms) == 9
    assert prepared.paused_ms is None  # none was asked for
    assert prepared.warmup_steps > 3
    assert prepared.memory_peak_bytes > 50 * 2**20
    assert [text.split()[0] for text in prepared.placement] == ["CPU:0"]
    assert prepared.host_ops == ()
    assert (prepared.execution, prepared.execution_why) == ("graph", KERAS_ON_CPU)
    done = graph.ask(RunBlock(batch=4, steps=prepared.steps_per_block), CELL_S)
    assert done.block_ms > 0
    graph.ask(Release(batch=4), 60)
    with pytest.raises(CellFailed, match="not prepared"):
        graph.ask(RunBlock(batch=4, steps=1), CELL_S)


def test_xla_compiles_the_step_and_eager_runs_it_operation_by_operation(workers):
    prepared = workers[1].ask(cell(), CELL_S)
    assert "XLA" in prepared.placement[0]
    assert (prepared.execution, prepared.execution_why) == ("xla", "as asked")
    assert workers[1].ask(RunBlock(batch=4, steps=3), CELL_S).steps == 3


def test_several_batches_live_side_by_side_and_interleave_with_steps_known_from_an_earlier_process(graph):
    for batch in (1, 16, 256):
        graph.ask(cell(batch=batch), CELL_S)
    for _ in range(2):
        for batch in (256, 1, 16):
            assert graph.ask(RunBlock(batch=batch, steps=2), CELL_S).block_ms > 0
    graph.ask(Release(batch=16), 60)
    assert graph.ask(RunBlock(batch=256, steps=2), CELL_S).block_ms > 0
    assert graph.ask(cell(steps_per_block=7), CELL_S).steps_per_block == 7


def test_work_grows_with_the_block_and_with_the_batch(graph):
    wide = Workload(network=network_from_name("256-512-512-10"), mode="train", optimizer="sgd")
    small, large = (graph.ask(cell(wide, batch), CELL_S) for batch in (8, 1024))
    assert small.steps_per_block > large.steps_per_block or large.steps_per_block == 1

    def cpu_ms(batch: int, steps: int) -> float:
        """Return the CPU time of a block, which other programs hardly change."""
        return min(graph.ask(RunBlock(batch=batch, steps=steps), CELL_S).cpu_ms for _ in range(5))

    assert cpu_ms(1024, 8) > 4 * cpu_ms(1024, 1) > 12 * cpu_ms(8, 1)


def test_one_thread_uses_one_core_and_idle_workers_none(graph, workers):
    wide = Workload(network=network_from_name("512-1024-1024-10"), mode="train", optimizer="sgd")
    graph.ask(cell(wide, 512), CELL_S)
    before = graph.cpu_time_s()
    assert before > 0.5  # importing the framework alone takes longer
    block_ms = graph.ask(RunBlock(batch=512, steps=12), CELL_S).block_ms
    assert (graph.cpu_time_s() - before) * 1000 < 1.3 * block_ms + 50
    used = [worker.cpu_time_s() for worker in workers]
    time.sleep(1.5)
    assert [worker.cpu_time_s() - used for worker, used in zip(workers, used, strict=True)] == pytest.approx(
        [0, 0], abs=0.03
    )


def test_memory_does_not_grow_over_hundreds_of_blocks(graph):
    graph.ask(cell(batch=64), CELL_S)
    process = psutil.Process(graph.ready.pid)
    for _ in range(50):
        graph.ask(RunBlock(batch=64, steps=5), CELL_S)
    before = process.memory_info().rss
    for _ in range(300):
        graph.ask(RunBlock(batch=64, steps=5), CELL_S)
    assert process.memory_info().rss - before < 4 * 2**20


def test_preprocessing_costs_about_what_was_asked(graph):
    def block_ms(preprocess_us):
        pipeline = Pipeline(kind="tfdata", preprocess_us=preprocess_us)
        graph.ask(cell(INFER, 64, pipeline), CELL_S)
        return min(graph.ask(RunBlock(batch=64, steps=2), CELL_S).block_ms / 2 for _ in range(5))

    # A neighbour slows down the calibration or the measurement, hardly both three times
    assert any(250 < 1000 * (block_ms(400.0) - block_ms(0.0)) / 64 < 1000 for _ in range(3))


def test_eager_mixed_precision_a_nan_that_costs_its_cell_only_and_a_kill():
    """Use one process: eager bfloat16, whose cells of batch 8 (one batch, resident) hold a NaN; its library prints."""
    target = Target(precision="mixed_bfloat16", execution="eager")
    worker = started(target, command=(sys.executable, "-c", POISONED))
    try:
        prepared = worker.ask(cell(batch=4), CELL_S)
        assert any("prints to stdout" in line for line in worker._log)
        assert prepared.placement[0].startswith("CPU:0 (")
        with pytest.raises(CellFailed) as caught:
            worker.ask(cell(batch=8), CELL_S)
        assert caught.value.outcome == "nan_loss"
        with pytest.raises(CellFailed) as caught:
            worker.ask(cell(INFER, batch=8), CELL_S)
        assert caught.value.outcome == "nan_loss"
        # shares its variables with the cell that diverged
        assert worker.ask(RunBlock(batch=4, steps=2), CELL_S).block_ms > 0

        threading.Timer(0.5, os.kill, (worker.pid, signal.SIGKILL)).start()
        with pytest.raises(WorkerLost) as lost:
            worker.ask(RunBlock(batch=4, steps=1_000_000), CELL_S)
        assert lost.value.outcome == "crashed"
        assert "SIGKILL" in lost.value.reason
    finally:
        worker.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is set on Linux only")
def test_a_memory_limit_makes_a_cell_out_of_memory():
    """Reduce the lower bound, so that TensorFlow itself is refused the memory; it may die of that."""
    optimist = "import core.worker.memory as m; m.LEAST_ACTIVATION_BYTES = 1\n"
    code = optimist + "from core.worker.server import main; main()"
    worker = started(Target(threads=1), 1_200 * 2**20, (sys.executable, "-c", code))
    try:
        worker.ask(cell(), CELL_S)
        huge = Workload(network=network_from_name("16384-16384-10"), mode="train")
        with pytest.raises(CellFailed) as caught:
            worker.ask(cell(huge), CELL_S)
        assert caught.value.outcome == "out_of_memory"
        assert "least 4.3 GB" in caught.value.reason
        wide = Workload(network=network_from_name("64-2048x2-10"), mode="infer")
        with pytest.raises(WorkerError) as refused:
            worker.ask(cell(wide, 65_536), CELL_S)
        assert refused.value.outcome == "out_of_memory"
    finally:
        worker.close()


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="needs a machine without an NVIDIA driver")
def test_a_gpu_target_without_a_gpu_says_what_was_found_and_what_helps():
    with pytest.raises(CellFailed) as caught:
        launch_processes((Target(device="gpu:0"),), START_S)
    assert caught.value.outcome == "error"
    assert "found no GPU" in caught.value.reason
    assert "requirements-gpu.txt" in caught.value.reason


def test_end_of_file_ends_a_worker_amid_its_framework_import(tmp_path):
    command, environment = [sys.executable, "-m", "core.worker.server"], worker_environment(Target())
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=tmp_path, env=environment)
    process.stdin.write(b'{"kind": "hello", "target": {}}\n')
    process.stdin.flush()
    time.sleep(0.8)
    process.stdin.close()
    assert process.wait(30) == 0
    assert process.stdout.read() == b""
    process.stdout.close()


def test_variants_of_the_same_process_live_side_by_side(graph):
    """Check what differs by cell: precision except TF32, execution and steps per execution; device and threads do
    not.
    """
    texts = ("cpu,threads=1,execution=xla", "cpu,threads=1,execution=eager", "cpu,threads=1,precision=mixed_bfloat16")
    for slot, text in enumerate(texts, start=1):
        prepared = graph.ask(cell(slot=slot, variant=Target.parse(text)), CELL_S)
        assert prepared.slot == slot
        assert ("XLA" in prepared.placement[0]) == ("xla" in text)
        assert prepared.execution == ("xla" if "xla" in text else "eager" if "eager" in text else "graph")
    for slot in (2, 1, 3):
        assert graph.ask(RunBlock(batch=4, steps=2, slot=slot), CELL_S).block_ms > 0
    with pytest.raises(CellFailed, match="of its own"):
        graph.ask(cell(slot=9, variant=Target.parse("cpu,threads=2")), CELL_S)
    for slot in (1, 2, 3):
        graph.ask(Release(batch=4, slot=slot), 60)
    with pytest.raises(CellFailed, match="not prepared"):
        graph.ask(RunBlock(batch=4, steps=2, slot=1), CELL_S)


@pytest.mark.parametrize("workload", [TRAIN, INFER], ids=["train", "infer"])
@pytest.mark.parametrize("pipeline", [Pipeline(), Pipeline(kind="host"), TFDATA], ids=lambda p: p.kind)
def test_steps_per_execution_makes_whole_calls(graph, workload, pipeline):
    several = Target.parse("cpu,threads=1,steps_per_execution=4")
    prepared = graph.ask(cell(workload, 4, pipeline, slot=5, variant=several), CELL_S)
    assert prepared.steps_per_block % 4 == 0
    done = graph.ask(RunBlock(batch=4, steps=prepared.steps_per_block, slot=5), CELL_S)
    assert done.steps == prepared.steps_per_block
    with pytest.raises(CellFailed, match="whole calls"):
        graph.ask(RunBlock(batch=4, steps=6, slot=5), CELL_S)
    graph.ask(Release(batch=4, slot=5), 60)


def test_a_trace_of_some_steps_is_partitioned_in_the_worker(workers):
    for worker in workers:
        worker.ask(cell(), CELL_S)
        traced = worker.ask(TraceSteps(batch=4, steps=5), CELL_S)
        assert traced.device.steps_from == "host steps"
        assert len(traced.device.steps) == 5
        mean = traced.device.mean()
        assert 0 < mean.compute_ms < mean.step_ms
        assert mean.h2d_ms == mean.d2h_ms == 0
        assert traced.profiled_step_ms > 0
        assert traced.unprofiled_step_ms > 0
        assert traced.device.timeline
        assert traced.host_ops == ()
        assert traced.retraces == traced.dropped_events == 0
        assert (traced.device.device, traced.notes) == ("CPU", ())


def test_a_starved_step_shows_input_in_its_trace(graph):
    slow = Pipeline(kind="tfdata", preprocess_us=2000)
    graph.ask(cell(TRAIN, 8, slow), CELL_S)
    mean = graph.ask(TraceSteps(batch=8, steps=4), CELL_S).device.mean()
    assert mean.input_ms > 0.5 * mean.step_ms
    graph.ask(Release(batch=8), 60)


def test_own_data_reach_the_step(graph, tmp_path):
    path = tmp_path / "digits.npz"
    rng = np.random.default_rng(0)
    inputs = TRAIN.network.input_shape[0]
    np.savez(path, x=rng.standard_normal((20, inputs)).astype(np.float32), y=np.arange(20) % TRAIN.network.classes)
    prepared = graph.ask(cell(TRAIN, 4, Pipeline(kind="tfdata", data=str(path), prefetch=1)), CELL_S)
    assert prepared.steps_per_block >= 1
    assert graph.ask(RunBlock(batch=4, steps=12), CELL_S).block_ms > 0  # more samples than exist: the data repeat
    np.savez(path, x=np.zeros((20, 7), np.float32))
    with pytest.raises(CellFailed, match="7 values per sample"):
        graph.ask(cell(TRAIN, 4, Pipeline(kind="tfdata", data=str(path))), CELL_S)


def test_a_pipeline_that_idled_hands_out_nothing_for_free(graph):
    """Check that batches prepared while other cells were measured do not make its next block fast."""
    slow = Pipeline(kind="tfdata", prefetch=4, preprocess_us=2000)
    graph.ask(cell(TRAIN, 8, slow), CELL_S)

    def step_ms(steps):
        return graph.ask(RunBlock(batch=8, steps=steps), CELL_S).block_ms / steps

    steady_ms = min(step_ms(16) for _ in range(3))
    idled_ms = []
    for _ in range(3):  # a neighbour slows a steady block down, or lets the pipeline run ahead of one; hardly each time
        time.sleep(20 * steady_ms / 1000)
        idled_ms.append(step_ms(2))
    assert max(idled_ms) > 0.5 * steady_ms
    graph.ask(Release(batch=8), 60)


@pytest.mark.parametrize("several", [1, 4])
def test_steps_after_pauses_are_timed_in_whole_calls(several):
    worker = started(Target.parse(f"cpu,threads=1,steps_per_execution={several}"))
    try:
        prepared = worker.ask(cell(Workload(network="784-128-10", mode="infer"), 4, paused_samples=3), CELL_S)
    finally:
        worker.close()
    assert len(prepared.paused_ms) == 3
    assert all(0 < ms < 100 for ms in prepared.paused_ms)
