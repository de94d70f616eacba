"""Charts on pages: the shared figures with their menu's settings and a description for those who cannot see them."""

from __future__ import annotations

import streamlit as st

from core.analysis.answer import Answer
from core.figures import chart_config
from core.results import Run
from core.ui import registry

TITLES = {
    "step time": "Step time by batch size",
    "speed-up": "Speed-up and crossover",
    "throughput": "Throughput by batch size",
    "overhead": "Fitted overhead share by batch size",
    "noise": "How steady the machine was",
}


def is_dark() -> bool:
    """Whether the browser shows the dark theme."""
    return st.context.theme.type == "dark"


def chart(kind: str, run: Run, answer: Answer, *, image: str = "svg", place: str = "") -> None:
    """One chart of a run. ``place`` tells apart two of a kind on one page."""
    name = kind.replace(" ", "-")
    st.plotly_chart(
        registry.figure_of(kind, run, answer, is_dark()),
        theme=None,
        key=f"chart-{place}{name}",
        config=chart_config(image, f"breakeven-{run.id}-{name}"),
        alt=f"{TITLES[kind]} of {run.name}. {answer.verdict.sentence}",
    )


def grid(kinds: tuple[str, ...], run: Run, answer: Answer, *, image: str = "svg") -> None:
    """Charts in two columns where the window is wide enough, in one otherwise."""
    with st.grid(2, min_column_width=560, gap="medium"):
        for kind in kinds:
            with st.container(border=True):
                chart(kind, run, answer, image=image)


def image_choice(key: str) -> str:
    """Which picture the camera button in a chart's own menu saves."""
    chosen = st.segmented_control(
        "Camera button in a chart's menu saves", ["svg", "png"], default="svg", required=True, key=key,
        format_func=str.upper, persist_state="session",
    )  # fmt: skip
    return chosen or "svg"
