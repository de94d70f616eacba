"""Charts of GPU activity: utilisation by batch beside the traced share, and joules per sample."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from core.base.evidence import Label
from core.base.numbers import counted
from core.base.text import sentence_case
from core.figures.marks import Point, add_zone, bounds_text, whiskers
from core.figures.style import (
    GUIDE,
    TARGET_LOOKS,
    Look,
    batch_axis,
    frame,
    linear_axis,
    literal,
    log_axis,
    log_range,
    short,
    within_reach,
)
from core.rounds.answer.card_use import UTILISATION, CardRow
from core.rounds.answer.energy import SOURCES, Energy, EnergyCell, Level
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.rounds.show.trace_figures import traced_cells

NET_OPACITY = 0.55
BARS = "Bars: 95 % intervals over windows of two seconds."
FARTHEST = 3.0  # the axis follows the end of a bar up to this factor beyond all values


def utilisation_figure(run: Run, target: int, rows: Sequence[CardRow]) -> go.Figure:
    """Plot NVML's utilisation (%) of a GPU target by batch with 95 % bars, and the traced compute share as crosses.

    At least one of the target's ``rows`` must have a known utilisation.
    """
    figure, look = go.Figure(), TARGET_LOOKS[target]
    points = [
        Point(row.batch, level.value, level.low and max(0.0, level.low), level.high and min(100.0, level.high),
              f"batch {row.batch:,}<br>{bounds_text(level.value, level.low, level.high, '%')}")
        for row in rows if (level := row.util_pct) is not None
    ]  # fmt: skip
    _add_windows(figure, points, "utilisation (NVML)", look, run.label)
    cells = [cell for cell in traced_cells(run, target) if cell.trusted]
    if cells:
        shares = [100 * (1 - cell.device.mean().overhead_share) for cell in cells]
        figure.add_scatter(
            x=[cell.batch for cell in cells], y=shares, mode="markers", name="compute share of a traced step",
            marker={"symbol": "x-thin", "size": 11, "line": {"width": 2.4, "color": GUIDE}},
            hovertemplate="<b>traced compute share</b><br>batch %{x:,}<br>%{y:.3g} %<extra></extra>",
        )  # fmt: skip
    batches = [p.batch for p in points] + [float(cell.batch) for cell in cells]
    figure.update_xaxes(batch_axis(batches))
    figure.update_yaxes(linear_axis("Share of the time", (0, 101), " %", (0, 25, 50, 75, 100)))
    notes = [BARS if any(point.low is not None for point in points) else "No intervals: too few windows."]
    under = [workload_line(run), sentence_case(run.names[target])]
    return frame(
        figure, "How busy the GPU was, by batch size", under, [*notes, UTILISATION], run, legend_rows=1 + bool(cells)
    )


def energy_figure(run: Run, energy: Energy) -> go.Figure:
    """Plot the energy per sample (mJ) of every target by batch with 95 % bars: gross, and net of idle power as open
    marks.

    ``energy`` must have a cell.
    """
    figure, every, rows = go.Figure(), list[float](), 0
    for target, (name, look) in enumerate(zip(run.names, TARGET_LOOKS, strict=False)):
        cells, name = energy.of(target), sentence_case(short(name, 40))
        if not cells:
            continue
        gross = [_point(cell, cell.gross) for cell in cells]
        net = [_point(cell, cell.net) for cell in cells if cell.net is not None and cell.net.value > 0]
        _add_windows(figure, gross, f"{name}, gross", look, run.label)
        if net:
            _add_windows(figure, net, f"{name}, net of idle", look, run.label, is_net=True)
        every += within_reach([p.value for p in gross], (end for p in gross for end in (p.low, p.high)), FARTHEST)
        every += [p.value for p in net]
        rows += 1 + bool(net)
    batches = [float(cell.batch) for cell in energy.cells]
    bounds = log_range(batches, 0.04)
    under = [workload_line(run), *_bracket(figure, run, energy)]
    figure.update_xaxes(batch_axis(batches, bounds))
    figure.update_yaxes(log_axis("Energy per sample (mJ)", log_range(every)))
    return frame(
        figure, "Energy per sample, by batch size", under, _energy_notes(run, energy), run, legend_rows=rows
    )  # fmt: skip


def _point(cell: EnergyCell, level: Level) -> Point:
    low, high = (None if end is None else 1000 * end for end in (level.low, level.high))
    value, windows = 1000 * level.value, counted(level.windows, "window")
    hover = f"batch {cell.batch:,}<br>{bounds_text(value, low, high, 'mJ')}<br>{windows}"
    return Point(cell.batch, value, low if low is not None and low > 0 else None, high, hover)


def _add_windows(
    figure: go.Figure, points: Sequence[Point], name: str, look: Look, label: Label, is_net: bool = False
) -> None:
    """Add marks with 95 % bars; no line, since windows are octaves apart with nothing measured between them."""
    shown, marker = literal(name), look.marker("modelled" if is_net else label)
    bars = whiskers([(p.value, p.low, p.high) for p in points], look.colour, 1.8, 5)
    figure.add_scatter(
        x=[p.batch for p in points], y=[p.value for p in points], mode="markers", name=shown,
        marker=marker, error_y=bars, opacity=NET_OPACITY if is_net else 1.0,
        customdata=[p.hover for p in points], hovertemplate=f"<b>{shown}</b><br>%{{customdata}}<extra></extra>",
    )  # fmt: skip


def _bracket(figure: go.Figure, run: Run, energy: Energy) -> list[str]:
    """Shade the strip between the batches around the crossover, which has no point estimate; return its label."""
    if len(energy.against) != 1:  # several strips would be indistinguishable; the page states them in words
        return []
    crossing = energy.crossover
    if crossing.less is None or crossing.below is None or crossing.above is None:
        return []
    add_zone(figure, crossing.below, crossing.above, TARGET_LOOKS[crossing.less].colour, 0.16)
    who = sentence_case(short(run.names[crossing.less], 40))
    return [f"{who} needs less from a batch between {crossing.below:,} and {crossing.above:,} on (95 %)."]


def _energy_notes(run: Run, energy: Energy) -> list[str]:
    sources = dict.fromkeys((cell.target, cell.source) for cell in energy.cells)
    sentences = [f"{sentence_case(run.names[target])}: {SOURCES[source]}." for target, source in sources]
    bars = BARS if any(cell.gross.low is not None for cell in energy.cells) else "No intervals: too few windows."
    return [f"{bars} Net: without what the same device took while idle.", *sentences]
