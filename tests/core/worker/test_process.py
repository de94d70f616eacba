"""The transport, against workers that misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from core.spec import Target
from core.worker import process
from core.worker.process import ProcessWorker, launch_processes, memory_limits, worker_environment
from core.worker.protocol import CellFailed, Release, RunBlock, WorkerLost

FAKE = Path(__file__).with_name("fake_worker.py")


@pytest.fixture
def start():
    workers = []

    def begin(how, wait=True):
        worker = ProcessWorker(Target(), command=(sys.executable, str(FAKE), how))
        workers.append(worker)
        if wait:
            worker.wait_ready(30)
        return worker

    yield begin
    for worker in workers:
        worker.close()
        assert not psutil.pid_exists(worker.pid)


def lost(worker, deadline_s=30.0):
    with pytest.raises(WorkerLost) as caught:
        worker.ask(RunBlock(batch=4, steps=1), deadline_s)
    assert not psutil.pid_exists(worker.pid)
    with pytest.raises(WorkerLost):  # and so it stays
        worker.ask(RunBlock(batch=4, steps=1), deadline_s)
    return caught.value


@pytest.mark.parametrize(
    ("how", "outcome", "says"),
    [
        ("garbage", "crashed", "“Segmentation imminent"),
        ("wrong_kind", "crashed", '“{"kind":'),
        ("wrong_batch", "crashed", '"batch": 5'),
        ("nan", "crashed", '“{"kind":'),
        ("endless", "crashed", "“xxxx"),
        ("exit", "crashed", "exit status 1 while measuring batch 4. Its last log line: “it is all too much”"),
        ("bad_alloc", "out_of_memory", "ran out of memory"),
    ],
)
def test_a_misbehaving_worker_is_lost_with_a_reason(start, how, outcome, says):
    error = lost(start(how))
    assert error.outcome == outcome
    assert says in error.reason
    assert len(error.reason) < 300


def test_a_worker_past_its_deadline_is_stopped_whether_it_was_ready_or_not(start):
    began = time.monotonic()
    error = lost(start("hang"), deadline_s=0.3)
    assert error.outcome == "hung"
    assert time.monotonic() - began < 20
    worker = start("silent", wait=False)
    with pytest.raises(WorkerLost) as caught:
        worker.wait_ready(0.3)
    assert caught.value.outcome == "hung"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_killed_worker_is_lost_and_memory_named(start):
    worker = start("hang")
    threading.Timer(0.3, os.kill, (worker.pid, signal.SIGKILL)).start()
    error = lost(worker)
    assert error.outcome == "crashed"
    assert "SIGKILL" in error.reason
    assert "memory" in error.reason


def test_a_failed_reply_costs_the_cell_only_and_one_too_many_the_worker(start):
    worker = start("failed")
    with pytest.raises(CellFailed) as caught:
        worker.ask(RunBlock(batch=4, steps=1), 30)
    assert (caught.value.outcome, caught.value.reason) == ("nan_loss", "The loss is nan.")
    worker.ask(Release(batch=4), 60)
    worker = start("twice")
    assert worker.ask(RunBlock(batch=4, steps=1), 30).block_ms == 1.0
    time.sleep(0.3)
    assert lost(worker).outcome == "crashed"


def test_close_ends_a_worker_that_ignores_it_and_may_be_repeated(start, monkeypatch):
    monkeypatch.setattr(process, "CLOSE_PATIENCE_S", 0.3)
    worker = start("deaf")
    used = worker.cpu_time_s()
    worker.close()
    worker.close()
    assert not psutil.pid_exists(worker.pid)
    assert worker.cpu_time_s() >= used
    with pytest.raises(WorkerLost):
        worker.ask(RunBlock(batch=1, steps=1), 1)


def test_a_command_that_ends_at_once_is_lost_not_hung():
    worker = ProcessWorker(Target(), command=(sys.executable, "-c", "raise SystemExit(3)"))
    with pytest.raises(WorkerLost, match="exit status 3"):
        worker.wait_ready(30)
    worker.close()


def test_a_failed_launch_leaves_nothing_running(monkeypatch):
    started = []

    class Tracked(ProcessWorker):
        def __init__(self, target, limit, **_):
            how = "exit" if not started else "silent"
            super().__init__(target, limit, (sys.executable, str(FAKE), how))
            started.append(self)

    monkeypatch.setattr(process, "ProcessWorker", Tracked)
    with pytest.raises(WorkerLost):
        launch_processes((Target(), Target(threads=1)), deadline_s=2)
    assert len(started) == 2
    assert not any(psutil.pid_exists(worker.pid) for worker in started)


def test_environment_hides_gpus_from_cpu_targets_only_and_those_share_the_free_memory(monkeypatch):
    cpu, gpu = worker_environment(Target(threads=3)), worker_environment(Target(device="gpu:0"))
    assert (cpu["CUDA_VISIBLE_DEVICES"], cpu["OMP_NUM_THREADS"]) == ("-1", "3")
    assert gpu.get("CUDA_VISIBLE_DEVICES") == os.environ.get("CUDA_VISIBLE_DEVICES")
    assert Path(cpu["PYTHONPATH"].split(os.pathsep)[0], "core", "worker", "server.py").is_file()
    monkeypatch.setattr(process, "available_memory_bytes", lambda: 1000)
    assert memory_limits((Target(), Target(threads=1))) == [450, 450]
    assert memory_limits((Target(), Target(device="gpu:0"))) == [900, None]


def test_requests_are_validated_again_in_the_worker():
    lines = b'{"kind": "block", "batch": 1, "steps": 1}\nnonsense\n{"kind": "hello", "target": {"device": "tpu"}}\n'
    code = "import sys; from core.worker.server import Server; s = Server()\n"
    code += "for line in sys.stdin.buffer: print(s.answer(line))\nassert 'tensorflow' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code], input=lines, capture_output=True, check=True, env=worker_environment(Target())
    )
    first, second, third = done.stdout.decode().splitlines()
    assert "must be hello" in first
    assert "refused a request" in second
    assert "tpu" in third
