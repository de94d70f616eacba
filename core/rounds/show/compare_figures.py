"""Charts of whole runs: several compared, and the steadiness of the machine during one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

import plotly.graph_objects as go

from core.base.text import sentence_case
from core.figures.marks import Point, add_curve, add_level, bounds_text, few_starts, interval_note, values_of
from core.figures.style import (
    GRID,
    TARGET_LOOKS,
    axis_title,
    batch_axis,
    environment_line,
    frame,
    literal,
    log_axis,
    log_range,
    name_legend,
    name_rows,
    ratio_axis,
    short,
)
from core.rounds.answer.answer import Answer, machine_line
from core.rounds.answer.comparison import LETTERS
from core.rounds.ran_as import ran_line
from core.rounds.run import Run
from core.rounds.show.figures import speed_up_points, workload_line

MAX_INTERFERENCE_POINTS = 2_000  # per target; more only slow the browser down


def comparison_figure(runs: Sequence[Run], answers: Sequence[Answer]) -> go.Figure:
    """Plot up to six runs over each other, each curve with its 95 % band.

    The curves are the speed-ups of each target over the first of its run, or step times if a run has a single target.
    """
    figure, ratios = go.Figure(), all(answer.against for answer in answers)
    curves = [
        (f"{letter}: {name}", points, look.colour, run.label)
        for letter, look, run, answer in zip(LETTERS, cycle(TARGET_LOOKS), runs, answers, strict=False)
        for name, points in (_speed_ups(run, answer) if ratios else _step_times(run, answer))
    ]
    for index, (look, (name, points, colour, label)) in enumerate(zip(cycle(TARGET_LOOKS), curves, strict=False)):
        add_curve(figure, points, name, replace(look, colour=colour), label, f"curve {index}")
    values = [value for _, points, *_ in curves for value in values_of(points)]
    y = log_range([*values, 0.92, 1.09] if ratios else values, 0.08)
    if ratios:
        add_level(figure, 1.0)
    figure.update_xaxes(batch_axis([point.batch for _, points, *_ in curves for point in points] or [1, 2]))
    figure.update_yaxes(ratio_axis("Speed-up", y) if ratios else log_axis("Step time (ms)", y))
    under = [f"{letter}: {short(run.name, 70)}" for letter, run in zip(LETTERS, runs, strict=False)]
    every = [point for _, points, *_ in curves for point in points]
    foot = [
        f"{letter}: {line}"
        for letter, run, answer in zip(LETTERS, runs, answers, strict=False)
        for line in (*machine_line(answer.verdict.machine), *ran_line(run), environment_line(run))
    ]
    title = f"{len(runs)} runs compared: {'speed-up' if ratios else 'step time'} by batch size"
    names = [name for name, *_ in curves]
    rows = name_rows(names)
    return name_legend(frame(figure, title, under, [interval_note(every), *foot], legend_rows=rows), names)


def _speed_ups(run: Run, answer: Answer) -> list[tuple[str, list[Point]]]:
    first = short(run.names[0], 24)
    return [
        (f"{short(run.names[pair.target], 24)} over {first}", speed_up_points(pair.speed_ups))
        for pair in answer.against
    ]


def _step_times(run: Run, answer: Answer) -> list[tuple[str, list[Point]]]:
    return [(short(name, 48), _times(answer, target)) for target, name in enumerate(run.names)]


def _times(answer: Answer, target: int) -> list[Point]:
    return [
        Point(
            cell.batch,
            cell.step_ms,
            cell.low_ms,
            cell.high_ms,
            f"batch {cell.batch:,}<br>{words}",
            few_starts(cell.starts),
        )
        for cell in answer.cells
        if cell.target == target
        for words in [bounds_text(cell.step_ms, cell.low_ms, cell.high_ms, "ms")]
    ]


def interference_figure(run: Run, answer: Answer) -> go.Figure:
    """Plot each block's step time over its cell's median by time since the start, to show drift and disturbance."""
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
            hovertemplate="%{x:.1f} s, batch %{customdata[0]:,}<br>%{y:.3f}× the median of its batch size<br>"
            "other processes: %{customdata[1]}<extra></extra>",
        )  # fmt: skip
    y = log_range(values)
    add_level(figure, 1.0)
    figure.update_xaxes(title=axis_title("Seconds since the sweep began"), gridcolor=GRID, zeroline=False)
    figure.update_yaxes(ratio_axis("Block ÷ median of its batch size", y))
    foot = ["Every nth block shown, to keep the picture light." if thinned else "One mark a block.", *ran_line(run)]
    title, under = "How steady the machine was", [workload_line(run)]
    return name_legend(frame(figure, title, under, foot, run, plot_px=230, legend_rows=name_rows(names)), names)
