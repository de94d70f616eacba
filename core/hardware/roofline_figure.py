"""A workload in a card's roofline: the rate reached over arithmetic per byte of traffic (Williams et al. 2009).

The roof follows from the card's facts; the rates below it are modelled, dashed and hollow, unless they were recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from core.figures.marks import whiskers
from core.figures.style import GUIDE, TARGET_LOOKS, frame, literal, log_axis, log_range, short
from core.hardware.catalogue import GpuSpec
from core.hardware.compare import RooflinePoint
from core.hardware.figures import MODELLED, NOTHING_RAN
from core.numbers import number

LOOK = TARGET_LOOKS[1]
WORDS_SHARE = 0.24  # share of the axis that the label of a batch takes in a narrow chart
ROOM_BELOW = 2.5  # factor of room for the label under the lowest point


def roofline_figure(spec: GpuSpec, peak_tflops: float, title: str, points: Sequence[RooflinePoint]) -> go.Figure:
    """Draw TFLOP/s over FLOP per byte: the card's roof with its ridge, and the workload ``title`` at each batch."""
    figure = go.Figure()
    ridge = peak_tflops * 1e3 / spec.bandwidth_gb_s
    x = log_range([*(point.intensity for point in points), ridge / 4, ridge * 4])
    roof = [(at, min(peak_tflops, at * spec.bandwidth_gb_s * 1e-3)) for at in (x[0], ridge, x[1])]
    figure.add_scatter(
        x=[at for at, _ in roof], y=[rate for _, rate in roof], mode="lines", line={"color": GUIDE, "width": 2.4},
        name=f"roof: {number(peak_tflops)} TFLOP/s, {number(spec.bandwidth_gb_s)} GB/s (facts of the card)",
        hoverinfo="skip",
    )  # fmt: skip
    rows = 1 + sum(_add_points(figure, spec, points, label) for label in (MODELLED, "measured", "recorded"))
    _name_batches(figure, points, x)
    y = log_range([*(rate for _, rate in roof), *(point.reached_tflops / ROOM_BELOW for point in points)])
    figure.update_xaxes(log_axis("Arithmetic intensity (FLOP a byte)", x))
    figure.update_yaxes(log_axis("Rate (TFLOP/s)", y))
    notes = [
        "Bars: 95 % intervals. Below the slope memory bandwidth bounds the rate, below the flat part the peak; far "
        "below both, launches and the host do.",
        NOTHING_RAN,
    ]
    head = f"Roofline of {short(spec.name, 28)} (steps modelled)"
    return frame(figure, head, [title], notes, legend_rows=rows, plot_px=300)


def _add_points(figure: go.Figure, spec: GpuSpec, points: Sequence[RooflinePoint], label: str) -> int:
    """Add the steps of one label, and return the number of legend lines."""
    mine = [point for point in points if point.label == label]
    if not mine:
        return 0
    modelled = label == MODELLED
    name = literal(f"steps on {short(spec.name, 28)} ({label})")
    figure.add_scatter(
        x=[p.intensity for p in mine], y=[p.reached_tflops for p in mine], mode="lines+markers", name=name,
        line={**LOOK.line("modelled"), "width": 1.4, "dash": "dash" if modelled else "solid"},
        marker=LOOK.marker("modelled" if modelled else "recorded"),
        error_y=whiskers([(p.reached_tflops, p.low_tflops, p.high_tflops) for p in mine], LOOK.colour, 0.9, 3),
        customdata=[[p.batch, p.attainable_tflops] for p in mine],
        hovertemplate=f"<b>{name}</b><br>batch %{{customdata[0]:,}}<br>%{{y:.3g}} TFLOP/s of at most "
        "%{customdata[1]:.3g}<extra></extra>",
    )  # fmt: skip
    return 1


def _name_batches(figure: go.Figure, points: Sequence[RooflinePoint], x: tuple[float, float]) -> None:
    """Write batches below their points, from the largest down, wherever there is room for the text."""
    span, last = math.log10(x[1] / x[0]), math.inf
    for point in reversed(points):
        at = math.log10(point.intensity)
        if at > last - WORDS_SHARE * span:
            continue
        last = at
        figure.add_annotation(
            x=at, y=math.log10(point.reached_tflops), text=f"batch {point.batch:,}", showarrow=False, xanchor="left",
            yanchor="top", xshift=9, yshift=-6, font={"size": 11.5},
        )  # fmt: skip
