"""Chart of the parts of traced steps by batch size, and the look of each part in every chart."""

from __future__ import annotations

import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low
from typing import Any

import plotly.graph_objects as go

from core.base.numbers import counted, number
from core.base.text import sentence_case
from core.figures.marks import Span as Mark
from core.figures.marks import add_level, add_spans, add_upright
from core.figures.style import GRID, GUIDE, INK, batch_axis, flat_legend, frame, linear_axis, literal, short
from core.rounds.ran_as import ran_line
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.traces.record import PARTS, TRUSTED_RATIO, AnyTrace, FileTrace, Part, Span, StepParts, TracedCell
from core.workload.spec import steps_per_call


@dataclass(frozen=True)
class PartLook:
    """Colour and hatching of a part, either of which is enough. Colours: Paul Tol's "light" scheme, made for filled
    areas and colour blindness (personal.sron.nl/~pault); no colour of a target is among them.
    """

    colour: str
    pattern: str

    def hatching(self, opacity: float, size: float, solidity: float) -> dict[str, Any]:
        """Return the pattern for plotly, in ink over the colour; ``size`` in pixels."""
        look = {"shape": self.pattern, "fillmode": "overlay", "fgcolor": INK}
        return {**look, "fgopacity": opacity, "size": size, "solidity": solidity}


PART_LOOKS: dict[Part, PartLook] = {
    "launch": PartLook("#EEDD88", "/"),
    "input": PartLook("#FFAABB", "x"),
    "h2d": PartLook("#99DDFF", "\\"),
    "d2h": PartLook("#BBCC33", "."),
    "d2d": PartLook("#AAAA00", "-"),
    "other": PartLook("#DDDDDD", "+"),
    "compute": PartLook("#44BB99", ""),
}
"""In stacking order from below: compute on top, so that all overhead stands on the axis."""

GPU_WORDS: dict[Part, str] = {
    "compute": "compute",
    "d2h": "copy to the host",
    "d2d": "copy between devices",
    "h2d": "copy to the device",
    "input": "waiting for input",
    "launch": "launch and host work",
    "other": "other",
}
CPU_WORDS: dict[Part, str] = GPU_WORDS | {"launch": "framework between operations"}
FADED = 0.38
FROM_FILE = "Recorded: read from a file, which does not tell the machine or the batch."
BAR_OCTAVES, BAR_GAP = 0.36, 0.4  # half width of a bar: octaves at most, and share of the distance to its neighbour
LEGEND_COLUMNS = 2


def part_words(cell: AnyTrace) -> dict[Part, str]:
    """Return the name of each part on the cell's device."""
    return CPU_WORDS if cell.device.device == "CPU" else GPU_WORDS


def traced_cells(run: Run, target: int) -> tuple[TracedCell, ...]:
    """Return the traced cells of a target by rising batch."""
    return tuple(sorted((cell for cell in run.traces if cell.target == target), key=lambda cell: cell.batch))


def trace_share_figure(run: Run, target: int) -> go.Figure:
    """Plot the parts of the mean traced step (%) as stacked bars by batch.

    ``target`` must have a traced cell. Cells that are not trusted are faded and marked with their ratio.
    """
    cells = traced_cells(run, target)
    measured = [float(r.batch) for r in run.rounds if r.step_ms(target) is not None]
    bars = _bar_spans([cell.batch for cell in cells])
    edges = [edge for pair in bars for edge in pair]
    bounds = min(measured + edges) / 1.06, max(measured + edges) * 1.06
    figure = go.Figure()
    means, faded = [cell.device.mean() for cell in cells], [not cell.trusted for cell in cells]
    shown = _add_bars(figure, means, bars, part_words(cells[0]), faded, [_cell_hover(cell) for cell in cells])
    doubts = [
        Mark(c.batch, None, None, f"not to be trusted ({_doubt(c)})", GUIDE, "dot") for c in cells if not c.trusted
    ]
    rows = add_spans(figure, doubts, bounds)
    batches = sorted({*measured, *(float(cell.batch) for cell in cells)})
    figure.update_xaxes(batch_axis(batches, bounds))
    figure.update_yaxes(linear_axis("Share of a traced step", (0, 101), " %", (0, 25, 50, 75, 100)))
    figure.update_layout(barmode="overlay")
    under = [workload_line(run), f"{sentence_case(run.names[target])}. Bars: traced parts of a step."]
    notes = [*_share_notes(run, cells), *ran_line(run, target)]
    framed = frame(
        figure, "Traced parts of a step by batch size", under, notes, run,
        legend_rows=math.ceil(shown / LEGEND_COLUMNS), label_rows=rows,
    )  # fmt: skip
    return flat_legend(framed, size=12)


def _doubt(cell: TracedCell) -> str:
    """Return why a cell is not trusted, in a word or two."""
    return "events lost" if cell.dropped_events else f"{number(cell.profiler_ratio)}×"


def _bar_spans(batches: Sequence[int]) -> list[tuple[float, float]]:
    """Return the left and right edge of the bar at each (rising) batch; symmetric on the log axis, never touching."""
    half = min([BAR_OCTAVES, *(BAR_GAP * math.log2(b / a) for a, b in pairwise(batches))])
    return [(batch / 2**half, batch * 2**half) for batch in batches]


