"""Long polling for news (:mod:`core.ui.news`): each browser's request waits until there is some.

A request is a web socket: a server that shuts down closes those by itself, but would wait for pending HTTP requests.
"""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from core.ui import registry

if TYPE_CHECKING:
    from core.studies.jobs import Jobs

PATH = "breakeven/news"
NEWS = "news"
LOOK_S = 3.0  # s between checks for another process's measurement, which sends no notification


def state(jobs: Jobs) -> str:
    """Return a value that changes when a measurement begins, is told to stop or ends, in any process."""
    elsewhere = jobs.busy_elsewhere() or ""
    return f"{jobs.pauses.changes}-{zlib.crc32(elsewhere.encode()):x}"


async def answer(socket: WebSocket) -> None:
    """Send one message as soon as there is news, and close.

    The query names the state that its page has seen, if its changes count as news, and says whether pauses do.
    """
    seen, pauses = socket.query_params.get("seen", ""), socket.query_params.get("pauses") == "1"
    await socket.accept()
    jobs = (await asyncio.to_thread(registry.engine)).jobs
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(woken.set)

    def is_news() -> bool:
        return woken.is_set() or (seen != "" and state(jobs) != seen)

    left = asyncio.ensure_future(socket.receive())  # a browser sends nothing before it disconnects
    try:
        with jobs.pauses.waiting(wake, changes=seen != "", pauses=pauses):
            while not is_news() and not left.done():
                waiting = asyncio.ensure_future(woken.wait())
                await asyncio.wait({waiting, left}, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
        if not left.done():
            with suppress(WebSocketDisconnect, RuntimeError):  # it has disconnected meanwhile
                await socket.send_text(NEWS)
                await socket.close()
    finally:
        left.cancel()


ROUTES = [WebSocketRoute(f"/{PATH}", answer), WebSocketRoute(f"/{{base:path}}/{PATH}", answer)]
