"""The transport, against workers that misbehave."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from core.machine.cgroup import KillCounts
from core.worker import process
from core.worker.process import ProcessWorker, launch_processes, memory_limits, worker_environment
from core.worker.protocol import CellFailed, Describe, Hello, Prepare, Release, RunBlock, WorkerLost
from core.worker.templates import Forked, Template
from core.workload.spec import Pipeline, Target, Workload

pytestmark = pytest.mark.processes

FAKE = Path(__file__).with_name("fake_worker.py")
BLOCK = RunBlock(batch=4, steps=1)
GPU = Target(device="gpu:0")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no keeper, docs/design.md")


@pytest.fixture(scope="module")
def template():
    made = Template(worker_environment(Target()), (sys.executable, str(FAKE), "template"))
    assert made.wait(60)
    assert made.refused == ""
    yield made
    made.end()


@pytest.fixture(params=["fresh", pytest.param("forked", marks=LINUX)])
def start(request, monkeypatch):
    """Yield a function that starts a misbehaving worker; every promise holds for a forked one, too."""
    template = request.getfixturevalue("template") if request.param == "forked" else None
    workers = []

    def begin(how, wait=True, target=None, **options):
        monkeypatch.setenv("FAKE_WAY", how)
        options["template"] = template
        worker = ProcessWorker(target or Target(), command=(sys.executable, str(FAKE)), **options)
        assert isinstance(worker._process, Forked) == (template is not None)
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
        worker.ask(BLOCK, deadline_s)
    assert not psutil.pid_exists(worker.pid)
    with pytest.raises(WorkerLost):  # it stays lost
        worker.ask(BLOCK, deadline_s)
    return caught.value


def marked(worker):
    """Return the running processes with a worker's mark."""
    found, mark = [], worker if isinstance(worker, str) else worker._mark
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if one.environ().get(process.MARK) == mark and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one.pid)
    return found


def until(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)


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
    assert lost(start("hang"), deadline_s=0.3).outcome == "hung"
    worker = start("silent", wait=False)
    with pytest.raises(WorkerLost) as caught:
        worker.wait_ready(0.3)
    assert caught.value.outcome == "hung"


@pytest.mark.parametrize("way", ["hang", "stop", "hold", "breed and hang"])
def test_however_a_worker_is_stuck_a_wish_to_stop_ends_the_wait_and_the_worker(start, way):
    class Stop(Exception):
        pass

    began = float("inf")

    def check():
        if time.monotonic() > began + 0.5:
            raise Stop

    worker = start(way, check=check)
    began = time.monotonic()
    with pytest.raises(Stop):
        worker.ask(BLOCK, 600)
    assert time.monotonic() - began < 10
    assert marked(worker) == []
    with pytest.raises(WorkerLost, match="was stopped while"):
        worker.ask(BLOCK, 600)


@pytest.mark.parametrize("way", ["stop", "hold", "breed and hang"])
def test_however_a_worker_is_stuck_it_is_given_up_after_the_deadline(start, way):
    error = lost(worker := start(way), deadline_s=1.2)
    assert "after 1 s" in error.reason
    assert marked(worker) == []


def test_a_worker_that_does_not_read_keeps_nobody_waiting(start):
    worker = start("asleep")
    with pytest.raises(WorkerLost, match="hung after"):
        worker.ask(Describe(entry="x" * (1 << 20), folder="/"), 0.5)


@LINUX
def test_what_a_worker_started_ends_with_it_and_delays_nothing(start):
    worker = start("breed and die")
    error = lost(worker, deadline_s=60.0)
    assert "ended by SIGSEGV" in error.reason
    assert marked(worker) == []
    worker = start("breed")
    worker.ask(BLOCK, 30)
    until(lambda: len(marked(worker)) == 5)  # with the worker and its keeper
    worker.close()
    assert marked(worker) == []


@LINUX
@pytest.mark.parametrize("whom", ["keeper", "worker"])
def test_whoever_is_killed_nothing_that_a_worker_started_is_left(start, whom):
    worker = start("breed and hang")
    pid = worker.pid if whom == "keeper" else worker.ready.pid

    def kill():
        until(lambda: len(marked(worker)) == 5)
        os.kill(pid, signal.SIGKILL)

    threading.Thread(target=kill).start()
    assert "ended by SIGKILL" in lost(worker).reason
    assert marked(worker) == []


