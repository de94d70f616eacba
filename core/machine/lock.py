"""Lock that allows one measurement at a time, shared by every Breakeven process of this user on this machine.

It lives in a folder that only this user can enter, so that nobody else can hold or replace it. The price: two users may
measure at the same time. Each then sees the other among the disturbing processes (:mod:`core.machine.interference`), in
the warnings of the result.
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import filelock
import psutil
from pydantic import Field, ValidationError

from core.base.schema import Frozen, UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PROBE_PATIENCE_S = 0.5  # a process that only checks (holder) shares the lock for a moment
PROBE_AGAIN_S = 0.01
NOTE_BYTES = 4096
MOVED_S = 5.0  # writing a file in every round would itself disturb
NAMELESS = "Another Breakeven process is measuring on this machine."


class Busy(UserError):
    """Another measurement is running; the message names it."""


class Note(Frozen):
    """Information on the lock's holder for those who wait: process, measurement, start and latest end (UTC).

    ``host`` is needed since a container that shares the folder has its own process ids.
    """

    host: Annotated[str, Field(max_length=16)]
    pid: Annotated[int, Field(ge=1)]
    title: Annotated[str, Field(max_length=NOTE_BYTES // 8)]
    since: datetime
    until: datetime | None = None

    @property
    def is_living(self) -> bool:
        return self.host != this_host() or psutil.pid_exists(self.pid)

    @property
    def is_own(self) -> bool:
        return (self.host, self.pid) == (this_host(), os.getpid())

    @property
    def sentence(self) -> str:
        return (
            f"Another Breakeven process (pid {self.pid}) has been measuring since {self.since:%H:%M} UTC: {self.title}."
        )


class Held:
    """The held machine; tells those who wait when it will be free at the latest."""

    def __init__(self, title: str) -> None:
        self._note: Note | None = None
        with contextlib.suppress(ValueError):
            self._note = Note(
                host=this_host(), pid=os.getpid(), title=title[: NOTE_BYTES // 8], since=datetime.now(UTC)
            )
            _write_note(self._note)

    def ends_in(self, remaining_s: float) -> None:
        """Announce that at most ``remaining_s`` seconds are left; 0: unknown.

        Written only if it moves the end by more than ``MOVED_S``.
        """
        if self._note is None or remaining_s <= 0:
            return
        until = datetime.now(UTC) + timedelta(seconds=remaining_s)
        if self._note.until is None or abs((until - self._note.until).total_seconds()) > MOVED_S:
            self._note = self._note.model_copy(update={"until": until})
            _write_note(self._note)


def lock_path() -> Path:
    """Return the lock's path, independent of the data folder: in BREAKEVEN_LOCK_DIR, else in the user's state folder.

    Several machines may share a home, so the file name contains the host. Without a writable home, a private folder in
    the temporary folder is used. Raises UserError if that belongs to somebody else.
    """
    if chosen := os.environ.get("BREAKEVEN_LOCK_DIR"):
        return Path(chosen) / "breakeven-machine.lock"
    from platformdirs import user_state_path

    folder = user_state_path("breakeven", appauthor=False)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    return (folder if writable else _temporary()) / f"machine-{this_host()}.lock"


@contextlib.contextmanager
def machine_lock(title: str) -> Iterator[Held]:
    """Hold the machine while measuring; others see ``title``. Raises Busy if it is held, UserError for an unusable
    lock.
    """
    path = lock_path()
    with _errors_as_sentences(path):
        lock = filelock.FileLock(path, mode=0o600, thread_local=False)
        try:
            lock.acquire(timeout=PROBE_PATIENCE_S, poll_interval=PROBE_AGAIN_S)
        except filelock.Timeout:
            raise Busy(holder() or NAMELESS) from None
    try:
        yield Held(title)
    finally:
        _remove_note()
        lock.release()


def holder() -> str | None:
    """Return a sentence on the process that holds the machine, or on why that is unknown.

    None if nobody does, or this process.
    """
    try:
        path = lock_path()
        with _errors_as_sentences(path):
            if not _is_held(path):
                return None
    except UserError as error:
        return str(error)
    note = _read_note()
    if note is None:
        return NAMELESS
    return None if note.is_own else note.sentence


def left_s() -> float | None:
    """Return the seconds that the holder of the machine needs at most; None if it has not said so."""
    with contextlib.suppress(UserError):
        note = _read_note()
        if note is not None and note.until is not None:
            return max(0.0, (note.until - datetime.now(UTC)).total_seconds())
    return None


def _is_held(path: Path) -> bool:
    """Return True if somebody is measuring. Checks share the lock, so they do not see each other. Raises OSError."""
    if fcntl is None:
        try:
            with filelock.FileLock(path, thread_local=False).acquire(timeout=PROBE_PATIENCE_S):
                return False
        except filelock.Timeout:
            return True
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        _remove_note()  # left by a process that was killed
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@contextlib.contextmanager
def _errors_as_sentences(path: Path) -> Iterator[None]:
    try:
        yield
    except filelock.Timeout:  # a subclass of OSError
        raise
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(
            f"The machine's lock {path} cannot be used: {why}; BREAKEVEN_LOCK_DIR names another folder for it."
        ) from None


def _temporary() -> Path:
    """Return a temporary folder that belongs to this user alone. Raises UserError."""
    folder = Path(tempfile.gettempdir()) / f"breakeven-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    with _errors_as_sentences(folder), contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    with _errors_as_sentences(folder):
        there = folder.lstat()
    if hasattr(os, "getuid") and (
        not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid() or stat.S_IMODE(there.st_mode) & 0o077
    ):
        raise UserError(
            f"{folder} is not this user's alone; set BREAKEVEN_LOCK_DIR to a folder for the machine's lock."
        )
    return folder


def this_host() -> str:
    """Return an id that distinguishes this machine from others that share a home or a database."""
    return sha256(platform.node().encode()).hexdigest()[:16]


def _note_path() -> Path:
    return lock_path().with_suffix(".json")


def _write_note(note: Note) -> None:
    """Write the note as a new file, replacing any other; if that fails, others learn only that somebody measures."""
    _remove_note()
    with contextlib.suppress(OSError):
        fd = os.open(_note_path(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(note.model_dump_json())


def _remove_note() -> None:
    """Remove the note; only the lock's holder may."""
    with contextlib.suppress(OSError):
        _note_path().unlink()


def _read_note() -> Note | None:
    """Return the note of a living process; None if it is missing or invalid."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with os.fdopen(os.open(_note_path(), flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            note = Note.model_validate_json(file.read(NOTE_BYTES))
    except (OSError, ValidationError):
        return None
    return note if note.is_living else None
