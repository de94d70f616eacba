"""What the theme cannot say: a few rules for the whole program, the same on every page."""

from __future__ import annotations

import streamlit as st

from core.figures.style import FOOT_PX, Words

RULES = """
/* The menu in the order of the story: measure, result, maps, history, method (Streamlit puts groups last). */
[data-testid=stTopNav] { reading-flow: flex-visual; }
[data-testid=stTopNav] > :has(a[href$="/history"]) { order: 90 !important; }
[data-testid=stTopNav] > :has(a[href$="/method"]) { order: 91 !important; }
"""

MOST_LINES = 40  # above or below a picture


def _cut() -> str:
    """Of a picture on a page (:func:`core.ui.charts.show`) title and footnote are cut off; its menu moves down."""
    rules = ['[class*="st-key-plot-"] { overflow-x: visible; overflow-y: clip; }']
    for count in range(MOST_LINES):
        above, below = Words("", ("x",) * count, ()).above_px, FOOT_PX * count
        plot = f'[class*="st-key-plot-{above}-"]'
        rules.append(f"{plot} > [data-testid=stElementContainer] {{ margin-top: -{above}px; }}")
        rules.append(f"{plot} .modebar-container {{ top: {above}px !important; }}")
        plot = f'[class*="st-key-plot-"][class*="-{below}-of-"]'
        rules.append(f"{plot} > [data-testid=stElementContainer] {{ margin-bottom: -{below}px; }}")
    return "\n".join(rules)


STYLE = f"<style>{RULES}{_cut()}</style>"


def apply() -> None:
    """Once on every page."""
    st.html(STYLE)
