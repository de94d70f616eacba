"""Charts of memory: predicted peak by batch with probes and limit, and the parts at one batch."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from core.base.numbers import byte_size, counted, percent
from core.figures.marks import FAILED_WORDS, Point, Span, add_band, add_level, add_spans, add_zone
from core.figures.style import (
    GUIDE,
    TARGET_LOOKS,
    Evidence,
    Look,
    batch_axis,
    frame,
    linear_axis,
    literal,
    log_axis,
    log_range,
)
from core.studies.memory.answer import CurvePoint, LargestBatch, MemoryAnswer, MemoryPrediction, batch_words
from core.studies.memory.record import Probe
from core.workload.spec import Workload

GB = 1e9
BEYOND = 4  # the curve is shown up to this factor on the largest batch that may fit
ROW_PX = 30
LIMIT_COLOUR = "#B00020"  # contrast of 3 on light and dark paper, and no target's colour


def memory_figure(
    workload: Workload, target: int, prediction: MemoryPrediction, answer: MemoryAnswer | None, evidence: Evidence
) -> go.Figure:
    """Plot the predicted peak (GB) by batch with its band, the limit, and the probes, if any.

    ``target`` is its index in the run. With an ``answer`` the curve is the one refined by measured peaks. ``evidence``
    identifies the machine.
    """
    look, figure = TARGET_LOOKS[target], go.Figure()
    probes = () if answer is None else answer.probes
    curve = _shown((answer or prediction).curve, prediction.largest, probes)
    _add_curve(figure, curve, look)
    limit_gb = prediction.limit_bytes / GB
    traces = 2 + _add_probes(figure, probes, limit_gb, look, evidence)
    _add_limit(figure, limit_gb)
    batches = [float(point.batch) for point in curve]
    x = log_range(batches, 0.04)
    peaks = [probe.peak_bytes / GB for probe in probes if probe.peak_bytes is not None]
    y = log_range([*(point.peak_bytes / GB for point in curve), *peaks, limit_gb], 0.08)
    rows = add_spans(figure, _largest_spans(prediction, answer, look, x), x)
    figure.update_xaxes(batch_axis(batches))
    figure.update_yaxes(log_axis("Peak memory (GB)", y))
    under = [workload.title, f"{prediction.target}, the framework's own memory included"]
    foot = [f"{_source(prediction, answer)} Band: 95 % interval."]
    return frame(figure, "Peak memory by batch", under, foot, evidence, legend_rows=traces, label_rows=rows)


def parts_figure(
    workload: Workload, target: int, prediction: MemoryPrediction, answer: MemoryAnswer | None, evidence: Evidence
) -> go.Figure:
    """Plot the predicted use of memory at one batch: one bar per part, in MB."""
    look, figure, shown = TARGET_LOOKS[target], go.Figure(), answer or prediction
    rows = shown.named_parts
    total = sum(rows.values())
    sizes = [size / 1e6 for size in rows.values()]
    figure.add_bar(
        x=sizes, y=list(rows), orientation="h", name="predicted",
        marker={
            "color": look.band(), "line": {"color": look.colour, "width": 1.6},
            "pattern": {"shape": "/", "fgcolor": look.colour, "fgopacity": 0.5, "size": 7, "solidity": 0.15},
        },
        text=[f"{byte_size(size)}, {percent(size / total)}" for size in rows.values()],
        textposition="outside", cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    figure.update_xaxes(linear_axis("Memory (MB)", (0, 1.32 * max(sizes))))
    figure.update_yaxes(autorange="reversed", showgrid=False, ticklabelstandoff=6)
    under = [f"{workload.title}, {prediction.target}", f"Sum: {byte_size(total)}."]
    basis = prediction.basis if answer is None else "Predicted from the model, fitted to what was measured here."
    framed = frame(
        figure, f"What memory goes to at batch {shown.parts_batch:,} (predicted)", under, [basis], evidence,
        legend_rows=0, plot_px=ROW_PX * len(rows) + 10,
    )  # fmt: skip
    framed.update_layout(margin={**framed.layout.margin.to_plotly_json(), "l": 92})
    for note in framed.layout.annotations:
        note.xshift -= 24
    return framed


def _source(prediction: MemoryPrediction, answer: MemoryAnswer | None) -> str:
    if answer is None:
        return prediction.basis
    measured = sum(probe.peak_bytes is not None for probe in answer.probes)
    peaks = counted(measured, "peak")
    return f"Line: predicted from the model and the {peaks} of this search. Dashed upright: predicted before it."


def _shown(curve: Sequence[CurvePoint], largest: LargestBatch, probes: Sequence[Probe]) -> tuple[CurvePoint, ...]:
    tried = max((probe.batch for probe in probes), default=0)
    last = BEYOND * max(64, tried, min(largest.high, BEYOND * max(64, largest.batch)))
    return tuple(point for point in curve if point.batch <= last)


def _add_curve(figure: go.Figure, curve: Sequence[CurvePoint], look: Look) -> None:
    points = [
        Point(p.batch, p.peak_bytes / GB, p.low_bytes / GB, p.high_bytes / GB,
              f"batch {p.batch:,}<br>{byte_size(p.peak_bytes)} (95 %: {byte_size(p.low_bytes)} to "
              f"{byte_size(p.high_bytes)})")
        for p in curve
    ]  # fmt: skip
    add_band(figure, points, "peak (predicted)", look.band(), "predicted")
    figure.add_scatter(
        x=[p.batch for p in points], y=[p.value for p in points], mode="lines", name="peak (predicted)",
        line=look.line("modelled"), legendgroup="predicted", customdata=[p.hover for p in points],
        hovertemplate="<b>peak (predicted)</b><br>%{customdata}<extra></extra>",
    )  # fmt: skip


def _add_probes(figure: go.Figure, probes: Sequence[Probe], limit_gb: float, look: Look, evidence: Evidence) -> int:
    """Draw the probes by outcome, at their peaks if known, else on the limit; return the number of outcomes."""
    kinds = (
        (f"fitted ({evidence.label})", [p for p in probes if p.fitted], "circle"),
        (f"ran out ({evidence.label})", [p for p in probes if p.ran_out], "x"),
        ("not settled", [p for p in probes if not (p.fitted or p.ran_out)], "diamond-open"),
    )  # fmt: skip
    for name, drawn, symbol in kinds:
        if drawn:
            figure.add_scatter(
                x=[p.batch for p in drawn],
                y=[limit_gb if p.peak_bytes is None else p.peak_bytes / GB for p in drawn],
                mode="markers", name=name,
                marker={"symbol": symbol, "size": 11, "color": look.colour if symbol == "circle" else LIMIT_COLOUR,
                        "line": {"width": 1.5, "color": look.colour if symbol == "circle" else LIMIT_COLOUR}},
                customdata=[_probe_words(p) for p in drawn],
                hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
            )  # fmt: skip
    return sum(bool(drawn) for _, drawn, _ in kinds)


def _probe_words(probe: Probe) -> str:
    peak = "" if probe.peak_bytes is None else f"<br>peak {byte_size(probe.peak_bytes)}"
    how = "fitted" if probe.outcome == "measured" else FAILED_WORDS.get(probe.outcome, probe.outcome)
    return f"batch {probe.batch:,}, {how}{peak}" + (f"<br>{literal(probe.reason)}" if probe.reason else "")


def _add_limit(figure: go.Figure, limit_gb: float) -> None:
    """Draw the limit as a ceiling across the plot."""
    add_level(figure, limit_gb, LIMIT_COLOUR, 3, None, name="limit")
    add_zone(figure, limit_gb, limit_gb * 1000, LIMIT_COLOUR, 0.1, upright=False)
    figure.add_scatter(
        x=[None], y=[None], mode="lines", line={"color": LIMIT_COLOUR, "width": 3}, hoverinfo="skip",
        name=f"limit, {byte_size(GB * limit_gb)}",
    )  # fmt: skip


def _largest_spans(
    prediction: MemoryPrediction, answer: MemoryAnswer | None, look: Look, x: tuple[float, float]
) -> list[Span]:
    """Return the spans of the largest batch that fits: predicted with its interval, and confirmed."""
    spans, largest = [], prediction.largest
    if x[0] <= largest.batch <= x[1]:
        span = f" ({largest.low:,} to {batch_words(largest.high)})" if largest.low < largest.high else ""
        words = f"predicted to fit: {batch_words(largest.batch)}{span}"
        spans.append(Span(largest.batch, max(x[0], largest.low), min(x[1], largest.high), words, GUIDE, "dash"))
    if answer is not None and answer.confirmed is not None:
        refused = "" if answer.refused is None else f", {answer.refused:,} ran out"
        spans.append(Span(answer.confirmed, None, None, f"{answer.confirmed:,} fitted{refused}", look.colour, "solid"))
    return spans
