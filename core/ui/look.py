"""What the theme cannot say: a few rules for the whole program, the same on every page."""

from __future__ import annotations

import streamlit as st

from core.figures.style import FOOT_PX, Words

RULES = """
/* The menu in the order of the story: measure, result, maps, history, method (Streamlit puts groups last). */
[data-testid=stTopNav] { reading-flow: flex-visual; }
[data-testid=stTopNav] > :has(a[href$="/history"]) { order: 90 !important; }
[data-testid=stTopNav] > :has(a[href$="/method"]) { order: 91 !important; }

/* White stands out from the dark theme's main colour, but as text that is too dark for its background. */
button[data-selected=true] p { color: light-dark(#0B6BA8, #8CC8F5); }

/* A phone: headings that leave room for the answer. */
@media (max-width: 640px) {
    h1 { font-size: 1.5rem !important; }
    h2 { font-size: 1.375rem !important; }
    h3 { font-size: 1.25rem !important; }
}

/* What is measured, above every page, stays in sight. */
.st-key-running {
    position: sticky; top: 3.75rem; z-index: 90;
    padding: 0.25rem 0.75rem; background: light-dark(#F3F6F8, #1A232C);
}
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
