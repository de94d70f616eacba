"""Files for the user are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from core.base.files import write_whole


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a disk that accepts a write and is full at fsync."""

    def fsync(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_mode_of_the_umask_and_a_replaced_one_its_own(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    before = os.umask(0o027)
    try:
        write_whole(path, "1µ\n")
        assert (path.read_bytes(), mode(path)) == ("1µ\n".encode(), 0o640)
        path.chmod(0o606)
        write_whole(path, "2")
    finally:
        os.umask(before)
    assert (path.read_text(), mode(path)) == ("2", 0o606)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("full")
def test_a_full_disk_leaves_the_old_file_or_none(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text("old")
    for path in (old, tmp_path / "new.json"):
        with pytest.raises(OSError, match="No space left"):
            write_whole(path, "new")
    assert old.read_text() == "old"
    assert list(tmp_path.iterdir()) == [old]


def test_a_link_stays_one_also_where_it_points_to_nothing_yet(tmp_path: Path) -> None:
    for name in ("there", "not-yet"):
        target, link = tmp_path / "folder" / name, tmp_path / f"{name}-link"
        target.parent.mkdir(exist_ok=True)
        link.symlink_to(target)
    (tmp_path / "folder" / "there").write_text("old")
    for name in ("there", "not-yet"):
        write_whole(tmp_path / f"{name}-link", name)
        assert (tmp_path / f"{name}-link").is_symlink()
        assert (tmp_path / "folder" / name).read_text() == name


@pytest.mark.parametrize("errno", [13, 16, 30])
def test_a_file_that_cannot_have_a_neighbour_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errno: int
) -> None:
    path = tmp_path / "mounted.json"
    path.write_text("something longer")

    def refuse(*_: object) -> None:
        raise OSError(errno, "no")

    monkeypatch.setattr(Path, "replace", refuse)
    write_whole(path, "new")
    assert path.read_text() == "new"
    with pytest.raises(OSError, match="no"):
        write_whole(tmp_path / "new.json", "new")
    assert list(tmp_path.iterdir()) == [path]


def test_only_files_are_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (Path("/dev/null"), pipe, tmp_path):
        before = path.stat().st_mode
        with pytest.raises(OSError, match=r"pipe|Is a directory"):
            write_whole(path, "x")
        assert path.stat().st_mode == before
