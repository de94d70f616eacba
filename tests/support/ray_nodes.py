"""Code on the nodes of a real Ray cluster in tests: the real node code around simulated workers.

Each worker has a real process beside it, so that leftovers can be seen. As a program it is a driver that measures on
the nodes with these labels: ``python -m tests.support.ray_nodes ADDRESS LABEL…``
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import psutil

from core.rounds.plan import SweepPlan
from core.studies.fleet.node import NodeRun
from core.studies.fleet.ray_cluster import RayCluster
from core.studies.fleet.record import FleetPlan
from core.studies.fleet.run import run_fleet
from core.studies.runner import StudyTools
from core.worker.children import start
from simulated.fleets import FleetRecorder
from simulated.simulation import Curve, Machine, SimulatedWorker
from simulated.sweeps import TARGETS, plan

SPEED = 6.0
"""Speed of the simulated workers' clock."""
CHILD = "import time; time.sleep(600)  # a worker of a simulated node"
CLUSTER = "BREAKEVEN_TEST_CLUSTER"
"""Environment variable of all processes of one cluster."""
A_NODE = 4
"""Number of processes per node: its two workers, and their keepers."""
SHORT = plan("1:16", targets=TARGETS[3:5], budget_s=20.0, trace=False, refine=False, step_width=0.001)
LONG = SHORT.model_copy(update={"budget_s": 90.0})


class SleepingClock:
    """A virtual clock that really sleeps."""

    time_s = 0.0

    def now_s(self) -> float:
        return self.time_s

    def advance(self, seconds: float) -> None:
        time.sleep(seconds / SPEED)
        self.time_s += seconds


class WithProcess:
    """A simulated worker, and its process."""

    def __init__(self, worker: SimulatedWorker) -> None:
        self._worker, self.ready = worker, worker.ready
        self._process = start((sys.executable, "-c", CHILD), dict(os.environ))

    def ask(self, request: Any, deadline_s: float) -> Any:
        return self._worker.ask(request, deadline_s)

    def cpu_time_s(self) -> float:
        return 0.0

    def close(self) -> None:
        self._worker.close()
        self._process.terminate()
        self._process.wait(5)


class SimulatedNode(NodeRun):
    """A NodeRun that measures nothing real, and so needs no machine for itself."""

    def __init__(self) -> None:
        os.environ["BREAKEVEN_LOCK_DIR"] = tempfile.mkdtemp()
        clock: Any = SleepingClock()
        machine = Machine((Curve(0.3, 0.02), Curve(0.8, 0.01)), startup_s=1.0, clock=clock)

        def launch(*given: Any) -> tuple[WithProcess, ...]:
            return tuple(map(WithProcess, machine.launch(*given)))

        launcher: Any = launch
        super().__init__(launcher, clock, lambda: None, lambda: None)


def children() -> list[psutil.Process]:
    """Return live processes of simulated workers, and their keepers, on any node of this test's cluster."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        mine = (process.info["environ"] or {}).get(CLUSTER) == os.environ.get(CLUSTER)
        if mine and CHILD in (process.info["cmdline"] or ()):
            found.append(process)
    return found


def tools(cancel: threading.Event, report: Any, recorder: Any) -> StudyTools:
    from core.worker.clock import WallClock

    def no_worker(*_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is measured here")

    return StudyTools(no_worker, WallClock(), cancel, None, report, recorder)


def fleet_plan(*labels: str, sweep: SweepPlan = SHORT) -> FleetPlan:
    return FleetPlan(sweep=sweep, machines=tuple({"place": label} for label in labels), address="auto")


def driver(address: str, labels: list[str]) -> None:
    """Measure long sweeps, and print each machine's state and reason whenever it changes."""
    said: set[str] = set()

    def report(progress: Any) -> None:
        for machine in progress.record.machines:
            line = f"{machine.name} {machine.labels['place']} {machine.state}: {machine.reason}"
            if line not in said:
                said.add(line)
                print(line, flush=True)

    cluster = RayCluster(address, SimulatedNode)
    try:
        run_fleet(tools(threading.Event(), report, FleetRecorder()), fleet_plan(*labels, sweep=LONG), cluster)
    finally:
        cluster.close()


def start_driver(address: str, *labels: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.ray_nodes", address, *labels]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    driver(sys.argv[1], sys.argv[2:])
