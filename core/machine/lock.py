"""One measurement at a time per machine: a file lock shared by every Breakeven process of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import filelock

from core.schema import UserError

PROBE_PATIENCE_S = 0.5  # another process that only looks (holder) has the lock for a moment


class Busy(UserError):
    """Another measurement runs; the message says which."""


def lock_path() -> Path:
    """Where the lock lives: one place per machine, whatever the data folder (tests set BREAKEVEN_LOCK_DIR)."""
    return Path(os.environ.get("BREAKEVEN_LOCK_DIR") or tempfile.gettempdir()) / "breakeven-machine.lock"


@contextlib.contextmanager
def machine_lock(description: str) -> Iterator[None]:
    """Hold the machine while measuring; others see ``description``. Raises Busy at once when it is held."""
    lock = filelock.FileLock(lock_path(), mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=PROBE_PATIENCE_S)
    except (filelock.Timeout, PermissionError):
        raise Busy(holder() or "Another Breakeven process is measuring on this machine.") from None
    note = _note_path()
    try:
        with contextlib.suppress(OSError):
            note.write_text(json.dumps({"pid": os.getpid(), "description": description}), encoding="utf-8")
        yield
    finally:
        with contextlib.suppress(OSError):
            note.unlink(missing_ok=True)
        lock.release()


def holder() -> str | None:
    """A sentence about the process that holds the machine, or None when nobody does (or it is this process)."""
    lock = filelock.FileLock(lock_path(), mode=0o666, thread_local=False)
    try:
        with lock.acquire(timeout=0):
            return None
    except (filelock.Timeout, PermissionError):
        pass
    try:
        held = json.loads(_note_path().read_text(encoding="utf-8"))
        pid, what = int(held["pid"]), str(held["description"])
    except (OSError, ValueError, KeyError, TypeError):
        return "Another Breakeven process is measuring on this machine."
    return None if pid == os.getpid() else f"Another Breakeven process (pid {pid}) is measuring: {what}."


def _note_path() -> Path:
    return lock_path().with_suffix(".json")
