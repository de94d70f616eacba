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
    """Hold a browser's question until there is something new since what it has seen."""
    jobs = (await asyncio.to_thread(registry.engine)).jobs
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(woken.set)

    end_s = loop.time() + HELD_S
    with jobs.pauses.waiting(wake, request.query_params.get("pauses") == "1"):
        while not woken.is_set() and state(jobs) == request.query_params.get("seen") and loop.time() < end_s:
            if await request.is_disconnected():
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), LOOK_S)
        is_new = woken.is_set() or state(jobs) != request.query_params.get("seen")
    return PlainTextResponse(NEWS if is_new else NOTHING)


ROUTES = [Route(f"/{PATH}", answer), Route(f"/{{base:path}}/{PATH}", answer)]
