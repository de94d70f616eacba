"""Chart of one traced step as a timeline: streams and threads as rows, events as bars."""

from __future__ import annotations

import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median_low

import plotly.graph_objects as go

from core.figures.marks import add_level, add_upright
from core.figures.style import GRID, GUIDE, flat_legend, frame, linear_axis, literal, short
from core.numbers import counted, number
from core.studies.sweep.figures import workload_line
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.record import Run
from core.studies.sweep.trace_figures import LEGEND_COLUMNS, PART_LOOKS, PartLook, part_words
from core.text import sentence_case
from core.traces.record import PARTS, Span, TracedCell

LANE_PX, LANE_CHARS, MAX_LANES = 40, 60, 16
HOVER_WRAP, HOVER_LINES = 70, 4


def shown_step_ms(run: Run, cell: TracedCell) -> float:
    """Return the length of the cell's timeline: the median traced call, which may run several steps."""
    steps = run.plan.targets[cell.target].steps_per_execution if run.plan is not None else 1
    return steps * median_low(step.step_ms for step in cell.device.steps)


def timeline_figure(run: Run, cell: TracedCell) -> go.Figure:
    """Plot one traced step of a cell: a row per stream or thread, its events as bars over milliseconds.

    The x axis zooms, the rows stay. Beyond ``MAX_LANES`` rows the least busy ones are left out, as the foot says.
    """
    lanes, left_out = chosen_lanes(cell.device.timeline)
    rows = {lane: row for row, lane in enumerate(lanes)}
    figure = go.Figure()
    words, shown = part_words(cell), 0
    for part in PARTS:
        spans = [span for span in cell.device.timeline if span.part == part and span.lane in rows]
        if spans:
            shown += 1
            _add_part(figure, spans, rows, PART_LOOKS[part], words[part])
    step_ms = shown_step_ms(run, cell)
    _add_lanes(figure, lanes)
    for x in (0.0, step_ms):
        add_upright(figure, x, layer=None)
    figure.update_xaxes(linear_axis("Milliseconds since the step began", (-0.004 * step_ms, 1.004 * step_ms)))
    figure.update_yaxes(range=[len(lanes) - 0.5, -0.5], showticklabels=False, showgrid=False, fixedrange=True,
                        zeroline=False)  # fmt: skip
    figure.update_layout(barmode="overlay", dragmode="zoom")
    under = [workload_line(run), f"{sentence_case(run.names[cell.target])}; {_step_words(run, cell, step_ms)}"]
    framed = frame(
        figure, f"One traced step at batch {cell.batch:,}", under, _timeline_notes(run, cell, left_out), run,
        legend_rows=math.ceil(shown / LEGEND_COLUMNS), plot_px=max(120, LANE_PX * len(lanes)),
    )  # fmt: skip
    return flat_legend(framed, size=12)


def _step_words(run: Run, cell: TracedCell, step_ms: float) -> str:
    steps = run.plan.targets[cell.target].steps_per_execution if run.plan is not None else 1
    what = "the median step" if steps == 1 else f"the median call of {steps:,} steps"
    return f"{what}, {number(step_ms)} ms under the profiler"


def _timeline_notes(run: Run, cell: TracedCell, left_out: int) -> list[str]:
    notes = [f"Dashed: begin and end of the step. Times under the profiler, {run.label}."]
    if cell.dropped_events:
        notes.append(f"Not to be trusted: the profiler lost {counted(cell.dropped_events, 'event')}.")
    elif not cell.trusted:
        notes.append(f"Not to be trusted: the profiler made the step {number(cell.profiler_ratio)} times as long.")
    if left_out:
        notes.append(f"The {left_out} least busy streams and threads are left out.")
    return [*notes, *ran_line(run, cell.target)]


def chosen_lanes(spans: Iterable[Span]) -> tuple[list[str], int]:
    """Return the lanes from the top, those with device work first, each kind by name; and the number left out."""
    busy_ms: dict[str, float] = defaultdict(float)
    works: set[str] = set()
    for span in spans:
        busy_ms[span.lane] += span.length_ms
        if span.part not in ("launch", "input", "other"):
            works.add(span.lane)
    kept = sorted(busy_ms, key=lambda lane: (-busy_ms[lane], lane))[:MAX_LANES]

    def order(lane: str) -> tuple[bool, list[tuple[int, str]]]:
        return lane not in works, [(int(d) if d else -1, w) for d, w in re.findall(r"(\d*)(\D*)", lane)]

    return sorted(kept, key=order), len(busy_ms) - len(kept)


def lane_words(lanes: Sequence[str], limit: int = LANE_CHARS) -> list[str]:
    """Shorten lane names to about ``limit`` characters, cut in the middle; numbered if two would be equal."""
    head = (limit - 1) // 2
    words = [lane if len(lane) <= limit else f"{lane[:head]}…{lane[-(limit - 1 - head) :]}" for lane in lanes]
    return [f"{word} ({words[:i].count(word) + 1})" if words.count(word) > 1 else word for i, word in enumerate(words)]


def _add_lanes(figure: go.Figure, lanes: Sequence[str]) -> None:
    """Write names above each row, inside the plot, where they stay while the reader zooms."""
    for row, words in enumerate(lane_words(lanes)):
        if row:
            add_level(figure, row - 0.5, GRID, 1, None)
        figure.add_annotation(
            text=literal(words), xref="paper", x=0, y=row - 0.46, xanchor="left", yanchor="top",
            showarrow=False, font={"size": 11}, xshift=6,
        )  # fmt: skip


def _add_part(figure: go.Figure, spans: Sequence[Span], rows: dict[str, int], look: PartLook, words: str) -> None:
    figure.add_bar(
        orientation="h", base=[span.start_ms for span in spans], x=[span.length_ms for span in spans],
        y=[rows[span.lane] + 0.18 for span in spans], width=0.52, name=words,
        # an outline of one pixel keeps events visible that are shorter than a pixel
        marker={"color": look.colour, "line": {"width": 1, "color": GUIDE}, "pattern": look.hatching(0.45, 6, 0.2)},
        customdata=[_span_hover(span) for span in spans],
        hovertemplate=f"%{{customdata}}<br>{words}<extra></extra>",
    )  # fmt: skip


def _span_hover(span: Span) -> str:
    lines = textwrap.wrap(span.name, HOVER_WRAP) or [""]
    if len(lines) > HOVER_LINES:
        lines = [*lines[:HOVER_LINES], "…"]
    name = "<br>".join(literal(line) for line in lines)
    lane = literal(short(span.lane, HOVER_WRAP))
    return f"<b>{name}</b><br>{lane}<br>{number(1000 * span.length_ms)} µs, from {number(span.start_ms)} ms"
