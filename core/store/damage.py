"""Handling of a damaged SQLite file: it is renamed, complete, so that a new history can begin."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from sqlalchemy import Connection

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be renamed
    fcntl = None  # type: ignore[assignment]

SHARED_FIRST, SHARED_SIZE = 0x40000002, 510  # bytes that SQLite locks for reading (its file format, “os.h”)
CHECKED_BYTES = 300_000_000
BESIDE = ("-wal", "-shm", "-journal", "")  # the database last: a new one must never find the old one's log


def is_damaged(db: Connection) -> bool:
    """Return True if SQLite finds its own structure broken.

    The check reads the whole file, 0.2 s per 100 MB, so above :data:`CHECKED_BYTES` it is skipped, and damage is
    reported when it is read. Values of a wrong type cost only their row, so they do not count.
    """
    size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    if (db.exec_driver_sql(size).scalar() or 0) > CHECKED_BYTES:
        return False
    found = db.exec_driver_sql("PRAGMA quick_check(50)").scalars().all()
    return any(line != "ok" and " value in " not in str(line) for line in found)


def set_aside(path: Path, inode: int) -> Path | None:
    """Rename the file and its companions, and return its new path.

    None if another process has it open, or has replaced the file meanwhile. Raises OSError.
    """
    fd = os.open(path, os.O_RDWR)
    try:
        if fcntl is not None:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, SHARED_SIZE, SHARED_FIRST)
            except OSError:
                return None
        if os.fstat(fd).st_ino != inode or path.stat().st_ino != inode:
            return None
        names = (f"{path.name}.damaged-{datetime.now(UTC):%Y-%m-%d}{'' if n == 1 else f'-{n}'}" for n in count(1))
        aside = next(path.with_name(name) for name in names if not path.with_name(name).exists())
        for end in BESIDE:
            with suppress(FileNotFoundError):
                path.with_name(path.name + end).rename(aside.with_name(aside.name + end))
        return aside
    finally:
        os.close(fd)
