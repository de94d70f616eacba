"""Charts of “which batch should we train with?”: time to the loss, throughput, time per sample and cost by batch.

Markers show measured step times; the line between them is interpolated. Predictions are dashed, hollow and marked as
such. The memory limit is a wall: no batch beyond it is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import plotly.graph_objects as go

from core.base.evidence import Label
from core.base.numbers import interval_words, number
from core.base.text import sentence_case
from core.figures.marks import Point, Span, add_band, add_spans, add_upright, add_zone, bounds_text, symbols
from core.figures.style import (
    GUIDE,
    TARGET_LOOKS,
    Look,
    batch_axis,
    environment_line,
    frame,
    literal,
    log_axis,
    log_range,
    short,
    within_reach,
)
from core.rounds.answer.answer import machine_line
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.studies.batch.shapes import BatchAnswer, BatchPoint, BestBatch, MemoryLimit, Quantity, TargetBatches
from core.studies.memory.answer import batch_words
from core.studies.noise.record import NoiseStudy
from core.workload.names import all_of

Known = Literal["time", "relative"]
Get = Callable[[BatchPoint], Quantity | None]
Best = Callable[[TargetBatches], BestBatch | None]
MAIN_PX = 280  # height of the plot, so that a picture with its text fits below a verdict
REACH = 3.0  # bands are drawn up to this factor beyond the curves; hover texts have their end
WALL_PX, BEST_PX, NAME = 3.5, 7.0, 16
MOST_WALLS = 2  # most memory limits named above the plot
MOST_NAMED = 3  # most targets whose best batch is named above the plot; with more there are only the stars


@dataclass(frozen=True)
class Measure:
    """Quantity shown in a chart. ``best`` marks a batch on each curve, ``predicted`` sets the style of the chart."""

    title: str
    axis: str
    unit: str
    get: Get
    best: Best
    predicted: bool = False


def known_time(answer: BatchAnswer) -> Known | None:
    """Return “time” if the time to the loss is known, “relative” if only its ratio to the best is, else None."""
    points = [point for target in answer.targets for point in target.points]
    if any(point.time_s is not None for point in points):
        return "time"
    return "relative" if any(point.relative_time is not None for point in points) else None


def time_to_loss_figure(run: Run, answer: BatchAnswer, noise: NoiseStudy) -> go.Figure:
    """Draw predicted time (s) to the target loss by batch, its best batch, both crossovers and the memory limits.

    If the target loss was not reached, draw the time over each target's own best, in which curves cannot be compared.
    ``answer`` must contain one of the two.
    """
    timed = known_time(answer) == "time"
    if timed:
        measure = Measure("Time to the loss by batch (predicted)", "Time to the loss (s)", "s", lambda p: p.time_s,
                          lambda t: t.best_time, predicted=True)  # fmt: skip
    else:
        measure = Measure("Time to a loss by batch (predicted)", "Time over the target's best", "×",
                          lambda p: p.relative_time, lambda t: t.best_time, predicted=True)  # fmt: skip
    to_loss = f"To a loss of {number(noise.target_loss)}"
    loss = to_loss if timed else "The loss was not reached: each over its own best time"
    under = [f"{loss}, on {noise.plan.task}."]
    crossings = [*_step_crossings(answer), *_loss_crossings(answer)] if timed else []
    foot = [f"{scale_words(answer)}, {noise.label}."]
    if any("time-to-loss" in span.text for span in crossings):
        foot.append("Time-to-loss crossover: from there on faster than the other target at its own best batch.")
    foot += [
        f"Predicted: {run.label} step time × steps that follow from the {noise.label} noise scale. Markers: batches "
        f"with a {run.label} step time. Bands: 95 % intervals. Thick: within 5 % of the best.",
        f"Steps: {environment_line(noise)}",
    ]
    return _figure(run, answer, measure, crossings, under, foot)


def throughput_figure(run: Run, answer: BatchAnswer) -> go.Figure:
    """Draw samples per second of all targets by batch, with the best batch and the memory limits."""
    measure = Measure("Throughput by batch", "Samples per second", "samples/s", lambda p: p.samples_per_s,
                      lambda t: t.best_throughput)  # fmt: skip
    return _figure(run, answer, measure, [], [], [_band_note(run)])


def sample_time_figure(run: Run, answer: BatchAnswer) -> go.Figure:
    """Draw time per sample (µs) of all targets by batch, with the crossover in step time and the memory limits."""
    measure = Measure(
        "Time per sample by batch", "Time per sample (µs)", "µs", lambda p: p.us_per_sample, lambda _: None
    )
    return _figure(run, answer, measure, _step_crossings(answer), [], [_band_note(run)])


def cost_figure(run: Run, answer: BatchAnswer) -> go.Figure:
    """Draw the cost of a million samples by batch, with the batch from which the cheaper target changes."""
    currency = next((target.price.currency for target in answer.targets if target.price is not None), "")
    measure = Measure(
        "Cost of a million samples by batch", f"Cost of a million samples ({currency})", currency,
        lambda p: p.cost_per_million, lambda _: None,
    )  # fmt: skip
    crossings = [
        Span(
            c.batch, c.low, c.high, f"{short(target.title, 24)} cheaper from {words}", _colour(answer, target), "solid"
        )
        for cost in answer.costs
        for c in cost.crossovers
        if (words := interval_words(c.batch, c.low, c.high)) and (target := answer.target(c.cheaper_after))
    ]
    priced = [f"{target.title} at {target.price.amount}" for target in answer.targets if target.price is not None]
    under = [f"Your prices: {'; '.join(priced)}."]
    return _figure(run, answer, measure, crossings, under, [f"Price × {run.label} step time. {_band_note(run)}"])


def _colour(answer: BatchAnswer, target: TargetBatches) -> str:
    """Return the colour of a target's line; neutral for two targets, where a line belongs to both."""
    return GUIDE if len(answer.targets) == 2 else TARGET_LOOKS[target.index].colour


