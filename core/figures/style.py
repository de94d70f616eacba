"""Style shared by all charts: colours, markers, log ticks, the frame with title and footnote, and the menu's settings.

A chart must survive being pasted into a slide: the environment and the label measured, recorded or modelled are inside
the picture, and colour is never the only difference between two curves.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import plotly.graph_objects as go

from core.base.evidence import Environment, Label
from core.base.numbers import counted, number
from core.base.text import clean

GUIDE, GRID = "#888888", "rgba(136,136,136,0.22)"
INK, PAPER = "#16212B", "#FFFFFF"
DARK_INK, DARK_PAPER = "#E6EDF3", "#10161C"
FONT = "Source Sans, Source Sans Pro, Segoe UI, Helvetica, Arial, sans-serif"
TITLE_AT = 84  # characters of a title line; a saved picture is 1,000 px wide
WRAP_AT = 92  # characters of a footnote line; fits a chart 520 px wide
TITLE_PX, LINE_PX, ROW_PX, FOOT_PX, PLOT_PX = 26, 18, 21, 15, 330
STRIP_SIZES = (17.01, 12.51, 10.51)  # of title, lines and footnote; no other text has exactly these sizes
MAX_TICKS = 11
ENTRY_PX = 168  # of a legend column
COLUMN_CHARS = 26  # of a name in a legend of two columns

# The chart's own menu. Nothing may leave the machine, so the cloud button stays off. A picture is wide enough for its
# title and footnote on any screen, and as high as the strips around the plot require (None).
CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "displayModeBar": "hover",
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "svg", "filename": "breakeven", "width": 1000, "height": None, "scale": 2},
}


def chart_config(image: str, filename: str) -> dict[str, Any]:
    """Return :data:`CONFIG` with the picture button set to ``svg`` or ``png`` and a file name."""
    options = {**CONFIG["toImageButtonOptions"], "format": "png" if image == "png" else "svg", "filename": filename}
    return {**CONFIG, "toImageButtonOptions": options}


@dataclass(frozen=True)
class Look:
    """Style of one curve; colour, marker and dash all differ, so that any one of them is enough.

    Modelled curves are dashed and hollow, published ones thin with filled markers that have a dot in the middle.
    """

    colour: str
    symbol: str
    dash: str

    def line(self, label: Label) -> dict[str, Any]:
        if label == "published":
            return {"color": self.colour, "width": 1.4, "dash": "solid"}
        return {"color": self.colour, "width": 2.4, "dash": "dash" if label == "modelled" else self.dash}

    def marker(self, label: Label) -> dict[str, Any]:
        if label == "published":
            dotted = f"{self.symbol}-dot"
            return {"color": self.colour, "symbol": dotted, "size": 10, "line": {"width": 1.2, "color": PAPER}}
        symbol = f"{self.symbol}-open" if label == "modelled" else self.symbol
        return {"color": self.colour, "symbol": symbol, "size": 8, "line": {"width": 1.5, "color": self.colour}}

    def band(self) -> str:
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},0.2)"


TARGET_LOOKS = (
    Look("#0072B2", "circle", "solid"),
    Look("#D55E00", "diamond", "dashdot"),
    Look("#1FB0B0", "triangle-up", "longdash"),
    Look("#AE005E", "square", "14px,3px"),
    Look("#CDA400", "cross", "longdashdot"),
    Look("#A179FF", "star", "10px,3px,3px,3px,3px,3px"),
)
"""One per target. The first two are Okabe and Ito's. The others were searched for, so that all six are far apart under
simulated protanopia, deuteranopia and tritanopia, too, and stand out on light and dark paper."""
RUN_LOOKS = (Look("#009E73", "square", "solid"), Look("#CC79A7", "triangle-up", "dashdot"))


def on_colour(colour: str) -> str:
    """Return ink or paper, whichever reads better on an area of that colour (luminance as in WCAG 2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return INK if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.25 else PAPER


def short(text: str, limit: int) -> str:
    """Return text of at most ``limit`` characters, cut with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def literal(text: str) -> str:
    """Escape outside text so that Plotly shows it literally, in one line without tags, entities or fields."""
    return html.escape(clean(text), quote=False).replace("%{", "&#37;{")


@dataclass(frozen=True)
class Words:
    """Text around the plot of a picture: title, lines under it, and footnote.

    ``above_px`` is the height of title and lines, ``below_px`` that of the footnote. ``more_rows``: legend rows beyond
    those reserved if each name takes a row, as on a phone.
    """

    title: str
    under: tuple[str, ...]
    foot: tuple[str, ...]
    more_rows: int = 0

    @property
    def above_px(self) -> int:
        return 10 + TITLE_PX * len(wrapped([self.title], TITLE_AT)) + LINE_PX * len(wrapped(self.under))

    @property
    def below_px(self) -> int:
        return FOOT_PX * len(wrapped(self.foot))


def words_of(figure: go.Figure) -> Words:
    """Return the text that :func:`frame` placed around a plot, for a page that shows it as text instead."""
    kept, flat = figure.layout.meta["words"], figure.layout.legend.orientation == "h"
    names = sum(bool(trace.name) and trace.showlegend is not False for trace in figure.data) if flat else 0
    more = max(0, names - kept["legend_rows"])
    return Words(kept["title"], tuple(kept["under"]), tuple(kept["foot"]), more)


class Evidence(Protocol):
    """Any result with a label, a date and an environment: a run, a study."""

    @property
    def label(self) -> Label: ...
    @property
    def created_at(self) -> str: ...
    @property
    def environment(self) -> Environment | None: ...


def environment_line(run: Evidence) -> str:
    """Return label, day and machine in one line, for the inside of a picture."""
    parts = [run.label, *([run.created_at[:10]] if run.created_at else [])]
    environment = run.environment
    if environment is None:
        return " · ".join([*parts, "machine unknown (imported points)"])
    parts += machine_parts(environment)
    if version := environment.versions.get("tensorflow"):
        parts.append(f"TensorFlow {version}")
    if environment.os:
        parts.append(environment.os)
    return " · ".join(parts)


def machine_parts(environment: Environment) -> list[str]:
    """Return processor and GPUs, as far as they are known."""
    cores = environment.usable_cores or environment.logical_cores
    cpu = f"{environment.cpu} ({counted(cores, 'core')})" if environment.cpu and cores else environment.cpu
    return [*([cpu] if cpu else []), *sorted({gpu.name for gpu in environment.gpus})]


def wrapped(lines: Iterable[str], width: int = WRAP_AT) -> list[str]:
    """Wrap lines to ``width`` characters at word boundaries; Plotly itself never wraps."""
    return [part for line in lines for part in textwrap.wrap(line, width) or [""]]


def batch_ticks(batches: Sequence[float]) -> list[int]:
    """Return powers of 2 that cover the batches, thinned evenly so that the labels never touch."""
    low, high = math.floor(math.log2(min(batches))), math.ceil(math.log2(max(batches)))
    stride = max(1, math.ceil((high - low + 1) / MAX_TICKS))
    return [2**exponent for exponent in range(low, high + 1, stride)]


def decade_ticks(low: float, high: float) -> list[float]:
    """Return 1-2-5 ticks between positive numbers, finer within one decade; 1 and 3 beyond 3 decades, 1 beyond 5."""
    decades = math.log10(high / low)
    fine = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
    steps = fine if decades <= 0.8 else (1.0, 2.0, 5.0) if decades <= 3 else (1.0, 3.0) if decades <= 5 else (1.0,)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [step * 10.0**exponent for exponent in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def ratio_ticks(low: float, high: float) -> list[float]:
    """Return powers of 2 around 1 between two positive numbers, or finer steps if the range is narrow."""
    span = math.log2(high / low)
    if span < 0.5:
        step = 0.05 if span > 0.15 else 0.01
        count = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        stride = max(1, math.ceil(len(count) / MAX_TICKS))
        return [round(i * step, 4) for i in count if (i - round(1 / step)) % stride == 0]
    if span <= 2.5:
        fine = (0.25, 0.33, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
        inside = [tick for tick in fine if low <= tick <= high]
        if len(inside) >= 3:
            return inside
    stride = max(1, math.ceil(span / MAX_TICKS))
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    return [2.0**e for e in range(first, last + 1) if e % stride == 0]


def log_range(values: Iterable[float], pad: float = 0.06) -> tuple[float, float]:
    """Return a padded range for a log axis that holds all positive values, in the values' own unit."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    low, high = (min(positive), max(positive)) if positive else (0.5, 2.0)
    room = max(math.log10(high / low) * pad, 0.03)
    return low / 10**room, high * 10**room


def log_axis(
    title: str, bounds: tuple[float, float], ticks: Sequence[float] | None = None, suffix: str = ""
) -> dict[str, Any]:
    """Return log axis settings; Plotly takes the range as exponents of ten, but ticks as plain values."""
    ticks = decade_ticks(*bounds) if ticks is None else ticks
    return {
        "type": "log",
        "title": axis_title(title),
        "range": [math.log10(bounds[0]), math.log10(bounds[1])],
        "tickvals": list(ticks),
        "ticktext": [f"{number(tick)}{suffix}" for tick in ticks],
        "gridcolor": GRID,
        "zeroline": False,
        "automargin": False,
    }


def linear_axis(
    title: str, bounds: tuple[float, float], suffix: str = "", ticks: Sequence[float] = ()
) -> dict[str, Any]:
    """Return axis settings; Plotly chooses the ticks if none are given."""
    axis = {"title": axis_title(title), "range": list(bounds), "gridcolor": GRID, "zeroline": False}
    if ticks:
        axis |= {"tickvals": list(ticks), "ticktext": [f"{number(tick)}{suffix}" for tick in ticks]}
    return axis


def within_reach(middles: Sequence[float], ends: Iterable[float | None], factor: float) -> list[float]:
    """Return ``middles`` and the known ``ends`` clipped to ``factor`` beyond them, which an axis must cover."""
    low, high = min(middles) / factor, max(middles) * factor
    return [*middles, *(min(high, max(low, end)) for end in ends if end is not None)]


def flat_legend(figure: go.Figure, **font: Any) -> go.Figure:
    """Arrange legend entries in columns; two fit in the narrowest chart."""
    legend: dict[str, Any] = {"orientation": "h", "entrywidth": ENTRY_PX, "entrywidthmode": "pixels"}
    figure.update_layout(legend=legend | ({"font": font} if font else {}))
    return figure


def name_rows(names: Sequence[str]) -> int:
    """Return the legend rows of a chart with these curves; see :func:`name_legend`."""
    return math.ceil(len(names) / 2) if _in_columns(names) else len(names)


def name_legend(figure: go.Figure, names: Sequence[str]) -> go.Figure:
    """Arrange the legend in two columns if there are more than three names, all short enough; else one name per row."""
    return flat_legend(figure) if _in_columns(names) else figure


def _in_columns(names: Sequence[str]) -> bool:
    return len(names) > 3 and max(map(len, names)) <= COLUMN_CHARS


def axis_title(text: str) -> dict[str, Any]:
    return {"text": text, "standoff": 6, "font": {"size": 13}}


def batch_axis(batches: Sequence[float], bounds: tuple[float, float] | None = None) -> dict[str, Any]:
    return log_axis("Batch size", bounds or log_range(batches, 0.04), batch_ticks(batches))


def ratio_axis(title: str, bounds: tuple[float, float]) -> dict[str, Any]:
    return log_axis(title, bounds, ratio_ticks(*bounds), "×")


def frame(
    figure: go.Figure,
    title: str,
    under: Sequence[str],
    foot: Sequence[str],
    evidence: Evidence | None = None,
    *,
    legend_rows: int = 2,
    label_rows: int = 0,
    plot_px: int = PLOT_PX,
) -> go.Figure:
    """Lay out title, lines under it, legend, label rows above the plot and footnote, each in a strip of plain text.

    The footnote ends with the environment of ``evidence``. Everything outside the plot is placed in pixels from one of
    its edges, so nothing can overlap at any width. :func:`words_of` returns title and lines.
    """
    foot = foot if evidence is None else [*foot, environment_line(evidence)]
    words = {
        "title": clean(title), "under": [*map(clean, under)], "foot": [*map(clean, foot)], "legend_rows": legend_rows,
        "label_rows": label_rows, "plot_px": plot_px,
    }  # fmt: skip
    titles, under, foot = wrapped([title], TITLE_AT), wrapped(under), wrapped(foot)
    title_px = TITLE_PX * len(titles)
    top = 14 + title_px + LINE_PX * len(under) + ROW_PX * legend_rows + LINE_PX * label_rows + 8
    bottom = 58 + FOOT_PX * len(foot)
    height = top + plot_px + bottom
    figure.update_layout(
        height=height,
        margin={"t": top, "b": bottom, "l": 68, "r": 18, "pad": 0},
        title=None,
        meta={"words": words},
        legend={
            "orientation": "v",
            "x": 0,
            "xanchor": "left",
            "y": 1 + (LINE_PX * label_rows + 4) / plot_px,
            "yanchor": "bottom",
            "bgcolor": "rgba(0,0,0,0)",
            "title": {"text": ""},
            "font": {"size": 13},
            "tracegroupgap": 0,
        },
        hovermode="closest",
        font={"size": 13, "color": INK, "family": FONT},
        paper_bgcolor=PAPER,
        plot_bgcolor=PAPER,
        showlegend=legend_rows > 0,
    )
    large, middle, small = STRIP_SIZES
    strips = [
        *_strip((f"<b>{literal(line)}</b>" for line in titles), 1, top - 8, large, TITLE_PX),
        *_strip(map(literal, under), 1, top - 8 - title_px, middle, LINE_PX),
        *_strip(map(literal, foot), 0, -54, small, FOOT_PX),
    ]
    # all at once, since Plotly revalidates every annotation with each one added
    figure.layout.annotations = (*figure.layout.annotations, *strips)
    return figure


def with_title(figure: go.Figure, title: str) -> go.Figure:
    """Return a framed figure under another title; its own becomes the first line below."""
    words = figure.layout.meta["words"]
    copy = go.Figure(figure)
    copy.layout.annotations = [note for note in copy.layout.annotations if note.font.size not in STRIP_SIZES]
    laid_out = {name: words[name] for name in ("legend_rows", "label_rows", "plot_px")}
    return frame(copy, title, [words["title"], *words["under"]], words["foot"], **laid_out)


def on_dark(figure: go.Figure) -> go.Figure:
    """Return the figure for a dark page; its background is included, so that a saved picture stays readable."""
    dark = go.Figure(figure)
    dark.update_layout(font={"color": DARK_INK}, paper_bgcolor=DARK_PAPER, plot_bgcolor=DARK_PAPER)
    return dark


def _strip(lines: Iterable[str], edge: int, shift: float, size: float, step: float) -> list[dict[str, Any]]:
    placed = {"xref": "paper", "yref": "paper", "x": 0, "y": edge, "xshift": -56, "xanchor": "left", "yanchor": "top"}
    look = {"align": "left", "showarrow": False, "font": {"size": size}}
    return [placed | look | {"text": text, "yshift": shift - row * step} for row, text in enumerate(lines)]
