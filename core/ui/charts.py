"""Charts on pages: the shared figures with their menu's settings and a text alternative.

Title and footnote are part of each picture, so that a saved one explains itself. On a page they stand around it as
text, which is readable on a phone, and the picture's own are cropped (:mod:`core.ui.css`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from functools import partial
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from core.base.text import clean
from core.figures.style import chart_config, environment_line, on_dark, words_of
from core.hardware.compare import Against
from core.hardware.start_figure import overlay
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.rounds.show.compare_figures import interference_figure
from core.rounds.show.figures import speed_up_figure, step_time_figure, throughput_figure, workload_line
from core.rounds.show.overhead_figure import overhead_figure
from core.ui import registry
from core.ui.css import plot_key
from core.ui.words import plain

CHARTS: dict[str, tuple[str, Callable[..., go.Figure]]] = {
    "step time": ("Step time by batch size", step_time_figure),
    "speed-up": ("Speed-up and crossover", speed_up_figure),
    "throughput": ("Throughput by batch size", throughput_figure),
    "overhead": ("Fixed-cost share by batch size (fitted)", overhead_figure),
    "noise": ("How steady the machine was", interference_figure),
}
WITH_CARD = ("step time", "speed-up")  # charts with room for a modelled GPU


def kinds_of(run: Run) -> tuple[str, ...]:
    """Return the charts of a run's page; for a single target the overhead comes directly after the step time."""
    last = ("overhead", "throughput") if len(run.names) == 1 else ("throughput", "overhead")
    return ("step time", "speed-up", *last)


def show(
    name: str,
    make: Callable[[], go.Figure],
    alt: str,
    file: str,
    key: tuple[Hashable, ...] = (),
    *,
    image: str = "svg",
    border: bool = True,
    omit: Collection[str] = (),
) -> None:
    """Draw a figure in the theme's colours; with a ``key`` it is cached by name, key and theme.

    ``omit`` has the lines that already stand on the page above it, so that they are not repeated around it.
    """
    dark = st.context.theme.type == "dark"
    figure = _kept((name, *key), dark, make) if key else _themed(make, dark)
    words = words_of(figure)
    with st.container(border=border, gap="xsmall"):
        st.markdown(f"**{plain(words.title)}**")
        _lines(line for line in words.under if line not in omit)
        with st.container(key=plot_key(words, name)):
            st.plotly_chart(
                figure, theme=None, key=f"chart-{name}", config=chart_config(image, f"breakeven-{file}"), alt=clean(alt)
            )
        _lines(line for line in words.foot if line not in omit)


def _lines(lines: Iterable[str]) -> None:
    if shown := tuple(lines):
        st.caption("  \n".join(plain(line) for line in shown))


def _themed(make: Callable[[], go.Figure], dark: bool) -> go.Figure:
    return on_dark(make()) if dark else make()


@st.cache_resource(max_entries=160, show_spinner=False)
def _kept(key: tuple[Hashable, ...], dark: bool, _make: Callable[[], go.Figure]) -> go.Figure:  # noqa: ARG001
    return _themed(_make, dark)


def chart(
    kind: str, run: Run, answer: Answer, *, image: str = "svg", place: str = "", card: Against | None = None,
    border: bool = False,
) -> None:  # fmt: skip
    """Draw one chart of a run; no speed-up chart for a single target without a card to compare.

    ``place`` distinguishes two of a kind on one page; ``card``: a modelled GPU to draw as well.
    """
    if kind == "speed-up" and len(run.names) == 1 and card is None:
        return
    (title, figure), name = CHARTS[kind], kind.replace(" ", "-")
    alt = f"{title} of {run.name}. {answer.verdict.sentence}"
    make, file, key = partial(figure, run, answer), f"{run.id}-{name}", registry.revision(run)
    # the verdict's card has workload and machine
    look: dict[str, Any] = {"image": image, "border": border, "omit": (workload_line(run), environment_line(run))}
    if card is None or kind not in WITH_CARD:
        show(f"{place}{name}", make, alt, file, key, **look)
    else:
        alt += f" {card.crossover.sentence}"
        show(f"{place}{name}", partial(make, overlay(card)), alt, f"{file}-modelled", **look)


def image_choice(key: str) -> str:
    """Return the file type that the camera button in a chart's own menu saves."""
    chosen = st.segmented_control(
        "Camera button in a chart's menu saves", ["svg", "png"], default="svg", required=True, key=key,
        format_func=str.upper, persist_state="session",
    )  # fmt: skip
    return chosen or "svg"
