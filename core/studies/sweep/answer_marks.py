"""Answer drawn into the chart of step times: a single target's fit, or the fastest of three or more targets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.evidence import MAX_TARGETS, Label
from core.figures.marks import CHARACTER_PX, NARROW_PLOT_PX, Span, add_spans, position, with_gaps
from core.figures.style import GUIDE, PAPER, PLOT_PX, TARGET_LOOKS, Look, literal, on_colour, short
from core.names import all_of, are
from core.numbers import interval_words, number
from core.studies.sweep.answer import Answer, Band, Fastest, Fit
from core.studies.sweep.baseline import is_change
from core.studies.sweep.record import Run
from core.text import sentence_case

STRIP_PX, GAP_PX, CURVES_PX = 44, 22, PLOT_PX - 40
HATCHED = {"shape": "/", "size": 7, "solidity": 0.55, "fillmode": "replace", "bgcolor": "rgba(0,0,0,0)"}


@dataclass(frozen=True)
class Added:
    """Additions to a chart: notes for its foot, and the rows of labels, rows of legend and pixels that they take."""

    notes: tuple[str, ...] = ()
    label_rows: int = 0
    legend_rows: int = 0
    plot_px: int = 0


NOTHING = Added()


def add_answer(figure: go.Figure, run: Run, answer: Answer, bounds: tuple[float, float]) -> Added:
    """Add the fit of a single target, or the bands of three or more; nothing for two. ``bounds`` are those of the x
    axis.
    """
    if len(run.names) == 1 and (fit := answer.fits[0]) is not None:
        return _add_fit(figure, run, answer, fit, bounds)
    if answer.fastest is not None and answer.fastest.bands and answer.verdict.has_interval:
        names = [sentence_case(name) for name in run.names]
        return add_bands(figure, answer.fastest, names, TARGET_LOOKS, run.label, bounds)
    return NOTHING


def _add_fit(figure: go.Figure, run: Run, answer: Answer, fit: Fit, bounds: tuple[float, float]) -> Added:
    """Draw the fixed cost, the cost per sample and the half-overhead batch as lines without markers."""
    batches = [float(cell.batch) for cell in answer.cells]
    ends = [min(batches), max(batches)]
    floor = _with_bounds(fit.floor_ms, fit.floor_low_ms, fit.floor_high_ms, 1.0, "ms")
    slope = _with_bounds(fit.slope_ms, fit.slope_low_ms, fit.slope_high_ms, 1000.0, "µs")
    sloping = [max(ends[0], fit.floor_ms / fit.slope_ms / 4) if fit.slope_ms > 0 else ends[0], ends[1]]
    for name, x, y, dash in (
        (f"fixed cost {floor} (fitted)", ends, [fit.floor_ms] * 2, "dot"),
        (f"cost per sample {slope} (fitted)", sloping, [fit.slope_ms * batch for batch in sloping], "dash"),
    ):
        if sloping[0] < sloping[1] or dash == "dot":
            figure.add_scatter(
                x=x, y=y, mode="lines", name=literal(sentence_case(name)), hoverinfo="skip",
                line={"color": GUIDE, "width": 1.8, "dash": dash},
            )  # fmt: skip
    notes = [f"Fitted from {run.label} step times: (fixed^q + (per sample × batch)^q)^(1/q), q = {number(fit.q)}."]
    if not fit.trusted:
        notes.append(f"The fit is not to be trusted{f': {fit.note}' if fit.note else ''}.")
    spans = []
    half = fit.half_overhead_batch
    if half is not None and fit.half_overhead_low is not None and bounds[0] <= half <= bounds[1]:
        at = interval_words(half, fit.half_overhead_low, fit.half_overhead_high)
        words = f"half of the step is fixed cost at {at}"
        spans.append(Span(half, fit.half_overhead_low, fit.half_overhead_high, words, GUIDE, "solid"))
    return Added(tuple(notes), add_spans(figure, spans, bounds), 2)


def _with_bounds(value: float, low: float | None, high: float | None, scale: float, unit: str) -> str:
    if low is None or high is None:
        return "without an interval"
    return f"{number(scale * value)} {unit} ({number(scale * low)} to {number(scale * high)})"


def add_bands(
    figure: go.Figure,
    found: Fastest,
    names: Sequence[str],
    looks: Sequence[Look],
    label: Label,
    bounds: tuple[float, float],
    what: str = "Fastest",
) -> Added:
    """Draw the bands as a strip above the curves, in the look of the fastest.

    A band that is not clear is hatched in the colours of its targets, or grey if they are more than
    :data:`MAX_TARGETS`. Boundaries are drawn as lines with their 95 % intervals, labelled above. ``what`` is the
    strip's title.
    """
    whole = CURVES_PX + STRIP_PX + GAP_PX
    figure.update_layout(
        yaxis={"domain": [0, 1 - (STRIP_PX + GAP_PX) / whole]},
        yaxis2={
            "domain": [1 - STRIP_PX / whole, 1], "range": [0, 1], "showticklabels": False, "showgrid": False,
            "zeroline": False, "fixedrange": True, "anchor": "x",
        },
    )  # fmt: skip
    for band in found.bands:
        _add_band(figure, _Strip(names, looks, label, what.casefold()), band, bounds)
    for text, y, size in ((what, 1.0, 12.5), (label, 0.955, 10.5)):
        figure.add_annotation(
            text=text, xref="paper", yref="paper", x=0, y=y, xanchor="right", yanchor="top", xshift=-6,
            showarrow=False, font={"size": size},
        )  # fmt: skip
    changes = [boundary for boundary in found.boundaries if is_change(boundary)]
    spans = [Span(b.batch, b.low, b.high, interval_words(b.batch, b.low, b.high), GUIDE, "solid") for b in changes]
    rows = add_spans(figure, spans, bounds)
    several = [band.level for band in found.bands if len(band.targets) > 1]
    notes = (
        f"Lines: batches at which the {what.casefold()} changes; their 95 % intervals hold together." if spans else "",
        "Hatched: not clear which (95 %)." if not all(several) else "",
        "Several colours without hatching: a tie, within the margin of each other (95 %)." if any(several) else "",
    )
    return Added(tuple(filter(None, notes)), rows, 0, whole - PLOT_PX)


@dataclass(frozen=True)
class _Strip:
    """Settings shared by the bands of a strip: names and looks of all candidates, and the strip's title."""

    names: Sequence[str]
    looks: Sequence[Look]
    label: Label
    what: str


