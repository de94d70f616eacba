"""Charts of a fleet run: machines over each other by batch, readable for three of them and for a thousand.

Up to six machines have curves of their own: the baseline, chosen ones, and those that are the fastest somewhere. All
others form one grey area from the slowest to the fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.base.evidence import MAX_TARGETS
from core.base.numbers import counted, number
from core.figures.marks import Point, add_curve, add_level, bounds_text, values_of, with_gaps
from core.figures.style import (
    GUIDE,
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
    ratio_axis,
    short,
)
from core.rounds.answer.answer import Fastest
from core.rounds.show.figures import NEAR_PARITY, Added, add_bands, add_crossovers, speed_up_points
from core.studies.fleet.answer import FleetAnswer, Result
from core.studies.fleet.record import FleetStudy

REST = Look(GUIDE, "circle", "solid")
UNPAIRED_NOTE = "Machines are compared unpaired, so intervals are wider than between targets of one run."
Points = Callable[[Result], list[Point]]
Values = Callable[[Result], Iterable[tuple[float, float]]]
"""Batch and value, for machines that have no curve of their own."""


def drawn(answer: FleetAnswer, chosen: Sequence[str] = ()) -> tuple[int, ...]:
    """Return the machines that have curves of their own, at most six, in the order in which they get their looks."""
    count = len(answer.results)
    if count <= MAX_TARGETS:
        return tuple(range(count))
    requested = [i for i, name in enumerate(answer.names) if name in set(chosen)]
    others = sorted(answer.best, key=lambda i: (not _alone(answer.fastest, i), _mean_ratio(answer, i)))
    return tuple(dict.fromkeys([answer.baseline, *requested, *others]))[:MAX_TARGETS]


def _alone(fastest: Fastest, machine: int) -> bool:
    return any(band.targets == (machine,) for band in fastest.bands)


def _mean_ratio(answer: FleetAnswer, machine: int) -> float:
    """Return the negative mean speed-up over the baseline, so that the fastest sorts first."""
    against = answer.results[machine].against
    return 0.0 if against is None else -sum(point.ratio for point in against.speed_ups) / max(1, len(against.speed_ups))


def speed_up_figure(study: FleetStudy, answer: FleetAnswer, chosen: Sequence[str] = ()) -> go.Figure:
    """Plot the speed-up of each machine over the baseline machine, with the fastest as a strip above."""
    figure, shown = go.Figure(), drawn(answer, chosen)
    baseline = short(answer.names[answer.baseline], 30)
    batches = [float(batch) for batch in answer.batches]

    def points(result: Result) -> list[Point]:
        return [] if result.against is None else speed_up_points(result.against.speed_ups)

    def ratios(result: Result) -> list[tuple[float, float]]:
        return [] if result.against is None else [(point.batch, point.ratio) for point in result.against.speed_ups]

    values = [*NEAR_PARITY, *_rest(figure, answer, shown, ratios)]
    own = TARGET_LOOKS[shown.index(answer.baseline)] if answer.baseline in shown else REST
    add_level(figure, 1.0, own.colour, 2.4, "solid")
    for look, machine in zip(TARGET_LOOKS, shown, strict=False):
        result = answer.results[machine]
        name = short(result.name, 48)
        if result.against is None:  # the baseline: a line at 1×
            figure.add_scatter(x=batches, y=[1.0] * len(batches), mode="lines+markers", hoverinfo="skip",
                               name=literal(f"{name} (baseline)"), line=look.line(answer.label),
                               marker=look.marker(answer.label))  # fmt: skip
            continue
        curve = points(result)
        add_curve(figure, curve, name, look, answer.label, f"machine {machine}")
        add_crossovers(figure, result.against, name, look.colour)
        values += values_of(curve)
    crossed = any(
        c.low is not None for m in shown if (against := answer.results[m].against) for c in against.verdict.crossovers
    )
    y = log_range(values, 0.08)
    figure.update_yaxes(ratio_axis(f"Speed-up over {literal(baseline)}", y))
    bars = " Bars at 1×: 95 % intervals of crossovers." if crossed else ""
    title = f"{counted(len(answer.results), 'machine')} over each other: speed-up over {baseline}"
    return _framed(_Chart(figure, study, answer, shown, title, answer.fastest, "Fastest"), bars)


def throughput_figure(study: FleetStudy, answer: FleetAnswer, chosen: Sequence[str] = ()) -> go.Figure:
    """Plot samples per second of each machine by batch."""

    def points(result: Result) -> list[Point]:
        return [
            _point(cell.batch, cell.samples_per_s, _rate(cell.batch, cell.high_ms), _rate(cell.batch, cell.low_ms),
                   "samples/s")
            for cell in result.cells
        ]  # fmt: skip

    def rates(result: Result) -> list[tuple[float, float]]:
        return [(cell.batch, cell.samples_per_s) for cell in result.cells]

    return _curves(study, answer, chosen, (points, rates), ("Throughput by batch size", "Samples per second"))


def cost_figure(study: FleetStudy, answer: FleetAnswer, chosen: Sequence[str] = ()) -> go.Figure:
    """Plot the cost of a million samples on each machine that has a price, with the cheapest as a strip above."""
    currency = next(result.price.currency for result in answer.results if result.price is not None)

    def points(result: Result) -> list[Point]:
        return [_point(cost.batch, cost.value, cost.low, cost.high, currency) for cost in result.costs]

    def costs(result: Result) -> list[tuple[float, float]]:
        return [(cost.batch, cost.value) for cost in result.costs]

    words = ("Cost of a million samples by batch size", f"{currency} a million samples")
    return _curves(study, answer, chosen, (points, costs), words, answer.cheapest, "Cheapest")


def _curves(
    study: FleetStudy,
    answer: FleetAnswer,
    chosen: Sequence[str],
    of: tuple[Points, Values],
    words: tuple[str, str],
    bands: Fastest | None = None,
    what: str = "",
) -> go.Figure:
    figure, shown = go.Figure(), drawn(answer, chosen)
    points, others = of
    values = _rest(figure, answer, shown, others)
    for look, machine in zip(TARGET_LOOKS, shown, strict=False):
        drawn_points = points(answer.results[machine])
        if drawn_points:
            name = short(answer.names[machine], 48)
            add_curve(figure, drawn_points, name, look, answer.label, f"machine {machine}")
            values += values_of(drawn_points)
    y = log_range(values)
    figure.update_yaxes(log_axis(words[1], y, decade_ticks(*y)))
    return _framed(_Chart(figure, study, answer, shown, words[0], bands, what))


@dataclass(frozen=True)
class _Chart:
    figure: go.Figure
    study: FleetStudy
    answer: FleetAnswer
    shown: Sequence[int]
    title: str
    bands: Fastest | None
    what: str


def _framed(chart: _Chart, more: str = "") -> go.Figure:
    """Add the strip of the fastest, the batch axis, and the text around the chart."""
    answer, figure = chart.answer, chart.figure
    bounds = log_range([float(batch) for batch in answer.batches], 0.04)
    added = Added()
    if chart.bands is not None and chart.bands.bands and answer.has_interval:
        looks = [REST] * len(answer.results)
        for look, machine in zip(TARGET_LOOKS, chart.shown, strict=False):
            looks[machine] = look
        added = add_bands(figure, chart.bands, answer.names, looks, answer.label, bounds, chart.what)
    figure.update_xaxes(batch_axis([float(batch) for batch in answer.batches], bounds))
    names = [trace.name for trace in figure.data if trace.showlegend is not False]
    under = [f"{chart.study.plan.sweep.workload.title}, {chart.study.plan.sweep.pipeline.title}", _counts(answer)]
    sure = "Bands: 95 % intervals." if answer.has_interval else "No intervals: too few rounds."
    foot = [f"{sure}{more} {UNPAIRED_NOTE}", *added.notes, _where(chart.study, answer, chart.shown)]
    framed = frame(
        figure, chart.title, under, foot, legend_rows=name_rows(names), label_rows=added.label_rows,
        plot_px=PLOT_PX + added.plot_px,
    )  # fmt: skip
    return name_legend(framed, names)


def _counts(answer: FleetAnswer) -> str:
    """Describe which target of each machine counts."""
    if len(answer.target_names) == 1:
        return f"Each machine with its {answer.target_names[0]}."
    if answer.target is not None:
        return f"Of each machine its {answer.target_names[answer.target]} alone."
    return "Each machine with its fastest target at each batch."


def _where(study: FleetStudy, answer: FleetAnswer, shown: Sequence[int]) -> str:
    """Return label, day and the hardware of the drawn machines."""
    machines = [f"{answer.names[m]}: {answer.results[m].run.hardware}" for m in shown if answer.results[m].run.hardware]
    return " · ".join([answer.label, *([study.created_at[:10]] if study.created_at else []), *machines])


def _rest(figure: go.Figure, answer: FleetAnswer, shown: Sequence[int], values: Values) -> list[float]:
    """Draw the machines without a curve of their own as one grey area; return its values."""
    own = set(shown)
    others = [tuple(values(result)) for machine, result in enumerate(answer.results) if machine not in own]
    ends: dict[float, tuple[float, float]] = {}
    for batch, value in (pair for pairs in others for pair in pairs):
        low, high = ends.get(batch, (value, value))
        ends[batch] = min(low, value), max(high, value)
    if not ends:
        return []
    batches = sorted(ends)
    outline = [(batch, ends[batch][1]) for batch in batches] + [(batch, ends[batch][0]) for batch in batches[::-1]]
    x, y = with_gaps([outline])
    name = counted(sum(map(bool, others)), "other machine")
    figure.add_scatter(
        x=x, y=y, mode="lines", fill="toself", fillcolor="rgba(136,136,136,0.28)", line={"width": 1, "color": GUIDE},
        name=name, hoveron="fills", hoverinfo="text",
        text=f"{name}, from {number(min(v for v, _ in ends.values()))} to {number(max(v for _, v in ends.values()))}",
    )  # fmt: skip
    return [value for pair in ends.values() for value in pair]


def _point(batch: int, value: float, low: float | None, high: float | None, unit: str) -> Point:
    return Point(batch, value, low, high, f"batch {batch:,}<br>{bounds_text(value, low, high, unit)}")


def _rate(batch: int, step_ms: float | None) -> float | None:
    return None if step_ms is None else 1000.0 * batch / step_ms
