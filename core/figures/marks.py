"""Marks that several charts share: curves with interval bands, guides, labels above the plot, failed cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.figures.style import GUIDE, LINE_PX, Look, number, short
from core.results import Cell, Label, Run

FAILED_WORDS = {
    "out_of_memory": "out of memory",
    "crashed": "crashed",
    "hung": "hung",
    "nan_loss": "loss became NaN",
    "misplaced": "ran elsewhere",
    "error": "failed",
    "skipped": "skipped",
}
CHARACTER_PX, NARROW_PLOT_PX = 6.4, 400.0  # label width estimate, and the narrowest plot it must fit


@dataclass(frozen=True)
class Point:
    """One point of a curve; bounds are None where rounds are too few for an interval."""

    batch: float
    value: float
    low: float | None
    high: float | None
    hover: str


def add_curve(figure: go.Figure, points: Sequence[Point], name: str, look: Look, label: Label, group: str) -> None:
    """A curve with markers, and its 95 % band as one filled trace behind it."""
    shown = f"{name} ({label})" if label == "modelled" else name
    x, y = band_outline(points)
    if x:
        figure.add_scatter(
            x=x, y=y, fill="toself", fillcolor=look.band(), line={"width": 0}, mode="lines", hoverinfo="skip",
            legendgroup=group, showlegend=False, name=f"{shown}, 95 % interval",
        )  # fmt: skip
    figure.add_scatter(
        x=[p.batch for p in points], y=[p.value for p in points], mode="lines+markers", name=shown,
        line=look.line(label), marker=look.marker(label), legendgroup=group,
        customdata=[p.hover for p in points], hovertemplate=f"<b>{shown}</b><br>%{{customdata}}<extra></extra>",
    )  # fmt: skip


def band_outline(points: Sequence[Point]) -> tuple[list[float | None], list[float | None]]:
    """Outline of the interval band: forth along the upper bounds and back along the lower, once for each stretch."""
    x: list[float | None] = []
    y: list[float | None] = []
    for stretch in _stretches(points):
        if x:
            x.append(None)
            y.append(None)
        x += [p.batch for p in stretch] + [p.batch for p in reversed(stretch)]
        y += [p.high for p in stretch] + [p.low for p in reversed(stretch)]
    return x, y


def _stretches(points: Sequence[Point]) -> list[list[Point]]:
    found: list[list[Point]] = [[]]
    for point in points:
        if point.low is None or point.high is None:
            found.append([])
        else:
            found[-1].append(point)
    return [stretch for stretch in found if len(stretch) > 1]


def add_level(figure: go.Figure, y: float) -> None:
    """A guide across the plot at ``y``."""
    figure.add_shape(
        type="line", xref="paper", x0=0, x1=1, y0=y, y1=y, line={"color": GUIDE, "width": 1.5, "dash": "dot"},
        layer="below",
    )  # fmt: skip


@dataclass(frozen=True)
class Span:
    """A batch with its interval and the words for it, drawn as a vertical band with a line."""

    batch: float
    low: float | None
    high: float | None
    text: str
    colour: str
    dash: str


def interval_words(batch: float, low: float | None, high: float | None) -> str:
    """``41 (32 to 50)``, or ``41 (no interval)`` where the rounds do not support one."""
    if low is None or high is None:
        return f"{round(batch):,} (no interval)"
    return f"{round(batch):,} ({round(low):,} to {round(high):,})"


def label_rows(spans: Sequence[Span], bounds: tuple[float, float]) -> list[int]:
    """Row above the plot for each span's words, so that no two overlap even in a narrow chart."""
    ends: list[float] = []
    order = sorted(range(len(spans)), key=lambda i: spans[i].batch)
    placed = dict.fromkeys(order, 0)
    for i in order:
        left = _left_edge(spans[i], bounds)
        row = next((r for r, end in enumerate(ends) if end <= left), len(ends))
        ends[row : row + 1] = [left + len(spans[i].text) * CHARACTER_PX + 12]
        placed[i] = row
    return [placed[i] for i in range(len(spans))]


def _position(batch: float, bounds: tuple[float, float]) -> float:
    return math.log(batch / bounds[0]) / math.log(bounds[1] / bounds[0])


def _anchor(position: float) -> str:
    return "left" if position < 0.35 else "right" if position > 0.65 else "center"


def _left_edge(span: Span, bounds: tuple[float, float]) -> float:
    position = _position(span.batch, bounds)
    share = {"left": 0.0, "center": 0.5, "right": 1.0}[_anchor(position)]
    return position * NARROW_PLOT_PX - share * len(span.text) * CHARACTER_PX


def add_spans(figure: go.Figure, spans: Sequence[Span], bounds: tuple[float, float]) -> int:
    """Vertical bands with their words above the plot; returns how many rows of words were used."""
    rows = label_rows(spans, bounds)
    for span, row in zip(spans, rows, strict=True):
        if span.low is not None and span.high is not None:
            figure.add_shape(
                type="rect", x0=max(span.low, bounds[0]), x1=min(span.high, bounds[1]), yref="paper", y0=0, y1=1,
                fillcolor=span.colour, opacity=0.16, line={"width": 0}, layer="below",
            )  # fmt: skip
        figure.add_shape(
            type="line", x0=span.batch, x1=span.batch, yref="paper", y0=0, y1=1,
            line={"color": span.colour, "width": 1.8, "dash": span.dash}, layer="below",
        )  # fmt: skip
        figure.add_annotation(
            x=math.log10(span.batch), yref="paper", y=1, yshift=2 + row * LINE_PX, yanchor="bottom",
            xanchor=_anchor(_position(span.batch, bounds)), text=span.text, showarrow=False, font={"size": 12.5},
        )  # fmt: skip
    return max(rows) + 1 if rows else 0


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
        words = [FAILED_WORDS[cell.outcome] for cell in mine]
        level = y[0] / step ** (row - 0.5)
        figure.add_scatter(
            x=[cell.batch for cell in mine], y=[level] * len(mine), mode="markers", showlegend=False,
            marker={"symbol": "x-thin", "size": 9, "line": {"width": 2.5, "color": looks[target].colour}},
            customdata=[cell.reason or word for cell, word in zip(mine, words, strict=True)],
            name=f"{run.target_names[target]}, not measured",
            hovertemplate=f"<b>{run.target_names[target]}</b>, batch %{{x:,}}<br>%{{customdata}}<extra></extra>",
        )  # fmt: skip
        middle = math.sqrt(mine[0].batch * mine[-1].batch)
        figure.add_annotation(
            x=math.log10(middle), y=math.log10(level), xanchor=_anchor(_position(middle, x)), yanchor="top", yshift=-5,
            text=short(f"{run.target_names[target]}: {', '.join(dict.fromkeys(words))}", 52),
            showarrow=False, font={"size": 11.5},
        )  # fmt: skip
    return y[0] / step ** len(targets), y[1]


def bounds_text(value: float, low: float | None, high: float | None, unit: str) -> str:
    """A value with its interval for hover texts."""
    if low is None or high is None:
        return f"{number(value)} {unit} (no interval: too few rounds)"
    return f"{number(value)} {unit} (95 %: {number(low)} to {number(high)})"
