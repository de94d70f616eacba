"""The transport: real worker processes that exchange JSON lines over pipes, each request with a deadline.

Nothing here waits for ever: a separate thread writes requests, the wait for a reply is sliced to check for a stop and
for the end of the process, and a worker's output is always read. On Linux a worker runs under a keeper
(:mod:`core.worker.keeper`), which kills it, and whatever it started, together with this program. Elsewhere a worker
ends when its stdin closes, as soon as its own thread gets to notice; processes that it started are found by a mark in
their environment when the worker is closed, but not when this program is killed.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, cast

import psutil
from pydantic import ValidationError

from core.base.frameworks import FRAMEWORKS
from core.base.numbers import byte_size
from core.machine.cgroup import read_kills, who_killed
from core.machine.cores import THREAD_LIMITS
from core.machine.environment import available_memory_bytes, process_memory_limit, quota_cores
from core.machine.nvml import BY_BUS, ORDER, VISIBLE
from core.worker.children import end_keeper, end_marked, exit_words, kill_group, lines_of, start
from core.worker.gpu_errors import TOGETHER, explain_gpu, tells_of_memory
from core.worker.interpreters import interpreter, refuse_python
from core.worker.keeper import KEEPER, MARK
from core.worker.protocol import (
    REPLY,
    AnyReply,
    CellFailed,
    Check,
    Failed,
    Hello,
    Prepare,
    R,
    Ready,
    Request,
    WorkerLost,
    go_on,
)
from core.worker.templates import TEMPLATES, Template
from core.workload.spec import Target

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "core.worker.server")

SLICE_S = 0.2  # slice of a wait, after which the check is called
CLOSE_PATIENCE_S = 1.0  # for a requested end, before the process is killed
MAX_WAITING = 4  # replies not yet taken: there is one per request, so more are garbage
LOG_LINES, LOG_LINE_CHARS = 40, 4_096
SLOW_TO_PREPARE = (
    " Compiling for a GPU may take that long, above all with XLA, which tries several kernels for every layer; give it "
    "a longer budget, or choose execution=graph."
)
SHOWN = 80  # characters of garbage or log quoted in a sentence
MEMORY_SHARE = 0.9  # of the memory available at the start, divided among the CPU targets


def worker_environment(target: Target) -> dict[str, str]:
    """Return the environment of a worker process.

    GPUs are hidden from CPU targets and otherwise numbered as in :mod:`core.machine.nvml`; threads are the target's;
    the framework logs little.
    """
    env = dict(os.environ)
    paths = [str(ROOT), *filter(None, [env.get("PYTHONPATH")])]
    env |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",  # a folder called "core" in the user's working folder is not ours
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
        "KERAS_BACKEND": target.framework if FRAMEWORKS[target.framework].through_keras else "tensorflow",
        # TensorFlow logs at information level why it cannot use a GPU
        "TF_CPP_MIN_LOG_LEVEL": "0" if target.is_gpu else "2",
        ORDER: env.get(ORDER) or BY_BUS,
    }
    if not target.is_gpu:
        env[VISIBLE] = "-1"
    if (threads := target.threads or quota_cores()) is not None:
        env |= dict.fromkeys(THREAD_LIMITS, str(threads))
    return env


class ProcessWorker:
    """A worker process for one target (:class:`core.worker.protocol.Worker`).

    The constructor starts the process and sends ``hello`` without waiting; :meth:`wait_ready` waits. ``command``
    replaces the worker's command line, for tests of the transport; with a ``template`` the worker is forked from that
    if possible. ``folder`` is its working folder (None: this program's). ``check`` as in
    :class:`core.worker.protocol.Launcher`.
    """

    ready: Ready

    def __init__(
        self,
        target: Target,
        memory_limit_bytes: int | None = None,
        command: Sequence[str] = (),
        *,
        check: Check = go_on,
        watch_memory: bool = False,
        allow_code: bool = False,
        template: Template | None = None,
        folder: str | None = None,
    ) -> None:
        self.target = target
        command = command or (interpreter(target), *COMMAND[1:])
        self._mark = secrets.token_hex(8)
        environment = worker_environment(target) | {MARK: self._mark}
        forked = None if template is None else template.fork(environment)
        self._process = forked or start(command, environment, folder)
        self._lost: WorkerLost | None = None
        self._cpu_s = 0.0
        self._asked_s = 0.0
        self._kills = read_kills()
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._start_log: tuple[str, ...] = ()
        self._threads = [
            threading.Thread(target=act, name=f"{what} of {target}", daemon=True)
            for what, act in (
                ("log", self._read_log), ("replies", self._read_replies), ("requests", self._write_requests),
            )
        ]  # fmt: skip
        for thread in self._threads:
            thread.start()
        self._hello = Hello(
            target=target, memory_limit_bytes=memory_limit_bytes, watch_memory=watch_memory, allow_code=allow_code
        )
        self._check = check
        self._send(self._hello)

    @property
    def pid(self) -> int:
        """Pid of the process started here; :attr:`ready` has the worker's own."""
        return self._process.pid

    def wait_ready(self, deadline_s: float) -> None:
        """Wait for :class:`Ready`. Raises CellFailed (no such device) or WorkerLost."""
        try:
            self.ready = self._receive(self._hello, deadline_s)
        except CellFailed as failure:
            self.close()  # the log is complete only then
            raise CellFailed(failure.outcome, failure.reason + self._why(failure.reason)) from None
        self._start_log = tuple(self._log)

    def ask(self, request: Request[R], deadline_s: float) -> R:
        """Send a request and return its reply. Raises CellFailed or WorkerLost."""
        self._send(request)
        return self._receive(request, deadline_s)

    def cpu_time_s(self) -> float:
        """Return user and system seconds so far; after the process's end, the last value seen."""
        with contextlib.suppress(psutil.Error, OSError, AttributeError):  # not ready yet
            times = psutil.Process(self.ready.pid).cpu_times()
            self._cpu_s = max(self._cpu_s, times.user + times.system)
        return self._cpu_s

    def close(self, patience_s: float | None = None) -> None:
        """Close stdin, at which the worker ends; kill it if it is still alive ``patience_s`` later (default 1 s)."""
        self._requests.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_PATIENCE_S if patience_s is None else patience_s)
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
        self._log.clear()  # when the worker dies, the log belongs to this request
        self._asked_s = time.monotonic()
        self._kills = read_kills()
        self._requests.put(request.model_dump_json().encode() + b"\n")

    def _receive(self, request: Request[R], deadline_s: float) -> R:
        if self._lost is not None:
            raise self._lost
        doing = request.doing.format_map(vars(request))
        try:
            line = self._wait(deadline_s)
        except queue.Empty:
            waited_s = time.monotonic() - self._asked_s
            why = self._why() or (_why_slow(self.target) if isinstance(request, Prepare) else "")
            reason = f"The worker for {self.target} hung after {waited_s:.0f} s while {doing}.{why}"
            self._lose(WorkerLost("hung", reason))
        except BaseException:  # a stop: the worker's current work is no longer wanted
            self._lost = WorkerLost("crashed", f"The worker for {self.target} was stopped while {doing}.")
            self._kill()
            raise
        if line is None:
            self._ended(doing)
        try:
            reply: AnyReply = REPLY.validate_json(line)
        except ValidationError:
            self._garbage(line)
        if isinstance(reply, Failed):
            if reply.lost:
                self._lose(WorkerLost(reply.outcome, f"{reply.reason} The worker was stopped."))
            raise CellFailed(reply.outcome, reply.reason)
        if not request.is_answered_by(reply):
            self._garbage(line)
        return cast(R, reply)

    def _wait(self, deadline_s: float) -> bytes | None:
        """Return the next line, None if the process has ended. Raises queue.Empty, and what the check raises."""
        end_s = time.monotonic() + deadline_s
        while True:
            gone = self._process.poll() is not None  # a child of user code may still hold the pipe
            left_s = end_s - time.monotonic()
            try:
                return self._replies.get(timeout=max(0.0, min(SLICE_S, left_s)))
            except queue.Empty:
                if gone:
                    return None
                self._check()
                if left_s <= SLICE_S:
                    raise

    def _garbage(self, line: bytes) -> NoReturn:
        shown = line.decode("utf-8", "replace").strip()[:SHOWN]
        reason = f"The worker for {self.target} answered what is not in the protocol: “{shown}”; it was stopped."
        self._lose(WorkerLost("crashed", reason))

    def _ended(self, doing: str) -> NoReturn:
        """Raise WorkerLost with the reason why a process has ended, or closed its stdout."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_PATIENCE_S)
        code = self._process.poll()
        from_outside = code == -getattr(signal, "SIGKILL", 9)
        self._kill()
        self._threads[0].join(CLOSE_PATIENCE_S)
        how = "closed its output and was stopped" if code is None else exit_words(code)
        last = f" Its last log line: “{self._log[-1][:SHOWN]}”." if self._log else ""
        if (own := process_memory_limit()) is not None:
            last += f" A process may take {byte_size(own)} at most here (ulimit)."
        if from_outside:
            killed = who_killed(self._kills, read_kills())
            reason = f"The worker for {self.target} {how} while {doing}: {killed.words}.{last}"
            self._lose(WorkerLost(killed.outcome, reason, killed))
        if tells_of_memory(self._log):
            reason = f"The worker for {self.target} ran out of memory while {doing} and {how}.{last}"
            self._lose(WorkerLost("out_of_memory", reason))
        self._lose(WorkerLost("crashed", f"The worker for {self.target} {how} while {doing}.{last}{self._why()}"))

    def _why(self, *texts: str) -> str:
        """Return a sentence on the known fault of the target's GPU, by its worker's error and log, else empty."""
        if not self.target.is_gpu:
            return ""
        framework = self.target.framework
        why = explain_gpu((*texts, *self._log), framework) or explain_gpu(self._start_log, framework)
        return "" if why is None else f" {why}"

    def _lose(self, loss: WorkerLost) -> NoReturn:
        self._lost = loss
        self._kill()
        raise loss

    def _kill(self) -> None:
        """Kill the process and whatever it started (such as a compiler), and wait for it."""
        self.cpu_time_s()
        if self._process.poll() is None:
            (end_keeper if KEEPER else kill_group)(self.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_PATIENCE_S)
        if self._process.poll() is None:
            kill_group(self.pid)
        code = self._process.wait()
        if not KEEPER or code == -signal.SIGKILL:  # no keeper has killed what the worker started
            end_marked(self._mark)

    def _write_requests(self) -> None:
        """Write queued requests; a worker that does not read blocks this thread only."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError), self._process.stdin as stdin:
            for request in iter(self._requests.get, None):
                stdin.write(request)
                stdin.flush()

    def _read_replies(self) -> None:
        """Queue lines of stdout, then None at its end. A line that is too long comes in pieces, which are garbage."""
        for line in lines_of(self._process.stdout):
            if self._replies.qsize() < MAX_WAITING:
                self._replies.put(line)
        self._replies.put(None)

    def _read_log(self) -> None:
        for line in lines_of(self._process.stderr):
            if text := line[:LOG_LINE_CHARS].decode("utf-8", "replace").strip():
                self._log.append(text)


