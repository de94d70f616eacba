"""Charts of a measured CPU against GPUs that need not be here: step time by batch, crossovers, limits of a card.

Measured and recorded points are solid and filled. Modelled ones are dashed and hollow, and the word “modelled” stands
in the title, in the plot and in the name of every such curve, so that no copy of the chart can lose it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

import plotly.graph_objects as go

from core.base.numbers import WHOLE, first_batch, number
from core.base.text import sentence_case
from core.figures.marks import Point, add_band, add_curve, bounds_text, few_starts, whiskers, with_gaps
from core.figures.style import (
    GUIDE,
    TARGET_LOOKS,
    Look,
    axis_title,
    batch_axis,
    frame,
    linear_axis,
    literal,
    log_axis,
    log_range,
    short,
    within_reach,
)
from core.hardware.catalogue import GpuSpec
from core.hardware.compare import CardReading, RooflinePoint
from core.hardware.crossing import ModelledCrossover
from core.hardware.curve import CardCurve, RecordedStep
from core.hardware.host import BUILD_WORDS, HostCosts
from core.hardware.interval import Modelled, Withheld
from core.hardware.model import Limit
from core.hardware.published import Points, Published, agreement
from core.rounds.answer.answer import Answer, machine_line
from core.rounds.run import Run
from core.rounds.show.figures import workload_line

MODELLED = "modelled"
CARD_LOOKS = (
    Look("#D55E00", "diamond", "dash"),
    Look("#009E73", "square", "dash"),
    Look("#CC79A7", "triangle-up", "dash"),
    Look("#7A5195", "triangle-down", "dash"),
    Look("#B8860B", "pentagon", "dash"),
    Look("#56B4E9", "hexagon", "dash"),
)
MAX_CARDS = len(CARD_LOOKS)
HATCHED = "Modelled: hatched; nothing ran on these cards."
NOTHING_RAN = "Modelled: dashed and hollow; nothing ran on these cards."
CLEAR = "rgba(0,0,0,0)"
BANDS = "Bands, of several cards their dotted bounds: 95 % intervals, with the model's error in them."
HOLLOW = "Hollow, solid line: no interval, or fewer than three starts of the workers."
REACH = 3.0  # factor beyond the curves up to which a band is shown; hover texts give its end
ROW_PX, NAME = 46, 40
STRIP = 0.34  # height of a strip as a share of a row
CLEARLY = {"gpu": "clearly faster", "cpu": "clearly slower"}
STATES = {
    "gpu": ("card clearly faster", "#D55E00", "/"),
    "open": ("not clear", "#888888", "."),
    "cpu": ("{cpu} clearly faster", "#0072B2", "\\"),
}
"""Words, colour and hatching by what is known at a batch; none of them is the only difference."""
PARTS: dict[Limit, tuple[str, str, str]] = {
    "host": ("host: handing operations over", "#56B4E9", "/"),
    "launch": ("launch: spacing of kernels", "#E69F00", "."),
    "bandwidth": ("bandwidth: memory traffic", "#009E73", "x"),
    "arithmetic": ("arithmetic", "#CC79A7", "-"),
    "transfer": ("transfer over the link", "#7A5195", "+"),
}


def against_figure(
    run: Run, answer: Answer, index: int, readings: Sequence[CardReading], costs: HostCosts
) -> go.Figure:
    """Draw the step time (ms) by batch of the run's target ``index`` and of at most :data:`MAX_CARDS` cards.

    Cards from which every number is withheld are named below the plot.
    """
    figure = go.Figure()
    points = add_cpu(figure, run, answer, index)
    rows = 1 + sum(
        _add_card(figure, reading.curve, look, filled=len(readings) == 1)
        for reading, look in zip(readings[:MAX_CARDS], CARD_LOOKS, strict=False)
    )
    steps = [step for reading in readings[:MAX_CARDS] for step in reading.curve.known]
    _words_in_plot(figure, run.label, points, readings[:MAX_CARDS])
    middles = [*(point.value for point in points), *(step.step_ms for step in steps)]
    ends = [*(end for p in points for end in (p.low, p.high)), *(ms for s in steps for ms in (s.low_ms, s.high_ms))]
    y = log_range(within_reach(middles, ends, REACH))
    figure.update_xaxes(batch_axis([*(p.batch for p in points), *(step.batch for step in steps)]))
    figure.update_yaxes(log_axis("Step time (ms)", y))
    title = f"Step time: {run.label} CPU, modelled GPUs"
    corrected = [f"Corrected by {by}." for reading in readings if (by := reading.curve.corrected_by)]
    hollow = [HOLLOW] if any(point.hollow for point in points) else []
    busy = machine_line(answer.verdict.machine)
    notes = [*busy, f"{NOTHING_RAN} {BANDS}", *hollow, host_line(costs), *withheld_lines(readings), *corrected]
    return frame(figure, title, [workload_line(run)], notes, run, legend_rows=rows)


def add_cpu(figure: go.Figure, run: Run, answer: Answer, index: int) -> list[Point]:
    """Add the step times (ms) of the run's target ``index``, with its label in the legend, and return its points."""
    points = [
        Point(c.batch, c.step_ms, c.low_ms, c.high_ms,
              f"batch {c.batch:,}<br>{bounds_text(c.step_ms, c.low_ms, c.high_ms, 'ms')}", few_starts(c.starts))
        for c in answer.cells if c.target == index
    ]  # fmt: skip
    name = sentence_case(short(run.names[index], NAME))
    named = name if run.label == MODELLED else f"{name} ({run.label})"
    add_curve(figure, points, named, TARGET_LOOKS[0], run.label, "cpu")
    return points


