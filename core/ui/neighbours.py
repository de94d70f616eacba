"""A warning before a sweep starts: the number of cores that other programs currently use."""

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
    """Warn if others use the cores that a sweep is about to measure; never where no sweep can be started."""
    if not registry.read_only() and not st.context.is_embedded:
        _warning()


@st.fragment(run_every=LOOK_EVERY_S)
def _warning() -> None:
    if busy_sentence() is None and (text := words(watch().look())):
        st.caption(f":material/groups: **{plain(text)}**")  # a box would push the charts below the fold


def words(seen: Interference) -> str:
    """Return the warning; empty if others are quiet, or invisible."""
    if seen.other_cpu_pct is None or seen.other_cpu_pct <= BUSY_PCT:
        return ""
    who = f", mostly {seen.busiest[0].name}" if seen.busiest else ""
    return (
        f"Other programs use {seen.other_cpu_pct / 100:.1f} cores now{who}. Close them before you measure: the verdict "
        "would hold beside them only, if there is one."
    )
