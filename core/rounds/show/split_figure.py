"""Chart of two targets at once: the best division of a batch, and its gain and that of halves, by batch size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from core.base.numbers import number
from core.base.text import sentence_case
from core.figures.marks import Point, add_curve, add_level, bounds_text, interval_note, values_of
from core.figures.style import (
    PLOT_PX,
    RUN_LOOKS,
    TARGET_LOOKS,
    batch_axis,
    flat_legend,
    frame,
    linear_axis,
    literal,
    log_range,
    short,
)
from core.rounds.answer.answer import SpeedUp
from core.rounds.answer.split import WHY_A_BOUND, Together, samples_words
from core.rounds.ran_as import ran_line
from core.rounds.run import Run
from core.rounds.show.figures import workload_line

STRIP_PX, GAP_PX = 64, 26
TICKS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
TITLE = "Both at once against the faster one alone"


def split_figure(run: Run, together: Together) -> go.Figure:
    """Plot the speed-up of the best split and of halves over the faster target alone, by batch size, with 95 % bands;
    above it the shares of the batch in the best split.
    """
    figure, bounds = go.Figure(), log_range([split.batch for split in together.splits], 0.04)
    best = _points(run, together, [split.best for split in together.splits], with_samples=True)
    halves = _points(run, together, [split.even for split in together.splits], with_samples=False)
    for points, name, look in ((best, "best split", RUN_LOOKS[0]), (halves, "halves", RUN_LOOKS[1])):
        add_curve(figure, points, name, look, run.label, name)
    _add_shares(figure, run, together)
    add_level(figure, 1.0)
    top = max(1.1, *values_of(best), *values_of(halves)) * 1.04
    figure.update_xaxes(batch_axis([split.batch for split in together.splits], bounds))
    figure.update_layout(yaxis=_axis(top))
    under = [workload_line(run), "Step time of the faster target alone over that of both at once; 1× is parity."]
    framed = frame(
        figure, TITLE, under, [interval_note([*best, *halves]), WHY_A_BOUND, *ran_line(run)], run, legend_rows=2,
        plot_px=PLOT_PX + STRIP_PX + GAP_PX,
    )  # fmt: skip
    return flat_legend(framed)


def _axis(top: float) -> dict[str, Any]:
    whole = PLOT_PX + STRIP_PX + GAP_PX
    axis = linear_axis("Speed-up, at most (predicted)", (0, top), "×", [tick for tick in TICKS if tick <= top])
    return axis | {"domain": [0, 1 - (STRIP_PX + GAP_PX) / whole]}


def _add_shares(figure: go.Figure, run: Run, together: Together) -> None:
    """Draw a strip above the curves with the stacked shares of either target in the best split."""
    whole, batches = PLOT_PX + STRIP_PX + GAP_PX, [split.batch for split in together.splits]
    shares = {"domain": [1 - STRIP_PX / whole, 1], "range": [0, 1], "fixedrange": True, "anchor": "x",
              "showgrid": False, "zeroline": False, "tickvals": [0, 1], "ticktext": ["0 %", "100 %"]}  # fmt: skip
    figure.update_layout(yaxis2=shares)
    for place, target in enumerate(together.targets):
        name, colour = literal(sentence_case(short(run.names[target], 24))), TARGET_LOOKS[target].colour
        figure.add_scatter(
            x=batches, y=[split.samples[place] / split.batch for split in together.splits], yaxis="y2", mode="lines",
            stackgroup="samples", name=f"samples on {name}", line={"width": 0, "color": colour}, fillcolor=colour,
            customdata=[f"{split.samples[place]:,} of {split.batch:,} samples" for split in together.splits],
            hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
        )  # fmt: skip


def _points(run: Run, together: Together, speed_ups: Sequence[SpeedUp], with_samples: bool) -> list[Point]:
    points = []
    for speed_up, split in zip(speed_ups, together.splits, strict=True):
        parts = [f"batch {speed_up.batch:,}", bounds_text(speed_up.ratio, speed_up.low, speed_up.high, "×")]
        if with_samples:
            parts += [literal(samples_words(run, together, split)), f"{number(split.step_ms)} ms per step"]
        points.append(Point(speed_up.batch, speed_up.ratio, speed_up.low, speed_up.high, "<br>".join(parts)))
    return points
