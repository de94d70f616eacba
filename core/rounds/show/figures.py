"""Charts of one run by batch: step time, with the conclusions from it, and throughput."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean

import plotly.graph_objects as go

from core.base.evidence import MAX_TARGETS, Label
from core.base.numbers import counted, interval_words, number
from core.base.text import sentence_case
from core.figures.marks import (
    CHARACTER_PX,
    FAILED_WORDS,
    NARROW_PLOT_PX,
    Overlay,
    Point,
    Span,
    add_curve,
    add_level,
    add_spans,
    anchor,
    bounds_text,
    few_starts,
    interval_note,
    position,
    values_of,
    with_gaps,
)
from core.figures.style import (
    GUIDE,
    PAPER,
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
    on_colour,
    ratio_axis,
    short,
)
from core.rounds.answer.answer import Against, Answer, Band, CellStats, Fastest, Fit, SpeedUp, machine_line
from core.rounds.answer.baseline import is_change
from core.rounds.answer.tokens import throughput_unit
from core.rounds.ran_as import ran_line
from core.rounds.run import Cell, Run
from core.workload.names import all_of, are

STRIP_PX, GAP_PX, CURVES_PX = 44, 22, PLOT_PX - 40
HATCHED = {"shape": "/", "size": 7, "solidity": 0.55, "fillmode": "replace", "bgcolor": "rgba(0,0,0,0)"}


@dataclass(frozen=True)
class Added:
    """Additions to a chart: notes for its foot, and the rows of labels, rows of legend and pixels that they take."""

    notes: tuple[str, ...] = ()
    label_rows: int = 0
    legend_rows: int = 0
    plot_px: int = 0


NOTHING = Added()


def add_answer(figure: go.Figure, run: Run, answer: Answer, bounds: tuple[float, float]) -> Added:
    """Add the fit of a single target, or the bands of three or more; nothing for two. ``bounds`` are those of the x
    axis.
    """
    if len(run.names) == 1 and (fit := answer.fits[0]) is not None:
        return _add_fit(figure, run, answer, fit, bounds)
    if answer.fastest is not None and answer.fastest.bands and answer.verdict.has_interval:
        names = [sentence_case(name) for name in run.names]
        return add_bands(figure, answer.fastest, names, TARGET_LOOKS, run.label, bounds)
    return NOTHING


def _add_fit(figure: go.Figure, run: Run, answer: Answer, fit: Fit, bounds: tuple[float, float]) -> Added:
    """Draw the fixed cost, the cost per sample and the half-overhead batch as lines without markers."""
    batches = [float(cell.batch) for cell in answer.cells]
    ends = [min(batches), max(batches)]
    floor = _with_bounds(fit.floor_ms, fit.floor_low_ms, fit.floor_high_ms, 1.0, "ms")
    slope = _with_bounds(fit.slope_ms, fit.slope_low_ms, fit.slope_high_ms, 1000.0, "µs")
    sloping = [max(ends[0], fit.floor_ms / fit.slope_ms / 4) if fit.slope_ms > 0 else ends[0], ends[1]]
    for name, x, y, dash in (
        (f"fixed cost {floor} (fitted)", ends, [fit.floor_ms] * 2, "dot"),
        (f"cost per sample {slope} (fitted)", sloping, [fit.slope_ms * batch for batch in sloping], "dash"),
    ):
        if sloping[0] < sloping[1] or dash == "dot":
            figure.add_scatter(
                x=x, y=y, mode="lines", name=literal(sentence_case(name)), hoverinfo="skip",
                line={"color": GUIDE, "width": 1.8, "dash": dash},
            )  # fmt: skip
    notes = [f"Fitted from {run.label} step times: (fixed^q + (per sample × batch)^q)^(1/q), q = {number(fit.q)}."]
    if not fit.trusted:
        notes.append(f"The fit is not to be trusted{f': {fit.note}' if fit.note else ''}.")
    spans = []
    half = fit.half_overhead_batch
    if half is not None and fit.half_overhead_low is not None and bounds[0] <= half <= bounds[1]:
        at = interval_words(half, fit.half_overhead_low, fit.half_overhead_high)
        words = f"half of the step is fixed cost at {at}"
        spans.append(Span(half, fit.half_overhead_low, fit.half_overhead_high, words, GUIDE, "solid"))
    return Added(tuple(notes), add_spans(figure, spans, bounds), 2)


def _with_bounds(value: float, low: float | None, high: float | None, scale: float, unit: str) -> str:
    if low is None or high is None:
        return "without an interval"
    return f"{number(scale * value)} {unit} ({number(scale * low)} to {number(scale * high)})"


def add_bands(
    figure: go.Figure,
    ranking: Fastest,
    names: Sequence[str],
    looks: Sequence[Look],
    label: Label,
    bounds: tuple[float, float],
    what: str = "Fastest",
) -> Added:
    """Draw the bands as a strip above the curves, in the look of the fastest.

    A band that is not clear is hatched in the colours of its targets, or grey if they are more than
    :data:`MAX_TARGETS`. Boundaries are drawn as lines with their 95 % intervals, labelled above. ``what`` is the
    strip's title.
    """
    whole = CURVES_PX + STRIP_PX + GAP_PX
    figure.update_layout(
        yaxis={"domain": [0, 1 - (STRIP_PX + GAP_PX) / whole]},
        yaxis2={
            "domain": [1 - STRIP_PX / whole, 1], "range": [0, 1], "showticklabels": False, "showgrid": False,
            "zeroline": False, "fixedrange": True, "anchor": "x",
        },
    )  # fmt: skip
    for band in ranking.bands:
        _add_band(figure, _Strip(names, looks, label, what.casefold()), band, bounds)
    for text, y, size in ((what, 1.0, 12.5), (label, 0.955, 10.5)):
        figure.add_annotation(
            text=text, xref="paper", yref="paper", x=0, y=y, xanchor="right", yanchor="top", xshift=-6,
            showarrow=False, font={"size": size},
        )  # fmt: skip
    changes = [boundary for boundary in ranking.boundaries if is_change(boundary)]
    spans = [Span(b.batch, b.low, b.high, interval_words(b.batch, b.low, b.high), GUIDE, "solid") for b in changes]
    rows = add_spans(figure, spans, bounds)
    several = [band.level for band in ranking.bands if len(band.targets) > 1]
    notes = (
        f"Lines: batches at which the {what.casefold()} changes; their 95 % intervals hold together." if spans else "",
        "Hatched: not clear which (95 %)." if not all(several) else "",
        "Several colours without hatching: a tie, within the margin of each other (95 %)." if any(several) else "",
    )
    return Added(tuple(filter(None, notes)), rows, 0, whole - PLOT_PX)


@dataclass(frozen=True)
class _Strip:
    """Settings shared by the bands of a strip: names and looks of all candidates, and the strip's title."""

    names: Sequence[str]
    looks: Sequence[Look]
    label: Label
    what: str


