"""Parts of a page that are redrawn when there is something new, without polling.

The browser asks the server once, and the answer is held back until the measurement pauses
(:class:`core.studies.pauses.Pauses`), begins, is told to stop or ends; only then does the browser have the part
redrawn. While blocks are measured neither side does anything (measured: benchmarks/polling.py). A hidden tab asks
nothing.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import streamlit as st
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
    left.add_done_callback(lambda _: woken.set())
    try:
        with jobs.pauses.waiting(wake, changes=seen != "", pauses=pauses):
            while not is_news() and not left.done():
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), LOOK_S)
        if not left.done():
            with suppress(WebSocketDisconnect, RuntimeError):  # it has disconnected meanwhile
                await socket.send_text(NEWS)
                await socket.close()
    except asyncio.CancelledError:
        return  # the server ends, and does not log it as a fault
    finally:
        left.cancel()


ROUTES = [WebSocketRoute(f"/{PATH}", answer), WebSocketRoute(f"/{{base:path}}/{PATH}", answer)]


_CSS = """
/* takes no place on the page, nor does a fragment that draws nothing else */
[class*="st-key-news-"] { display: none; }
[data-testid="stLayoutWrapper"]:has(> * > [class*="st-key-news-"]:only-child) { display: none; }
"""
# An idle moment after a redraw means that the browser has finished drawing. A server that never answers, because it has
# no such route, is asked to redraw every 10 s.
_JS = """
const asking = new WeakMap()

export default function (component) {
  const { data, parentElement, setTriggerValue } = component
  const before = asking.get(parentElement)
  if (before && before.drawn === data.drawn) return before.end
  if (before) before.end()
  const address = new URL(data.address, window.location.href)
  address.protocol = address.protocol.replace("http", "ws")
  let socket, timer
  const later = (seconds, act) => { timer = setTimeout(act, 1000 * seconds) }
  const draw = () => {
    setTriggerValue("news", data.drawn)
    later(2, draw) // again where the question was lost, as in a run of the whole page at that moment
  }
  const leave = () => {
    clearTimeout(timer)
    if (socket) socket.onopen = socket.onmessage = socket.onclose = null
    if (socket) socket.close()
  }
  const ask = () => {
    leave()
    if (document.hidden) return
    let answers = false
    socket = new WebSocket(address)
    socket.onopen = () => { answers = true }
    socket.onmessage = () => { leave(); draw() }
    socket.onclose = () => (answers ? later(2, ask) : later(10, draw))
  }
  const idle = window.requestIdleCallback || ((act) => setTimeout(act, 50))
  const waiting = idle(ask, { timeout: 1000 })
  document.addEventListener("visibilitychange", ask)
  const end = () => {
    if (window.cancelIdleCallback) window.cancelIdleCallback(waiting)
    leave()
    document.removeEventListener("visibilitychange", ask)
    asking.delete(parentElement)
  }
  asking.set(parentElement, { drawn: data.drawn, end })
  return end
}
"""
_DRAWN = count()
_NEWS = st.components.v2.component("breakeven_news", css=_CSS, js=_JS, isolate_styles=False)


def redrawn(key: str, draw: Callable[[], None], *, changes: bool = True, pauses: bool = True) -> None:
    """Draw a part of the page as a fragment now, and again on news.

    That is ``changes`` (a measurement begins, is told to stop, ends) and its ``pauses``.
    """

    def part() -> None:
        seen = state(registry.engine().jobs) if changes else ""
        draw()
        base = st.get_option("server.baseUrlPath").strip("/")
        address = f"{f'/{base}' if base else ''}/{PATH}?seen={seen}&pauses={int(pauses)}"
        data = {"drawn": next(_DRAWN), "address": address}
        _NEWS(data=data, key=f"news-{key}", on_news_change=lambda: None)

    st.fragment(part)()