PARENT = """
import os, sys, threading
from core.workload.spec import Pipeline, Target, Workload
from core.worker.process import ProcessWorker, worker_environment
from core.worker.protocol import RunBlock
from core.worker.templates import Template
fake, template = (sys.executable, sys.argv[1]), None
if sys.argv[2] == "forked":
    template = Template(worker_environment(Target()), (*fake, "template"))
    template.wait(60)
worker = ProcessWorker(Target(), command=fake, template=template)
if os.environ["FAKE_WAY"] != "silent":
    worker.wait_ready(60)
    threading.Thread(target=worker.ask, args=(RunBlock(batch=4, steps=1), 600), daemon=True).start()
print(worker._mark, worker.pid, template.pid if template else 0, flush=True)
input()
"""


@contextlib.contextmanager
def parent_of(way, start):
    """Start a program with a worker and yield it with its mark, the keeper's pid and its template's keeper's (0:
    none).
    """
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(FAKE), start], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=worker_environment(Target()) | {"FAKE_WAY": way},
    ) as parent:  # fmt: skip
        mark, keeper, template = parent.stdout.readline().decode().split()
        yield parent, mark, int(keeper), int(template)


@LINUX
@pytest.mark.parametrize("start", ["fresh", "forked"])
@pytest.mark.parametrize(
    ("way", "count"), [("hang", 2), ("stop", 2), ("hold", 2), ("breed and hang", 5), ("silent", 2)]
)
def test_a_worker_and_what_it_started_die_with_their_parent(way, count, start):
    with parent_of(way, start) as (parent, mark, _, template):
        until(lambda: len(marked(mark)) == count)
        time.sleep(0.2)  # it is asleep now
        parent.kill()
    until(lambda: marked(mark) == [])
    until(lambda: not template or not psutil.pid_exists(template))


@LINUX
@pytest.mark.parametrize("start", ["fresh", "forked"])
def test_a_worker_dies_even_with_both_its_keeper_and_its_parent_killed(start):
    with parent_of("hold", start) as (parent, mark, keeper, _):
        until(lambda: len(marked(mark)) == 2)
        parent.send_signal(signal.SIGSTOP)  # it can no longer act
        os.kill(keeper, signal.SIGKILL)
        parent.kill()
    until(lambda: marked(mark) == [])


def test_a_flood_is_drained_and_more_than_a_reply_is_garbage(start):
    worker = start("flood")
    assert worker.ask(BLOCK, 60).block_ms == 1.0
    before = psutil.Process().memory_info().rss
    time.sleep(0.5)
    assert worker._replies.qsize() <= process.MAX_WAITING + 1
    assert psutil.Process().memory_info().rss - before < 200e6
    assert "“xxxx" in lost(worker).reason


def test_a_worker_without_its_output_is_stopped(start):
    assert "closed its output" in lost(start("close")).reason


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_killed_worker_is_lost_and_memory_named(start):
    worker = start("hang")
    threading.Timer(0.3, os.kill, (worker.pid, signal.SIGKILL)).start()
    error = lost(worker)
    assert error.outcome == "crashed"
    assert "SIGKILL" in error.reason
    assert "memory" in error.reason


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("counts", "outcome", "says"),
    [
        ((KillCounts(0, ((10**9, 0),)), KillCounts(1, ((10**9, 4),))), "out_of_memory", "memory limit of 1 GB was"),
        (
            (KillCounts(0, ((10**9, 7),)), KillCounts(1, ((10**9, 7),))),
            "out_of_memory",
            "the machine ran out of memory",
        ),
        ((KillCounts(1, ((10**9, 7),)), KillCounts(1, ((10**9, 8),))), "crashed", "something outside killed it"),
    ],
)
def test_a_kill_by_the_container_is_told_from_others(start, monkeypatch, counts, outcome, says):
    worker = start("suicide")
    read = iter(counts)  # after asking, and when the worker has ended
    monkeypatch.setattr(process, "read_kills", lambda: next(read))
    error = lost(worker)
    assert error.outcome == outcome
    assert "ended by SIGKILL" in error.reason
    assert says in error.reason


