"""One measurement at a time per machine, across processes."""

import os
import subprocess
import sys

import pytest

from core.machine.lock import Busy, holder, lock_path, machine_lock

HOLD = """
import sys
from core.machine.lock import machine_lock
with machine_lock("a long sweep"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other_process():
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ.copy()
    )
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "held"
    yield child
    child.kill()
    child.wait()


def test_a_free_machine_has_no_holder_even_after_measuring_failed() -> None:
    assert holder() is None
    with machine_lock("mine"):
        assert holder() is None, "one's own measurement is not another's"
    assert holder() is None
    with pytest.raises(RuntimeError), machine_lock("mine"):
        raise RuntimeError
    with machine_lock("again"):
        pass


def test_another_process_is_named_and_refused_even_by_a_damaged_note(other_process: subprocess.Popen) -> None:
    assert holder() == f"Another Breakeven process (pid {other_process.pid}) is measuring: a long sweep."
    with pytest.raises(Busy, match="a long sweep"), machine_lock("mine"):
        pytest.fail("the lock was given twice")
    assert other_process.poll() is None
    lock_path().with_suffix(".json").write_text("{", encoding="utf-8")
    assert holder() == "Another Breakeven process is measuring on this machine."


def test_a_killed_holder_frees_the_machine(other_process: subprocess.Popen) -> None:
    other_process.kill()
    other_process.wait()
    assert holder() is None
    with machine_lock("mine"):
        assert lock_path().exists()