def scale_words(answer: BatchAnswer) -> str:
    """Return ``Gradient noise scale 612 (540 to 700) samples``, or its lower bound."""
    noise = answer.noise
    if noise is None or noise.value is None or noise.high is None:
        return f"Gradient noise scale at least {0 if noise is None else noise.low:,.0f} samples"
    return f"Gradient noise scale {interval_words(noise.value, noise.low, noise.high)} samples"


def _figure(
    run: Run,
    answer: BatchAnswer,
    measure: Measure,
    crossings: Sequence[Span],
    under: Sequence[str],
    foot: Sequence[str],
) -> go.Figure:
    figure = go.Figure()
    batches = [float(point.batch) for target in answer.targets for point in target.points]
    x = log_range(batches, 0.04)
    label: Label = "modelled" if measure.predicted else run.label
    spans, curves = list(crossings), 0
    for target in answer.targets:
        look = TARGET_LOOKS[target.index]
        curves += _add_target(figure, target, look, measure, label)
        best = measure.best(target)
        if best is not None:
            named_best = _add_best(figure, target, best, look, measure)
            spans += [named_best] if len(answer.targets) <= MOST_NAMED else []
    walls, limits = memory_walls(answer.targets, x)
    named = len(walls) <= MOST_WALLS  # with more, the lines below the plot name them
    rows = add_spans(figure, [*spans, *(walls if named else [])], x)
    for wall in walls:
        if not named:
            add_zone(figure, wall.batch, x[1], wall.colour, 0.08)
        add_upright(figure, wall.batch, wall.colour, WALL_PX, None, name="memory limit")
    values = _values(answer, measure.get)
    y = log_range(values or [1.0])
    figure.update_xaxes(batch_axis(batches))
    figure.update_yaxes(log_axis(measure.axis, y, suffix="×" if measure.unit == "×" else ""))
    under, busy = [workload_line(run), *under], machine_line(answer.step_verdict.machine)
    return frame(figure, measure.title, under, [*busy, *foot, *limits], run, legend_rows=curves, label_rows=rows,
                 plot_px=MAIN_PX)  # fmt: skip


def _add_target(figure: go.Figure, target: TargetBatches, look: Look, measure: Measure, label: Label) -> int:
    """Draw one target's curve, dotted beyond its memory limit; return the number of legend rows."""
    points = [(point, value) for point in target.points if (value := measure.get(point)) is not None]
    if not points:
        return 0
    shown = sentence_case(target.title)
    name = literal(f"{short(shown, 40)} (predicted)" if measure.predicted else short(shown, 48))
    fitting = [pair for pair in points if pair[0].fits is not False]
    drawn = [Point(p.batch, q.value, q.low, q.high, _hover(p, q, measure)) for p, q in fitting]
    add_band(figure, drawn, name, look.band(), name)
    figure.add_scatter(
        x=[p.batch for p in drawn], y=[p.value for p in drawn], mode="lines", line=look.line(label),
        legendgroup=name, showlegend=False, name=f"{name}, between", customdata=[p.hover for p in drawn],
        hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
    )  # fmt: skip
    beyond = points[max(0, len(fitting) - 1) :] if len(fitting) < len(points) else []
    if beyond:
        figure.add_scatter(
            x=[p.batch for p, _ in beyond], y=[q.value for _, q in beyond], mode="lines", opacity=0.6,
            line={"color": look.colour, "width": 1.6, "dash": "dot"}, legendgroup=name, showlegend=False,
            name=f"{name}, does not fit", customdata=[_hover(p, q, measure) for p, q in beyond],
            hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
        )  # fmt: skip
    at = [(p, q) for p, q in points if p.label != "interpolated"]
    marked = [Point(p.batch, q.value, q.low, q.high, "") for p, q in at]
    figure.add_scatter(
        x=[p.batch for p, _ in at], y=[q.value for _, q in at], mode="lines+markers", name=name, legendgroup=name,
        line={**look.line(label), "width": 0}, marker=look.marker(label) | {"symbol": symbols(look, label, marked)},
        customdata=[_hover(p, q, measure) for p, q in at],
        hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
    )  # fmt: skip
    return 1