def _add_bars(
    figure: go.Figure, steps: Sequence[StepParts], bars: Sequence[tuple[float, float]], words: Mapping[Part, str],
    faded: Sequence[bool], hovers: Sequence[tuple[str, str]],
) -> int:  # fmt: skip
    """Add one trace per part that any step has, each on a base of its own; return their number.

    ``hovers`` stand above and below the figures of a bar.
    """
    base = [0.0] * len(steps)
    shown = 0
    for part, look in PART_LOOKS.items():
        shares = [100 * step.part_ms(part) / step.step_ms for step in steps]
        if any(shares):
            shown += 1
            name = words[part]
            figure.add_bar(
                x=[left for left, _ in bars], width=[right - left for left, right in bars], offset=0,
                base=list(base), y=shares, name=name, legendrank=2000 - shown,
                marker={
                    "color": look.colour, "line": {"width": 0.8, "color": GUIDE},
                    "opacity": [FADED if fade else 1.0 for fade in faded],
                    "pattern": look.hatching(0.5, 7, 0.22),
                },
                customdata=[
                    f"{above}<br>{number(share)} % of the step, {number(step.part_ms(part))} ms{below}"
                    for (above, below), share, step in zip(hovers, shares, steps, strict=True)
                ],
                hovertemplate=f"<b>{name} (traced)</b><br>%{{customdata}}<extra></extra>",
            )  # fmt: skip
        base = [low + share for low, share in zip(base, shares, strict=True)]
    return shown


def _cell_hover(cell: TracedCell) -> tuple[str, str]:
    trust = "" if cell.trusted else ", not to be trusted"
    return f"batch {cell.batch:,}", f"<br>profiled ÷ unprofiled {number(cell.profiler_ratio)}×{trust}"


MAX_BARS = 60


def trace_steps_figure(name: str, trace: FileTrace) -> go.Figure:
    """Plot the parts of each step in a trace file (%) as stacked bars by number; ``name`` is the file's."""
    steps = trace.device.steps[:MAX_BARS]
    figure = go.Figure()
    bars = [(number - BAR_GAP, number + BAR_GAP) for number in range(1, len(steps) + 1)]
    hovers = [(f"step {number} of {len(trace.device.steps):,}", "") for number in range(1, len(steps) + 1)]
    shown = _add_bars(figure, steps, bars, part_words(trace), [not trace.trusted] * len(steps), hovers)
    every = max(1, math.ceil(len(steps) / 12))
    figure.update_xaxes(linear_axis("Traced step", (0.4, len(steps) + 0.6), "", range(1, len(steps) + 1, every)))
    figure.update_yaxes(linear_axis("Share of a traced step", (0, 101), " %", (0, 25, 50, 75, 100)))
    figure.update_layout(barmode="overlay")
    notes = ["Bars: steps under the profiler, recorded."]
    if not trace.trusted:
        notes.append("Faded: not to be trusted, since the profiler lost events.")
    if len(steps) < len(trace.device.steps):
        notes.append(f"The first {len(steps)} of {len(trace.device.steps):,} steps.")
    framed = frame(
        figure, "Traced parts of each step", [name, f"{trace.device.device}. {FROM_FILE}"], notes,
        legend_rows=math.ceil(shown / LEGEND_COLUMNS),
    )  # fmt: skip
    return flat_legend(framed, size=12)


def _share_notes(run: Run, cells: Sequence[TracedCell]) -> list[str]:
    notes = [f"Bars: steps under the profiler, {run.label}."]
    if not all(cell.trusted for cell in cells):
        lost = " or lost events" if any(cell.dropped_events for cell in cells) else ""
        notes.append(
            f"Faded: not to be trusted, since the profiler made the step over {TRUSTED_RATIO} times as long{lost}."
        )
    return notes


LANE_PX, LANE_CHARS, MAX_LANES = 40, 60, 16
HOVER_WRAP, HOVER_LINES = 70, 4


def shown_step_ms(run: Run, cell: AnyTrace) -> float:
    """Return the length of the cell's timeline: the median traced call, which may run several steps."""
    steps = steps_per_call(run.plan.workload, run.plan.targets[cell.target]) if run.plan is not None else 1
    return steps * median_low(step.step_ms for step in cell.device.steps)


def timeline_figure(run: Run, cell: AnyTrace) -> go.Figure:
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
        figure, f"One traced step {cell.place}", under, _timeline_notes(run, cell, left_out),
        None if isinstance(cell, FileTrace) else run,
        legend_rows=math.ceil(shown / LEGEND_COLUMNS), plot_px=max(120, LANE_PX * len(lanes)),
    )  # fmt: skip
    return flat_legend(framed, size=12)


def _step_words(run: Run, cell: AnyTrace, step_ms: float) -> str:
    steps = steps_per_call(run.plan.workload, run.plan.targets[cell.target]) if run.plan is not None else 1
    what = "the median step" if steps == 1 else f"the median call of {steps:,} steps"
    return f"{what}, {number(step_ms)} ms under the profiler"


def _timeline_notes(run: Run, cell: AnyTrace, left_out: int) -> list[str]:
    notes = [f"Dashed: begin and end of the step. Times under the profiler, {run.label}."]
    if cell.dropped_events:
        notes.append(f"Not to be trusted: the profiler lost {counted(cell.dropped_events, 'event')}.")
    elif not cell.trusted and isinstance(cell, TracedCell):
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
