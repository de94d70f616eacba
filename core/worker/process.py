"""The transport: real worker processes, asked over pipes with JSON lines, each request with a deadline."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NoReturn, cast

import psutil
from pydantic import ValidationError

from core.machine.environment import available_memory_bytes
from core.spec import Target
from core.worker.protocol import (
    MEMORY_IS_SHORT,
    REPLY,
    AnyReply,
    CellFailed,
    Failed,
    Hello,
    R,
    Ready,
    Request,
    WorkerLost,
)

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "core.worker.server")
MAX_LINE_BYTES = 1 << 20
LOG_LINES = 40
SHOWN = 80  # characters of garbage or log that go into a sentence
CLOSE_PATIENCE_S = 2.0
MEMORY_SHARE = 0.9  # of what is available at the start, divided among the CPU targets
OUT_OF_MEMORY_SIGNS = (
    MEMORY_IS_SHORT,
    "bad_alloc",
    "MemoryError",
    "RESOURCE_EXHAUSTED",
    "out of memory",
    "Cannot allocate memory",
)


def worker_environment(target: Target) -> dict[str, str]:
    """Environment of a worker process: GPUs hidden from CPU targets, threads as the target says, a quiet framework."""
    env = dict(os.environ)
    paths = [str(ROOT), *filter(None, [env.get("PYTHONPATH")])]
    env |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",  # a folder called "core" where the user happens to be is not ours
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
        "KERAS_BACKEND": "tensorflow",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    if not target.is_gpu:
        env["CUDA_VISIBLE_DEVICES"] = "-1"
    if target.threads is not None:
        env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(target.threads))
    return env


class ProcessWorker:
    """A worker process for one target (:class:`core.worker.protocol.Worker`).

    The constructor starts the process and greets it without waiting; :meth:`wait_ready` waits. ``command`` replaces
    the worker's command line, for tests of the transport.
    """

    ready: Ready

    def __init__(
        self,
        target: Target,
        memory_limit_bytes: int | None = None,
        command: Sequence[str] = COMMAND,
        *,
        watch_memory: bool = False,
        allow_code: bool = False,
    ) -> None:
        self.target = target
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=worker_environment(target),
            # its own session: Ctrl-C in the terminal is for the supervisor, which then closes stdin
            start_new_session=os.name == "posix",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self._lost: WorkerLost | None = None
        self._cpu_s = 0.0
        self._replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._threads = [
            threading.Thread(target=self._read_replies, name=f"replies of {target}", daemon=True),
            threading.Thread(target=self._read_log, name=f"log of {target}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self._hello = Hello(
            target=target, memory_limit_bytes=memory_limit_bytes, watch_memory=watch_memory, allow_code=allow_code
        )
        with contextlib.suppress(WorkerLost):  # remembered; wait_ready raises it
            self._send(self._hello)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self, deadline_s: float) -> None:
        """Wait for :class:`Ready`. Raises CellFailed (no such device) or WorkerLost."""
        self.ready = self._receive(self._hello, deadline_s)

    def ask(self, request: Request[R], deadline_s: float) -> R:
        """The reply to a request. Raises CellFailed or WorkerLost."""
        self._send(request)
        return self._receive(request, deadline_s)

    def cpu_time_s(self) -> float:
        """User and system seconds so far; after the process's end what was last seen."""
        with contextlib.suppress(psutil.Error, OSError):
            times = psutil.Process(self.pid).cpu_times()
            self._cpu_s = max(self._cpu_s, times.user + times.system)
        return self._cpu_s

    def close(self) -> None:
        """Close stdin, at which the worker ends; kill it if it has not ended two seconds later."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.close()
        try:
            self._process.wait(CLOSE_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._kill()
        for thread in self._threads:
            thread.join(CLOSE_PATIENCE_S)
        if self._lost is None:
            self._lost = WorkerLost("crashed", f"The worker for {self.target} was closed.")

    def _send(self, request: Request[R]) -> None:
        if self._lost is not None:
            raise self._lost
        if not self._replies.empty() and (line := self._replies.get()) is not None:
            self._garbage(line)
        assert self._process.stdin is not None
        self._log.clear()  # what is in it when the worker dies belongs to this request
        try:
            self._process.stdin.write(request.model_dump_json().encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            self._ended("being asked")

    def _receive(self, request: Request[R], deadline_s: float) -> R:
        if self._lost is not None:
            raise self._lost
        doing = request.doing.format_map(vars(request))
        try:
            line = self._replies.get(timeout=max(0.0, deadline_s))
        except queue.Empty:
            reason = (
                f"The worker for {self.target} gave no answer within {deadline_s:.0f} s while {doing}; it was stopped."
            )
            self._lose(WorkerLost("hung", reason))
        if line is None:
            self._ended(doing)
        try:
            reply: AnyReply = REPLY.validate_json(line)
        except ValidationError:
            self._garbage(line)
        if isinstance(reply, Failed):
            raise CellFailed(reply.outcome, reply.reason)
        if not request.is_answered_by(reply):
            self._garbage(line)
        return cast(R, reply)

    def _garbage(self, line: bytes) -> NoReturn:
        shown = line.decode("utf-8", "replace").strip()[:SHOWN]
        reason = f"The worker for {self.target} answered what is not in the protocol: “{shown}”; it was stopped."
        self._lose(WorkerLost("crashed", reason))

    def _ended(self, doing: str) -> NoReturn:
        """Say why a process that closed its stdout is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_PATIENCE_S)
        self._kill()
        self._threads[1].join(CLOSE_PATIENCE_S)
        how = exit_words(self._process.returncode)
        last = f" Its last log line: “{self._log[-1][:SHOWN]}”." if self._log else ""
        if any(sign in line for line in self._log for sign in OUT_OF_MEMORY_SIGNS):
            reason = f"The worker for {self.target} ran out of memory while {doing} and {how}.{last}"
            self._lose(WorkerLost("out_of_memory", reason))
        self._lose(WorkerLost("crashed", f"The worker for {self.target} {how} while {doing}.{last}"))

    def _lose(self, loss: WorkerLost) -> NoReturn:
        self._lost = loss
        self._kill()
        raise loss

    def _kill(self) -> None:
        """End the process and what it started (a compiler, say), and wait for it."""
        self.cpu_time_s()
        if self._process.poll() is None:
            with contextlib.suppress(OSError):
                if os.name == "posix":
                    os.killpg(self.pid, signal.SIGKILL)
                else:
                    self._process.kill()
        self._process.wait()

    def _read_replies(self) -> None:
        """Pass on lines of stdout, then None at its end. A line without an end is passed on in pieces: garbage."""
        for line in _lines(self._process.stdout):
            self._replies.put(line)
        self._replies.put(None)

    def _read_log(self) -> None:
        for line in _lines(self._process.stderr):
            if text := line.decode("utf-8", "replace").strip():
                self._log.append(text)


