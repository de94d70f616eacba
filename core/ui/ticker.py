"""A remaining time, counted down every second by the browser itself.

Polling the server would take time from the measurement (benchmarks/polling.py).
"""

from __future__ import annotations

import streamlit as st

UNDER_WAY = "no time left, finishing what was begun"
"""Shown while a measurement continues though its budget is used up."""
_CSS = """
.left { font-family: var(--st-font); font-size: 0.875rem; color: var(--st-text-color); white-space: nowrap; }
.left { font-variant-numeric: tabular-nums; }
"""
# words as core.numbers.duration writes them; a slightly late report never raises the time left again
_JS = """
const kept = new WeakMap()

function words(seconds) {
  const two = (whole, unit, rest, smaller) =>
    whole + " " + unit + (rest ? " " + String(rest).padStart(2, "0") + " " + smaller : "")
  if (seconds < 60) return seconds + " s"
  if (seconds < 3600) return two(Math.trunc(seconds / 60), "min", seconds % 60, "s")
  const minutes = Math.trunc(seconds / 60)
  return two(Math.trunc(minutes / 60), "h", minutes % 60, "min")
}

export default function (component) {
  const { data, parentElement } = component
  const now = performance.now()
  const before = kept.get(parentElement) || {}
  let end = now + 1000 * data.left_s
  if (before.of === data.of && end > before.end && end - before.end < 3000) end = before.end
  const state = { of: data.of, end: end }
  const show = () => {
    const place = parentElement.querySelector(".left")
    const seconds = Math.ceil((state.end - performance.now()) / 1000)
    const text = seconds > 0 ? data.before + words(seconds) + data.after : data.over
    if (place && place.textContent !== text) place.textContent = text
  }
  clearInterval(before.timer)
  show()
  state.timer = setInterval(show, 1000)
  kept.set(parentElement, state)
  return () => clearInterval(state.timer)
}
"""
HTML = '<span class="left"></span>'
_TICKER = st.components.v2.component("breakeven_ticker", html=HTML, css=_CSS, js=_JS)


def time_left(left_s: float, of: str, key: str, *, before: str = "at most ", after: str = " left") -> None:
    """Draw the seconds left, counting down, between two words; ``of`` distinguishes measurements."""
    data = {"left_s": round(left_s, 1), "of": of, "before": before, "after": after, "over": UNDER_WAY}
    _TICKER(data=data, key=key, width="content")
