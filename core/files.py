"""Files that users name: looked at, opened, read, refused and written in one way, which cannot hang, read without end
or leave half a file.

Only regular files are opened: a pipe or a device could keep its reader for ever.
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

from core.numbers import byte_size
from core.schema import UserError
from core.text import clean, shown

NO_NEIGHBOUR = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)
"""The folder takes no second file, or the file is a mount of its own, as in a container."""

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def look(path: Path) -> os.stat_result | None:
    """What lies at a path; None where nothing does. Raises UserError where that cannot be found out."""
    with _refused(path, "read"):
        return _found(path)


def is_folder(path: Path) -> bool:
    """Raises UserError where that cannot be found out."""
    found = look(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def reason(error: Exception) -> str:
    """Why a path cannot be used, in the system's words."""
    return clean(getattr(error, "strerror", None) or str(error))


def open_file(path: Path) -> BinaryIO:
    """A regular file, opened for reading. Raises UserError."""
    with _refused(path, "read"):
        _check_regular(path.stat())  # for a device it may do something that it is opened at all
        file = os.fdopen(os.open(path, _FLAGS), "rb")
        try:
            _check_regular(os.fstat(file.fileno()))  # nothing else came to lie there meanwhile
        except OSError:
            file.close()
            raise
        return file


def size_of(path: Path) -> int:
    """Bytes of a regular file that can be opened. Raises UserError."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size


def read_limited(path: Path, limit_bytes: int, what: str) -> bytes:
    """The whole of a file of up to ``limit_bytes`` that is to be ``what``, such as "a plan". Raises UserError."""
    with open_file(path) as file, _refused(path, "read"):
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > limit_bytes else file.read(limit_bytes + 1)  # the system's own files may say 0
    if max(size, len(data)) > limit_bytes:
        raise UserError(
            f"{shown(str(path))} is too large for {what}; accepted are files of up to {byte_size(limit_bytes)}."
        )
    return data


def check_place(path: Path) -> None:
    """Raises UserError where no file can be put at a path, before any work is done for it."""
    with _refused(path, "written"):
        found, folder = _found(path), path.parent
        able = folder.is_dir() and os.access(folder if found is None else path, os.W_OK)
    if not able or (found is not None and not stat.S_ISREG(found.st_mode)):
        raise UserError(
            f"{shown(str(path))} cannot be written; accepted is a file in a folder that exists and can be written."
        )


def write_whole(path: Path, text: str | bytes) -> None:
    """Make a file hold these bytes, or this text in UTF-8; until all of it is on the disk the old file stays as it was.

    A new file has the mode that the umask gives, a replaced one keeps its own. A link stays one: what it points to is
    replaced. A file whose folder takes no other is written in place: only there a full disk cuts it. Raises OSError.
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
    """One sentence for whatever the system, or Python for a NUL, refuses a path for."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise UserError(f"{shown(str(path))} cannot be {what}: {reason(error)}.") from None


def _check_regular(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "It is a device, a pipe or a socket, and no file")
