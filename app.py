"""Breakeven's dashboard: `streamlit run app.py`. Its routes, and the rule for framing by other pages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.middleware import Middleware
from streamlit.starlette import App

from core.ui import news, preload
from core.ui.framing import FrameRules


@asynccontextmanager
async def until_the_end(_: App) -> AsyncIterator[None]:
    """Preload at the start of the server; before its end, end the measurement in order.

    The signal then ends the process.
    """
    preload.begin()
    yield
    await asyncio.to_thread(st.cache_resource.clear)  # clearing the cache closes the engine (core.ui.registry)


app = App("dashboard.py", lifespan=until_the_end, routes=news.ROUTES, middleware=[Middleware(FrameRules)])
