"""A line beside the button that starts a sweep: the number of cores that other programs currently use."""

from __future__ import annotations

import threading
import time

import streamlit as st

from core.base.evidence import Interference
from core.machine.interference import InterferenceSampler
from core.ui import registry
from core.ui.study_page import busy_sentence
from core.ui.words import plain

LOOK_EVERY_S = 3.0  # a sample costs the server some milliseconds, and none is taken during a measurement
LEAST_S, STALE_S = 0.3, 10.0  # the kernel counts in ticks of 10 ms; older samples are not current
HELP = "A verdict holds for the machine as it is while it is measured: beside other programs, or without."
BUSY_PCT = 25.0  # of a core; above it a round counts as disturbed (core.base.evidence.Interference)


class Watch:
    """Sampler of other programs' CPU use between two looks, shared by all sessions of this server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sampler = InterferenceSampler()
        self._at_s, self._last = time.monotonic(), Interference()

    def look(self) -> Interference:
        """Return the use since the last look; nothing if that look is too old."""
        with self._lock:
            since_s = time.monotonic() - self._at_s
            if since_s >= LEAST_S:
                seen = self._sampler.sample(0.0, ())
                self._last = seen if since_s <= STALE_S else Interference()
                self._at_s = time.monotonic()
            return self._last


@st.cache_resource(show_spinner=False)
def watch() -> Watch:
    """Return this server's sampler."""
    return Watch()


def warn() -> None:
    """Draw the line about others on the cores that a sweep is about to measure; not where no sweep can be started."""
    if not registry.read_only() and not st.context.is_embedded:
        _line()


@st.fragment(run_every=LOOK_EVERY_S)
def _line() -> None:
    if busy_sentence() is None:
        line, busiest = words(watch().look())
        # a box would push the charts below the fold
        st.caption(line, help=f"{HELP} Busiest now: {plain(busiest)}." if busiest else HELP)


def words(seen: Interference) -> tuple[str, str]:
    """Return the line about other programs as Markdown, and the name of the busiest if they disturb, for its help.

    There is always one, and all fit into one line of a phone: a line that comes, goes or wraps moves the page, which
    closes a list of options that is open (Streamlit 1.67, seen in Chromium).
    """
    if seen.other_cpu_pct is None:
        return ":material/groups: Close other programs before you measure.", ""
    if seen.other_cpu_pct <= BUSY_PCT:
        return ":material/groups: Other programs use hardly any core now.", ""
    busiest = seen.busiest[0].name if seen.busiest else ""
    return f":material/groups: **Other programs use {seen.other_cpu_pct / 100:.1f} cores: close them.**", busiest