def test_a_failed_reply_costs_the_cell_only_and_one_too_many_the_worker(start):
    worker = start("failed")
    with pytest.raises(CellFailed) as caught:
        worker.ask(RunBlock(batch=4, steps=1), 30)
    assert caught.value.outcome == "nan_loss"
    assert "loss is nan" in caught.value.reason
    worker.ask(Release(batch=4), 60)
    worker = start("twice")
    assert worker.ask(RunBlock(batch=4, steps=2), 30).block_ms == 1.0  # a second answer is not taken for the next one
    assert lost(worker).outcome == "crashed"


@pytest.mark.parametrize(
    ("how", "target", "says"),
    [
        ("no libraries", GPU, "only the CPU. TensorFlow could not load some of its CUDA libraries; run"),
        ("no gpu", GPU, "only the CPU. A GPU needs NVIDIA's driver"),
        ("no libraries", Target(), "only the CPU."),
    ],
)
def test_a_gpu_that_is_not_found_is_explained_by_what_the_framework_logged(start, how, target, says):
    worker = start(how, wait=False, target=target)
    with pytest.raises(CellFailed, match="no gpu:0") as caught:
        worker.wait_ready(30)
    assert says in caught.value.reason
    assert target.is_gpu or caught.value.reason.endswith(says)
    assert len(caught.value.reason) < 300


def test_a_worker_whose_gpu_failed_for_good_is_lost_with_the_reason(start):
    error = lost(start("broken", target=GPU))
    assert error.outcome == "crashed"
    assert "GPU failed" in error.reason
    error = lost(start("aborted", target=GPU))
    assert error.outcome == "crashed"
    assert "ended by SIGABRT" in error.reason
    assert "NVIDIA's driver" in error.reason
    assert "driver" not in lost(start("aborted")).reason  # unrelated to a GPU


def test_a_gpu_that_is_slow_to_prepare_is_said_to_be_compiling(start):
    request = Prepare(workload=Workload(network="8-8-2"), pipeline=Pipeline(), batch=4)
    for how, target, says in (
        ("hang", GPU, "Compiling for a GPU may take that long"),
        ("no kernels", GPU, "no code for the GPU's compute capability (12.0)"),  # known since its start
        ("hang", Target(), "while preparing batch 4."),
    ):
        with pytest.raises(WorkerLost, match="hung after") as caught:
            start(how, target=target).ask(request, 0.3)
        assert says in caught.value.reason
        assert target.is_gpu or caught.value.reason.endswith(says)
    assert "ompiling" not in lost(start("hang", target=GPU), deadline_s=0.3).reason  # a block compiles nothing


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
        launch_processes((Target(), Target(threads=1)), deadline_s=1)
    assert len(started) == 2
    assert not any(psutil.pid_exists(worker.pid) for worker in started)


def test_environment_hides_gpus_from_cpu_targets_only_and_those_share_the_free_memory(monkeypatch):
    cpu, gpu = worker_environment(Target(threads=3)), worker_environment(Target(device="gpu:0"))
    assert (cpu["CUDA_VISIBLE_DEVICES"], cpu["OMP_NUM_THREADS"]) == ("-1", "3")
    assert (cpu["TF_CPP_MIN_LOG_LEVEL"], gpu["TF_CPP_MIN_LOG_LEVEL"]) == ("2", "0")  # a GPU's causes are information
    assert gpu.get("CUDA_VISIBLE_DEVICES") == os.environ.get("CUDA_VISIBLE_DEVICES")
    assert Path(cpu["PYTHONPATH"].split(os.pathsep)[0], "core", "worker", "server.py").is_file()
    monkeypatch.setattr(process, "available_memory_bytes", lambda: 1000)
    assert memory_limits((Target(), Target(threads=1))) == [450, 450]
    assert memory_limits((Target(), Target(device="gpu:0"))) == [900, None]


def test_code_of_others_is_refused_unless_it_is_asked_for():
    assert Hello(target=Target()).allow_code is False
    for start in (ProcessWorker, launch_processes):
        assert inspect.signature(start).parameters["allow_code"].default is False


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