def _add_card(figure: go.Figure, curve: CardCurve, look: Look, filled: bool) -> int:
    """Add one card's band, modelled curve and recorded points, and return the number of its legend lines.

    Bands of several cards are outlines, since filled ones would merge.
    """
    name, rows = literal(short(curve.gpu, NAME)), 0
    before = len(figure.data)
    pale = look.band().replace("0.2)", "0.1)") if filled else CLEAR
    add_band(figure, [_point(point) for point in curve.points], f"{name} ({MODELLED})", pale, curve.gpu)
    for band in figure.data[before:]:
        band.line = {"color": look.colour, "width": 0 if filled else 1, "dash": "dot"}
    for label in (MODELLED, "measured", "recorded"):
        drawn = _stretches(curve, label)
        if not drawn:
            continue
        rows += 1
        shown = f"{name} ({label})"
        figure.add_scatter(
            x=[p and p.batch for p in drawn], y=[p and p.step_ms for p in drawn], mode="lines+markers", name=shown,
            line={**look.line("modelled"), "dash": "dash" if label == MODELLED else "solid"},
            marker=look.marker("modelled" if label == MODELLED else "recorded"), legendgroup=curve.gpu,
            customdata=[p and _hover(p) for p in drawn],
            hovertemplate=f"<b>{shown}</b><br>%{{customdata}}<extra></extra>",
        )  # fmt: skip
    _add_joints(figure, curve, look)
    return rows


def _point(step: Modelled | RecordedStep | Withheld) -> Point:
    if isinstance(step, Withheld):
        return Point(step.batch, math.nan, None, None, "")
    return Point(step.batch, step.step_ms, step.low_ms, step.high_ms, _hover(step))


def _stretches(curve: CardCurve, label: str) -> list[Modelled | RecordedStep | None]:
    """Return the points of one label, with None wherever a point of another label or a withheld one lies between."""
    drawn: list[Modelled | RecordedStep | None] = []
    for own, group in groupby(curve.points, key=lambda step: None if isinstance(step, Withheld) else step.label):
        if own == label:
            drawn += [None] if drawn else []
            drawn += [step for step in group if not isinstance(step, Withheld)]
    return drawn


def _add_joints(figure: go.Figure, curve: CardCurve, look: Look) -> None:
    """Join modelled points to recorded neighbours, as part of the modelled curve."""
    x, y = with_gaps(
        [(a.batch, a.step_ms), (b.batch, b.step_ms)]
        for a, b in pairwise(curve.points)
        if not isinstance(a, Withheld) and not isinstance(b, Withheld) and a.label != b.label
    )
    if x:
        figure.add_scatter(
            x=x, y=y, mode="lines", line=look.line("modelled"), hoverinfo="skip", legendgroup=curve.gpu,
            showlegend=False, name=f"{literal(short(curve.gpu, NAME))} ({MODELLED}), to recorded points",
        )  # fmt: skip


