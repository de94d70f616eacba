"""The measuring side of a fleet run: the engine's own run, polled for its records; waits, refusals, an end."""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.base.evidence import Process
from core.machine import cores
from core.machine.lock import machine_lock
from core.rounds.run import Round, Run, RunRecord
from core.studies.fleet import node
from core.studies.fleet.cluster import RunEnd, Update
from core.studies.fleet.node import NodeRun
from core.workload.spec import Pipeline
from simulated.simulation import Curve, Machine
from simulated.sweeps import TARGETS, new_run, plan

ROOT = Path(__file__).parents[4]
PLAN = plan("1:64", targets=TARGETS[3:5], budget_s=10.0, trace=False)


def started(run: Run | None = None, machine: Machine | None = None) -> NodeRun:
    """Return a node that measures in a thread, as on a cluster."""
    machine = machine or Machine((Curve(0.3, 0.02), Curve(0.8, 0.01)))
    measuring = NodeRun(machine.launch, machine.clock, lambda: None, lambda: None)
    threading.Thread(target=measuring.measure, args=(run or new_run(PLAN),), daemon=True).start()
    return measuring


def polled(measuring: NodeRun, last_seq: int = 0) -> tuple[Run | None, list[RunRecord], RunEnd]:
    """Return its run without records, all records from there on, and its end, polled as by a fleet run."""
    records: list[RunRecord] = []
    begun, update = None, Update()
    while update.end is None:
        time.sleep(0.01)
        update = measuring.poll(last_seq + len(records))
        assert update.last_seq == last_seq + len(records)
        begun = begun or update.begun
        records += update.records
    return begun, records, update.end


def update_where(measuring: NodeRun, holds: Callable[[Update], object]) -> Update:
    while not holds(update := measuring.poll(0)):
        time.sleep(0.01)
    return update


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Restore what a node's process gives up."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_it_reports_the_whole_run_of_the_engine_with_this_machines_environment() -> None:
    begun, records, end = polled(started())
    assert (begun.id, begun.rounds, begun.environment.python) == ("simulated-1", (), sys.version.split()[0])
    assert end.status == "finished"
    rounds = [record for record in records if isinstance(record, Round)]
    assert [item.index for item in rounds] == list(range(len(rounds)))
    assert len(rounds) > 10
    assert isinstance(records[0], Process)


def test_limits_of_threads_that_it_was_started_with_are_gone_before_a_worker_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert polled(started())[2].status == "finished"
    assert "OMP_NUM_THREADS" not in os.environ


def test_a_poll_that_is_repeated_returns_the_same_records() -> None:
    measuring = started()
    begun, records, _ = polled(measuring)
    assert polled(measuring, len(records) - 3)[1] == records[-3:]
    assert measuring.poll(0) == measuring.poll(0)
    assert measuring.poll(0).begun == begun
    assert pickle.loads(pickle.dumps(measuring.poll(0))) == measuring.poll(0)


@pytest.mark.usefixtures("no_patience")
def test_it_waits_for_the_machine_and_says_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "BUSY_AGAIN_S", 0.01)
    with machine_lock("Another sweep"):
        measuring = started()
        update = update_where(measuring, lambda update: update.waiting)
        assert (update.begun, update.records, update.end) == (None, (), None)
        assert "Another" in update.waiting
    assert polled(measuring)[2].status == "finished"


@pytest.mark.usefixtures("no_patience")
def test_a_wish_to_stop_ends_a_wait_at_once() -> None:
    with machine_lock("Another sweep"):
        measuring = started()
        update_where(measuring, lambda update: update.waiting)
        measuring.cancel()
        end = polled(measuring)[2]
    assert (end.status, end.refused) == ("cancelled", False)


def test_a_run_that_nobody_polls_any_more_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "ALONE_S", -1.0)
    assert polled(started())[2].status == "interrupted"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"targets": (TARGETS[3], TARGETS[4].model_copy(update={"python": "/bin/false"}))}, "program to run"),
        ({"pipeline": Pipeline(kind="tfdata", data="/nowhere/data.npz")}, "/nowhere/data.npz"),
    ],
)  # fmt: skip
def test_what_this_machine_cannot_or_must_not_measure_is_refused(changes: dict[str, Any], words: str) -> None:
    begun, records, end = polled(started(new_run(PLAN.model_copy(update=changes))))
    assert (begun, records, end.status, end.refused) == (None, [], "failed", True)
    assert words in end.reason


def test_a_defect_ends_the_run_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(node, "run_sweep", broken)
    end = polled(started())[2]
    assert end.status == "failed"
    assert "a defect" in end.reason


def test_limits_of_threads_are_taken_away_and_niceness_where_that_may_be() -> None:
    def look(monkey: dict[str, str]) -> tuple[int | None, dict[str, str]]:
        return cores.unhindered(monkey), monkey

    left = []
    thread = threading.Thread(target=lambda: left.append(look({"OMP_NUM_THREADS": "1", "HOME": "/"})))
    thread.start()
    thread.join()
    assert left[0][1] == {"HOME": "/"}
    if os.geteuid() == 0:
        assert left[0][0] == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
def test_who_may_not_come_first_again_stays_nice() -> None:
    code = (
        "import os, sys; from core.machine.cores import unhindered; os.nice(7); os.setuid(65534); "
        "sys.exit(unhindered())"
    )
    before = os.nice(0)
    root = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=root, check=False)
    assert done.returncode in (before + 7, 19)
