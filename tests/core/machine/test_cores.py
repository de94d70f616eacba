"""The cores to which a worker is bound, the threads that are bound, and that it stays within its cores."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.machine.cores import Place, bind, spread

ROOT = Path(__file__).parents[3]
LINUX = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes are bound to cores on Linux only")


def as_fast(_: int) -> int:
    return 1024


def test_cores_are_taken_from_the_last_one_of_each_physical_core_first() -> None:
    def siblings(core: int) -> str:
        return str(core % 4)  # 0 and 4 are the two threads of one core

    assert spread(range(8), 1, siblings, as_fast) == {7}
    assert spread(range(8), 4, siblings, as_fast) == {4, 5, 6, 7}
    assert spread(range(8), 5, siblings, as_fast) == {3, 4, 5, 6, 7}
    assert spread(range(8), 99, siblings, as_fast) == set(range(8))
    assert spread((2, 5), 1, siblings, as_fast) == {5}


def test_fast_cores_come_before_slow_ones_and_those_before_a_second_thread_of_a_fast_one() -> None:
    def siblings(core: int) -> str:
        return str(core // 2 if core < 4 else core)  # two P cores of two threads each, then two E cores

    def speed(core: int) -> int:
        return 5_000 if core < 4 else 3_800

    assert spread(range(6), 1, siblings, speed) == {3}
    assert spread(range(6), 2, siblings, speed) == {1, 3}
    assert spread(range(6), 4, siblings, speed) == {1, 3, 4, 5}
    assert spread(range(6), 5, siblings, speed) == {1, 2, 3, 4, 5}


THREADS = """
import os, threading
from core.machine.cores import Place

def cores_of_all():
    return {tuple(sorted(os.sched_getaffinity(int(task)))) for task in os.listdir("/proc/self/task")}

os.sched_setaffinity(0, set(%s))
waiting = threading.Event()
threading.Thread(target=waiting.wait).start()
place = Place(1)
seen = [place.take(), cores_of_all()]
threading.Thread(target=waiting.wait).start()  # has them from the thread that starts it
seen += [cores_of_all(), place.take(own=False), cores_of_all()]
waiting.set()
print(seen == %s)
"""


@LINUX
def test_all_threads_are_bound_also_those_that_started_before_or_start_later_and_can_be_let_go() -> None:
    cores = tuple(sorted(os.sched_getaffinity(0)))
    own = {tuple(sorted(spread(cores, 1)))}
    assert last_line(THREADS % (cores, [True, own, own, True, {cores}])) == "True"


@LINUX
def test_a_process_stays_within_the_cores_that_it_was_started_with() -> None:
    first = (min(os.sched_getaffinity(0)),)
    assert last_line(THREADS % (first, [True, {first}, {first}, True, {first}])) == "True"


def last_line(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.strip()


def test_where_the_system_binds_nothing_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    place = Place(1)
    assert (place.take(), place.take(own=False)) == (False, False)


@LINUX
def test_a_refusal_leaves_things_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    place = Place(1)
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert bind({0}) is False
    assert place.take() is (len(os.sched_getaffinity(0)) == 1)
