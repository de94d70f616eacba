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
from typing import IO, NoReturn, TypeVar

import psutil
from pydantic import ValidationError

from core.environment import available_memory_bytes
from core.measure.protocol import (
    MEMORY_IS_SHORT,
    REPLY,
    AnyReply,
    AnyRequest,
    BlockDone,
    CellFailed,
    Describe,
    Described,
    Failed,
    GradientsSampled,
    Hello,
    OpenTraining,
    Prepare,
    Prepared,
    Ready,
    Release,
    Released,
    RunBlock,
    SampleGradients,
    Traced,
    TraceSteps,
    Train,
    Trained,
    TrainingOpened,
    WorkerLost,
)
from core.spec import Target

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "core.measure.worker")
MAX_LINE_BYTES = 1 << 20
LOG_LINES = 40
SHOWN = 80  # characters of garbage or log that go into a sentence
RELEASE_DEADLINE_S = 60.0
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

R = TypeVar("R", Ready, Prepared, BlockDone, Traced, Released, Described, TrainingOpened, Trained, GradientsSampled)


def worker_environment(target: Target) -> dict[str, str]:
    """Environment of a worker process: GPUs hidden from CPU targets, threads as the target says, a quiet framework."""
    env = dict(os.environ)
    paths = [str(ROOT), *filter(None, [env.get("PYTHONPATH")])]
    env |= {
        "PYTHONPATH": os.pathsep.join(paths),
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
    """A worker process for one target (:class:`core.measure.protocol.Worker`).

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
        with contextlib.suppress(WorkerLost):  # remembered; wait_ready raises it
            self._send(
                Hello(
                    target=target,
                    memory_limit_bytes=memory_limit_bytes,
                    watch_memory=watch_memory,
                    allow_code=allow_code,
                )
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self, deadline_s: float) -> None:
        """Wait for :class:`Ready`. Raises CellFailed (no such device) or WorkerLost."""
        self.ready = self._receive(Ready, "starting", deadline_s)

    def prepare(self, request: Prepare, deadline_s: float) -> Prepared:
        reply = self._ask(request, Prepared, f"preparing batch {request.batch}", deadline_s)
        self._same(reply, (reply.batch, reply.slot) == (request.batch, request.slot))
        return reply

    def block(self, batch: int, steps: int, deadline_s: float, slot: int = 0) -> BlockDone:
        request = RunBlock(batch=batch, steps=steps, slot=slot)
        reply = self._ask(request, BlockDone, f"measuring batch {batch}", deadline_s)
        fits = (reply.batch, reply.steps, reply.slot) == (batch, steps, slot)
        self._same(reply, fits and reply.block_ms > 0)
        return reply

    def trace(self, batch: int, steps: int, deadline_s: float) -> Traced:
        reply = self._ask(TraceSteps(batch=batch, steps=steps), Traced, f"tracing batch {batch}", deadline_s)
        self._same(reply, reply.batch == batch)
        return reply

    def describe(self, request: Describe, deadline_s: float) -> Described:
        return self._ask(request, Described, f"building the model of {request.entry}", deadline_s)

    def open_training(self, request: OpenTraining, deadline_s: float) -> TrainingOpened:
        return self._ask(request, TrainingOpened, "setting the training up", deadline_s)

    def train(self, request: Train, deadline_s: float) -> Trained:
        return self._ask(request, Trained, f"training for {request.steps} steps", deadline_s)

    def sample_gradients(self, request: SampleGradients, deadline_s: float) -> GradientsSampled:
        reply = self._ask(request, GradientsSampled, f"taking {request.draws} draws of gradients", deadline_s)
        self._same(reply, len(reply.small_norm2) == len(reply.big_norm2) == request.draws)
        return reply

    def release(self, batch: int, slot: int = 0) -> None:
        request = Release(batch=batch, slot=slot)
        reply = self._ask(request, Released, f"releasing batch {batch}", RELEASE_DEADLINE_S)
        self._same(reply, (reply.batch, reply.slot) == (batch, slot))

    def cpu_time_s(self) -> float:
        """User and system seconds so far; after the process's end what was last seen."""
        with contextlib.suppress(psutil.Error, OSError):
            times = psutil.Process(self.pid).cpu_times()
            self._cpu_s = max(self._cpu_s, times.user + times.system)
        return self._cpu_s

    def log_tail(self) -> tuple[str, ...]:
        """The last lines that the worker wrote to stderr."""
        return tuple(self._log)

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

    def _ask(self, request: AnyRequest, kind: type[R], doing: str, deadline_s: float) -> R:
        self._send(request)
        return self._receive(kind, doing, deadline_s)

    def _send(self, request: AnyRequest) -> None:
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

    def _receive(self, kind: type[R], doing: str, deadline_s: float) -> R:
        if self._lost is not None:
            raise self._lost
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
        if not isinstance(reply, kind):
            self._garbage(line)
        return reply

    def _same(self, reply: AnyReply, fits: bool) -> None:
        """Lose a worker whose reply is not to what was asked."""
        if not fits:
            self._garbage(reply.model_dump_json().encode())

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
        last = f" Its last words: “{self._log[-1][:SHOWN]}”." if self._log else ""
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
    """Start one worker process for each target, side by side (:class:`core.measure.protocol.Launcher`).

    With ``limit_bytes`` each worker ends itself as soon as its resident memory passes that; see
    :class:`core.measure.protocol.Hello` for ``allow_code``.
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
