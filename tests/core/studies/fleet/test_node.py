"""The measuring side of a fleet run: the engine's own run, reported in numbered items; waits, refusals, an end."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.base.evidence import Process
from core.base.schema import UserError
from core.machine import cores
from core.machine.lock import machine_lock
from core.rounds.run import Round, Run
from core.studies.fleet import messages, node
from core.studies.fleet.messages import Ended, Garbled, Spool, Waits
from core.studies.fleet.node import NodeRun
from core.studies.runner import NullRecorder
from core.workload.spec import Pipeline
from simulated.fleets import GARBAGE, FleetRecorder, records_of, template
from simulated.simulation import Curve, Machine
from simulated.sweeps import TARGETS, new_run, plan

ROOT = Path(__file__).parents[4]
PLAN = plan("1:64", targets=TARGETS[3:5], budget_s=10.0, trace=False)


def begun(run: Run | None = None, machine: Machine | None = None) -> NodeRun:
    machine = machine or Machine((Curve(0.3, 0.02), Curve(0.8, 0.01)))
    found = NodeRun(machine.launch, machine.clock, lambda: None, lambda: None)
    found.begin((run or new_run(PLAN)).model_dump_json().encode())
    return found


def told(found: NodeRun, known: int = 0) -> list[Any]:
    """Return everything that it reports from there on, polled as by a coordinator."""
    items: list[Any] = []
    while not (items and isinstance(items[-1], Ended)):
        answer = messages.decode(found.take(7, known + len(items), 0.01))
        assert answer.first == known + len(items) + 1
        items += answer.items
    return items


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Restore what a node's process gives up."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_it_tells_the_whole_run_of_the_engine_with_this_machines_environment() -> None:
    first, *items, ended = told(begun())
    assert (first.id, first.rounds, first.environment.python) == ("simulated-1", (), sys.version.split()[0])
    assert ended.status == "finished"
    rounds = [item for item in items if isinstance(item, Round)]
    assert [item.index for item in rounds] == list(range(len(rounds)))
    assert len(rounds) > 10
    assert isinstance(items[0], Process)


def test_limits_of_threads_that_it_was_started_with_are_gone_before_a_worker_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert told(begun())[-1].status == "finished"
    assert "OMP_NUM_THREADS" not in os.environ


def test_what_is_not_known_yet_is_told_again() -> None:
    found = begun()
    items = told(found)
    again = messages.decode(found.take(7, len(items) - 3, 0.01))
    assert list(again.items) == items[-len(again.items) :]


def test_it_waits_for_the_machine_and_says_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "BUSY_AGAIN_S", 0.01)
    with machine_lock("Another sweep"):
        found = begun()
        waits = messages.decode(found.take(7, 0, 0.0))
        assert [type(item) for item in waits.items] == [Waits]
        assert "Another" in waits.items[0].reason
    assert told(found)[-1].status == "finished"


def test_a_wish_to_stop_ends_a_wait_at_once() -> None:
    with machine_lock("Another sweep"):
        found = begun()
        found.take(7, 0, 0.0)
        found.cancel()
        ended = told(found)[-1]
    assert (ended.status, ended.refused) == ("cancelled", False)


def test_who_asks_no_more_is_gone_and_the_run_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "ALONE_S", -1.0)
    assert told(begun())[-1].status == "interrupted"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"targets": (TARGETS[3], TARGETS[4].model_copy(update={"python": "/bin/false"}))}, "program to run"),
        ({"pipeline": Pipeline(kind="tfdata", data="/nowhere/data.npz")}, "/nowhere/data.npz"),
    ],
)  # fmt: skip
def test_what_this_machine_cannot_or_must_not_measure_is_refused(changes: dict[str, Any], words: str) -> None:
    ended = told(begun(new_run(PLAN.model_copy(update=changes))))[-1]
    assert (ended.status, ended.refused) == ("failed", True)
    assert words in ended.reason


def test_a_defect_ends_the_run_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(node, "run_sweep", broken)
    assert told(begun())[-1].reason == "It stopped: a defect"


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


def test_a_spool_gives_back_the_run_that_it_was_told() -> None:
    made, recorder = template(), FleetRecorder()
    bare = made.model_copy(update={"processes": (), "setups": (), "rounds": (), "cells": (), "warnings": ()})
    records = tuple(records_of(made))
    with Spool(recorder) as spool:
        spool.begin(bare)
        spool.record(bare.id, records[:50])
        spool.record(bare.id, records[50:])
        spool.finish(bare.id, "finished", 12.0)
        back = spool.run(bare.id)
    expected = made.model_copy(update={"elapsed_s": 12.0, "warnings": ()})
    assert back == expected.model_copy(update={"cells": back.cells})
    assert sorted(back.cells, key=str) == sorted(made.cells, key=str)
    assert recorder.records[bare.id] == list(records)
    with Spool(NullRecorder()) as spool, pytest.raises(OSError, match="No such file"):
        spool.run("never-begun")


@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_is_not_in_the_protocol_is_garbled(garbage: object) -> None:
    with pytest.raises(Garbled, match=r"^It answered what is not in the protocol"):
        messages.decode(garbage)


def test_items_survive_the_way_and_long_answers_are_parted() -> None:
    made = template()
    records = tuple(records_of(made))
    encoded = [messages.encode(item) for item in records]
    answer = messages.decode(messages.answer("run-1", 9, 4, encoded, 'At "it"', 3.0))
    assert (answer.items, answer.run_id, answer.question, answer.first) == (records, "run-1", 9, 4)
    assert answer.activity == 'At "it"'
    assert answer.after(5) == records[2:]
    assert answer.after(1000) == ()
    assert len(messages.fitting(encoded * 20)) == messages.MAX_ITEMS
    assert len(messages.fitting([b"x" * 1_500_000] * 9)) == 2
    with pytest.raises(UserError):
        messages.decode(messages.answer("run-1", 1, 1, [b'["shell",{}]']))


def test_taking_waits_until_items_are_old_enough_or_an_answer_is_due() -> None:
    with machine_lock("Another sweep"):
        found = begun()
        messages.decode(found.take(7, 0, 0.0))
        begin_s = time.monotonic()
        assert messages.decode(found.take(7, 1, 0.0, answer_s=0.2)).items == ()
        assert 0.15 < time.monotonic() - begin_s < 5
        found.cancel()
        told(found, 1)
