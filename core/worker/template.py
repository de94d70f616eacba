"""A template: a process that has imported a framework and is forked into workers, which are then ready at once.

Run as ``python -m core.worker.template MODULE`` with a Unix socket as stdin. Each message on it asks for one worker and
carries its stdin, stdout, stderr and a status pipe. On that the template writes a line with the pid of the worker's
keeper, or why it was not forked, and after its end a line with its exit status.

Linux only. The template has touched no device: it runs nothing of the framework except the import, and has no thread
that must survive a fork. It waits without using the CPU, and ends when the socket is closed and its workers have ended.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import importlib
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from core.worker import server
from core.worker.keeper import MARK, keep

MAX_MESSAGE = 1 << 16
PIPES = 4  # stdin, stdout, stderr of the worker, and the status pipe
ENV_START, ENV_END = 47, 48  # env_start and env_end in /proc/self/stat, counted after the name (proc(5): 50 and 51)
CUDA_FILES = "/dev/nvidia"
MOST_PAGES = 4096
KEPT: list[mmap.mmap | bytearray] = []
"""Memory kept to shift later allocations, for as long as the process lives."""
FORKED_WELL = ("jemalloc_bg_thd",)
"""Threads that a fork may lose.

jemalloc (pyarrow's, which Keras imports with pandas) locks its heap around each fork and restarts its thread in the
child (jemalloc_prefork, jemalloc_postfork_child).
"""


def unsafe() -> str:
    """Return why this process may not be forked now; empty if it may."""
    others = [name for name in _threads() if name not in FORKED_WELL]
    if others:
        return f"threads beside the main one: {', '.join(sorted(others))}"
    if any(name.startswith(CUDA_FILES) for name in _open_files()):
        return "a GPU is open"
    return "" if hasattr(os, "pidfd_open") else "this Python has no pidfd_open"


def _threads() -> list[str]:
    """Return the names of all threads except the main one."""
    tasks = Path("/proc/self/task")
    ids = [task.name for task in tasks.iterdir() if int(task.name) != os.getpid()]
    return [(tasks / task / "comm").read_text().strip() for task in ids]


def _open_files() -> list[str]:
    files = []
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of the folder itself is closed by now
            files.append(str(file.readlink()))
    return files


class Template:
    """The loop of a template process; ``work`` runs in a worker, with the time of its fork (monotonic seconds)."""

    def __init__(self, control: socket.socket, work: Callable[[float], object]) -> None:
        self._control, self._work = control, work
        self._workers: dict[int, tuple[int, int]] = {}
        """Keeper's pid and status pipe, by pidfd."""

    def serve(self) -> None:
        """Fork on request and report ends; return when the socket is closed and all workers have ended."""
        asking = {self._control.fileno()}
        while asking or self._workers:
            for ready in select.select([*asking, *self._workers], [], [])[0]:
                if ready in self._workers:
                    self._tell_end(ready)
                elif not self._answer():
                    asking = set()

    def _answer(self) -> bool:
        """Fork a worker for one message; return False if no further message can come."""
        message, pipes = _receive(self._control)
        if len(pipes) != PIPES:
            for pipe in pipes:
                os.close(pipe)
            return bool(message)
        *streams, fate = pipes
        try:
            if why := unsafe():
                raise OSError(0, why)
            pid = self._fork(json.loads(message), streams, fate)
            self._workers[os.pidfd_open(pid)] = pid, fate
            _say(fate, pid=pid)
        except OSError as error:  # also raised by the fork itself, if memory is short
            _say(fate, refused=error.strerror)
            os.close(fate)
        for stream in streams:
            os.close(stream)
        return True

    def _fork(self, environment: dict[str, str | None], streams: Sequence[int], fate: int) -> int:
        template, forked_s = os.getpid(), time.monotonic()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                for others in (self._control.detach(), fate, *streams, *self._workers):
                    os.close(others)
                for _, pipe in self._workers.values():
                    os.close(pipe)
                _apply(environment)
                _move()
                keep(template, partial(self._work, forked_s))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        return pid

    def _tell_end(self, pidfd: int) -> None:
        pid, fate = self._workers.pop(pidfd)
        _, status = os.waitpid(pid, 0)
        _say(fate, status=os.waitstatus_to_exitcode(status))
        os.close(fate)
        os.close(pidfd)


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    """Return one message and the file descriptors that came with it; nothing at the end."""
    pipes = array.array("i")
    try:
        message, extra, _, _ = control.recvmsg(MAX_MESSAGE, socket.CMSG_SPACE(PIPES * pipes.itemsize))
    except ConnectionError:
        return b"", []
    for level, kind, data in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            pipes.frombytes(data[: len(data) - len(data) % pipes.itemsize])
    return message, list(pipes)


def _say(pipe: int, **words: Any) -> None:
    with contextlib.suppress(OSError):  # the requester is gone
        os.write(pipe, json.dumps(words).encode() + b"\n")


def _apply(environment: dict[str, str | None]) -> None:
    """Set variables, or remove those without a value; write the mark also where other processes read it."""
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if mark := environment.get(MARK):
        _write_mark(mark.encode())


def _move() -> None:
    """Shift later allocations away from their addresses in other forks.

    They move by whole pages, as the kernel does for every new process, and within the heap by less.
    """
    pages, heap = struct.unpack("<2H", os.urandom(4))
    size = (1 + pages % MOST_PAGES) * mmap.PAGESIZE
    KEPT.append(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ))
    KEPT.append(bytearray(1 + heap))


def _write_mark(mark: bytes) -> None:
    """Write the mark over the template's, of the same length, in the memory that /proc/PID/environ shows."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[ENV_START]), int(fields[ENV_END])
    before = f"{MARK}=".encode()
    at = (b"\0" + ctypes.string_at(start, end - start)).find(b"\0" + before) if start else -1
    if at >= 0:
        ctypes.memmove(start + at + len(before), mark, len(mark))


def main(module: str, work: Callable[[float], object] = server.main) -> None:
    """Import, report on stdout whether this process can be forked, and serve. Tests replace ``work``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    importlib.import_module(module)
    gc.collect()
    gc.freeze()  # objects that exist now stay shared with every fork
    _say(1, refused=unsafe())
    os.dup2(nothing, 1)
    os.close(nothing)
    Template(control, work).serve()


if __name__ == "__main__":
    main(sys.argv[1])