def _hover(point: BatchPoint, value: Quantity, measure: Measure) -> str:
    how = f"predicted from a step time that is {point.label}" if measure.predicted else point.label
    lines = [f"batch {point.batch:,}, {how}", bounds_text(value.value, value.low, value.high, measure.unit)]
    if measure.predicted and point.steps is not None:
        lines.append(bounds_text(point.steps.value, point.steps.low, point.steps.high, "steps"))
    return "<br>".join(lines + (["does not fit into memory"] if point.fits is False else []))


def _add_best(figure: go.Figure, target: TargetBatches, best: BestBatch, look: Look, measure: Measure) -> Span:
    """Draw the best batch as a star and those within 5 % of it as a thick line; return its label above the plot."""
    near = [p for p in target.points if best.low <= p.batch <= best.high and measure.get(p) is not None]
    values = {p.batch: value.value for p in near if (value := measure.get(p)) is not None}
    figure.add_scatter(
        x=list(values), y=list(values.values()), mode="lines", opacity=0.55, showlegend=False, hoverinfo="skip",
        line={"color": look.colour, "width": BEST_PX}, name=f"{literal(target.title)}, within 5 % of the best",
    )  # fmt: skip
    figure.add_scatter(
        x=[best.batch], y=[values.get(best.batch)], mode="markers", showlegend=False, hoverinfo="skip",
        marker={"symbol": "star", "size": 17, "color": look.colour, "line": {"width": 1.5, "color": "#FFFFFF"}},
        name=f"{literal(target.title)}, best batch",
    )  # fmt: skip
    words = f"★ best on {short(target.title, NAME)}: {best.batch:,}"
    return Span(best.batch, None, None, words, look.colour, "dot")


def _step_crossings(answer: BatchAnswer) -> list[Span]:
    return [
        Span(c.batch, c.low, c.high, f"step-time crossover {interval_words(c.batch, c.low, c.high)}", GUIDE, "solid")
        for c in answer.step_verdict.crossovers
    ]


def _loss_crossings(answer: BatchAnswer) -> list[Span]:
    """Return the batches where a target becomes faster than the other at its best, inside the range of its batches."""
    spans = []
    for crossover in answer.loss_crossovers:
        target = answer.target(crossover.target)
        if crossover.batch is None or crossover.batch <= target.points[0].batch:
            continue
        words = f"time-to-loss crossover of {short(target.title, NAME)}: "
        words += interval_words(crossover.batch, crossover.low, crossover.high)
        colour = TARGET_LOOKS[target.index].colour
        spans.append(Span(crossover.batch, crossover.low, crossover.high, words, colour, "dash"))
    return spans


def memory_walls(targets: Sequence[TargetBatches], x: tuple[float, float]) -> tuple[list[Span], list[str]]:
    """Return memory limits as walls with the batches beyond them shaded, and their descriptions.

    Equal limits share one wall; each limit in bytes has a line with the largest batch of every target.
    """
    shared: dict[MemoryLimit, list[TargetBatches]] = {}
    for target in targets:
        if target.memory is not None:
            shared.setdefault(target.memory, []).append(target)
    walls: list[Span] = []
    held: dict[str, list[str]] = {}
    for limit, having in shared.items():
        colour = TARGET_LOOKS[having[0].index].colour if len(having) == 1 else GUIDE
        name = _holders(having, targets)
        if x[0] <= limit.largest < x[1]:
            words = f"memory limit of {short(name, NAME)}: {batch_words(limit.largest)}"
            walls.append(Span(limit.largest, limit.largest, x[1], words, colour, "solid"))
        held.setdefault(limit.within, []).append(f"{_limit_words(limit, x)} on {name}")
    lines = [f"Largest batch that fits in memory{within}: {'; '.join(parts)}." for within, parts in held.items()]
    return walls, lines


def _holders(having: Sequence[TargetBatches], targets: Sequence[TargetBatches]) -> str:
    if len(having) == len(targets) > 1:
        return "both targets" if len(targets) == 2 else "all targets"
    return all_of([target.title for target in having])


def _limit_words(limit: MemoryLimit, x: tuple[float, float]) -> str:
    if limit.largest < x[0]:
        return f"none of these ({limit.label})"
    known = limit.low is not None and limit.high is not None and limit.low < limit.high
    span = f", {limit.low:,} to {batch_words(limit.high or 0)}" if known else ""
    return f"{batch_words(limit.largest)} ({limit.label}{span})"


def _values(answer: BatchAnswer, get: Get) -> list[float]:
    """Return all values, and their bounds clipped to a limited range around them."""
    quantities = [value for target in answer.targets for point in target.points if (value := get(point)) is not None]
    middles = [value.value for value in quantities]
    ends = [end for value in quantities for end in (value.low, value.high)]
    return within_reach(middles, ends, REACH) if middles else []


def _band_note(run: Run) -> str:
    return f"Markers: {run.label}; between them interpolated. Bands: 95 % intervals; hollow where there is none."
