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
    Describe,
    Described,
    Failed,
    GradientsSampled,
    Hello,
    OpenTraining,
    Prepare,
    Prepared,
    Release,
    Released,
    RunBlock,
    SampleGradients,
    Traced,
    TraceSteps,
    Train,
    Trained,
    TrainingOpened,
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

    def describe(self, request: Describe) -> Described: ...

    def open_training(self, request: OpenTraining) -> TrainingOpened: ...

    def train(self, request: Train) -> Trained: ...

    def sample_gradients(self, request: SampleGradients) -> GradientsSampled: ...


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
        if isinstance(request, Hello) and self._engine is None:
            module = importlib.import_module(FRAMEWORKS[request.target.framework])
            self._engine, ready = module.start(request)
            return ready
        if self._engine is None:
            raise CellFailed("error", "The worker's first request must be hello.")
        return self._ask(self._engine, request)

    def _ask(self, engine: Engine, request: AnyRequest) -> AnyReply:
        match request:
            case Prepare():
                return engine.prepare(request)
            case RunBlock():
                return engine.block(request)
            case TraceSteps():
                return engine.trace(request)
            case Describe():
                return engine.describe(request)
            case OpenTraining():
                return engine.open_training(request)
            case Train():
                return engine.train(request)
            case SampleGradients():
                return engine.sample_gradients(request)
            case Release():
                return engine.release(request.batch, request.slot)
            case Hello():
                raise CellFailed("error", "The worker was greeted twice; one process serves one target.")


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
