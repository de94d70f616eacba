"""Chart of the speed-up over the baseline by batch: for two targets with crossover and margin, else one curve each."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    bounds_text,
    few_starts,
    interval_note,
    values_of,
)
from core.figures.style import (
    GUIDE,
    TARGET_LOOKS,
    batch_axis,
    frame,
    literal,
    log_range,
    name_legend,
    name_rows,
    ratio_axis,
    short,
)
from core.numbers import interval_words, number
from core.studies.sweep.answer import Against, Answer, SpeedUp
from core.studies.sweep.busy import machine_line
from core.studies.sweep.figures import failed_cells, workload_line
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.record import Run
from core.text import sentence_case

NEAR_PARITY = (0.92, 1.09)
"""Least range of the axis."""
CROSSOVER_MARK = {"symbol": "line-ns", "size": 15}


def crossover_spans(run: Run, answer: Answer) -> list[Span]:
    """Return the crossovers of two targets, and from where one is faster by the margin, with labels and intervals."""
    spans = [
        Span(c.batch, c.low, c.high, f"crossover {interval_words(c.batch, c.low, c.high)}", GUIDE, "solid")
        for c in answer.verdict.crossovers
        if c.low is not None and c.high is not None
    ]
    if (lead := answer.verdict.lead) is not None and lead.low is not None and lead.high is not None:
        who = sentence_case(short(run.name_of(lead.target), 26))
        words = f"{who} ≥ {number(100 * lead.margin)} % faster from "
        colour = TARGET_LOOKS[answer.verdict.targets.index(lead.target)].colour
        words += interval_words(lead.from_batch, lead.low, lead.high)
        spans.append(Span(lead.from_batch, lead.low, lead.high, words, colour, "dash"))
    return spans


def speed_up_figure(run: Run, answer: Answer, beside: Overlay | None = None) -> go.Figure:
    """Plot the speed-up over the first target by batch: a crossover is where a curve passes 1×.

    Overlays ``beside`` are over the first target, too: the faster one changes where they meet another curve. A single
    target has a curve only with an overlay.
    """
    if len(run.names) == 2:
        return _of_two(run, answer, beside)
    return _of_many(run, answer, beside)


def _of_two(run: Run, answer: Answer, beside: Overlay | None) -> go.Figure:
    first, second = (short(name, 30) for name in run.names)
    look, figure = TARGET_LOOKS[1], go.Figure()
    values = [*NEAR_PARITY] if beside is None else [*NEAR_PARITY, *beside.add_speed_ups(figure, first)]
    points = speed_up_points(answer.speed_ups)
    add_curve(figure, points, sentence_case(f"{second} over {first}"), look, run.label, "speed-up")
    values += values_of(points)
    batches = [p.batch for p in points]
    spans, title = crossover_spans(run, answer), "Speed-up and crossover"
    notes: tuple[str, ...] = ()
    sides, other = (f"{second} faster", f"{first} faster"), "the second"
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
    foot = [*machine_line(answer.verdict.machine), interval_note(points) + _missing_note(run), *notes, *ran_line(run)]
    return frame(figure, title, under, foot, run, legend_rows=1 if beside is None else 2, label_rows=rows)


def _of_many(run: Run, answer: Answer, beside: Overlay | None) -> go.Figure:
    """Plot one curve per target against the first, with a bar at parity for the interval of each crossover."""
    baseline, figure = short(run.names[0], 40), go.Figure()
    values = [*NEAR_PARITY] if beside is None else [*NEAR_PARITY, *beside.add_speed_ups(figure, baseline)]
    batches = [] if beside is None else [float(batch) for batch in beside.batches]
    every: list[Point] = []
    for one in answer.against:
        points = speed_up_points(one.speed_ups, run.target_names[one.target])
        name = sentence_case(short(run.names[one.target], 48))
        add_curve(figure, points, name, TARGET_LOOKS[one.target], run.label, f"target {one.target}")
        add_crossovers(figure, one, name, TARGET_LOOKS[one.target].colour)
        every += points
    values += values_of(every)
    batches += [p.batch for p in every]
    bounds, y = log_range(batches or [1.0, 2.0], 0.04), log_range(values, 0.08)
    add_level(figure, 1.0)
    rows = 0 if beside is None else add_spans(figure, beside.spans, bounds)
    _side_words(figure, every, (f"faster than {baseline}", f"slower than {baseline}"))
    figure.update_xaxes(batch_axis(batches or [1.0, 2.0]))
    figure.update_yaxes(ratio_axis(f"Speed-up over {short(baseline, 30)}", y))
    under = [
        workload_line(run),
        f"Step time of {baseline}, the baseline, over that of each other target; 1× is parity.",
    ]
    crossed = any(c.low is not None for one in answer.against for c in one.verdict.crossovers)
    bars = " Bars at 1×: 95 % intervals of crossovers." if crossed else ""
    notes = () if beside is None else beside.foot
    foot = [
        *machine_line(answer.verdict.machine),
        interval_note(every) + bars + _missing_note(run),
        *notes,
        *ran_line(run),
    ]
    names, title = run.names[1:], f"Speed-up over {baseline}" + ("" if beside is None else beside.suffix)
    if beside is not None:
        return frame(figure, title, under, foot, run, legend_rows=len(names) + 1, label_rows=rows)
    return name_legend(frame(figure, title, under, foot, run, legend_rows=name_rows(names)), names)


def add_crossovers(figure: go.Figure, one: Against, name: str, colour: str) -> None:
    """Mark where a curve passes 1×, with the interval as a bar."""
    found = [c for c in one.verdict.crossovers if c.low is not None and c.high is not None]
    if not found:
        return
    bars = {
        "type": "data", "symmetric": False, "color": colour, "thickness": 3.5, "width": 6,
        "array": [0.0 if c.high is None else c.high - c.batch for c in found],
        "arrayminus": [0.0 if c.low is None else c.batch - c.low for c in found],
    }  # fmt: skip
    figure.add_scatter(
        x=[c.batch for c in found], y=[1.0] * len(found), mode="markers", showlegend=False,
        legendgroup=f"target {one.target}", name=f"{literal(name)}, crossover", error_x=bars,
        marker=CROSSOVER_MARK | {"color": colour, "line": {"width": 3, "color": colour}},
        customdata=[interval_words(c.batch, c.low, c.high) for c in found],
        hovertemplate=f"<b>{literal(name)}</b><br>crossover %{{customdata}}<extra></extra>",
    )  # fmt: skip


def speed_up_points(speed_ups: Sequence[SpeedUp], notation: str = "") -> list[Point]:
    """Return speed-ups by batch as points; the target's ``notation`` goes into the hover text."""
    more = f"<br>{literal(notation)}" if notation else ""
    return [
        Point(
            s.batch,
            s.ratio,
            s.low,
            s.high,
            f"batch {s.batch:,}<br>{bounds_text(s.ratio, s.low, s.high, '×')}{more}",
            few_starts(s.starts),
        )
        for s in speed_ups
    ]


