"""Chart of the fitted fixed-cost share by batch."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import plotly.graph_objects as go

from core.base.numbers import interval_words
from core.base.text import sentence_case
from core.figures.marks import Point, add_band, add_level
from core.figures.style import TARGET_LOOKS, batch_axis, frame, linear_axis, literal, name_legend, name_rows, short
from core.rounds.answer.answer import Answer, Fit, machine_line
from core.rounds.ran_as import ran_line
from core.rounds.run import Run
from core.rounds.show.figures import workload_line


def overhead_figure(run: Run, answer: Answer) -> go.Figure:
    """Plot the fitted share (%) of a step that does not grow with the batch, and the batch at which it is one half."""
    figure = go.Figure()
    batches = [float(cell.batch) for cell in answer.cells]
    notes, names = [], [sentence_case(short(name, 40)) for name in run.names]
    for target, (name, fit) in enumerate(zip(names, answer.fits, strict=True)):
        look = TARGET_LOOKS[target]
        if fit is None:
            notes.append(f"{name}: too few batches for a fit.")
            continue
        mine = [float(cell.batch) for cell in answer.cells if cell.target == target]
        _fit_curve(figure, fit, mine, name if len(names) > 3 else f"{name}, fitted", target)
        if not fit.trusted:
            notes.append(f"{name}: fit not to be trusted{f' ({fit.note})' if fit.note else ''}.")
        if fit.half_overhead_batch is not None and fit.half_overhead_low is not None:
            half = interval_words(fit.half_overhead_batch, fit.half_overhead_low, fit.half_overhead_high)
            notes.append(f"{name}: half of the step is fixed cost at batch {half}.")
            if min(batches) <= fit.half_overhead_batch <= max(batches):
                figure.add_scatter(
                    x=[fit.half_overhead_batch], y=[50], mode="markers", showlegend=False, hoverinfo="skip",
                    marker={**look.marker(run.label), "size": 13}, name=f"{literal(name)}, half fixed cost",
                )  # fmt: skip
    add_level(figure, 50)
    figure.update_xaxes(batch_axis(batches or [1, 2]))
    figure.update_yaxes(linear_axis("Fixed-cost share (fitted)", (0, 104), " %", (0, 25, 50, 75, 100)))
    if not any(answer.fits):
        figure.add_annotation(
            text="Too few batch sizes for a fit", xref="paper", yref="paper", x=0.5, y=0.5, showarrow=False
        )
    banded = any(fit is not None and fit.trusted and fit.half_overhead_low is not None for fit in answer.fits)
    bands = " Bands: 95 % intervals." if banded else ""
    foot = [
        *machine_line(answer.verdict.machine),
        *notes,
        f"Fitted from {run.label} step times.{bands}",
        *ran_line(run),
    ]
    title, under = "Fixed-cost share by batch size (fitted)", [workload_line(run)]
    return name_legend(frame(figure, title, under, foot, run, legend_rows=name_rows(names)), names)


def fine_grid(batches: Iterable[float]) -> list[float]:
    """Return the batches with seven points between each two, evenly spaced in their logarithm, to draw a fit at."""
    at = sorted(set(batches))
    return sorted({*at, *(a * (b / a) ** (i / 8) for a, b in pairwise(at) for i in range(8))})


def _fit_curve(figure: go.Figure, fit: Fit, batches: list[float], name: str, target: int) -> None:
    """Draw the fixed-cost share on a fine grid, with a marker at each measured batch; dotted if not trusted."""
    look, group = TARGET_LOOKS[target], f"target {target}"
    grid = fine_grid(batches)
    shown = literal(name)
    if fit.trusted:
        band = [_banded(fit, b) for b in grid]
        add_band(figure, band, shown, look.band(), group)
    figure.add_scatter(
        x=grid, y=[100 * fit.overhead_share(b) for b in grid], mode="lines", name=shown, legendgroup=group,
        line={"color": look.colour, "width": 2.4, "dash": look.dash if fit.trusted else "dot"}, hoverinfo="skip",
    )  # fmt: skip
    shares = [100 * fit.overhead_share(b) for b in batches]
    figure.add_scatter(
        x=batches, y=shares, mode="markers", legendgroup=group, showlegend=False, name=shown,
        marker={"color": look.colour, "symbol": f"{look.symbol}-open", "size": 8, "line": {"width": 1.5}},
        hovertemplate=f"<b>{shown}</b><br>batch %{{x:,}}<br>%{{y:.3g}} % of the step<extra></extra>",
    )  # fmt: skip


def _banded(fit: Fit, batch: float) -> Point:
    """Return the fixed-cost share at a batch with its interval, in percent."""
    share, bounds = 100 * fit.overhead_share(batch), fit.overhead_bounds(batch)
    if bounds is None:
        return Point(batch, share, None, None, "")
    return Point(batch, share, 100 * bounds[0], 100 * bounds[1], "")
