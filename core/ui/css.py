"""CSS beyond the theme, and a short script: a few rules for the whole program, the same on every page."""

from __future__ import annotations

import streamlit as st

from core.figures.style import FOOT_PX, ROW_PX, STRIP_SIZES, Words

ANSWER_FIRST = "answer-first"
"""Key of a container with columns, the last of which holds the answer."""
RULES = """
/* White stands out from the dark theme's main colour, but as text that is too dark for its background. */
button[data-selected=true] p, [role=tab][aria-selected=true] p { color: light-dark(#0B6BA8, #8CC8F5); }

[data-testid=stHeading] h2 { padding-block: 0.25rem; }  /* the answer stands in a card, and pictures below it */

/* A phone: headings that leave room for the answer, which comes before a long form. */
@media (max-width: 640px) {
    .st-key-answer-first [data-testid=stColumn]:last-child { order: -1; }
    h1 { font-size: 1.5rem !important; }
    h2 { font-size: 1.375rem !important; }
    h3 { font-size: 1.125rem !important; }
}

/* A touch screen has no pointer to bring a chart's menu, which would cover the legend: it comes with a tap. */
@media (hover: none) {
    .js-plotly-plot:not(.touched) .modebar { opacity: 0; pointer-events: none; }
}

/* What is measured, above every page, stays in sight. */
[data-testid=stMainBlockContainer] > [data-testid=stVerticalBlock] > :has(.st-key-running) {
    position: sticky; top: 3.75rem; z-index: 90;
}
.st-key-page-script { display: none; }
.st-key-running { padding: 0.25rem 0.75rem; background: light-dark(#F3F6F8, #1A232C); }
"""

PLOT = '[class*="st-key-plot-"]'
MOST_LINES, MOST_ROWS = 40, 12  # above or below a picture; in a legend


def plot_key(words: Words, name: str) -> str:
    """Return the key of a picture's container, which encodes how it is cropped."""
    return f"plot-{words.above_px}-{words.below_px}-more{min(words.more_rows, MOST_ROWS)}-{name}"


def _cut() -> str:
    """Return the CSS that crops title and footnote of pictures (:func:`core.ui.charts.show`) and moves their menu down.

    On a phone a legend that needs more room gets the title's.
    """
    sizes = ", ".join(f'{PLOT} .annotation-text[style*="font-size: {size}px"]' for size in STRIP_SIZES)
    rules = [
        f"{PLOT} {{ overflow-x: visible; overflow-y: clip; --more: 0px; }}",
        f"{PLOT} > [data-testid=stElementContainer] {{ margin: calc(-1 * var(--above)) 0 calc(-1 * var(--below)); }}",
        f"{PLOT} .modebar-container {{ top: var(--above) !important; }}",
        f"{sizes} {{ visibility: hidden; }}",
    ]
    for count in range(MOST_LINES):
        above, below = Words("", ("x",) * count, ()).above_px, FOOT_PX * count
        rules.append(f'[class*="st-key-plot-{above}-"] {{ --above: max(0px, {above}px - var(--more)); }}')
        rules.append(f'{PLOT}[class*="-{below}-more"] {{ --below: {below}px; }}')
    more = [f'{PLOT}[class*="-more{n}-"] {{ --more: {n * ROW_PX}px; }}' for n in range(1, MOST_ROWS + 1)]
    return "\n".join([*rules, "@media (max-width: 640px) {", *more, "}"])


# Streamlit names an icon in a text after its file, which a screen reader would read aloud before the words beside it.
# Plotly keeps touches from becoming a hover, so the touched chart is marked here.
_JS = """
export default function () {
  const hide = () => document.querySelectorAll('span[role=img][aria-label$=" icon"]').forEach((icon) => {
    icon.removeAttribute("role"); icon.removeAttribute("aria-label"); icon.setAttribute("aria-hidden", "true")
  })
  hide()
  const touch = (event) => {
    document.querySelectorAll(".js-plotly-plot.touched").forEach((plot) => plot.classList.remove("touched"))
    event.target.closest?.(".js-plotly-plot")?.classList.add("touched")
  }
  document.addEventListener("touchstart", touch, { capture: true, passive: true })
  const watch = new MutationObserver(hide)
  watch.observe(document.body, { childList: true, subtree: true })
  return () => {
    watch.disconnect()
    document.removeEventListener("touchstart", touch, { capture: true })
  }
}
"""
_SCRIPT = st.components.v2.component("breakeven_page_script", js=_JS, isolate_styles=False)

STYLE = f"<style>{RULES}{_cut()}</style>"
MARK = "background: light-dark(#E3EAF0, #24303B); font-weight: 600;"
IN_GROUP = f"<style>[data-testid=stTopNavSection] {{ {MARK} }}</style>"


def apply(in_group: bool) -> None:
    """Insert style and script on every page; one ``in_group`` marks the menu's group, as Streamlit marks a page."""
    st.html(STYLE + (IN_GROUP if in_group else ""))
    _SCRIPT(key="page-script", data={"icons": "silent"})