def _missing_note(run: Run) -> str:
    """Return which failed cells have no speed-up and why."""
    notes = []
    for target, name in enumerate(run.names):
        cells = [cell for cell in failed_cells(run) if cell.target == target]
        if cells:
            words = ", ".join(dict.fromkeys(FAILED_WORDS[cell.outcome] for cell in cells))
            where = f"batch {cells[0].batch:,}" if len(cells) == 1 else f"{len(cells)} batches from {cells[0].batch:,}"
            notes.append(f" {sentence_case(name)} has no number at {where} ({words}).")
    return "".join(notes)


def _side_words(figure: go.Figure, points: Sequence[Point], sides: tuple[str, str]) -> None:
    """Label the sides above and below parity, in the corners that the curve leaves free."""
    logs = [math.log(p.value) for p in points]
    half = len(logs) // 2
    rising = half == 0 or fmean(logs[half:]) >= fmean(logs[:half])
    for words, arrow, y, left in ((sides[0], "▲", 1, rising), (sides[1], "▼", 0, not rising)):
        figure.add_annotation(
            text=f"{arrow} {literal(words)}", xref="paper", yref="paper", x=0 if left else 1, y=y,
            xanchor="left" if left else "right", yanchor="top" if y else "bottom", xshift=6 if left else -6,
            showarrow=False, font={"size": 12.5},
        )  # fmt: skip
