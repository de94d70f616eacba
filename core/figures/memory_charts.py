"""The charts of memory: predicted peak by batch with what was tried and the limit, and the parts at one batch."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from core.analysis.memory_answer import CurvePoint, LargestBatch, MemoryAnswer, MemoryPrediction, ProbePoint
from core.figures.marks import FAILED_WORDS, Point, Span, add_spans, band_outline
from core.figures.style import (
    GUIDE,
    TARGET_LOOKS,
    Evidence,
    Look,
    axis_title,
    batch_axis,
    decade_ticks,
    environment_line,
    frame,
    log_axis,
    log_range,
    number,
)
from core.spec import MAX_BATCH, Workload

GB = 1e9
BEYOND = 4  # the curve is shown so many times beyond the largest batch that may fit
ROW_PX = 30
LIMIT_COLOUR = "#B00020"  # a contrast of 3 on light and dark paper, and of no target


def memory_figure(
    workload: Workload,
    target: int,
    prediction: MemoryPrediction,
    answer: MemoryAnswer | None,
    evidence: Evidence,
) -> go.Figure:
    """Predicted peak (GB) by batch with its band, the limit, and what was tried, if anything was.

    ``target`` is its index in the run. With an ``answer`` the curve is its, sharpened by the peaks that it measured.
    ``evidence`` says which machine this is about.
    """
    look, figure = TARGET_LOOKS[target], go.Figure()
    probes = () if answer is None else answer.probes
    curve = _shown(prediction.curve if answer is None else answer.curve, prediction.largest, probes)
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
    figure.update_yaxes(log_axis("Peak memory (GB)", y, decade_ticks(*y)))
    under = [workload.title, f"{prediction.target}, the framework's own memory included"]
    foot = [_source(prediction, answer), "Band: 95 % interval.", environment_line(evidence)]
    return frame(
        figure, "Peak memory by batch", under, [foot[0] + " " + foot[1], foot[2]], legend_rows=traces, label_rows=rows
    )


def parts_figure(
    workload: Workload,
    target: int,
    prediction: MemoryPrediction,
    answer: MemoryAnswer | None,
    evidence: Evidence,
) -> go.Figure:
    """What the memory goes to at one batch: a bar a part, in MB, all of it predicted."""
    look, figure = TARGET_LOOKS[target], go.Figure()
    rows = parts_of(prediction, answer)
    total = sum(size for _, size in rows)
    batch = prediction.parts_batch if answer is None else answer.parts_batch
    sizes = [size / 1e6 for _, size in rows]
    figure.add_bar(
        x=sizes, y=[name for name, _ in rows], orientation="h", name="predicted",
        marker={
            "color": look.band(), "line": {"color": look.colour, "width": 1.6},
            "pattern": {"shape": "/", "fgcolor": look.colour, "fgopacity": 0.5, "size": 7, "solidity": 0.15},
        },
        text=[f"{number(size)} MB, {_share_words(1e6 * size / total)}" for size in sizes],
        textposition="outside", cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    figure.update_xaxes(
        title=axis_title("Memory (MB)"), range=[0, 1.32 * max(sizes)], gridcolor="rgba(136,136,136,0.22)",
        zeroline=False,
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", showgrid=False, ticklabelstandoff=6)
    under = [f"{workload.title}, {prediction.target}", f"Sum: {number(total / GB)} GB."]
    basis = prediction.basis if answer is None else "Predicted from the model, fitted to what was measured here."
    framed = frame(
        figure, f"What memory goes to at batch {batch:,} (predicted)", under, [basis, environment_line(evidence)],
        legend_rows=0, plot_px=ROW_PX * len(rows) + 10,
    )  # fmt: skip
    framed.update_layout(margin={**framed.layout.margin.to_plotly_json(), "l": 92})
    for note in framed.layout.annotations:
        note.xshift -= 24
    return framed


def _share_words(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "under 1 %"


def parts_of(prediction: MemoryPrediction, answer: MemoryAnswer | None) -> tuple[tuple[str, int], ...]:
    """Every part with its bytes, predicted; those that a workload has none of are left out."""
    parts = prediction.parts if answer is None else answer.parts
    context = prediction.context_bytes if answer is None else answer.context_bytes
    found = (
        ("framework", context),
        ("weights", parts.weights_bytes),
        ("gradients", parts.gradients_bytes),
        ("optimizer", parts.optimizer_bytes),
        ("activations", parts.activations_bytes),
        ("workspace", parts.workspace_bytes),
        ("batch data", parts.data_bytes),
    )
    return tuple((name, size) for name, size in found if size > 0)


def batch_words(batch: int) -> str:
    """A largest batch in words: the largest possible one means that or more."""
    return f"{batch:,} or more" if batch >= MAX_BATCH else f"{batch:,}"


def _source(prediction: MemoryPrediction, answer: MemoryAnswer | None) -> str:
    if answer is None:
        return prediction.basis
    measured = sum(probe.peak_bytes is not None for probe in answer.probes)
    peaks = f"{measured} {'peak' if measured == 1 else 'peaks'}"
    return f"Line: predicted from the model and the {peaks} of this search. Dashed upright: predicted before it."


def _shown(curve: Sequence[CurvePoint], largest: LargestBatch, probes: Sequence[ProbePoint]) -> tuple[CurvePoint, ...]:
    tried = max((probe.batch for probe in probes), default=0)
    last = BEYOND * max(64, tried, min(largest.high, BEYOND * max(64, largest.batch)))
    return tuple(point for point in curve if point.batch <= last)


def _add_curve(figure: go.Figure, curve: Sequence[CurvePoint], look: Look) -> None:
    points = [
        Point(p.batch, p.peak_bytes / GB, p.low_bytes / GB, p.high_bytes / GB,
              f"batch {p.batch:,}<br>{number(p.peak_bytes / GB)} GB (95 %: {number(p.low_bytes / GB)} to "
              f"{number(p.high_bytes / GB)})")
        for p in curve
    ]  # fmt: skip
    x, y = band_outline(points)
    figure.add_scatter(
        x=x, y=y, fill="toself", fillcolor=look.band(), line={"width": 0}, mode="lines", hoverinfo="skip",
        legendgroup="predicted", showlegend=False, name="peak (predicted), 95 % interval",
    )  # fmt: skip
    figure.add_scatter(
        x=[p.batch for p in points], y=[p.value for p in points], mode="lines", name="peak (predicted)",
        line=look.line("modelled"), legendgroup="predicted", customdata=[p.hover for p in points],
        hovertemplate="<b>peak (predicted)</b><br>%{customdata}<extra></extra>",
    )  # fmt: skip


def _add_probes(
    figure: go.Figure, probes: Sequence[ProbePoint], limit_gb: float, look: Look, evidence: Evidence
) -> int:
    """What was tried, by how it ended: peaks where they were told, else on the limit. Returns the kinds."""
    kinds = (
        (f"fitted ({evidence.label})", [p for p in probes if p.outcome == "measured"], "circle"),
        (f"ran out ({evidence.label})", [p for p in probes if p.outcome in ("out_of_memory", "crashed")], "x"),
        ("not settled", [p for p in probes if p.outcome not in ("measured", "out_of_memory", "crashed")],
         "diamond-open"),
    )  # fmt: skip
    for name, found, symbol in kinds:
        if found:
            figure.add_scatter(
                x=[p.batch for p in found],
                y=[limit_gb if p.peak_bytes is None else p.peak_bytes / GB for p in found],
                mode="markers", name=name,
                marker={"symbol": symbol, "size": 11, "color": look.colour if symbol == "circle" else LIMIT_COLOUR,
                        "line": {"width": 1.5, "color": look.colour if symbol == "circle" else LIMIT_COLOUR}},
                customdata=[_probe_words(p) for p in found],
                hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
            )  # fmt: skip
    return sum(bool(found) for _, found, _ in kinds)


def _probe_words(probe: ProbePoint) -> str:
    peak = "" if probe.peak_bytes is None else f"<br>peak {number(probe.peak_bytes / GB)} GB"
    how = "fitted" if probe.outcome == "measured" else FAILED_WORDS.get(probe.outcome, probe.outcome)
    return f"batch {probe.batch:,}, {how}{peak}" + (f"<br>{probe.reason}" if probe.reason else "")


def _add_limit(figure: go.Figure, limit_gb: float) -> None:
    """The limit as a ceiling across the plot."""
    figure.add_shape(
        type="line", xref="paper", x0=0, x1=1, y0=limit_gb, y1=limit_gb, line={"color": LIMIT_COLOUR, "width": 3},
        name="limit", layer="below",
    )  # fmt: skip
    figure.add_shape(
        type="rect", xref="paper", x0=0, x1=1, y0=limit_gb, yref="y", y1=limit_gb * 1000, fillcolor=LIMIT_COLOUR,
        opacity=0.1, line={"width": 0}, layer="below",
    )  # fmt: skip
    figure.add_scatter(
        x=[None], y=[None], mode="lines", line={"color": LIMIT_COLOUR, "width": 3}, hoverinfo="skip",
        name=f"limit, {number(limit_gb)} GB",
    )  # fmt: skip


def _largest_spans(
    prediction: MemoryPrediction, answer: MemoryAnswer | None, look: Look, x: tuple[float, float]
) -> list[Span]:
    """The largest batch that fits: predicted with its interval, and confirmed."""
    spans, largest = [], prediction.largest
    if x[0] <= largest.batch <= x[1]:
        span = f" ({largest.low:,} to {batch_words(largest.high)})" if largest.low < largest.high else ""
        words = f"predicted to fit: {batch_words(largest.batch)}{span}"
        spans.append(Span(largest.batch, max(x[0], largest.low), min(x[1], largest.high), words, GUIDE, "dash"))
    if answer is not None and answer.confirmed is not None:
        refused = "" if answer.refused is None else f", {answer.refused:,} ran out"
        spans.append(Span(answer.confirmed, None, None, f"{answer.confirmed:,} fitted{refused}", look.colour, "solid"))
    return spans
