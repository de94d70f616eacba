"""What browsers ask to learn of news (:mod:`core.ui.news`), each question held back until there are some."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse
from starlette.routing import Route

from core.ui import registry

if TYPE_CHECKING:
    from starlette.requests import Request

    from core.studies.jobs import Jobs

PATH = "breakeven/news"
NEWS, NOTHING = "news", "nothing"
HELD_S = 50.0  # proxies end a request that is silent for a minute
LOOK_S = 3.0  # between looks at what another process measures, which tells nobody


def state(jobs: Jobs) -> str:
    """Changes whenever a measurement begins, is told to stop or ends, in this process or in another one."""
    elsewhere = jobs.busy_elsewhere() or ""
    return f"{jobs.pauses.changes}-{zlib.crc32(elsewhere.encode()):x}"


async def answer(request: Request) -> PlainTextResponse:
    """Hold a browser's question until there is something new. It names the state that it has seen, where changes of
    that are news, and says whether pauses are.
    """
    seen, pauses = request.query_params.get("seen", ""), request.query_params.get("pauses") == "1"
    jobs = (await asyncio.to_thread(registry.engine)).jobs
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(woken.set)

    def is_news() -> bool:
        return woken.is_set() or (seen != "" and state(jobs) != seen)

    end_s = loop.time() + HELD_S
    with jobs.pauses.waiting(wake, changes=seen != "", pauses=pauses):
        while not is_news() and loop.time() < end_s and not await request.is_disconnected():
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), LOOK_S)
    return PlainTextResponse(NEWS if is_news() else NOTHING)


ROUTES = [Route(f"/{PATH}", answer), Route(f"/{{base:path}}/{PATH}", answer)]
