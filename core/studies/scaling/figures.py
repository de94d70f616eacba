"""Charts of a scaling study: throughput by batch size with the crossovers, and efficiency by batch size."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from core.base.numbers import interval_words
from core.base.text import sentence_case
from core.figures.marks import Point, Span, add_curve, add_level, bounds_text, interval_note, values_of
from core.figures.style import (
    TARGET_LOOKS,
    Look,
    batch_axis,
    frame,
    linear_axis,
    name_rows,
    short,
)
from core.rounds.ran_as import ran_line
from core.rounds.show.figures import throughput_figure, workload_line
from core.studies.scaling.answer import Efficiency, ScalingAnswer, Several
from core.studies.scaling.record import TRY_OUT

GLOBAL = "Batch size: the samples of all devices together."
TOP = 105.0  # percent; the axis extends further if a curve does


def speed_figure(answer: ScalingAnswer) -> go.Figure:
    """Plot the throughput of one device and of several by global batch size, and from where several are faster."""
    return throughput_figure(answer.run, answer.answer, crossover_spans(answer), foot(answer))


def foot(answer: ScalingAnswer) -> tuple[str, ...]:
    """Return the notes at the foot of a chart; for logical CPUs first that they show no speed."""
    return (f"{TRY_OUT}.", GLOBAL) if answer.study.plan.is_tried_out else (GLOBAL,)


def crossover_spans(answer: ScalingAnswer) -> list[Span]:
    """Return from where each number of devices is faster than one, with its interval."""
    return [
        Span(change.batch, change.low, change.high, _crosses(group, change.batch, change.low, change.high),
             TARGET_LOOKS[group.target].colour, "solid")
        for group in answer.several
        for change in group.verdict.crossovers
        if change.low is not None and change.high is not None
    ]  # fmt: skip


def _crosses(group: Several, batch: float, low: float, high: float) -> str:
    return f"{sentence_case(short(group.name, 26))}: crossover {interval_words(batch, low, high)}"


def efficiency_figure(answer: ScalingAnswer) -> go.Figure:
    """Plot strong and weak efficiency (%) of each number of devices by global batch size, with 95 % bands."""
    figure, every, names = go.Figure(), list[Point](), list[str]()
    for group in answer.several:
        look = TARGET_LOOKS[group.target]
        for kind, values, dash, symbol in (
            ("same batch", group.strong, "solid", look.symbol),
            ("same batch per replica", group.weak, "dot", f"{look.symbol}-open"),
        ):
            points, name = [_point(at) for at in values], f"{sentence_case(short(group.name, 40))}, {kind}"
            drawn = Look(look.colour, symbol, dash)
            add_curve(figure, points, name, drawn, answer.study.label, f"target {group.target} {kind}")
            every, names = [*every, *points], [*names, name]
    add_level(figure, 100.0)
    batches = [point.batch for point in every] or [1.0, 2.0]
    figure.update_xaxes(batch_axis(batches))
    top = max([TOP, *(1.05 * value for value in values_of(every))])
    step = 20 if top < 150 else 50 if top < 400 else 100 * math.ceil(top / 1000)
    figure.update_yaxes(linear_axis("Efficiency", (0.0, top), " %", range(0, math.ceil(top), step)))
    under = [workload_line(answer.run), "Throughput over that of one device times the number of devices."]
    more = (
        "Solid: one device with the same batch size (strong). Dotted: one device with the batch size of a replica "
        "(weak); what it lacks of 100 % is the cost of working together, and what lies between both the smaller batch."
    )
    notes = [more, interval_note(every), *foot(answer), *ran_line(answer.run)]
    return frame(figure, "Efficiency by batch size", under, notes, answer.study, legend_rows=name_rows(names))


def _point(share: Efficiency) -> Point:
    low, high = (None if bound is None else 100 * bound for bound in (share.low, share.high))
    bounds = bounds_text(100 * share.value, low, high, "%")
    hover = f"batch {share.batch:,}, {share.a_replica:,} per replica<br>{bounds}"
    return Point(share.batch, 100 * share.value, low, high, hover)