def _why_slow(target: Target) -> str:
    """Return further sentences on why preparing a cell may have hung."""
    return f"{SLOW_TO_PREPARE if target.is_gpu else ''}{TOGETHER if len(target.gpus) > 1 else ''}"


def memory_limits(targets: Sequence[Target]) -> list[int | None]:
    """Return the bytes that each target's worker may use; None for GPUs.

    CPU targets share 90 % of what is available.
    """
    on_cpu = sum(not target.is_gpu for target in targets)
    available = available_memory_bytes()
    return [None if target.is_gpu else int(MEMORY_SHARE * available / on_cpu) for target in targets]


def warm_up() -> None:
    """Start a template for CPU targets in the background, so that their workers later start at once. Never waits."""
    TEMPLATES.warm(Target(), worker_environment(Target()))


def launch_processes(
    targets: tuple[Target, ...],
    deadline_s: float,
    check: Check = go_on,
    *,
    allow_code: bool = False,
    allow_python: bool = False,
    limit_bytes: int | None = None,
    fresh: bool = False,
    folders: Sequence[str | None] = (),
) -> tuple[ProcessWorker, ...]:
    """Start one worker process per target, side by side (:class:`core.worker.protocol.Launcher`).

    They are forked from a template if possible (:mod:`core.worker.templates`), unless they are to be ``fresh``, run
    user code, or take part in a memory test, since forks share memory. With ``limit_bytes`` each worker ends itself as
    soon as its resident memory exceeds that; see :class:`core.worker.protocol.Hello` for ``allow_code``. An interpreter
    that a target names is run only with ``allow_python``. ``folders`` are the working folders, one per target; workers
    with folders of their own are fresh.
    """
    if not allow_python:
        refuse_python(targets)
    end = time.monotonic() + deadline_s
    workers: list[ProcessWorker] = []
    watched = limit_bytes is not None
    limits = [limit_bytes] * len(targets) if watched else memory_limits(targets)
    templates: Sequence[Template | None] = [None] * len(targets)
    if not (fresh or watched or allow_code or folders):
        templates = TEMPLATES.of([(target, worker_environment(target)) for target in targets], deadline_s, check)
    try:
        places = folders or [None] * len(targets)
        for target, limit, template, folder in zip(targets, limits, templates, places, strict=True):
            workers.append(
                ProcessWorker(
                    target,
                    limit,
                    check=check,
                    watch_memory=watched,
                    allow_code=allow_code,
                    template=template,
                    folder=folder,
                )
            )
        for worker in workers:
            worker.wait_ready(end - time.monotonic())
    except BaseException:
        for worker in workers:
            worker.close(patience_s=0.0)
        raise
    return tuple(workers)