def _hover(step: Modelled | RecordedStep) -> str:
    times = bounds_text(step.step_ms, step.low_ms, step.high_ms, "ms")
    return f"batch {step.batch:,}, {step.label}<br>{times}<br>most of it: {step.limited_by}"


def _words_in_plot(figure: go.Figure, label: str, cpu: Sequence[Point], readings: Sequence[CardReading]) -> None:
    """Write “measured” and “modelled” at the smallest batch, where curves are flat, on the outer sides."""
    known = [step for r in readings for step in r.curve.known[:1] if isinstance(step, Modelled)]
    first = cpu[0].value if cpu else math.inf
    above = bool(known) and min(point.step_ms for point in known) > first
    words = [(cpu[0].batch, first, label, not above)] if cpu else []
    if known:
        edge = (max if above else min)(known, key=lambda point: point.step_ms)
        words.append((edge.batch, edge.step_ms, MODELLED, above))
    for batch, ms, text, up in words:
        figure.add_annotation(
            x=math.log10(batch), y=math.log10(ms), text=f"<i>{text}</i>", showarrow=False, xanchor="left",
            yanchor="bottom" if up else "top", xshift=6, yshift=8 if up else -8, font={"size": 13},
        )  # fmt: skip


def host_line(costs: HostCosts) -> str:
    """Return the source of the model's host overhead, in one line."""
    each = "" if costs.execution == "xla" else f" and {number(costs.op.us)} µs per operation"
    return f"Host overhead {costs.words}: {number(costs.step.us)} µs per step{each}."


def withheld_lines(readings: Sequence[CardReading]) -> list[str]:
    """Return one line per reason for which cards have no number, with the names of those cards."""
    reasons: dict[str, list[str]] = {}
    for reading in readings:
        if not reading.curve.known:
            reasons.setdefault(reading.curve.reason, []).append(reading.spec.name)
    return [f"Withheld for {', '.join(names)}: {reason}" for reason, names in reasons.items()]


def crossover_words(crossover: ModelledCrossover) -> str:
    """Return the whole batch from which the card is faster, with its interval, short enough for a table."""
    if crossover.kind == "gpu ahead throughout":
        return "clearly faster throughout"
    if crossover.kind == "cpu ahead throughout":
        return "CPU clearly faster throughout"
    if crossover.kind == "withheld":
        return "withheld"
    if crossover.kind == "from" and crossover.batch is not None and crossover.high is not None:
        if _at_start(crossover):
            return f"{first_batch(crossover.batch)} or less (at most {first_batch(crossover.high)})"
        return f"{first_batch(crossover.batch)} ({crossover.interval_words})"
    return "not clear" if crossover.low is None else f"not clear; not before {first_batch(crossover.low)} (95 %)"


def _at_start(crossover: ModelledCrossover) -> bool:
    """Check that the estimate has the card faster from the first batch compared."""
    return crossover.batch is not None and crossover.first is not None and crossover.batch <= crossover.first


def clear_words(crossover: ModelledCrossover) -> str:
    """Return the whole batches at which the card is clearly faster or slower, short enough for a row of a chart."""
    if crossover.kind == "withheld":
        return "no number"
    if not crossover.clear:
        return "not clear at any batch"
    first, last = crossover.clear[0], crossover.clear[-1]
    if _throughout(crossover):
        return f"{CLEARLY[first.faster]} at every batch"
    if crossover.clearly_from is not None:
        return f"clearly faster from batch {crossover.clearly_from:,}"
    below = CLEARLY[first.faster]
    if len(crossover.clear) > 1:
        return f"{below} up to batch {first.last:,}, {CLEARLY[last.faster]} from batch {last.first:,}"
    if first.first == crossover.first:
        return f"{below} up to batch {first.last:,}, else not clear"
    return f"{below} from batch {first.first:,} to {first.last:,}, else not clear"


