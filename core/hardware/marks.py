"""A modelled card drawn into the charts of a measured run: dashed, hollow, and labelled “modelled” in the chart.

Recorded points of the card are solid and filled, under their own label.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import plotly.graph_objects as go

from core.evidence import Label
from core.figures.marks import Overlay, Point, Span, add_curve, bounds_text, values_of
from core.figures.style import Look, short
from core.hardware.against import Against
from core.hardware.crossing import ModelledCrossover
from core.hardware.interval import Modelled
from core.hardware.recorded import RecordedStep
from core.numbers import first_batch

CARD_LOOK = Look("#009E73", "square", "solid")
GROUP = "modelled card"
BELOW_MEASURED = 2000  # rank in the legend; Plotly's default is 1000
ROOM = 10.0  # factor beyond the curve up to which a band is drawn, so that other curves stay readable


def overlay(card: Against) -> Overlay:
    """Return the card as an overlay for the charts of the run with which it is compared."""
    return Overlay(
        add_steps=lambda figure: _add_steps(figure, card),
        add_speed_ups=lambda figure, base: _add_speed_ups(figure, card, base),
        batches=tuple(speed_up.batch for speed_up in card.speed_ups),
        spans=_crossover_span(card.crossover),
        suffix=", with a modelled GPU",
        foot=tuple(_foot(card)),
        legend_rows=len(_labels(card)),
    )


def _add_steps(figure: go.Figure, card: Against) -> list[float]:
    """Draw the card's step times (ms) behind later curves, and return the values that must stay in view."""
    pieces = groupby(card.curve.stretch, key=lambda point: point.label)
    return _add(figure, card.spec.name, [(label, [_step(point) for point in points]) for label, points in pieces])


def _add_speed_ups(figure: go.Figure, card: Against, base: str) -> list[float]:
    """Draw the card's speed-up over the measured target ``base``, and return the values that must stay in view."""
    points = [
        Point(
            s.batch, s.ratio, s.low, s.high,
            f"batch {s.batch:,}<br>modelled: {bounds_text(s.ratio, s.low, s.high, '×')}",
        )
        for s in card.speed_ups
    ]  # fmt: skip
    return _add(figure, f"{card.spec.name} over {short(base, 30)}", [("modelled", points)])


def _crossover_span(crossover: ModelledCrossover) -> tuple[Span, ...]:
    """Return the modelled crossover as a mark with a label short enough for a narrow chart; none if it is not resolved.

    The footnote names the two devices.
    """
    if crossover.batch is None or crossover.high is None or crossover.first is None:
        return ()
    low = f"{crossover.first:,} or less" if crossover.low is None else first_batch(crossover.low)
    text = f"modelled crossover {first_batch(crossover.batch)} ({low} to {first_batch(crossover.high)})"
    return (Span(crossover.batch, crossover.low or crossover.first, crossover.high, text, CARD_LOOK.colour, "dot"),)


def _foot(card: Against) -> list[str]:
    """Return the footnotes that the chart itself must carry about the card."""
    name, lines = card.spec.name, [card.crossover.sentence]
    if "modelled" in _labels(card):
        basis = next(p.basis for p in card.curve.stretch if isinstance(p, Modelled))
        lines.append(f"Dashed and hollow: {name}, modelled; {card.settings}. No worker ran for it. Interval: {basis}.")
    recorded = next((p.basis for p in card.curve.stretch if isinstance(p, RecordedStep)), None)
    return lines if recorded is None else [*lines, f"Filled squares: {name}, {recorded}."]


def _labels(card: Against) -> list[Label]:
    """Return the labels of the card's points, modelled first."""
    return sorted({point.label for point in card.curve.stretch}, key=lambda label: label != "modelled")


def _step(point: Modelled | RecordedStep) -> Point:
    middle = f"{point.label}: {bounds_text(point.step_ms, point.low_ms, point.high_ms, 'ms')}"
    limited = f"<br>limited by {point.limited_by} (modelled)"
    return Point(point.batch, point.step_ms, point.low_ms, point.high_ms, f"batch {point.batch:,}<br>{middle}{limited}")


def _add(figure: go.Figure, name: str, pieces: Sequence[tuple[Label, list[Point]]]) -> list[float]:
    """Draw one curve per piece, so that no line bridges points of another label, with one legend row per label."""
    values: list[float] = []
    before, named = len(figure.data), set()
    for label, points in pieces:
        drawn = _within_reach(points)
        shown = name if label == "modelled" else f"{name}, {label}"
        add_curve(figure, drawn, shown, CARD_LOOK, label, f"{GROUP}, {label}")
        figure.data[-1].showlegend = label not in named
        named.add(label)
        values += values_of(drawn)
    for trace in figure.data[before:]:
        trace.legendrank = BELOW_MEASURED
    return values


def _within_reach(points: Sequence[Point]) -> list[Point]:
    """Cut bands far beyond the curve; hover texts keep the full bounds."""
    if not points:
        return []
    bottom, top = min(p.value for p in points) / ROOM, max(p.value for p in points) * ROOM
    return [
        Point(p.batch, p.value, None if p.low is None else max(p.low, bottom),
              None if p.high is None else min(p.high, top), p.hover)
        for p in points
    ]  # fmt: skip