def _add_band(figure: go.Figure, strip: _Strip, band: Band, bounds: tuple[float, float]) -> None:
    """Draw one band: a filled field with the name if it fits, or one field per target if several remain."""
    left, right = max(band.from_batch, bounds[0]), min(band.to_batch, bounds[1])
    if band.from_batch == band.to_batch:  # keeps a single measured batch visible
        left, right = max(left / 1.05, bounds[0]), min(right * 1.05, bounds[1])
    names, several = [strip.names[target] for target in band.targets], len(band.targets) > 1
    who = f"{names[0]} {are(names[0])} the {strip.what}"
    if several:
        counted_or_named = all_of(names) if len(names) <= MAX_TARGETS else f"{len(names):,}"
        who = f"{'A tie' if band.level else 'Not clear which'}: {counted_or_named}"
    hover = f"{who}<br>batch {round(band.from_batch):,} to {round(band.to_batch):,}<br>{strip.label}"
    fields = [(strip.looks[target].colour, target) for target in reversed(band.targets)]  # the first target on top
    if len(fields) > MAX_TARGETS:
        fields = [(GUIDE, band.targets[0])]
    for row, (colour, target) in enumerate(fields):
        low, high = row / len(fields), (row + 1) / len(fields)
        x, y = with_gaps([[(left, low), (left, high), (right, high), (right, low), (left, low)]])
        hatched = several and not band.level
        fill = {"fillpattern": HATCHED | {"fgcolor": colour}} if hatched else {"fillcolor": colour}
        figure.add_scatter(
            x=x, y=y, yaxis="y2", mode="lines", fill="toself", showlegend=False, hoveron="fills",
            legendgroup=f"target {target}", line={"width": 1 if several else 0, "color": colour},
            name=literal(strip.names[target]), text=literal(hover).replace("&lt;br&gt;", "<br>"),
            hoverinfo="text", **fill,
        )  # fmt: skip
    px = (position(right, bounds) - position(left, bounds)) * NARROW_PLOT_PX
    open_words = "a tie" if band.level else "not clear"
    words = open_words if several else short(names[0], 30)
    if px > len(words) * CHARACTER_PX + 6:
        _write(figure, words, (left, right), None if several else on_colour(strip.looks[band.targets[0]].colour))
    elif not several:
        look = strip.looks[band.targets[0]]
        figure.add_scatter(
            x=[math.sqrt(left * right)], y=[0.5], yaxis="y2", mode="markers", showlegend=False, hoverinfo="skip",
            legendgroup=f"target {band.targets[0]}", name=f"{literal(names[0])}, the {strip.what}",
            marker={"symbol": look.symbol, "size": 10, "color": on_colour(look.colour)},
        )  # fmt: skip


def _write(figure: go.Figure, words: str, ends: tuple[float, float], colour: str | None) -> None:
    """Write text in the middle of a field; without a ``colour`` on a plain background, so that hatching does not cut
    it.
    """
    paper = {"bgcolor": "rgba(136,136,136,0.85)", "borderpad": 2} if colour is None else {}
    figure.add_annotation(
        x=math.log10(math.sqrt(ends[0] * ends[1])), y=0.5, yref="y2", text=f"<b>{literal(words)}</b>",
        showarrow=False, font={"size": 12.5, "color": colour or PAPER}, **paper,
    )  # fmt: skip
