"""Charts on pages: the shared figures with their menu's settings and a description for those who cannot see them."""

from __future__ import annotations

import streamlit as st

from core import figures
from core.analysis.answer import Answer
from core.figures import chart_config
from core.hardware.against import Against
from core.results import Run
from core.ui import registry

TITLES = {
    "step time": "Step time by batch size",
    "speed-up": "Speed-up and crossover",
    "throughput": "Throughput by batch size",
    "overhead": "Fitted overhead share by batch size",
    "noise": "How steady the machine was",
}
DRAW_WITH_CARD = {"step time": figures.step_time_figure, "speed-up": figures.speed_up_figure}


def is_dark() -> bool:
    """Whether the browser shows the dark theme."""
    return st.context.theme.type == "dark"


def chart(
    kind: str, run: Run, answer: Answer, *, image: str = "svg", place: str = "", card: Against | None = None
) -> None:
    """One chart of a run. ``place`` tells apart two of a kind on one page; ``card``: a modelled GPU to draw beside."""
    name, told = kind.replace(" ", "-"), answer.verdict.sentence
    file = f"breakeven-{run.id}-{name}"
    if card is not None and kind in DRAW_WITH_CARD:
        figure = DRAW_WITH_CARD[kind](run, answer, card)
        figure = figures.on_dark(figure) if is_dark() else figure
        file, told = f"{file}-modelled", f"{told} {card.crossover.sentence}"
    else:
        figure = registry.figure_of(kind, run, answer, is_dark())
    st.plotly_chart(
        figure,
        theme=None,
        key=f"chart-{place}{name}",
        config=chart_config(image, file),
        alt=f"{TITLES[kind]} of {run.name}. {told}",
    )


def grid(kinds: tuple[str, ...], run: Run, answer: Answer, *, image: str = "svg", card: Against | None = None) -> None:
    """Charts in two columns where the window is wide enough, in one otherwise."""
    with st.grid(2, min_column_width=560, gap="medium"):
        for kind in kinds:
            with st.container(border=True):
                chart(kind, run, answer, image=image, card=card)


def image_choice(key: str) -> str:
    """Which picture the camera button in a chart's own menu saves."""
    chosen = st.segmented_control(
        "Camera button in a chart's menu saves", ["svg", "png"], default="svg", required=True, key=key,
        format_func=str.upper, persist_state="session",
    )  # fmt: skip
    return chosen or "svg"
