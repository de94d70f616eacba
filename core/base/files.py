"""Access to files that users name, which cannot hang, read without end or leave half a file.

Only regular files are opened: a pipe or a device could block its reader for ever.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from core.base.numbers import byte_size
from core.base.schema import UserError
from core.base.text import clean, shown

NO_NEIGHBOUR = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)
"""Errors raised if the folder accepts no second file, or the file is itself a mount, as in a container."""

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

READ_ONLY = "BREAKEVEN_READ_ONLY"
"""Environment variable for a server that only shows stored results."""


def read_only() -> bool:
    """Return True if this program must not store anything."""
    return os.environ.get(READ_ONLY, "").strip().lower() not in ("", "0", "no", "false")


def look(path: Path) -> os.stat_result | None:
    """Return the status of a path, or None if nothing is there. Raises UserError if that cannot be determined."""
    with _refused(path, "read"):
        return _found(path)


def is_folder(path: Path) -> bool:
    """Return True if the path is a folder. Raises UserError if that cannot be determined."""
    status = look(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def reason(error: Exception) -> str:
    """Return the reason a path cannot be used, in the system's words."""
    return clean(getattr(error, "strerror", None) or str(error))


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises UserError."""
    with _refused(path, "read"):
        _check_regular(path.stat())  # before opening: merely opening a device may trigger an action
        file = os.fdopen(os.open(path, _FLAGS), "rb")
        try:
            _check_regular(os.fstat(file.fileno()))  # again: the file may have been replaced in between
        except OSError:
            file.close()
            raise
        return file


def size_of(path: Path) -> int:
    """Return the size in bytes of a regular file that can be opened. Raises UserError."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size


def read_limited(path: Path, limit_bytes: int, what: str) -> bytes:
    """Return the content of a file of at most ``limit_bytes``; ``what`` names it in errors ("a plan"). Raises
    UserError.
    """
    with open_file(path) as file, _refused(path, "read"):
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > limit_bytes else file.read(limit_bytes + 1)  # files in /proc and /sys may report 0
    if max(size, len(data)) > limit_bytes:
        raise UserError(
            f"{shown(str(path))} is too large for {what}; accepted are files of up to {byte_size(limit_bytes)}."
        )
    return data


def check_place(path: Path) -> None:
    """Raise UserError if no file can be written at a path, before any work is done for it."""
    with _refused(path, "written"):
        status, folder = _found(path), path.parent
        able = folder.is_dir() and os.access(folder if status is None else path, os.W_OK)
    if not able or (status is not None and not stat.S_ISREG(status.st_mode)):
        raise UserError(
            f"{shown(str(path))} cannot be written; accepted is a file in a folder that exists and can be written."
        )


def write_whole(path: Path, text: str | bytes) -> None:
    """Write bytes, or text as UTF-8, to a file atomically: the old file stays until all of it is on the disk.

    A new file gets the umask's mode, a replaced one keeps its own. A link stays a link: its target is replaced. If the
    folder accepts no second file, the file is written in place; only then can a full disk truncate it. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    there = _found(target)
    if there is not None:
        _check_regular(there)
    mode = None if there is None else stat.S_IMODE(there.st_mode)
    try:
        fd = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode)
        if mode is not None:
            part.chmod(mode)
        _to_disk(fd, text)
        part.replace(target)
    except OSError as error:
        if error.errno not in NO_NEIGHBOUR or mode is None:
            raise
        _to_disk(os.open(target, os.O_WRONLY | os.O_TRUNC), text)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _to_disk(fd: int, text: str | bytes) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
        file.flush()
        os.fsync(fd)


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def _refused(path: Path, what: str) -> Iterator[None]:
    """Turn any error of the system about a path, or of Python about a NUL in it, into one sentence."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise UserError(f"{shown(str(path))} cannot be {what}: {reason(error)}.") from None


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "It is a device, a pipe or a socket, and no file")
