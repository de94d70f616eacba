"""Charts about runs as a whole: two runs side by side, and how steady the machine was during one."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from core.figures.marks import add_curve, add_level, values_of
from core.figures.style import (
    GRID,
    RUN_LOOKS,
    TARGET_LOOKS,
    axis_title,
    batch_axis,
    environment_line,
    frame,
    literal,
    log_range,
    name_legend,
    name_rows,
    ratio_axis,
    short,
)
from core.studies.sweep.answer import Answer
from core.studies.sweep.figures import workload_line
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.record import Run
from core.studies.sweep.speed_up_figure import speed_up_points
from core.text import sentence_case

MAX_INTERFERENCE_POINTS = 2_000  # a target; more only slow the browser down


def compare_figure(runs: Sequence[Run], answers: Sequence[Answer]) -> go.Figure:
    """Speed-up of the second target over the first, of two runs on one chart, each with its 95 % band."""
    figure = go.Figure()
    batches: list[float] = []
    values = [0.92, 1.09]
    for run, answer, look, letter in zip(runs, answers, RUN_LOOKS, "AB", strict=True):
        points = speed_up_points(answer.speed_ups)
        batches += [p.batch for p in points]
        values += values_of(points)
        first, second = run.names[:2]
        name = f"{letter}: {short(second, 24)} over {short(first, 24)}"
        add_curve(figure, points, name, look, run.label, letter)
    y = log_range(values, 0.08)
    add_level(figure, 1.0)
    figure.update_xaxes(batch_axis(batches or [1, 2]))
    figure.update_yaxes(ratio_axis("Speed-up", y))
    under = [f"{letter}: {short(run.name, 70)}" for run, letter in zip(runs, "AB", strict=True)]
    foot = [
        f"{letter}: {line}"
        for run, letter in zip(runs, "AB", strict=True)
        for line in (*ran_line(run), environment_line(run))
    ]
    return frame(figure, "Two runs compared: speed-up by batch size", under, ["Bands: 95 % intervals.", *foot])


def interference_figure(run: Run, answer: Answer) -> go.Figure:
    """Each block's step time over its cell's median, by time since the start: drift and disturbance at a glance."""
    figure = go.Figure()
    values, thinned = [0.95, 1.05], False
    names = [sentence_case(short(name, 48)) for name in run.names]
    for target, (name, look) in enumerate(zip(names, TARGET_LOOKS, strict=False)):
        medians = {cell.batch: cell.step_ms for cell in answer.cells if cell.target == target}
        points = [
            (block.at_s, block.step_ms / medians[r.batch], r.batch, r.interference.other_cpu_pct)
            for r in run.rounds
            for block in r.blocks
            if block.target == target and r.batch in medians
        ]
        stride = -(-len(points) // MAX_INTERFERENCE_POINTS) or 1
        thinned |= stride > 1
        values += [p[1] for p in points]
        figure.add_scatter(
            x=[p[0] for p in points[::stride]], y=[p[1] for p in points[::stride]], mode="markers",
            name=literal(name),
            marker={"color": look.colour, "symbol": f"{look.symbol}-open", "size": 6},
            customdata=[(p[2], "not seen" if p[3] is None else f"{p[3]:.0f} % of a core") for p in points[::stride]],
            hovertemplate="%{x:.1f} s, batch %{customdata[0]:,}<br>%{y:.3f}× the cell's median<br>"
            "other processes: %{customdata[1]}<extra></extra>",
        )  # fmt: skip
    y = log_range(values)
    add_level(figure, 1.0)
    figure.update_xaxes(title=axis_title("Seconds since the sweep began"), gridcolor=GRID, zeroline=False)
    figure.update_yaxes(ratio_axis("Block ÷ median of its cell", y))
    foot = ["Every nth block shown, to keep the picture light." if thinned else "One mark a block.", *ran_line(run)]
    title, under = "How steady the machine was", [workload_line(run)]
    return name_legend(frame(figure, title, under, foot, run, plot_px=230, legend_rows=name_rows(names)), names)