def _throughout(crossover: ModelledCrossover) -> bool:
    ends = [(span.first, span.last) for span in crossover.clear]
    return ends == [(crossover.first, crossover.last)]


def clear_figure(run: Run, answer: Answer, index: int, readings: Sequence[CardReading]) -> go.Figure:
    """Draw one strip per card over the batches measured on the CPU: clearly faster, clearly slower, not clear."""
    figure = go.Figure()
    batches = [float(cell.batch) for cell in answer.cells if cell.target == index]
    shown = readings[:MAX_CARDS]
    cpu = short(run.names[index], 28)
    strips = [(row, strip) for row, reading in enumerate(shown) for strip in _strips(reading.crossover)]
    for state, (words, colour, shape) in STATES.items():
        mine = [(row, low, high) for row, (known, low, high) in strips if known == state]
        if not mine:
            continue
        name = literal(f"{words.format(cpu=cpu)} ({MODELLED})")
        figure.add_bar(
            y=[row for row, *_ in mine], x=[high - low for _, low, high in mine],
            base=[low for _, low, _ in mine], orientation="h", width=STRIP, name=name, showlegend=True,
            marker={"line": {"width": 0}, "pattern": {"shape": shape, "fgcolor": colour, "bgcolor": _pale(colour),
                                                      "size": 8, "solidity": 0.45 if shape != "." else 0.2}},
            customdata=[f"batch {math.ceil(low):,} to {math.floor(high):,}" for _, low, high in mine],
            hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
        )  # fmt: skip
    rows = len(figure.data) + _add_estimates(figure, shown)
    for row, reading in enumerate(shown):
        figure.add_annotation(
            x=0, xref="paper", xanchor="left", y=row, yanchor="bottom", yshift=9, showarrow=False,
            font={"size": 12.5}, text=literal(f"{short(reading.spec.name, 28)}: {clear_words(reading.crossover)}"),
        )  # fmt: skip
    figure.update_xaxes(batch_axis(batches, log_range(batches, 0.04)))
    figure.update_yaxes(range=[len(shown) - 0.5, -0.75], visible=False, title=axis_title(""))
    notes = [f"Clearly: the 95 % interval excludes equal speed. {HATCHED}"]
    title = f"Where each card is faster than {cpu} (modelled)"
    figure.update_layout(barmode="overlay")
    plot_px = max(150, ROW_PX * len(shown) + 20)
    return frame(figure, title, [workload_line(run)], notes, run, legend_rows=rows, plot_px=plot_px)


def _strips(crossover: ModelledCrossover) -> list[tuple[str, float, float]]:
    """Return state, first and last batch of each stretch of the range compared, without gaps."""
    if crossover.first is None or crossover.last is None:
        return []
    strips: list[tuple[str, float, float]] = []
    at = float(crossover.first)
    for span in crossover.clear:
        if span.first > at:
            strips.append(("open", at, span.first))
        strips.append((span.faster, span.first, span.last))
        at = float(span.last)
    return strips if at >= crossover.last else [*strips, ("open", at, crossover.last)]


def _add_estimates(figure: go.Figure, readings: Sequence[CardReading]) -> int:
    """Mark the first whole batch at which the model's estimate has the card faster, if the interval allows other
    batches, and return the number of legend lines.
    """
    crossovers = [(row, reading.crossover) for row, reading in enumerate(readings) if reading.crossover.kind == "from"]
    at = [(row, c.batch, c.gpu) for row, c in crossovers if c.batch is not None and not _at_start(c)]
    colour = STATES["gpu"][1]
    if at:
        figure.add_scatter(
            x=[math.ceil(batch - WHOLE) for _, batch, _ in at], y=[row for row, *_ in at], mode="markers",
            name=f"crossover, estimated ({MODELLED})",
            marker={"symbol": "diamond-open", "size": 12, "color": colour, "line": {"width": 2, "color": colour}},
            customdata=[f"{literal(name)}: crossover at batch {first_batch(batch)}" for _, batch, name in at],
            hovertemplate="%{customdata} (modelled)<extra></extra>",
        )  # fmt: skip
    return int(bool(at))


