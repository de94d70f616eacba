"""Charts of one run by batch: step time, with the conclusions from it, and throughput."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter

import plotly.graph_objects as go

from core.figures.marks import (
    FAILED_WORDS,
    Overlay,
    Point,
    Span,
    add_curve,
    add_spans,
    anchor,
    bounds_text,
    few_starts,
    interval_note,
    position,
)
from core.figures.style import (
    PLOT_PX,
    TARGET_LOOKS,
    Look,
    batch_axis,
    decade_ticks,
    frame,
    literal,
    log_axis,
    log_range,
    name_legend,
    name_rows,
    short,
)
from core.numbers import counted
from core.studies.sweep.answer import Answer, CellStats
from core.studies.sweep.answer_marks import NOTHING, add_answer
from core.studies.sweep.busy import machine_line
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.record import Cell, Run
from core.text import sentence_case


def step_time_figure(run: Run, answer: Answer, beside: Overlay | None = None) -> go.Figure:
    """Plot the median step time (ms) of every target by batch, with 95 % bands, over an optional overlay ``beside``.

    For a single target its fitted floor and slope are drawn, for three or more the bands of the fastest.
    """
    value = attrgetter("step_ms", "low_ms", "high_ms")
    title = "Step time by batch size"
    return _cells_figure(run, answer, title, "Step time (ms)", "ms", value, beside, with_answer=True)


def throughput_figure(run: Run, answer: Answer, spans: Sequence[Span] = (), notes: Sequence[str] = ()) -> go.Figure:
    """Plot samples per second of every target by batch, with 95 % bands; ``spans`` are marked, ``notes`` go to the
    foot.
    """

    def value(cell: CellStats) -> tuple[float, float | None, float | None]:
        def rate(step_ms: float | None) -> float | None:
            return None if step_ms is None else 1000.0 * cell.batch / step_ms

        return cell.samples_per_s, rate(cell.high_ms), rate(cell.low_ms)

    title = "Throughput by batch size"
    return _cells_figure(run, answer, title, "Samples a second", "samples/s", value, spans=spans, notes=notes)


Value = Callable[[CellStats], tuple[float, float | None, float | None]]


def _cells_figure(
    run: Run,
    answer: Answer,
    title: str,
    axis: str,
    unit: str,
    value: Value,
    beside: Overlay | None = None,
    with_answer: bool = False,
    spans: Sequence[Span] = (),
    notes: Sequence[str] = (),
) -> go.Figure:
    """Plot a ``value`` of each cell by batch.

    ``beside`` (an overlay of step times) and ``with_answer`` (a single target's fit, or the bands of three or more)
    require that ``value`` is the step time.
    """
    figure, names = go.Figure(), [sentence_case(short(name, 48)) for name in run.names]
    more, rows, every_point = list[float](), name_rows(names), list[Point]()
    if beside is not None:
        more, notes = beside.add_steps(figure), (*notes, *beside.foot)
        rows, title = len(names) + beside.legend_rows, title + beside.suffix
    for target, (name, look) in enumerate(zip(names, TARGET_LOOKS, strict=False)):
        notation = run.target_names[target]
        points = [_point(cell, unit, value, notation) for cell in answer.cells if cell.target == target]
        add_curve(figure, points, name, look, run.label, f"target {target}")
        every_point += points
    every = [*more, *(v for cell in answer.cells for v in value(cell) if v is not None)]
    batches = [cell.batch for cell in answer.cells] + [cell.batch for cell in failed_cells(run)]
    x = log_range(batches, 0.04)
    y = add_failed(figure, run, TARGET_LOOKS, log_range(every), x)
    figure.update_xaxes(batch_axis(batches))
    figure.update_yaxes(log_axis(axis, y, decade_ticks(*log_range(every))))
    added = add_answer(figure, run, answer, x) if with_answer else NOTHING
    label_rows = added.label_rows + add_spans(figure, spans, x)
    busy = machine_line(answer.verdict.machine)
    foot = [*busy, interval_note(every_point), *added.notes, *notes, *ran_line(run)]
    framed = frame(
        figure, title, [workload_line(run)], foot, run,
        legend_rows=rows + added.legend_rows, label_rows=label_rows, plot_px=PLOT_PX + added.plot_px,
    )  # fmt: skip
    return framed if beside is not None else name_legend(framed, names)


def _point(cell: CellStats, unit: str, value: Value, notation: str) -> Point:
    middle, low, high = value(cell)
    said = bounds_text(middle, low, high, unit), counted(cell.rounds, "round"), literal(notation)
    return Point(cell.batch, middle, low, high, "<br>".join((f"batch {cell.batch:,}", *said)), few_starts(cell.starts))


def failed_cells(run: Run) -> tuple[Cell, ...]:
    """Return the cells with an outcome other than a measurement, by target and batch."""
    return tuple(sorted((c for c in run.cells if c.outcome in FAILED_WORDS), key=lambda c: (c.target, c.batch)))


def add_failed(
    figure: go.Figure, run: Run, looks: Sequence[Look], y: tuple[float, float], x: tuple[float, float]
) -> tuple[float, float]:
    """Draw failed and skipped cells as crosses in rows below the curves; return the y range with room for them.

    The hover text gives the reason; a label below each row names the outcomes.
    """
    cells = failed_cells(run)
    targets = sorted({cell.target for cell in cells})
    step = (y[1] / y[0]) ** 0.13
    for row, target in enumerate(targets, start=1):
        mine = [cell for cell in cells if cell.target == target]
        name, words = literal(sentence_case(run.names[target])), [FAILED_WORDS[cell.outcome] for cell in mine]
        level = y[0] / step ** (row - 0.5)
        figure.add_scatter(
            x=[cell.batch for cell in mine], y=[level] * len(mine), mode="markers", showlegend=False,
            marker={"symbol": "x-thin", "size": 9, "line": {"width": 2.5, "color": looks[target].colour}},
            customdata=[literal(cell.reason or word) for cell, word in zip(mine, words, strict=True)],
            name=f"{name}, not measured",
            hovertemplate=f"<b>{name}</b>, batch %{{x:,}}<br>%{{customdata}}<extra></extra>",
        )  # fmt: skip
        middle = math.sqrt(mine[0].batch * mine[-1].batch)
        figure.add_annotation(
            x=math.log10(middle), y=math.log10(level), xanchor=anchor(position(middle, x)), yanchor="top", yshift=-5,
            text=literal(short(f"{sentence_case(run.names[target])}: {', '.join(dict.fromkeys(words))}", 52)),
            showarrow=False, font={"size": 11.5},
        )  # fmt: skip
    return y[0] / step ** len(targets), y[1]


def workload_line(run: Run) -> str:
    """Describe the computation, for the line under the title."""
    if run.plan is None:
        return run.name
    return f"{run.plan.workload.title}, {run.plan.pipeline.title}"
