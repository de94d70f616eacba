"""The guard of a worker's memory, with a real framework: few processes, small networks."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from core.studies.memory.record import MemoryPlan
from core.studies.memory.run import MemorySearch, run_memory_study
from core.studies.runner import StudyTools
from core.worker.clock import WallClock
from core.worker.process import ROOT, launch_processes
from core.worker.protocol import Prepare, WorkerError
from core.workload.spec import Pipeline, Target, Workload

LIMIT = 950_000_000
ONE = Target(threads=1)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is reset and read on Linux only")

# Takes memory by 20 MB until the watch ends it; the framework's modules are not needed for that. After each piece the
# watch gets its turn to look, however busy the machine is
HUNGRY = """
import time, types
from core.worker import memory
looks, held = [], []
memory.time = types.SimpleNamespace(sleep=lambda seconds: (looks.append(seconds), time.sleep(seconds)))
memory.watch_memory(300_000_000)
for _ in range(100):
    held.append(bytearray(20_000_000))
    print(len(held), flush=True)
    seen = len(looks)
    while len(looks) < seen + 2:
        time.sleep(0.001)
"""


@LINUX
def test_a_process_that_passes_its_limit_ends_and_says_why() -> None:
    done = subprocess.run([sys.executable, "-c", HUNGRY], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "resident memory is" in done.stderr
    assert 5 <= int(done.stdout.split()[-1]) <= 15  # at most one piece beyond the limit, of the 2 GB that it wanted


def hungry(ulimit: str, code: str = HUNGRY) -> subprocess.CompletedProcess[str]:
    command = f"ulimit {ulimit}; {shlex.quote(sys.executable)} -c {shlex.quote(code)}"
    return subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)


@LINUX
@pytest.mark.parametrize(
    ("ulimit", "says"),
    [
        ("-d 500000", "may only have 512 MB of data (ulimit -d) here"),
        ("-v 750000", "may only have 768 MB of address space (ulimit -v) here"),
    ],
)
def test_a_limit_that_the_system_would_not_let_be_reached_is_refused(ulimit: str, says: str) -> None:
    done = hungry(ulimit)
    assert done.returncode == 1
    assert "300 MB" in done.stderr
    assert says in done.stderr
    assert done.stdout == ""  # nothing was taken


@LINUX
def test_a_limit_above_that_of_the_system_leaves_the_systems() -> None:
    begin, _, _ = HUNGRY.partition("from core")
    code = f"{begin}import resource\nfrom core.worker.memory import limit_memory\nlimit_memory(10**12, 0)\n"
    done = hungry("-d 500000", f"{code}print(resource.getrlimit(resource.RLIMIT_DATA))")
    assert done.stdout.strip() == "(512000000, 512000000)"


# Holds 300 MB of a file's pages, as a process does of its libraries
MAPPED = """
import mmap, resource
from core.worker import memory
file = open("pages", "w+b")
file.truncate(300_000_000)
pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
before = memory.held_bytes(), memory.taken_bytes()
assert not any(pages[::mmap.PAGESIZE])
after = memory.held_bytes(), memory.taken_bytes()
print(after[0] - before[0], after[1] - before[1], flush=True)
memory.limit_memory(300_000_000, memory.taken_bytes())
held = bytearray(100_000_000)
try:
    more = bytearray(300_000_000)
except MemoryError:
    print("enough")
"""


@LINUX
def test_pages_of_files_take_nothing_of_the_memory_that_is_available(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAPPED]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    held, taken, last = done.stdout.split()
    assert int(held) > 280_000_000
    assert int(taken) < 20_000_000
    assert last == "enough"


@pytest.mark.tensorflow
@pytest.mark.parametrize(("threads", "expected"), [(None, 3), (2, 2)])
def test_the_frameworks_threads_follow_a_cpu_quota(threads: int | None, expected: int) -> None:
    code = f"""
from core.workload.spec import Target
from core.worker.tensorflow import devices
devices.quota_cores = lambda: 3
devices.start_devices(Target(threads={threads}), None)
of = devices.tf.config.threading
print(of.get_intra_op_parallelism_threads(), of.get_inter_op_parallelism_threads())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [str(expected)] * 2


@pytest.mark.tensorflow
@LINUX
def test_a_worker_under_a_limit_is_lost_to_it_and_the_parent_knows() -> None:
    (worker,) = launch_processes((ONE,), 120.0, limit_bytes=LIMIT)
    try:
        assert 200e6 < worker.ready.memory_bytes < LIMIT
        huge = Workload(network="784-2048x2-10")
        with pytest.raises(WorkerError) as caught:
            worker.ask(Prepare(workload=huge, pipeline=Pipeline(), batch=16_384), 120.0)
        assert caught.value.outcome == "out_of_memory"
    finally:
        worker.close()


@pytest.mark.tensorflow
@LINUX
def test_a_study_of_real_workers_brackets_the_limit() -> None:
    plan = MemoryPlan(workload=Workload(network="64-512-10", mode="infer"), target=ONE, limit_bytes=LIMIT, budget_s=25)
    tools = StudyTools(launch_processes, WallClock(), threading.Event(), None, lambda _: None)
    study = run_memory_study(tools, MemorySearch(plan))
    assert study.status == "finished"
    assert study.largest_fitted is not None
    for probe in study.probes:
        assert probe.baseline_bytes is not None
        assert not probe.fitted or probe.baseline_bytes < (probe.peak_bytes or 0) <= LIMIT
