"""A worker process: ``python -m core.worker.server``. Serves the protocol for one target until stdin closes.

Nothing of a framework is imported before ``hello`` names the target's framework.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
import threading
import traceback
from typing import Any, BinaryIO, cast

from pydantic import ValidationError

from core.schema import explain
from core.worker.protocol import REQUEST, AnyReply, AnyRequest, CellFailed, Failed, Hello, Ready

FRAMEWORKS = {"tensorflow": "core.worker.tensorflow_worker"}
"""Module for each framework. It provides ``start(hello) -> (engine, Ready)``; the engine has a method for each kind of
request, which takes the request, returns its reply and raises :class:`CellFailed` with the cell's outcome.
"""

MAX_REASON = 300


class Server:
    """Answers one request after the other; remembers the engine that ``hello`` started."""

    def __init__(self) -> None:
        self._engine: Any = None

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
        if not isinstance(request, Hello):
            if self._engine is None:
                raise CellFailed("error", "The worker's first request must be hello.")
            reply: AnyReply = getattr(self._engine, request.kind)(request)
            return reply
        if self._engine is not None:
            raise CellFailed("error", "The worker was greeted twice; one process serves one target.")
        module = importlib.import_module(FRAMEWORKS[request.target.framework])
        self._engine, ready = module.start(request)
        return cast(Ready, ready)


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
        out.write(server.answer(requests.get()).encode() + b"\n")


if __name__ == "__main__":
    main()