def _add_band(figure: go.Figure, strip: _Strip, band: Band, bounds: tuple[float, float]) -> None:
    """Draw one band: a filled field with the name if it fits, or one field per target if several remain."""
    left, right = max(band.from_batch, bounds[0]), min(band.to_batch, bounds[1])
    if band.from_batch == band.to_batch:  # keeps a single measured batch visible
        left, right = max(left / 1.05, bounds[0]), min(right * 1.05, bounds[1])
    names, several = [strip.names[target] for target in band.targets], len(band.targets) > 1
    who = f"{names[0]} {are(names[0])} the {strip.what}"
    if several:
        counted_or_named = all_of(names) if len(names) <= MAX_TARGETS else f"{len(names):,}"
        who = f"{'A tie' if band.level else 'Not clear which'}: {counted_or_named}"
    hover = f"{who}<br>batch {round(band.from_batch):,} to {round(band.to_batch):,}<br>{strip.label}"
    fields = [(strip.looks[target].colour, target) for target in reversed(band.targets)]  # the first target on top
    if len(fields) > MAX_TARGETS:
        fields = [(GUIDE, band.targets[0])]
    for row, (colour, target) in enumerate(fields):
        low, high = row / len(fields), (row + 1) / len(fields)
        x, y = with_gaps([[(left, low), (left, high), (right, high), (right, low), (left, low)]])
        hatched = several and not band.level
        fill = {"fillpattern": HATCHED | {"fgcolor": colour}} if hatched else {"fillcolor": colour}
        figure.add_scatter(
            x=x, y=y, yaxis="y2", mode="lines", fill="toself", showlegend=False, hoveron="fills",
            legendgroup=f"target {target}", line={"width": 1 if several else 0, "color": colour},
            name=literal(strip.names[target]), text=literal(hover).replace("&lt;br&gt;", "<br>"),
            hoverinfo="text", **fill,
        )  # fmt: skip
    px = (position(right, bounds) - position(left, bounds)) * NARROW_PLOT_PX
    open_words = "a tie" if band.level else "not clear"
    words = open_words if several else short(names[0], 30)
    if px > len(words) * CHARACTER_PX + 6:
        _write(figure, words, (left, right), None if several else on_colour(strip.looks[band.targets[0]].colour))
    elif not several:
        look = strip.looks[band.targets[0]]
        figure.add_scatter(
            x=[math.sqrt(left * right)], y=[0.5], yaxis="y2", mode="markers", showlegend=False, hoverinfo="skip",
            legendgroup=f"target {band.targets[0]}", name=f"{literal(names[0])}, the {strip.what}",
            marker={"symbol": look.symbol, "size": 10, "color": on_colour(look.colour)},
        )  # fmt: skip


