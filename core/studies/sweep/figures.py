"""The charts of one run: step time, speed-up with the crossover, throughput, fitted overhead share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from statistics import fmean

import plotly.graph_objects as go

from core.figures.marks import (
    FAILED_WORDS,
    Overlay,
    Point,
    Span,
    add_curve,
    add_level,
    add_spans,
    anchor,
    bounds_text,
    interval_words,
    position,
    values_of,
)
from core.figures.style import (
    GUIDE,
    TARGET_LOOKS,
    Look,
    batch_axis,
    decade_ticks,
    frame,
    linear_axis,
    literal,
    log_axis,
    log_range,
    ratio_axis,
    short,
)
from core.numbers import counted, number
from core.studies.sweep.answer import Answer, CellStats, Fit
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.record import Cell, Run

INTERVAL_NOTE = "Bands: 95 % intervals."
NO_INTERVAL_NOTE = "No intervals: too few rounds."


def step_time_figure(run: Run, answer: Answer, beside: Overlay | None = None) -> go.Figure:
    """Median step time (ms) of both targets by batch, with 95 % bands, in front of what stands ``beside``."""
    value = attrgetter("step_ms", "low_ms", "high_ms")
    return _cells_figure(run, answer, "Step time by batch size", "Step time (ms)", "ms", value, beside)


def throughput_figure(run: Run, answer: Answer) -> go.Figure:
    """Samples a second of both targets by batch, with 95 % bands."""

    def value(cell: CellStats) -> tuple[float, float | None, float | None]:
        def rate(step_ms: float | None) -> float | None:
            return None if step_ms is None else 1000.0 * cell.batch / step_ms

        return cell.samples_per_s, rate(cell.high_ms), rate(cell.low_ms)

    return _cells_figure(run, answer, "Throughput by batch size", "Samples a second", "samples/s", value)


Value = Callable[[CellStats], tuple[float, float | None, float | None]]


def _cells_figure(
    run: Run, answer: Answer, title: str, axis: str, unit: str, value: Value, beside: Overlay | None = None
) -> go.Figure:
    """``beside`` adds step times, so that ``value`` must be those, too."""
    figure = go.Figure()
    more: list[float] = []
    rows = 2
    notes: tuple[str, ...] = ()
    if beside is not None:
        more, notes = beside.add_steps(figure), beside.foot
        rows, title = rows + beside.legend_rows, title + beside.suffix
    for target, look in enumerate(TARGET_LOOKS):
        points = [_point(cell, unit, value) for cell in answer.cells if cell.target == target]
        add_curve(figure, points, short(run.target_names[target], 48), look, run.label, f"target {target}")
    every = [*more, *(v for cell in answer.cells for v in value(cell) if v is not None)]
    batches = [cell.batch for cell in answer.cells] + [cell.batch for cell in failed_cells(run)]
    x = log_range(batches, 0.04)
    y = add_failed(figure, run, TARGET_LOOKS, log_range(every), x)
    figure.update_xaxes(batch_axis(batches))
    figure.update_yaxes(log_axis(axis, y, decade_ticks(*log_range(every))))
    return frame(
        figure, title, [workload_line(run)], [_band_note(answer), *notes, *ran_line(run)], run, legend_rows=rows
    )


def _point(cell: CellStats, unit: str, value: Value) -> Point:
    middle, low, high = value(cell)
    rounds = counted(cell.rounds, "round")
    return Point(
        cell.batch, middle, low, high, f"batch {cell.batch:,}<br>{bounds_text(middle, low, high, unit)}<br>{rounds}"
    )


def _band_note(answer: Answer) -> str:
    banded = any(cell.low_ms is not None for cell in answer.cells)
    return INTERVAL_NOTE if banded else NO_INTERVAL_NOTE


def crossover_spans(answer: Answer) -> list[Span]:
    """The crossovers and the lead of an answer as marks with their words."""
    spans = [
        Span(c.batch, c.low, c.high, f"crossover {interval_words(c.batch, c.low, c.high)}", GUIDE, "solid")
        for c in answer.verdict.crossovers
    ]
    if (lead := answer.verdict.lead) is not None:
        words = f"{short(lead.target, 26)} ahead ≥ {number(100 * lead.margin)} % from "
        colour = TARGET_LOOKS[answer.verdict.targets.index(lead.target)].colour
        words += interval_words(lead.from_batch, lead.low, lead.high)
        spans.append(Span(lead.from_batch, lead.low, lead.high, words, colour, "dash"))
    return spans


def speed_up_figure(run: Run, answer: Answer, beside: Overlay | None = None) -> go.Figure:
    """Speed-up of the second target over the first by batch: the crossover is where the curve passes 1×.

    What stands ``beside`` is over the first target, too: where it meets the other curve it overtakes the second.
    """
    first, second = (short(name, 30) for name in run.target_names)
    look, figure = TARGET_LOOKS[1], go.Figure()
    values = [0.92, 1.09] if beside is None else [0.92, 1.09, *beside.add_speed_ups(figure, first)]
    points = speed_up_points(answer)
    add_curve(figure, points, f"{second} over {first}", look, run.label, "speed-up")
    values += values_of(points)
    batches = [p.batch for p in points]
    spans, title = crossover_spans(answer), "Speed-up and crossover"
    notes: tuple[str, ...] = ()
    sides, other = (f"{second} ahead", f"{first} ahead"), "the second"
    if beside is not None:
        batches += beside.batches
        spans, title, notes = [*spans, *beside.spans], title + beside.suffix, beside.foot
        sides, other = (f"faster than {first}", f"slower than {first}"), "each other"
    bounds, y = log_range(batches or [1.0, 2.0], 0.04), log_range(values, 0.08)
    add_level(figure, 1.0)
    rows = add_spans(figure, spans, bounds)
    _side_words(figure, points, sides)
    figure.update_xaxes(batch_axis(batches or [1.0, 2.0]))
    figure.update_yaxes(ratio_axis("Speed-up", y))
    under = [workload_line(run), f"Step time of the first target over that of {other}; 1× is parity."]
    note = INTERVAL_NOTE if any(p.low is not None for p in points) else NO_INTERVAL_NOTE
    foot = [note + _missing_note(run), *notes, *ran_line(run)]
    return frame(figure, title, under, foot, run, legend_rows=1 if beside is None else 2, label_rows=rows)


def speed_up_points(answer: Answer) -> list[Point]:
    """The speed-up of the second target over the first at each batch that both have."""
    return [
        Point(s.batch, s.ratio, s.low, s.high, f"batch {s.batch:,}<br>{bounds_text(s.ratio, s.low, s.high, '×')}")
        for s in answer.speed_ups
    ]


def _missing_note(run: Run) -> str:
    """Failed cells have no speed-up; the picture says which and why."""
    notes = []
    for target, name in enumerate(run.target_names):
        cells = [cell for cell in failed_cells(run) if cell.target == target]
        if cells:
            words = ", ".join(dict.fromkeys(FAILED_WORDS[cell.outcome] for cell in cells))
            where = f"batch {cells[0].batch:,}" if len(cells) == 1 else f"{len(cells)} batches from {cells[0].batch:,}"
            notes.append(f" {name} has no number at {where} ({words}).")
    return "".join(notes)


def _side_words(figure: go.Figure, points: list[Point], sides: tuple[str, str]) -> None:
    """Say what above parity and what below it means, in the corners that the curve leaves free."""
    logs = [math.log(p.value) for p in points]
    half = len(logs) // 2
    rising = half == 0 or fmean(logs[half:]) >= fmean(logs[:half])
    for words, arrow, y, left in ((sides[0], "▲", 1, rising), (sides[1], "▼", 0, not rising)):
        figure.add_annotation(
            text=f"{arrow} {literal(words)}", xref="paper", yref="paper", x=0 if left else 1, y=y,
            xanchor="left" if left else "right", yanchor="top" if y else "bottom", xshift=6 if left else -6,
            showarrow=False, font={"size": 12.5},
        )  # fmt: skip


def overhead_figure(run: Run, answer: Answer) -> go.Figure:
    """Fitted share (%) of a step that is overhead, by batch, with the batch where it is one half."""
    figure = go.Figure()
    batches = [float(cell.batch) for cell in answer.cells]
    notes = []
    for target, look in enumerate(TARGET_LOOKS):
        fit, name = answer.fits[target], short(run.target_names[target], 40)
        if fit is None:
            notes.append(f"{name}: too few batches for a fit.")
            continue
        mine = [float(cell.batch) for cell in answer.cells if cell.target == target]
        _fit_curve(figure, fit, mine, name, target)
        if not fit.trusted:
            notes.append(f"{name}: fit not to be trusted{f' ({fit.note})' if fit.note else ''}.")
        if fit.half_overhead_batch is not None:
            half = interval_words(fit.half_overhead_batch, fit.half_overhead_low, fit.half_overhead_high)
            notes.append(f"{name}: half of the step is overhead at batch {half}.")
            if min(batches) <= fit.half_overhead_batch <= max(batches):
                figure.add_scatter(
                    x=[fit.half_overhead_batch], y=[50], mode="markers", showlegend=False, hoverinfo="skip",
                    marker={**look.marker(run.label), "size": 13}, name=f"{literal(name)}, half overhead",
                )  # fmt: skip
    add_level(figure, 50)
    figure.update_xaxes(batch_axis(batches or [1, 2]))
    figure.update_yaxes(linear_axis("Fitted overhead share", (0, 104), " %", (0, 25, 50, 75, 100)))
    if answer.fits == (None, None):
        figure.add_annotation(
            text="Too few batch sizes for a fit", xref="paper", yref="paper", x=0.5, y=0.5, showarrow=False
        )
    foot = [*notes, f"Fitted from {run.label} step times.", *ran_line(run)]
    return frame(figure, "Overhead share by batch size (fitted)", [workload_line(run)], foot, run)


def fine_grid(batches: Iterable[float]) -> list[float]:
    """The batches with seven places between each two, evenly spaced in their logarithm: where a fit is drawn."""
    at = sorted(set(batches))
    return sorted({*at, *(a * (b / a) ** (i / 8) for a, b in pairwise(at) for i in range(8))})


def _fit_curve(figure: go.Figure, fit: Fit, batches: list[float], name: str, target: int) -> None:
    """The fitted share on a fine grid, with a marker at each measured batch; dotted where not to be trusted."""
    look = TARGET_LOOKS[target]
    grid = fine_grid(batches)
    shown = literal(f"{name}, fitted")
    figure.add_scatter(
        x=grid, y=[100 * fit.overhead_share(b) for b in grid], mode="lines", name=shown, legendgroup=shown,
        line={"color": look.colour, "width": 2.4, "dash": look.dash if fit.trusted else "dot"}, hoverinfo="skip",
    )  # fmt: skip
    shares = [100 * fit.overhead_share(b) for b in batches]
    figure.add_scatter(
        x=batches, y=shares, mode="markers", legendgroup=shown, showlegend=False, name=shown,
        marker={"color": look.colour, "symbol": f"{look.symbol}-open", "size": 8, "line": {"width": 1.5}},
        hovertemplate=f"<b>{shown}</b><br>batch %{{x:,}}<br>%{{y:.3g}} % of the step<extra></extra>",
    )  # fmt: skip


def failed_cells(run: Run) -> tuple[Cell, ...]:
    """Cells that have an outcome other than a measurement, by target and batch."""
    return tuple(sorted((c for c in run.cells if c.outcome in FAILED_WORDS), key=lambda c: (c.target, c.batch)))


def add_failed(
    figure: go.Figure, run: Run, looks: Sequence[Look], y: tuple[float, float], x: tuple[float, float]
) -> tuple[float, float]:
    """Failed and skipped cells as crosses in rows below the curves; returns the y range with room for them.

    The reason stands in the hover text; words under each row say on the chart what happened.
    """
    cells = failed_cells(run)
    targets = sorted({cell.target for cell in cells})
    step = (y[1] / y[0]) ** 0.13
    for row, target in enumerate(targets, start=1):
        mine = [cell for cell in cells if cell.target == target]
        name, words = literal(run.target_names[target]), [FAILED_WORDS[cell.outcome] for cell in mine]
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
            text=literal(short(f"{run.target_names[target]}: {', '.join(dict.fromkeys(words))}", 52)),
            showarrow=False, font={"size": 11.5},
        )  # fmt: skip
    return y[0] / step ** len(targets), y[1]


def workload_line(run: Run) -> str:
    """What was computed, for under the title."""
    if run.plan is None:
        return run.name
    return f"{run.plan.workload.title}, {run.plan.pipeline.title}"
