"""Files that users name: which are opened, which are refused with one sentence, and how much is read."""

import os
import socket
import sys
from pathlib import Path

import pytest

from core.base.files import check_place, is_folder, look, open_file, read_limited, size_of
from core.base.schema import UserError

BAD = {
    "a folder": "Is a directory",
    "a pipe": "no file",
    "a socket": "no file",
    "a device": "no file",
    "a loop": "symbolic links",
    "nothing": "No such file",
    "below a file": "Not a directory",
    "too long": "too long",
    "a NUL": "null",
    "half a character": "surrogates",
}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """Create by name what may lie at the end of a path."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_bytes(b"hello")
    server = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(tmp_path)  # a socket's name must be short
    server.bind("socket")
    os.chdir(here)
    server.close()
    return {
        "a folder": tmp_path, "a pipe": tmp_path / "pipe", "a socket": tmp_path / "socket", "a loop": tmp_path / "loop",
        "a device": Path("/dev/zero"), "nothing": tmp_path / "nothing", "below a file": tmp_path / "file" / "x",
        "too long": tmp_path / ("x" * 300), "a NUL": tmp_path / "a\0b", "half a character": tmp_path / "a\ud800b",
    }  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("read", [open_file, size_of, lambda path: read_limited(path, 10, "a plan")])
def test_only_a_regular_file_is_opened(places, kind, read):
    with pytest.raises(UserError, match=BAD[kind]) as refused:
        read(places[kind])
    assert str(refused.value).isprintable()


def test_a_file_is_read_up_to_its_limit(places):
    path = places["below a file"].parent
    assert read_limited(path, 5, "a plan") == b"hello"
    assert size_of(path) == 5
    with pytest.raises(UserError, match="up to 4"):
        read_limited(path, 4, "a plan")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such files")
def test_a_file_that_says_it_is_empty_is_read_no_further_than_its_limit():
    """Read a file of the system, which has no size but content."""
    with pytest.raises(UserError, match="too large"):
        read_limited(Path("/proc/self/status"), 100, "a plan")


def test_what_was_exchanged_for_a_pipe_meanwhile_is_not_waited_for(places, monkeypatch):
    found = places["below a file"].parent.stat()
    monkeypatch.setattr(Path, "stat", lambda _: found)
    with pytest.raises(UserError, match="no file"):
        open_file(places["a pipe"])


@pytest.mark.parametrize("kind", ["a folder", "a pipe", "a device", "a loop", "below a file", "too long", "a NUL"])
def test_no_file_is_put_where_none_can_be(places, kind):
    with pytest.raises(UserError, match="cannot be written"):
        check_place(places[kind])


def test_a_file_may_be_new_or_replaced(places):
    check_place(places["nothing"])
    check_place(places["below a file"].parent)
    with pytest.raises(UserError, match="cannot be written"):
        check_place(places["nothing"] / "x")


def test_what_may_not_be_entered_is_said(tmp_path, monkeypatch):
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", denied)
    for ask in (look, is_folder, open_file, check_place):
        with pytest.raises(UserError, match="Permission denied"):
            ask(tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UserError, match="cannot be written"):
        check_place(tmp_path / "x")
