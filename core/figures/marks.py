"""Marks shared by several charts: curves with interval bands, guides, labels above the plot, failed cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from core.analysis.statistics import MIN_UNITS
from core.base.evidence import Label
from core.base.numbers import number
from core.figures.style import GUIDE, LINE_PX, Look, literal

NOT_RUN: tuple[Label, ...] = ("modelled", "compiled", "published", "simulated")
"""Labels of curves that no machine known here ran: named in the legend."""
FAILED_WORDS = {
    "out_of_memory": "out of memory",
    "crashed": "crashed",
    "hung": "hung",
    "nan_loss": "loss became NaN",
    "misplaced": "ran elsewhere",
    "error": "failed",
    "skipped": "skipped",
}
INTERVAL_NOTE, NO_INTERVAL_NOTE = "Bands: 95 % intervals.", "Hollow: no interval, too few starts of the workers."
LONE_WIDTH = 1.04  # half the band's width at a point without neighbours, as a ratio of batch sizes
CHARACTER_PX, NARROW_PLOT_PX = 6.4, 400.0  # label width estimate, and the narrowest plot it must fit


@dataclass(frozen=True)
class Point:
    """One point of a curve; bounds are None without an interval. ``few``: it rests on too few starts of the workers."""

    batch: float
    value: float
    low: float | None
    high: float | None
    hover: str
    few: bool = False

    @property
    def hollow(self) -> bool:
        """True if it is drawn hollow: it has no interval, or one that rests on too few starts."""
        return self.few or self.low is None or self.high is None


def few_starts(starts: int | None) -> bool:
    """Return True if a value rests on too few starts of the workers to show the variation between them."""
    return starts is not None and starts < MIN_UNITS


def interval_note(points: Sequence[Point]) -> str:
    """Return the explanation of bands and hollow points, for the foot of a picture."""
    without = [p.low is None or p.high is None for p in points]
    if all(without):
        return NO_INTERVAL_NOTE
    notes = [INTERVAL_NOTE]
    if any(without):
        notes.append("Hollow: no interval.")
    if any(p.few for p in points):
        notes.append(
            "Hollow: fewer than three starts, so the band is wide by an allowance for how they differ."
            if not any(without)
            else "Hollow with a band: fewer than three starts, the band is an allowance."
        )
    return " ".join(notes)


def symbols(look: Look, label: Label, points: Sequence[Point]) -> str | list[str]:
    """Return the markers of the points, hollow ones included; a single marker if all are equal."""
    symbol = str(look.marker(label)["symbol"])
    if label in NOT_RUN or symbol.endswith("-open") or not any(p.hollow for p in points):
        return symbol
    return [f"{symbol}-open" if p.hollow else symbol for p in points]


def values_of(points: Sequence[Point]) -> list[float]:
    """Return values and known bounds, which an axis must cover."""
    return [v for p in points for v in (p.value, p.low, p.high) if v is not None]


def add_curve(figure: go.Figure, points: Sequence[Point], name: str, look: Look, label: Label, group: str) -> None:
    """Add a curve with markers, hollow at points without an interval of their own, and its 95 % band behind it."""
    shown = literal(f"{name} ({label})" if label in NOT_RUN else name)
    add_band(figure, points, shown, look.band(), group)
    figure.add_scatter(
        x=[p.batch for p in points], y=[p.value for p in points], mode="lines+markers", name=shown,
        line=look.line(label), marker=look.marker(label) | {"symbol": symbols(look, label, points)}, legendgroup=group,
        customdata=[p.hover for p in points], hovertemplate=f"<b>{shown}</b><br>%{{customdata}}<extra></extra>",
    )  # fmt: skip


def add_band(figure: go.Figure, points: Sequence[Point], curve: str, colour: str, group: str) -> None:
    """Add the 95 % band of a curve as one filled trace; nothing if no point has an interval."""
    x, y = band_outline(points)
    if x:
        figure.add_scatter(
            x=x, y=y, fill="toself", fillcolor=colour, line={"width": 0}, mode="lines", hoverinfo="skip",
            legendgroup=group, showlegend=False, name=f"{curve}, 95 % interval",
        )  # fmt: skip


def band_outline(points: Sequence[Point]) -> tuple[list[float | None], list[float | None]]:
    """Return the outline of the interval band: the upper bounds, then the lower ones backwards, per stretch."""
    around = []
    for part in _stretches(points):
        edges = [(p.batch, p.low, p.high) for p in part]
        if len(part) == 1:  # a point without neighbours still shows its interval
            batch, low, high = edges[0]
            edges = [(batch / LONE_WIDTH, low, high), (batch * LONE_WIDTH, low, high)]
        around.append([(x, high) for x, _, high in edges] + [(x, low) for x, low, _ in edges[::-1]])
    return with_gaps(around)


def with_gaps(
    pieces: Iterable[Iterable[tuple[float | None, float | None]]],
) -> tuple[list[float | None], list[float | None]]:
    """Join pieces of (x, y) into one trace with gaps between them."""
    x: list[float | None] = []
    y: list[float | None] = []
    for piece in pieces:
        gap: list[float | None] = [None] if x else []
        across, up = zip(*piece, strict=True)
        x, y = [*x, *gap, *across], [*y, *gap, *up]
    return x, y


def whiskers(
    values: Sequence[tuple[float, float | None, float | None]], colour: str, thickness: float, width: float
) -> dict[str, Any]:
    """Return error bars from (value, low, high); none on a side whose bound is unknown."""
    return {
        "type": "data", "symmetric": False, "color": colour, "thickness": thickness, "width": width,
        "array": [0.0 if high is None else max(0.0, high - value) for value, _, high in values],
        "arrayminus": [0.0 if low is None else max(0.0, value - low) for value, low, _ in values],
    }  # fmt: skip


def _stretches(points: Sequence[Point]) -> list[list[Point]]:
    stretches: list[list[Point]] = [[]]
    for point in points:
        if point.low is None or point.high is None:
            stretches.append([])
        else:
            stretches[-1].append(point)
    return [stretch for stretch in stretches if stretch]


def add_level(
    figure: go.Figure, y: float, colour: str = GUIDE, width: float = 1.5, dash: str | None = "dot", **more: Any
) -> None:
    """Add a line across the plot at ``y``."""
    line = {"color": colour, "width": width, "dash": dash}
    figure.add_shape(type="line", xref="paper", x0=0, x1=1, y0=y, y1=y, line=line, **{"layer": "below", **more})


def add_upright(
    figure: go.Figure, x: float, colour: str = GUIDE, width: float = 1.5, dash: str | None = "dash", **more: Any
) -> None:
    """Add a line from the bottom of the plot to its top at ``x``."""
    line = {"color": colour, "width": width, "dash": dash}
    figure.add_shape(type="line", yref="paper", y0=0, y1=1, x0=x, x1=x, line=line, **{"layer": "below", **more})


def add_zone(figure: go.Figure, low: float, high: float, colour: str, opacity: float, upright: bool = True) -> None:
    """Add a pale strip from ``low`` to ``high``, over the full height, or the full width if ``upright`` is False."""
    places: dict[str, Any] = {"x0": low, "x1": high, "yref": "paper", "y0": 0, "y1": 1}
    if not upright:
        places = {"y0": low, "y1": high, "xref": "paper", "x0": 0, "x1": 1}
    figure.add_shape(type="rect", fillcolor=colour, opacity=opacity, line={"width": 0}, layer="below", **places)


@dataclass(frozen=True)
class Span:
    """A batch with its interval and its label, drawn as a vertical band with a line."""

    batch: float
    low: float | None
    high: float | None
    text: str
    colour: str
    dash: str


@dataclass(frozen=True)
class Overlay:
    """Additional curves in a run's charts, such as a modelled card.

    ``add_steps`` draws step times (ms), ``add_speed_ups`` speed-ups over the measured target of that name; both return
    the values that must be visible. ``suffix`` ends the chart's title, ``foot`` its notes; ``legend_rows`` is the
    number of legend rows for the step times.
    """

    add_steps: Callable[[go.Figure], list[float]]
    add_speed_ups: Callable[[go.Figure, str], list[float]]
    batches: tuple[int, ...]
    spans: tuple[Span, ...]
    suffix: str
    foot: tuple[str, ...]
    legend_rows: int


def label_rows(spans: Sequence[Span], bounds: tuple[float, float]) -> list[int]:
    """Return the row above the plot for each span's label, so that no two overlap even in a narrow chart."""
    ends: list[float] = []
    order = sorted(range(len(spans)), key=lambda i: spans[i].batch)
    placed = dict.fromkeys(order, 0)
    for i in order:
        left = _left_edge(spans[i], bounds)
        row = next((r for r, end in enumerate(ends) if end <= left), len(ends))
        ends[row : row + 1] = [left + len(spans[i].text) * CHARACTER_PX + 12]
        placed[i] = row
    return [placed[i] for i in range(len(spans))]


