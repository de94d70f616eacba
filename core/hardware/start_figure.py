"""The two charts of the first screen: one measured CPU against one card, and the card's overhead share by batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import plotly.graph_objects as go

from core.base.evidence import Label
from core.base.numbers import first_batch, number, percent
from core.figures.marks import (
    Overlay,
    Point,
    Span,
    add_curve,
    add_level,
    add_spans,
    bounds_text,
    interval_note,
    values_of,
)
from core.figures.style import (
    Look,
    batch_axis,
    environment_line,
    frame,
    linear_axis,
    literal,
    log_axis,
    log_range,
    short,
)
from core.hardware.compare import Against
from core.hardware.crossing import ModelledCrossover
from core.hardware.curve import RecordedStep
from core.hardware.figures import add_cpu
from core.hardware.interval import Modelled
from core.hardware.model import ModelledParts
from core.rounds.answer.answer import Answer, machine_line
from core.rounds.run import Run
from core.rounds.show.figures import workload_line

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
        foot=tuple(_scale_foot(card)),
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
    text = f"modelled crossover {first_batch(crossover.batch)} ({crossover.interval_words})"
    return (Span(crossover.batch, crossover.low or crossover.first, crossover.high, text, CARD_LOOK.colour, "dot"),)


def _scale_foot(card: Against) -> list[str]:
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


PLOT_PX = 180
PALE = 0.65
SHARE_WORDS = (
    "Overhead share: what is left of a modelled step without its arithmetic and its memory traffic, such as handing "
    "operations over, launching kernels, copying the batch.",
    "Pale: a point estimate without an interval, since nothing published says how far a modelled share errs.",
)


def overhead_share(parts: ModelledParts) -> float:
    """Return the share of a modelled step without useful device work, 0 to 1: 1 − (arithmetic + traffic) ÷ step time.

    The traced share of a GPU step is 1 − time with a kernel running ÷ step time, and a kernel runs while it computes or
    moves memory. Both overlap a little within an operation, so the share errs on the small side.
    """
    return max(0.0, 1 - (parts.arithmetic_ms + parts.bandwidth_ms) / parts.step_ms)


def share_words(card: Against) -> str:
    """Return the overhead share at the smallest and the largest modelled batch, in words; empty if none is modelled."""
    steps = [point for point in card.curve.stretch if isinstance(point, Modelled)]
    if not steps:
        return ""
    ends = dict.fromkeys((steps[0], steps[-1]))
    shares = " and ".join(f"{percent(overhead_share(step.parts))} at batch {step.batch:,}" for step in ends)
    return (
        f"Modelled, a point estimate without an interval: of a step on {card.spec.name}, {shares} is overhead, "
        "no arithmetic and no memory traffic."
    )


def steps_figure(run: Run, answer: Answer, index: int, card: Against) -> go.Figure:
    """Draw step time (ms) by batch of the run's target ``index``, solid, and of the card, dashed and hollow.

    Their crossover is marked. A card without numbers leaves the CPU alone.
    """
    figure, beside = go.Figure(), overlay(card)
    values = beside.add_steps(figure)
    points = add_cpu(figure, run, answer, index)
    batches = [point.batch for point in points] + [point.batch for point in card.curve.stretch]
    rows = add_spans(figure, beside.spans, log_range(batches, 0.04))
    figure.update_xaxes(batch_axis(batches))
    figure.update_yaxes(log_axis("Step time (ms)", log_range([*values, *values_of(points)])))
    foot = _foot(run, [*machine_line(answer.verdict.machine), interval_note(points), *beside.foot])
    title = f"Step time: {run.label} CPU, modelled GPU"
    return frame(figure, title, [], foot, legend_rows=1 + beside.legend_rows, label_rows=rows, plot_px=PLOT_PX)


def share_figure(run: Run, card: Against) -> go.Figure:
    """Draw the card's :func:`overhead_share` (%) by batch, from its modelled steps, of which there must be one."""
    figure, steps = go.Figure(), [point for point in card.curve.stretch if isinstance(point, Modelled)]
    batches, shares = [point.batch for point in steps], [100 * overhead_share(point.parts) for point in steps]
    name = literal(f"{card.spec.name} (modelled, no interval)")
    figure.add_scatter(
        x=batches, y=shares, mode="lines+markers", name=name, opacity=PALE, line=CARD_LOOK.line("modelled"),
        marker=CARD_LOOK.marker("modelled"),
        customdata=[f"batch {batch:,}<br>{number(share)} % of the step is overhead: modelled, no interval"
                    for batch, share in zip(batches, shares, strict=True)],
        hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
    )  # fmt: skip
    add_level(figure, 50)
    figure.update_xaxes(batch_axis(batches))
    figure.update_yaxes(linear_axis("Overhead share", (0, 104), " %", (0, 25, 50, 75, 100)))
    notes = [*SHARE_WORDS, f"Dashed and hollow: {card.spec.name}, modelled; {card.settings}. No worker ran for it."]
    rows = 2  # as many as the other chart has, so that both plots align
    title = "Overhead share by batch (modelled)"
    return frame(figure, title, [], _foot(run, notes), legend_rows=rows, label_rows=1, plot_px=PLOT_PX)


def _foot(run: Run, notes: Sequence[str]) -> list[str]:
    return [*notes, f"{workload_line(run)}.", environment_line(run)]