def _pale(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.22)"


def limits_figure(run: Run, spec: GpuSpec, curve: CardCurve, costs: HostCosts) -> go.Figure:
    """Draw the parts of a modelled step on the card by batch, as shares of their sum."""
    figure = go.Figure()
    points = [point for point in curve.known if isinstance(point, Modelled)]
    batches = [float(point.batch) for point in points]
    rows = 0
    for part, (words, colour, pattern) in PARTS.items():
        shares = [100 * getattr(p.parts, f"{part}_ms") / _sum_ms(p) for p in points]
        if not any(shares):
            continue
        rows += 1
        figure.add_scatter(
            x=batches, y=shares, stackgroup="parts", name=f"{words} ({MODELLED})", mode="lines+markers",
            line={"color": colour, "width": 1.6, "dash": "dash"},
            marker={"color": colour, "symbol": "circle-open", "size": 5},
            fillpattern={"shape": pattern, "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 7, "solidity": 0.3},
            customdata=[[p.batch, getattr(p.parts, f"{part}_ms")] for p in points],
            hovertemplate=f"<b>{words} ({MODELLED})</b><br>batch %{{customdata[0]:,}}: %{{y:.0f}} %, "
            "%{customdata[1]:.3g} ms<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(batch_axis(batches) if batches else {"title": axis_title("Batch size")})
    figure.update_yaxes(linear_axis("Share of the parts (%)", (0, 100), "", (0, 25, 50, 75, 100)), linecolor=GUIDE)
    notes = ["The parts overlap in time and are shares of their sum, which is longer than the step.", host_line(costs)]
    title = f"What limits {short(spec.name, 28)} by batch (modelled)"
    return frame(figure, title, [workload_line(run)], [*notes, NOTHING_RAN], legend_rows=rows, plot_px=260)


def _sum_ms(point: Modelled) -> float:
    return sum(getattr(point.parts, f"{part}_ms") for part in PARTS)


HOW = "Filled with a dot: published, without interval. Dashed and hollow: modelled, with its 95 % interval."


def published_figure(entry: Published, curve: CardCurve, costs: HostCosts) -> go.Figure:
    """Draw step time (ms) by batch: the entry's CPU and GPU as published, and its GPU as modelled."""
    figure = go.Figure()
    cpu, gpu, *_ = TARGET_LOOKS
    modelled = [point for point in curve.known if isinstance(point, Modelled)]
    if entry.cpu is not None:
        add_curve(figure, _points(entry.cpu_points), short(entry.cpu, NAME), cpu, "published", "cpu")
    add_curve(figure, [_point(step) for step in modelled], entry.gpu, gpu, "modelled", "modelled")
    add_curve(figure, _points(entry.gpu_points), entry.gpu, gpu, "published", "gpu")
    published = (*entry.cpu_points, *entry.gpu_points)
    middles = [*(ms for _, ms in published), *(step.step_ms for step in modelled)]
    ends = [end for step in modelled for end in (step.low_ms, step.high_ms)]
    batches = [batch for batch, _ in published] + [step.batch for step in modelled]
    figure.update_xaxes(batch_axis(batches))
    figure.update_yaxes(log_axis("Step time (ms)", log_range(within_reach(middles, ends, REACH))))
    foot = [
        agreement((entry, curve)).sentence,
        HOW,
        "No host overhead: kernels alone were timed." if entry.host is None else host_line(costs),
        f"Published by {entry.source}",
    ]
    title = f"Step time: published {'GPU' if entry.cpu is None else 'CPU and GPU'}, modelled GPU"
    about = f"{entry.workload.title}; {entry.framework}; modelled as {BUILD_WORDS[entry.build]}"
    rows = 1 + bool(modelled) + (entry.cpu is not None)
    return frame(figure, title, [about], foot, legend_rows=rows, plot_px=260)


def _points(points: Points) -> list[Point]:
    return [
        Point(batch, ms, None, None, f"batch {batch:,}, published<br>{number(ms)} ms (no interval: none was published)")
        for batch, ms in points
    ]


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
