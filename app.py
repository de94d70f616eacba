"""Breakeven's dashboard: `streamlit run app.py`. Its routes, and the rule for framing by other pages."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.middleware import Middleware
from streamlit.starlette import App
from uvicorn import Server

from core.ui import news, preload
from core.ui.framing import FrameRules

GRACE_S = 1
"""Time for open connections at the end of the server; closing them in order takes a tenth of it."""


@asynccontextmanager
async def until_the_end(_: App) -> AsyncIterator[None]:
    """Preload at the start of the server; before its end, end the measurement in order.

    The signal then ends the process.
    """
    _limit_grace()
    preload.begin()
    yield
    await asyncio.to_thread(st.cache_resource.clear)  # clearing the cache closes the engine (core.ui.registry)


def _limit_grace() -> None:
    """Limit how long the server waits at its end for open connections.

    Uvicorn by default waits for ever, also for a connection that it accepts while it closes the others: a tab opens one
    whenever its page has been redrawn. `streamlit run` has no option for the limit.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if isinstance(server, Server):
        server.config.timeout_graceful_shutdown = GRACE_S


app = App("dashboard.py", lifespan=until_the_end, routes=news.ROUTES, middleware=[Middleware(FrameRules)])
