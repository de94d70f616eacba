"""Breakeven's dashboard: `streamlit run app.py`. What is served, and which other pages may show it in a frame."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.middleware import Middleware
from streamlit.starlette import App

from core.ui import ahead, held
from core.ui.framing import FrameRules


@asynccontextmanager
async def until_the_end(_: App) -> AsyncIterator[None]:
    """A server that is told to end ends its measurement first, in order; the process then dies of the signal."""
    ahead.begin()
    yield
    await asyncio.to_thread(st.cache_resource.clear)  # the engine closes when it is let go (core.ui.registry)


app = App("dashboard.py", lifespan=until_the_end, routes=held.ROUTES, middleware=[Middleware(FrameRules)])
