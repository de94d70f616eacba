"""The two charts of the first screen: one measured CPU against one card, and the card's overhead share by batch."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from core.figures.marks import add_level, add_spans, interval_note, values_of
from core.figures.style import batch_axis, environment_line, frame, linear_axis, literal, log_axis, log_range, wrapped
from core.hardware.against import Against
from core.hardware.figures import add_cpu
from core.hardware.interval import Modelled
from core.hardware.marks import CARD_LOOK, overlay
from core.hardware.model import ModelledParts
from core.numbers import number, percent
from core.studies.sweep.answer import Answer
from core.studies.sweep.busy import machine_line
from core.studies.sweep.figures import workload_line
from core.studies.sweep.record import Run

PLOT_PX = 210
WRAP_AT = 70  # characters of a footnote line that fit on a phone
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
    """Return the notes, the workload and the machine, in lines of :data:`WRAP_AT`."""
    return wrapped([*notes, f"{workload_line(run)}.", environment_line(run)], WRAP_AT)
