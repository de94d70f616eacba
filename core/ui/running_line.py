"""The line above every page during a measurement on this machine: its title, time left, page, and Cancel."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import streamlit as st

from core.figures.style import short
from core.machine.lock import left_s
from core.ui import menu, news, registry
from core.ui.navigation import link
from core.ui.study_page import CANCEL_HELP, STOPPING, cancel, time_left
from core.ui.words import plain

TITLE_CHARS = 100


@dataclass(frozen=True)
class Busy:
    """The current measurement; two are equal if a page need not be redrawn from one to the other.

    ``kind`` is "" in another process; ``left_s`` is None if unknown.
    """

    what: str
    kind: str = ""
    id: str = ""
    stopping: bool = False
    left_s: float | None = field(default=None, compare=False)


def now() -> Busy | None:
    """Return the current measurement on this machine, or None."""
    jobs = registry.engine().jobs
    snapshot = jobs.snapshot()
    if snapshot is not None and snapshot.active:
        left = snapshot.left_s if snapshot.progress.remaining_s > 0 else None
        return Busy(snapshot.title, snapshot.kind, snapshot.id, jobs.stopping, left)
    elsewhere = jobs.busy_elsewhere()
    return None if elsewhere is None else Busy(elsewhere, left_s=left_s())


def show(page: str) -> None:
    """Show the current measurement above that page; rerun the page when it ends or another begins."""
    busy = now()
    drawn_here = (*menu.pages()[page].measures, *menu.pages()[page].follows)
    if busy is None or busy.kind not in drawn_here:
        news.redrawn("running", partial(_show, page, busy), pauses=False)


def _show(page: str, seen: Busy | None) -> None:
    busy = now()
    if busy != seen:
        st.rerun()
    if busy is not None:
        with st.container(key="running", horizontal=True, vertical_alignment="center", gap="small", border=True):
            _draw(page, busy)


def _draw(page: str, busy: Busy) -> None:
    st.markdown(f":material/timelapse: {plain(short(busy.what, TITLE_CHARS))}", width="content")
    if busy.stopping:
        st.caption(STOPPING, width="content")
    elif busy.left_s is not None:
        time_left(busy.left_s, busy.id, "running-left")
    if not busy.kind:
        return  # in another process, which alone can end it
    there = menu.measuring(busy.kind)
    if there not in (None, page):
        link(there, f"To {menu.pages()[there].title}")
    st.button("Cancel", icon=":material/stop_circle:", on_click=cancel, key="running-cancel", disabled=busy.stopping,
              help=CANCEL_HELP)  # fmt: skip
