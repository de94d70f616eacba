"""A process between the program and a worker on Linux, so that neither the worker nor its children outlive either.

``python keeper.py PARENT COMMAND…`` is a small process that runs no foreign code and so never hangs. It adopts whatever
the worker starts and detaches (double forks, new sessions), and kills all of it when the worker has ended, on SIGTERM,
and when the program dies: the kernel then sends it SIGTERM. It ends as the worker did. If the keeper itself is killed,
the kernel kills the worker.

The kernel sends the signal when the *thread* that started the keeper ends: a worker belongs to the thread that started
it. A forked worker (:mod:`core.worker.template`) has a keeper that is also a fork of the template.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
WATCHED = {signal.SIGCHLD, signal.SIGTERM}
AGAIN_S = 0.002
KEEPER = (sys.executable, "-S", __file__) if sys.platform == "linux" else ()
MARK = "BREAKEVEN_WORKER"
"""Environment variable that marks a worker and everything it starts."""


def main(parent: int, command: list[str]) -> NoReturn:
    keep(parent, partial(_execute, command))


def keep(parent: int, work: Callable[[], object]) -> NoReturn:
    """Become the keeper of a worker that does ``work``, then end as it ended; ``parent`` is this process's parent."""
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    _die_with(parent, signal.SIGTERM)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    worker = _start(work, usual)
    for pipe in (0, 1):  # only the worker may hold them, so that their end is seen
        os.close(pipe)
    status = _watch(worker)
    _end_children()
    _end_as(status)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        print(f"prctl {option} failed: {os.strerror(ctypes.get_errno())}", file=sys.stderr)


def _die_with(parent: int, number: int) -> None:
    """Have the kernel send this process a signal when its parent dies; exit now if the parent is already dead."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def _start(work: Callable[[], object], usual: set[int | signal.Signals]) -> int:
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _die_with(keeper, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    return pid


def _execute(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def _watch(worker: int) -> int | None:
    """Wait for the worker to end and return its status; None after SIGTERM."""
    while signal.sigwait(WATCHED) != signal.SIGTERM:
        for pid, status in _reaped():
            if pid == worker:
                return status
    return None


def _reaped() -> Iterator[tuple[int, int]]:
    """Yield children that have ended. Raises ChildProcessError if there is no child at all."""
    while (ended := os.waitpid(-1, os.WNOHANG))[0]:
        yield ended


def _end_children() -> None:
    """Kill every child until none is left; children of a killed child are re-parented here and follow."""
    while True:
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it has ended, or now belongs to another user
        try:
            list(_reaped())
        except ChildProcessError:
            return
        time.sleep(AGAIN_S)


def _children() -> Iterator[int]:
    me = os.getpid()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_bytes()
            except OSError:
                continue
            if int(stat.rpartition(b")")[2].split()[1]) == me:  # state, parent, … follow the name in brackets
                yield int(folder.name)


def _end_as(status: int | None) -> NoReturn:
    """End this process with the worker's exit status, or by the same signal."""
    if status is None:
        os._exit(0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
