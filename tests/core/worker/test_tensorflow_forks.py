"""Workers forked from a template that has imported TensorFlow: as ready, limited and durable as fresh ones."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from core.worker.process import ProcessWorker, launch_processes, warm_up
from core.worker.protocol import Prepare, RunBlock
from core.worker.templates import OFF, TEMPLATES
from core.workload.spec import Pipeline, Target, Workload

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux"),
]
TARGETS = Target(threads=1), Target(threads=2, execution="xla")
WORKLOAD = Workload(network="784-512-512-10")
WAIT_S = 180.0
OWN = ("PYTEST_CURRENT_TEST", "BREAKEVEN_DATA_DIR", "BREAKEVEN_LOCK_DIR")


@pytest.fixture(scope="module")
def forked() -> Iterator[tuple[ProcessWorker, ...]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(OFF, raising=False)
        warm_up()
        workers = launch_processes(TARGETS, WAIT_S)
        yield workers
        for worker in workers:
            worker.close()
        assert not any(psutil.pid_exists(worker.pid) for worker in workers)
        TEMPLATES.close()


def prepare(worker: ProcessWorker, batch: int) -> RunBlock:
    done = worker.ask(Prepare(workload=WORKLOAD, pipeline=Pipeline(), batch=batch, warmup_ms=300.0), WAIT_S)
    assert done.execution == ("xla" if worker.target.execution == "xla" else "graph")
    return RunBlock(batch=batch, steps=done.steps_per_block)


def test_both_are_forks_and_say_so(forked: tuple[ProcessWorker, ...]) -> None:
    assert [worker.ready.start for worker in forked] == ["forked", "forked"]
    assert not TEMPLATES.fresh
    assert [worker.ready.threads for worker in forked] == [1, 2]
    for worker in forked:
        assert worker.ready.device == "CPU:0"
        assert worker.ready.versions["tensorflow"]
        assert psutil.Process(worker.ready.pid).ppid() == worker.pid
        assert psutil.Process(worker.ready.pid).rlimit(psutil.RLIMIT_DATA)[0] != psutil.RLIM_INFINITY


def test_a_fork_computes_on_as_many_threads_as_its_target_says(forked: tuple[ProcessWorker, ...]) -> None:
    for worker, threads in zip(forked, (1, 2), strict=True):
        block = prepare(worker, 512)
        began, used = time.monotonic(), worker.cpu_time_s()
        for _ in range(20):
            assert worker.ask(block, WAIT_S).block_ms > 0
        assert worker.cpu_time_s() - used < threads * (time.monotonic() - began) + 0.1


def test_a_second_start_needs_no_import(forked: tuple[ProcessWorker, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    ((key, _),) = TEMPLATES._known.items()
    for name in OWN:  # each test has an environment of its own, and so templates
        monkeypatch.delenv(name)
        if name in dict(key.environment):
            monkeypatch.setenv(name, dict(key.environment)[name])
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    (again,) = launch_processes((TARGETS[0],), WAIT_S)
    new = {process.pid for process in psutil.Process().children(recursive=True)} - before
    assert again.ready.start == "forked"
    assert new == {again.pid, again.ready.pid}
    prepare(again, 8)
    again.close()
    assert forked[0].ask(prepare(forked[0], 4), WAIT_S).batch == 4