def position(batch: float, bounds: tuple[float, float]) -> float:
    """Return the place of a batch on a logarithmic axis: 0 at its left end, 1 at its right."""
    return math.log(batch / bounds[0]) / math.log(bounds[1] / bounds[0])


def anchor(position: float) -> str:
    """Return the anchor of a label at a position (0 to 1) that keeps it inside the plot."""
    return "left" if position < 0.35 else "right" if position > 0.65 else "center"


def _left_edge(span: Span, bounds: tuple[float, float]) -> float:
    place = position(span.batch, bounds)
    share = {"left": 0.0, "center": 0.5, "right": 1.0}[anchor(place)]
    return place * NARROW_PLOT_PX - share * len(span.text) * CHARACTER_PX


def add_spans(figure: go.Figure, spans: Sequence[Span], bounds: tuple[float, float]) -> int:
    """Add vertical bands with labels above the plot; return the number of label rows."""
    rows = label_rows(spans, bounds)
    for span, row in zip(spans, rows, strict=True):
        if span.low is not None and span.high is not None:
            add_zone(figure, max(span.low, bounds[0]), min(span.high, bounds[1]), span.colour, 0.16)
        add_upright(figure, span.batch, span.colour, 1.8, span.dash)
        figure.add_annotation(
            x=math.log10(span.batch), yref="paper", y=1, yshift=2 + row * LINE_PX, yanchor="bottom",
            xanchor=anchor(position(span.batch, bounds)), text=literal(span.text), showarrow=False, font={"size": 12.5},
        )  # fmt: skip
    return max(rows) + 1 if rows else 0


def bounds_text(value: float, low: float | None, high: float | None, unit: str) -> str:
    """Return a value with its interval for hover texts."""
    if low is None or high is None:
        return f"{number(value)} {unit} (no interval)"
    return f"{number(value)} {unit} (95 %: {number(low)} to {number(high)})"
