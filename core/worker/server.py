"""A worker process: ``python -m core.worker.server`` serves the protocol for one target until stdin closes.

Nothing of a framework is imported before ``hello`` names the target's framework. Whatever code runs for a request, a
user's too, it ends with a reply: no exception ends the process, and user code never holds the protocol's stdin or
stdout.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import signal
import sys
import threading
import time
import traceback
from typing import Any, BinaryIO, cast

from pydantic import ValidationError

from core.base.frameworks import FRAMEWORKS
from core.base.schema import UserError, explain
from core.machine.cores import IN_A_STEP, niceness
from core.machine.environment import quota_cores
from core.networks.families.code import in_words
from core.worker.cells import Engine
from core.worker.protocol import (
    MAX_LINE_BYTES,
    REQUEST,
    AnyReply,
    AnyRequest,
    CellFailed,
    Failed,
    Hello,
    Ready,
    WorkerError,
    WorkerLost,
)
from core.workload.spec import Target

MAX_REASON = 300


class Server:
    """Answers requests one by one; keeps the engine that ``hello`` started. ``forked_s`` as in :func:`main`."""

    def __init__(self, forked_s: float | None = None) -> None:
        self._engine: Engine | None = None
        self._forked_s = forked_s

    def answer(self, line: bytes) -> bytes:
        """Return the reply to one line, as a line of JSON. Any exception becomes a ``failed`` reply."""
        try:
            reply = self._serve(REQUEST.validate_json(line)).model_dump_json().encode()
            if len(reply) < MAX_LINE_BYTES:
                return reply + b"\n"
            failed = Failed(outcome="error", reason=f"The answer is too long ({len(reply):,} bytes).")
        except WorkerError as failure:
            lost = isinstance(failure, WorkerLost)
            failed = Failed(outcome=failure.outcome, reason=failure.reason, lost=lost)
        except UserError as error:
            failed = Failed(outcome="error", reason=str(error))
        except ValidationError as error:
            failed = Failed(outcome="error", reason=f"The worker refused a request: {explain(error)}"[:MAX_REASON])
        except MemoryError as error:
            failed = Failed(outcome="out_of_memory", reason=f"The worker ran out of memory: {error}"[:MAX_REASON])
        except BaseException as error:  # user code may raise SystemExit, or its own subclass of BaseException
            with contextlib.suppress(Exception):
                traceback.print_exc()  # to the log, on stderr
            failed = Failed(outcome="error", reason=in_words(error)[:MAX_REASON])
        return failed.model_dump_json().encode() + b"\n"

    def _serve(self, request: AnyRequest) -> AnyReply:
        if not isinstance(request, Hello):
            if self._engine is None:
                raise CellFailed("error", "The worker's first request must be hello.")
            reply: AnyReply = getattr(self._engine, request.kind)(request)
            return reply
        if self._engine is not None:
            raise CellFailed("error", "The worker was greeted twice; one process serves one target.")
        module = importlib.import_module(FRAMEWORKS[request.target.framework].module)
        self._engine, ready = module.start(request)
        return cast(Ready, ready).model_copy(update=self._how() | inherited(request.target))

    def _how(self) -> dict[str, Any]:
        """Return how this process was started; the framework's own start-up time is for fresh processes only."""
        if self._forked_s is None:
            return {"start": "fresh"}
        return {"start": "forked", "startup_ms": 1000 * (time.monotonic() - self._forked_s)}


def inherited(target: Target) -> dict[str, Any]:
    """Return what slows this process and was inherited from its parent.

    That is its niceness, and thread limits that neither its target nor a quota set.
    """
    threads = target.threads or quota_cores()
    limits = {} if threads is not None else {name: os.environ[name] for name in IN_A_STEP if name in os.environ}
    return {"niceness": niceness(), "inherited_threads": limits}


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the protocol's own copies of stdin and stdout; from here on prints go to stderr and stdin is empty."""
    sys.stdout.flush()
    pipes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return pipes


def end_with(stdin: BinaryIO, requests: queue.SimpleQueue[bytes]) -> None:
    """Queue lines of stdin; when it closes, end the process at once, even during a long step or import."""
    for line in iter(stdin.readline, b""):
        requests.put(line)
    os._exit(0)


def main(forked_s: float | None = None) -> None:
    """Serve until stdin closes, which ends the process. ``forked_s``: monotonic time of the fork, if any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor, which then closes stdin
    stdin, out = take_pipes()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=end_with, args=(stdin, requests), daemon=True).start()
    server, process = Server(forked_s), os.getpid()
    while True:
        reply = server.answer(requests.get())
        if os.getpid() != process:
            os._exit(0)  # user code forked, and its child returned here
        out.write(reply)
        out.flush()


if __name__ == "__main__":
    main()