def _lines(stream: IO[bytes] | None) -> Iterator[bytes]:
    assert stream is not None
    with contextlib.suppress(OSError, ValueError), stream:
        yield from iter(lambda: stream.readline(MAX_LINE_BYTES), b"")


def exit_words(code: int) -> str:
    """How a process ended, as the end of a sentence that begins with the process."""
    if code >= 0:
        return f"ended with exit status {code}"
    name = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else f"signal {-code}"
    note = "; the system kills so when memory runs out" if name == "SIGKILL" else ""
    return f"was ended by {name}{note}"


def memory_limits(targets: Sequence[Target]) -> list[int | None]:
    """Bytes that each target's worker may use: CPU targets share 90 % of what is available; a GPU's has no limit."""
    on_cpu = sum(not target.is_gpu for target in targets)
    available = available_memory_bytes()
    return [
        None if target.is_gpu or available is None else int(MEMORY_SHARE * available / on_cpu) for target in targets
    ]


def launch_processes(
    targets: tuple[Target, ...], deadline_s: float, *, allow_code: bool = False, limit_bytes: int | None = None
) -> tuple[ProcessWorker, ...]:
    """Start one worker process for each target, side by side (:class:`core.worker.protocol.Launcher`).

    With ``limit_bytes`` each worker ends itself as soon as its resident memory passes that; see
    :class:`core.worker.protocol.Hello` for ``allow_code``.
    """
    end = time.monotonic() + deadline_s
    workers: list[ProcessWorker] = []
    watched = limit_bytes is not None
    limits = [limit_bytes] * len(targets) if watched else memory_limits(targets)
    try:
        for target, limit in zip(targets, limits, strict=True):
            workers.append(ProcessWorker(target, limit, watch_memory=watched, allow_code=allow_code))
        for worker in workers:
            worker.wait_ready(end - time.monotonic())
    except BaseException:
        for worker in workers:
            worker.close()
        raise
    return tuple(workers)
