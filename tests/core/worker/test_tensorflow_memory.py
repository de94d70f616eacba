"""The watch over a worker's memory, with a real framework: few processes, small networks."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from core.spec import Pipeline, Target, Workload
from core.studies.memory.plan import MemoryPlan
from core.studies.memory.run import MemorySearch, run_memory_study
from core.studies.runner import StudyTools
from core.worker.clock import WallClock
from core.worker.process import ROOT, launch_processes
from core.worker.protocol import Prepare, WorkerError

LIMIT = 950_000_000
ONE = Target(threads=1)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="resident memory is reset and read on Linux only")

# Takes memory by 20 MB until the watch ends it; the framework's modules are not needed for that
HUNGRY = """
import sys, types
sys.modules["tensorflow"] = types.ModuleType("tensorflow")
from core.worker.tensorflow_memory import watch_memory
watch_memory(300_000_000, gpu=False)
held = []
for _ in range(100):
    held.append(bytearray(20_000_000))
    print(len(held), flush=True)
"""


@LINUX
def test_a_process_that_passes_its_limit_ends_and_says_why() -> None:
    done = subprocess.run([sys.executable, "-c", HUNGRY], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "memory is short: resident memory is 3" in done.stderr
    assert 5 <= int(done.stdout.split()[-1]) <= 20  # far from the 2 GB that it wanted


@pytest.mark.tensorflow
@LINUX
def test_a_worker_under_a_limit_is_lost_to_it_and_the_parent_knows() -> None:
    (worker,) = launch_processes((ONE,), 120.0, limit_bytes=LIMIT)
    try:
        assert worker.ready.memory_bytes is not None
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
