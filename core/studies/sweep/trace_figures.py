"""Chart of the parts of traced steps by batch size, and the look of each part in every chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from core.figures.marks import Span as Mark
from core.figures.marks import add_spans
from core.figures.style import GUIDE, INK, batch_axis, flat_legend, frame, linear_axis
from core.numbers import number
from core.studies.sweep.figures import workload_line
from core.studies.sweep.ran_as import ran_line
from core.studies.sweep.record import Run
from core.text import sentence_case
from core.traces.record import TRUSTED_RATIO, Part, TracedCell


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
BAR_OCTAVES, BAR_GAP = 0.36, 0.4  # half width of a bar: octaves at most, and share of the distance to its neighbour
LEGEND_COLUMNS = 2


def part_words(cell: TracedCell) -> dict[Part, str]:
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
    shown = _add_bars(figure, cells, bars)
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


def _add_bars(figure: go.Figure, cells: Sequence[TracedCell], bars: Sequence[tuple[float, float]]) -> int:
    """Add one trace per part that any cell has, each on a base of its own; return their number."""
    means = [cell.device.mean() for cell in cells]
    base = [0.0] * len(cells)
    shown = 0
    for part, look in PART_LOOKS.items():
        shares = [100 * mean.part_ms(part) / mean.step_ms for mean in means]
        if any(shares):
            shown += 1
            name = part_words(cells[0])[part]
            figure.add_bar(
                x=[left for left, _ in bars], width=[right - left for left, right in bars], offset=0,
                base=list(base), y=shares, name=name, legendrank=2000 - shown,
                marker={
                    "color": look.colour, "line": {"width": 0.8, "color": GUIDE},
                    "opacity": [1.0 if cell.trusted else FADED for cell in cells],
                    "pattern": look.hatching(0.5, 7, 0.22),
                },
                customdata=[_bar_hover(c, s, m.part_ms(part)) for c, s, m in zip(cells, shares, means, strict=True)],
                hovertemplate=f"<b>{name} (traced)</b><br>%{{customdata}}<extra></extra>",
            )  # fmt: skip
        base = [low + share for low, share in zip(base, shares, strict=True)]
    return shown


def _bar_hover(cell: TracedCell, share: float, part_ms: float) -> str:
    trust = "" if cell.trusted else ", not to be trusted"
    return (
        f"batch {cell.batch:,}<br>{number(share)} % of the step, {number(part_ms)} ms"
        f"<br>profiled ÷ unprofiled {number(cell.profiler_ratio)}×{trust}"
    )


def _share_notes(run: Run, cells: Sequence[TracedCell]) -> list[str]:
    notes = [f"Bars: steps under the profiler, {run.label}."]
    if not all(cell.trusted for cell in cells):
        lost = " or lost events" if any(cell.dropped_events for cell in cells) else ""
        notes.append(
            f"Faded: not to be trusted, since the profiler made the step over {TRUSTED_RATIO} times as long{lost}."
        )
    return notes
