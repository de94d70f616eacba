"""Published step times of a CPU and a GPU by batch, and the modelled GPU.

Published points are filled, with a dot in each marker and no interval, since sources print none. Modelled ones are
dashed and hollow with their 95 % interval. Both words stand in the title and in the name of every curve.
"""

from __future__ import annotations

import plotly.graph_objects as go

from core.figures.marks import Point, add_curve, bounds_text
from core.figures.style import TARGET_LOOKS, batch_axis, frame, log_axis, log_range, short, within_reach
from core.hardware.conditions import BUILD_WORDS
from core.hardware.figures import NAME, REACH, host_line
from core.hardware.host import HostCosts
from core.hardware.interval import Modelled
from core.hardware.published import Points, Published, agreement
from core.hardware.recorded import CardCurve
from core.numbers import number

HOW = "Filled with a dot: published, without interval. Dashed and hollow: modelled, with its 95 % interval."


def published_figure(entry: Published, curve: CardCurve, costs: HostCosts) -> go.Figure:
    """Draw step time (ms) by batch: the entry's CPU and GPU as published, and its GPU as modelled."""
    figure = go.Figure()
    cpu, gpu, *_ = TARGET_LOOKS
    modelled = [point for point in curve.known if isinstance(point, Modelled)]
    if entry.cpu is not None:
        add_curve(figure, _points(entry.cpu_points), short(entry.cpu, NAME), cpu, "published", "cpu")
    add_curve(figure, [_point(one) for one in modelled], entry.gpu, gpu, "modelled", "modelled")
    add_curve(figure, _points(entry.gpu_points), entry.gpu, gpu, "published", "gpu")
    given = [ms for _, ms in (*entry.cpu_points, *entry.gpu_points)]
    middles = [*given, *(one.step_ms for one in modelled)]
    ends = [end for one in modelled for end in (one.low_ms, one.high_ms)]
    batches = [batch for batch, _ in (*entry.cpu_points, *entry.gpu_points)] + [one.batch for one in modelled]
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


def _point(one: Modelled) -> Point:
    hover = f"batch {one.batch:,}, modelled<br>{bounds_text(one.step_ms, one.low_ms, one.high_ms, 'ms')}"
    return Point(one.batch, one.step_ms, one.low_ms, one.high_ms, f"{hover}<br>most of it: {one.limited_by}")