def _write(figure: go.Figure, words: str, ends: tuple[float, float], colour: str | None) -> None:
    """Write text in the middle of a field; without a ``colour`` on a plain background, so that hatching does not cut
    it.
    """
    paper = {"bgcolor": "rgba(136,136,136,0.85)", "borderpad": 2} if colour is None else {}
    figure.add_annotation(
        x=math.log10(math.sqrt(ends[0] * ends[1])), y=0.5, yref="y2", text=f"<b>{literal(words)}</b>",
        showarrow=False, font={"size": 12.5, "color": colour or PAPER}, **paper,
    )  # fmt: skip


def step_time_figure(run: Run, answer: Answer, beside: Overlay | None = None) -> go.Figure:
    """Plot the median step time (ms) of every target by batch, with 95 % bands, over an optional overlay ``beside``.

    For a single target its fitted floor and slope are drawn, for three or more the bands of the fastest.
    """
    value = attrgetter("step_ms", "low_ms", "high_ms")
    title = "Step time by batch size"
    return _cells_figure(run, answer, title, "Step time (ms)", "ms", value, beside, with_answer=True)


def throughput_figure(run: Run, answer: Answer, spans: Sequence[Span] = (), notes: Sequence[str] = ()) -> go.Figure:
    """Plot samples or tokens per second of every target by batch, with 95 % bands; ``spans`` are marked, ``notes`` go
    to the foot.
    """
    words, unit, tokens = throughput_unit(run)

    def value(cell: CellStats) -> tuple[float, float | None, float | None]:
        def rate(step_ms: float | None) -> float | None:
            return None if step_ms is None else tokens * 1000.0 * cell.batch / step_ms

        return tokens * cell.samples_per_s, rate(cell.high_ms), rate(cell.low_ms)

    title = "Throughput by batch size"
    return _cells_figure(run, answer, title, words, unit, value, spans=spans, notes=notes)


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
    parts = bounds_text(middle, low, high, unit), counted(cell.rounds, "round"), literal(notation)
    return Point(cell.batch, middle, low, high, "<br>".join((f"batch {cell.batch:,}", *parts)), few_starts(cell.starts))


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
    for pair in answer.against:
        points = speed_up_points(pair.speed_ups, run.target_names[pair.target])
        name = sentence_case(short(run.names[pair.target], 48))
        add_curve(figure, points, name, TARGET_LOOKS[pair.target], run.label, f"target {pair.target}")
        add_crossovers(figure, pair, name, TARGET_LOOKS[pair.target].colour)
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
    crossed = any(c.low is not None for pair in answer.against for c in pair.verdict.crossovers)
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


def add_crossovers(figure: go.Figure, pair: Against, name: str, colour: str) -> None:
    """Mark where a curve passes 1×, with the interval as a bar."""
    bounded_changes = [c for c in pair.verdict.crossovers if c.low is not None and c.high is not None]
    if not bounded_changes:
        return
    bars = {
        "type": "data", "symmetric": False, "color": colour, "thickness": 3.5, "width": 6,
        "array": [0.0 if c.high is None else c.high - c.batch for c in bounded_changes],
        "arrayminus": [0.0 if c.low is None else c.batch - c.low for c in bounded_changes],
    }  # fmt: skip
    figure.add_scatter(
        x=[c.batch for c in bounded_changes], y=[1.0] * len(bounded_changes), mode="markers", showlegend=False,
        legendgroup=f"target {pair.target}", name=f"{literal(name)}, crossover", error_x=bars,
        marker=CROSSOVER_MARK | {"color": colour, "line": {"width": 3, "color": colour}},
        customdata=[interval_words(c.batch, c.low, c.high) for c in bounded_changes],
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
