"""Worker processes: start one, read its lines, find it by its mark, kill it, describe its exit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from typing import IO

import psutil

from core.worker.keeper import KEEPER, MARK
from core.worker.protocol import MAX_LINE_BYTES


def start(command: Sequence[str], environment: dict[str, str], folder: str | None = None) -> subprocess.Popen[bytes]:
    """Start a process with pipes in ``folder`` (None: the current one), under a keeper on Linux."""
    return subprocess.Popen(
        (*KEEPER, str(os.getpid()), *command) if KEEPER else command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=folder,
        # its own session: Ctrl-C in the terminal is for the supervisor, which then closes stdin
        start_new_session=os.name == "posix",
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


def lines_of(stream: IO[bytes] | None) -> Iterator[bytes]:
    """Yield lines until the stream ends, then close it; a line that is too long comes in pieces."""
    assert stream is not None
    with contextlib.suppress(OSError, ValueError), stream:
        yield from iter(lambda: stream.readline(MAX_LINE_BYTES), b"")


def end_keeper(pid: int) -> None:
    """Ask a keeper, also a stopped one, to end together with everything it keeps."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)


def kill_group(pid: int) -> None:
    """Kill a process that was started in its own session, with the whole session on POSIX."""
    with contextlib.suppress(OSError, psutil.Error):
        if os.name == "posix":
            os.killpg(pid, signal.SIGKILL)
        else:
            psutil.Process(pid).kill()


def end_marked(mark: str) -> None:
    """Kill every process of this user whose environment has the mark of a worker."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark:
                process.kill()


def exit_words(code: int) -> str:
    """Return how a process ended, as a predicate whose subject is the process."""
    if code >= 0:
        return f"ended with exit status {code}"
    name = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else f"signal {-code}"
    return f"was ended by {name}"
