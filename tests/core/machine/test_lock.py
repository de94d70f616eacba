"""One measurement at a time per machine, across processes."""

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.base.schema import UserError
from core.machine.lock import NAMELESS, Busy, _read_note, holder, left_s, lock_path, machine_lock, this_host

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


def note() -> Path:
    return lock_path().with_suffix(".json")


def test_those_who_wait_learn_when_the_machine_is_free_at_the_latest() -> None:
    assert left_s() is None
    with machine_lock("mine") as held:
        assert left_s() is None
        held.ends_in(0)  # unknown end
        assert left_s() is None
        held.ends_in(90)
        assert 80 < left_s() <= 90
        written = note().read_bytes()
        held.ends_in(91)
        assert note().read_bytes() == written  # a small change is not worth a write
        held.ends_in(20)
        assert left_s() <= 20
        assert _read_note().title == "mine"
    assert left_s() is None


def test_another_process_is_named_and_refused_even_by_a_damaged_note(other_process: subprocess.Popen) -> None:
    named = (
        rf"Another Breakeven process \(pid {other_process.pid}\) has been measuring since \d\d:\d\d UTC: a long sweep\."
    )
    assert re.fullmatch(named, holder() or "")
    with pytest.raises(Busy, match="a long sweep"), machine_lock("mine"):
        pytest.fail("the lock was given twice")
    assert other_process.poll() is None
    note().write_text("{", encoding="utf-8")
    assert holder() == NAMELESS


def test_the_note_of_another_container_is_believed_whatever_runs_here(other_process: subprocess.Popen) -> None:
    assert other_process.poll() is None
    for pid in (os.getpid(), 2**31 - 1):
        note().write_text(valid(host="another", pid=pid))
        assert f"(pid {pid})" in str(holder())


def valid(**changes: object) -> str:
    return json.dumps(
        {"host": this_host(), "pid": os.getpid(), "title": "x", "since": "2026-01-01T00:00:00Z"} | changes
    )


NOTES = {
    "empty": "",
    "list": "[]",
    "words for a number": valid(pid="many"),
    "no process": valid(pid=0),
    "nobody": valid(pid=2**31 - 1),
    "long": valid(title="x" * 10_000),
    "more": valid(more=1),
    "no time": valid(since="noon"),
    "late": " " * 5000 + valid(),
    "no text": "\ud800",
}


@pytest.mark.parametrize("name", NOTES)
def test_a_note_is_data_and_says_nothing_when_it_is_not_as_it_should_be(
    other_process: subprocess.Popen, name: str
) -> None:
    assert other_process.poll() is None
    note().write_bytes(NOTES[name].encode("utf-8", "surrogatepass"))
    assert holder() == NAMELESS


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory"])
def test_something_else_in_place_of_the_note_is_neither_followed_nor_waited_for(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other.json"
    other.write_text(valid(title="of another"))
    place(kind, note(), other)
    with machine_lock("mine"):
        assert other.read_text() == valid(title="of another")
    place(kind, note(), other)
    assert _read_note() is None
    assert holder() is None


def place(kind: str, path: Path, target: Path) -> None:
    with contextlib.suppress(FileExistsError):
        {"symlink": lambda: path.symlink_to(target), "fifo": lambda: os.mkfifo(path), "directory": path.mkdir}[kind]()


@pytest.mark.parametrize("kind", ["symlink", "directory"])
def test_something_else_in_place_of_the_lock_is_one_sentence(tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_text("keep")
    place(kind, lock_path(), other)
    with pytest.raises(UserError, match="BREAKEVEN_LOCK_DIR names another") as caught, machine_lock("mine"):
        pytest.fail("locked something else")
    assert holder() == str(caught.value)
    assert other.read_text() == "keep"


def test_the_lock_lies_in_a_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BREAKEVEN_LOCK_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with machine_lock("mine"):
        folder = lock_path().parent
        assert folder == tmp_path / "state" / "breakeven"
        assert {stat.S_IMODE(path.stat().st_mode) for path in (lock_path(), note())} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_without_a_home_it_lies_in_a_private_folder_among_the_temporary_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BREAKEVEN_LOCK_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with machine_lock("mine"):
        folder = lock_path().parent
    assert (folder, stat.S_IMODE(folder.stat().st_mode)) == (tmp_path / f"breakeven-{os.getuid()}", 0o700)
    folder.chmod(0o777)
    with pytest.raises(UserError, match="not this user's"), machine_lock("mine"):
        pytest.fail("anybody could hold it")
    assert "not this user's" in str(holder())
    shutil.rmtree(folder)
    folder.symlink_to(tmp_path)
    assert "not this user's" in str(holder())


def test_those_who_only_look_do_not_see_each_other() -> None:
    """Look eight times at once without a pause; each look takes the lock for a moment."""
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: holder(), range(2000))) == {None}


def test_what_a_pipe_says_is_no_note() -> None:
    os.mkfifo(note())
    fd = os.open(note(), os.O_RDWR | os.O_NONBLOCK)
    os.write(fd, valid().encode())
    assert _read_note() is None
    os.close(fd)


def test_a_killed_holder_frees_the_machine(other_process: subprocess.Popen) -> None:
    other_process.kill()
    other_process.wait()
    assert holder() is None
    assert not note().exists(), "a later process may have the same number"
    with machine_lock("mine"):
        assert lock_path().exists()
