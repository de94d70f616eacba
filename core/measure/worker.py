"""A worker process: ``python -m core.measure.worker``. Serves the protocol for one target until stdin closes.

Nothing of a framework is imported before ``hello`` names the target's framework.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
import threading
import traceback
from typing import BinaryIO, Protocol

from pydantic import ValidationError

from core.measure.protocol import (
    REQUEST,
    AnyReply,
    AnyRequest,
    BlockDone,
    CellFailed,
    Failed,
    Hello,
    Prepare,
    Prepared,
    Release,
    Released,
    RunBlock,
    Traced,
    TraceSteps,
)
from core.spec import explain

FRAMEWORKS = {"tensorflow": "core.measure.tensorflow_worker"}
"""Module for each framework; it provides ``start(hello) -> (Engine, Ready)``."""

MAX_REASON = 300


class Engine(Protocol):
    """A framework set up on one target. Every call raises :class:`CellFailed` with the cell's outcome."""

    def prepare(self, request: Prepare) -> Prepared: ...

    def block(self, request: RunBlock) -> BlockDone: ...

    def trace(self, request: TraceSteps) -> Traced: ...

    def release(self, batch: int, slot: int) -> Released: ...


class Server:
    """Answers one request after the other; remembers the engine that ``hello`` started."""

    def __init__(self) -> None:
        self._engine: Engine | None = None

    def answer(self, line: bytes) -> str:
        """The reply to one line, as JSON. Whatever goes wrong becomes a ``failed`` reply."""
        try:
            reply = self._serve(REQUEST.validate_json(line))
        except CellFailed as failure:
            reply = Failed(outcome=failure.outcome, reason=failure.reason)
        except ValidationError as error:
            reply = Failed(outcome="error", reason=f"The worker refused a request: {explain(error)}"[:MAX_REASON])
        except MemoryError as error:
            reply = Failed(outcome="out_of_memory", reason=f"The worker ran out of memory: {error}"[:MAX_REASON])
        except Exception as error:
            traceback.print_exc()  # to the log, on stderr
            reply = Failed(outcome="error", reason=f"{type(error).__name__}: {error}"[:MAX_REASON])
        return reply.model_dump_json()

    def _serve(self, request: AnyRequest) -> AnyReply:
        if isinstance(request, Hello):
            if self._engine is not None:
                raise CellFailed("error", "The worker was greeted twice; one process serves one target.")
            module = importlib.import_module(FRAMEWORKS[request.target.framework])
            self._engine, ready = module.start(request)
            return ready
        if self._engine is None:
            raise CellFailed("error", "The worker's first request must be hello.")
        if isinstance(request, Prepare):
            return self._engine.prepare(request)
        if isinstance(request, RunBlock):
            return self._engine.block(request)
        if isinstance(request, TraceSteps):
            return self._engine.trace(request)
        assert isinstance(request, Release)
        return self._engine.release(request.batch, request.slot)


def take_stdout() -> BinaryIO:
    """The protocol's own copy of stdout; whatever a library prints goes to stderr from here on."""
    sys.stdout.flush()
    protocol = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return protocol


def end_with_stdin(requests: queue.SimpleQueue[bytes]) -> None:
    """Pass lines on; when stdin closes end the process at once, also amid a long step or import."""
    for line in iter(sys.stdin.buffer.readline, b""):
        requests.put(line)
    os._exit(0)


def main() -> None:
    out = take_stdout()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=end_with_stdin, args=(requests,), daemon=True).start()
    server = Server()
    while True:
        reply = server.answer(requests.get())
        out.write(reply.encode() + b"\n")


if __name__ == "__main__":
    main()
