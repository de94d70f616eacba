"""Drawing of a figure as a static SVG from the data Plotly would draw, without a browser.

The figures of this program are laid out in pixels around the plot (:func:`core.figures.style.frame`), so that they can
be drawn as they are; features of Plotly that they do not use are not supported. A picture holds nothing active and
loads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from core.base.text import clean
from core.figures.style import DARK_INK, DARK_PAPER, GRID, GUIDE, INK, PAPER, decade_ticks
from core.figures.svg_parts import (
    Axis,
    Panel,
    Spec,
    dashes,
    each,
    element,
    hatch,
    hover,
    on_scale,
    path_of,
    png_of,
    short_number,
    symbol,
    width_px,
    words,
)

WHISKER_END = 4.0
MOST_STEPS = 6  # between the ticks of an axis without its own


def scatter(trace: Spec, panel: Panel, name: str) -> str:
    """Draw a curve: its filled area, line, whiskers and markers."""
    points = panel.points(trace["x"], trace["y"])
    mode, parts = trace.get("mode") or "lines+markers", []
    if trace.get("fill") == "toself":
        parts.append(_filled(trace, path_of(points, closed=True), name))
    line = trace.get("line") or {}
    width = float(line.get("width", 2))
    if "lines" in mode and width:
        parts.append(
            element(
                "path", d=path_of(points), fill="none", stroke=line.get("color"), stroke_width=width,
                stroke_dasharray=dashes(line.get("dash"), width), stroke_linejoin="round",
            )
        )  # fmt: skip
    parts += _whiskers(trace, panel, points)
    if "markers" in mode:
        marker = _coloured(trace.get("marker") or {})
        parts += [_marker(trace, marker, i, point) for i, point in enumerate(points) if point is not None]
    return element("g", "".join(parts), opacity=trace.get("opacity"))


def _filled(trace: Spec, path: str, name: str) -> str:
    tip = element("title", str(trace["text"]).replace("<br>", "\n")) if trace.get("text") else ""
    pattern = trace.get("fillpattern")
    if not pattern:
        return element("path", tip, d=path, fill=trace.get("fillcolor"))
    return element("defs", hatch(name, pattern)) + element("path", tip, d=path, fill=f"url(#{name})")


def _coloured(marker: Spec) -> dict[str, Any]:
    """Replace numbers on a colour scale by colours."""
    merged = dict(marker)
    colours, scale = merged.get("color"), merged.get("colorscale")
    if scale is not None and isinstance(colours, (list, tuple)):
        on = on_scale(colours, scale, merged["cmin"], merged["cmax"])
        merged["color"] = [f"rgb({red:.0f},{green:.0f},{blue:.0f})" for red, green, blue, _ in on]
    return merged


def _marker(trace: Spec, marker: Spec, index: int, point: tuple[float, float]) -> str:
    edge = marker.get("line") or {}
    colour = each(marker.get("color"), index)
    edge_colour = each(edge.get("color"), index)
    look = {
        "color": colour or edge_colour, "opacity": each(marker.get("opacity"), index),
        "line": {"color": edge_colour, "width": edge["width"]} if "width" in edge else {},
    }  # fmt: skip
    name = each(marker.get("symbol") or "circle", index)
    if name.endswith("-open") and "width" not in edge:
        look["line"] = {"color": colour, "width": 1}
    return symbol(name, *point, float(each(marker.get("size", 6), index)), look, hover(trace, index))


def _whiskers(trace: Spec, panel: Panel, points: list[tuple[float, float] | None]) -> list[str]:
    """Draw the error bars of a trace, one path per axis."""
    parts = []
    for axis, values, key in (("x", trace["x"], "error_x"), ("y", trace["y"], "error_y")):
        bars = trace.get(key)
        if not bars:
            continue
        end = float(bars.get("width") or WHISKER_END)
        paths = []
        for i, (point, value) in enumerate(zip(points, values, strict=False)):
            more, less = bars["array"][i], bars["arrayminus"][i]
            if point is None or not (more or less):
                continue
            place = panel.x if axis == "x" else panel.y
            ends = (place.at(value - less), place.at(value + more))
            low, high = (place.start_px if end_px is None else end_px for end_px in ends)
            paths.append(_whisker(axis, point, low, high, end))
        if paths:
            parts.append(
                element("path", d="".join(paths), fill="none", stroke=bars["color"], stroke_width=bars["thickness"])
            )
    return parts


def _whisker(axis: str, point: tuple[float, float], low: float, high: float, end: float) -> str:
    x, y = point
    a, b, start, size = short_number(low), short_number(high), short_number(-end), short_number(2 * end)
    if axis == "x":
        y0, caps = short_number(y), f"m0,{start}v{size}"
        return f"M{a},{y0}L{b},{y0}{caps}M{a},{y0}{caps}"
    x0, caps = short_number(x), f"m{start},0h{size}"
    return f"M{x0},{a}L{x0},{b}{caps}M{x0},{a}{caps}"


def bar(trace: Spec, panel: Panel, name: str) -> str:
    """Draw bars, upright or lying, each with its whisker, hatching and text."""
    lying = trace.get("orientation") == "h"
    along, across = (panel.x, panel.y) if lying else (panel.y, panel.x)
    sizes, places = (trace["x"], trace["y"]) if lying else (trace["y"], trace["x"])
    marker, edge = trace.get("marker") or {}, (trace.get("marker") or {}).get("line") or {}
    shapes, tops = [], []
    for i, (size, place) in enumerate(zip(sizes, places, strict=False)):
        base, width = (each(trace[key], i) if trace.get(key) is not None else None for key in ("base", "width"))
        start = along.at(base or 0.0)
        end = along.at((base or 0.0) + size)
        left, right = _sides(across, place, 0.8 if width is None else width, each(trace.get("offset"), i))
        if start is None or end is None:
            continue
        far, near = max(start, end), min(start, end)
        box = {"x": near, "y": left, "width": far - near, "height": right - left}
        if not lying:
            box = {"x": left, "y": near, "width": right - left, "height": far - near}
        look = {
            **box, "stroke": edge.get("color"), "stroke_width": edge.get("width"),
            "opacity": each(marker.get("opacity"), i),
        }  # fmt: skip
        shapes.append(element("rect", hover(trace, i), fill=each(marker.get("color"), i), **look))
        shapes.append(_overlay(marker, i, f"{name}-{i}", look))
        middle = (left + right) / 2
        tops.append((end, middle) if lying else (middle, end))
    return "".join([*shapes, *_whiskers(trace, panel, list(tops)), *_texts(trace, tops)])


def _sides(across: Any, place: Any, width: float, offset: float | None) -> tuple[float, float]:
    """Return the edges of a bar in pixels, the smaller first."""
    unit = float(across.names.index(place)) if isinstance(place, str) else float(place)
    start = unit - width / 2 if offset is None else unit + offset
    ends = [across.px(end) if across.names else across.at(end) for end in (start, start + width)]
    return min(ends), max(ends)


def _overlay(marker: Spec, index: int, name: str, look: Spec) -> str:
    """Draw the hatching of a bar over its colour."""
    pattern = marker.get("pattern") or {}
    shape = each(pattern.get("shape"), index)
    if not shape:
        return ""
    tile = hatch(name, {**pattern, "shape": shape, "fgcolor": pattern.get("fgcolor") or "#FFFFFF"})
    return element("defs", tile) + element("rect", **{**look, "fill": f"url(#{name})", "stroke": None})


def _texts(trace: Spec, tops: list[tuple[float, float]]) -> list[str]:
    texts = trace.get("text") or ()
    return [words(text, x + 6, y, 12) for text, (x, y) in zip(texts, tops, strict=False)]


def heatmap(trace: Spec, panel: Panel, name: str) -> str:  # noqa: ARG001
    """Draw a map on an even grid as an embedded image."""
    z = np.asarray(trace["z"], dtype=float)
    xs, ys = (np.asarray(trace[axis], dtype=float) for axis in ("x", "y"))
    colours = on_scale(z, trace["colorscale"], trace["zmin"], trace["zmax"])
    colours[..., 3] *= 255
    colours = np.nan_to_num(colours)  # transparent if there is no value
    half_x, half_y = (float(at[1] - at[0]) / 2 if len(at) > 1 else 0.5 for at in (xs, ys))
    left, right = panel.x.px(float(xs[0]) - half_x), panel.x.px(float(xs[-1]) + half_x)
    bottom, top = panel.y.px(float(ys[0]) - half_y), panel.y.px(float(ys[-1]) + half_y)
    return element(
        "image", x=left, y=top, width=right - left, height=bottom - top, preserveAspectRatio="none",
        href=png_of(np.round(colours[::-1])),
    )  # fmt: skip


TRACES: dict[str, Callable[[Spec, Panel, str], str]] = {"scatter": scatter, "bar": bar, "heatmap": heatmap}
"""Trace types that a static picture supports, by Plotly's names."""


Paper = Literal["light", "dark", "both", "page"]
"""``both``: as the reader prefers. ``page``: inside a page, whose style sheet has colours for ``ink`` and ``paper``."""
WIDTH_PX = 960
FONTS = "Source Sans Pro, Segoe UI, Helvetica, Arial, DejaVu Sans, Liberation Sans, sans-serif"
TICK_PX, ROW_PX, SAMPLE_PX = 12, 19, 30
COLUMN_PX = 44  # width of a legend column, without its words
BOTH = f"@media(prefers-color-scheme:dark){{.ink{{fill:{DARK_INK}}}.paper{{fill:{DARK_PAPER}}}}}"


def svg(
    figure: go.Figure, paper: Paper = "both", *, name: str = "chart", width_px: int = WIDTH_PX, alt: str = ""
) -> str:
    """Return the picture, as high as the figure. ``name`` distinguishes pictures in one page; ``alt`` describes it.

    Raises ValueError for an unsupported kind of trace.
    """
    if unknown := {trace.type for trace in figure.data} - TRACES.keys():
        raise ValueError(f"A static picture has no {', '.join(sorted(unknown))}.")
    layout: dict[str, Any] = figure.layout.to_plotly_json()
    traces = list(_stacked(trace.to_plotly_json() for trace in figure.data))
    box = _Box(layout, width_px)
    axes = {key: _axis(key, layout, traces, box) for key in _axis_names(layout)}
    inner = [*_below(layout, axes, box, name), *_drawn(traces, axes, name)]
    inner += [_shape(shape, axes, box) for shape in layout.get("shapes", ()) if shape.get("layer") != "below"]
    clip = element("clipPath", element("rect", **box.plot), id=name)
    outer = [*[_annotation(note, axes, box) for note in layout.get("annotations", ())], *_legend(layout, traces, box)]
    outer += [_scale(trace, box) for trace in traces if trace.get("colorbar")]
    ink, ground = (DARK_INK, DARK_PAPER) if paper == "dark" else (INK, PAPER)
    content = [
        element("style", BOTH) if paper == "both" else "",
        element("defs", clip), element("rect", class_="paper", width=width_px, height=box.height, fill=ground), *inner,
        *outer,
    ]  # fmt: skip
    return element(
        "svg", "".join(content), xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width_px} {box.height:g}",
        width=width_px, height=box.height, class_="chart ink", fill=ink, font_family=FONTS, role="img",
        aria_label=clean(alt) or None,
    )  # fmt: skip


def _stacked(traces: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield stacked traces at their sums, each preceded by the area that it fills."""
    sums: dict[str, list[float]] = {}
    for trace in traces:
        stack = trace.get("stackgroup")
        if stack:
            below = sums.get(stack) or [0.0] * len(trace["x"])
            sums[stack] = above = [low + value for low, value in zip(below, trace["y"], strict=True)]
            x, y = [*trace["x"], *reversed(trace["x"])], [*above, *reversed(below)]
            yield {
                **trace, "x": x, "y": y, "mode": "none", "fill": "toself", "fillcolor": "none", "showlegend": False,
            }  # fmt: skip
            trace = {**trace, "y": above, "fillpattern": None}
        yield trace


class _Box:
    """Position of the plot in the picture, in pixels."""

    def __init__(self, layout: Spec, width_px: int) -> None:
        margin = layout["margin"]
        self.height = float(layout["height"])
        self.left, self.top = float(margin["l"]), float(margin["t"])
        self.right, self.bottom = width_px - float(margin["r"]), self.height - float(margin["b"])

    @property
    def plot(self) -> dict[str, object]:
        return {"x": self.left, "y": self.top, "width": self.right - self.left, "height": self.bottom - self.top}

    def across(self, share: float) -> float:
        return self.left + share * (self.right - self.left)

    def up(self, share: float) -> float:
        return self.bottom - share * (self.bottom - self.top)


def _axis_names(layout: Spec) -> Iterator[str]:
    yield from ("xaxis", "yaxis")
    yield from (key for key in layout if key.startswith(("xaxis", "yaxis")) and key not in ("xaxis", "yaxis"))


def _axis(key: str, layout: Spec, traces: list[dict[str, Any]], box: _Box) -> Axis:
    settings, letter = layout.get(key, {}), key[0]
    names: tuple[str, ...] = ()
    low, high = settings.get("range") or (0.0, 0.0)
    if low == high:
        values = list(chain.from_iterable(trace[letter] for trace in traces if _place(trace, letter) == key))
        names = tuple(dict.fromkeys(value for value in values if isinstance(value, str)))
        numbers = [value for value in values if value is not None and not isinstance(value, str)] or [0.0, 1.0]
        low, high = (-0.5, len(names) - 0.5) if names else (min(numbers), max(max(numbers), min(numbers) + 1e-9))
        if settings.get("autorange") == "reversed":
            low, high = high, low
    first, last = settings.get("domain") or (0, 1)
    ends = (box.across(first), box.across(last)) if letter == "x" else (box.up(first), box.up(last))
    return Axis(settings.get("type") == "log", float(low), float(high), *ends, names)


def _place(trace: Spec, letter: str) -> str:
    """Return the axis of a trace: ``yaxis2`` for y2."""
    return f"{letter}axis{(trace.get(f'{letter}axis') or letter)[1:]}"


def _below(layout: Spec, axes: dict[str, Axis], box: _Box, name: str) -> list[str]:
    """Draw the grid, ticks, titles, and the shapes under the traces."""
    parts = [_ticks(key, layout.get(key, {}), axis, box) for key, axis in axes.items()]
    below = (_shape(shape, axes, box) for shape in layout.get("shapes", ()) if shape.get("layer") == "below")
    return [*parts, element("g", "".join(below), clip_path=f"url(#{name})")]


def _drawn(traces: list[dict[str, Any]], axes: dict[str, Axis], name: str) -> list[str]:
    parts = []
    for i, trace in enumerate(traces):
        panel = Panel(axes[_place(trace, "x")], axes[_place(trace, "y")])
        parts.append(TRACES[trace["type"]](trace, panel, f"{name}-{i}"))
    return [element("g", "".join(parts), clip_path=f"url(#{name})")]


def _ticks(key: str, settings: Spec, axis: Axis, box: _Box) -> str:
    if settings.get("visible") is False:
        return ""
    ticks, lies = _labelled(settings, axis), key[0] == "x"
    parts: list[str] = []
    size = float((settings.get("tickfont") or {}).get("size", TICK_PX))
    gap = 6 + float(settings.get("ticklabelstandoff") or 0)
    for at, text in ticks:
        px = short_number(at)
        if settings.get("showgrid") is not False:
            d = f"M{px},{short_number(box.top)}V{short_number(box.bottom)}" if lies else (
                f"M{short_number(box.left)},{px}H{short_number(box.right)}")  # fmt: skip
            parts.append(element("path", d=d, stroke=settings.get("gridcolor") or GRID, fill="none"))
        if settings.get("showticklabels") is not False:
            place = (at, box.bottom + 5, "center", "top") if lies else (box.left - gap, at, "right", "middle")
            parts.append(words(text, place[0], place[1], size, anchor=place[2], place=place[3]))
    if title := (settings.get("title") or {}).get("text"):
        middle = (axis.start_px + axis.end_px) / 2
        if lies:
            parts.append(words(title, middle, box.bottom + 24, 13, anchor="center", place="top"))
        else:
            turn = f"rotate(-90 14 {short_number(middle)})"
            parts.append(words(title, 14, middle, 13, anchor="center", transform=turn))
    return "".join(parts)


def _labelled(settings: Spec, axis: Axis) -> list[tuple[float, str]]:
    """Return pixels and labels of the ticks: the given ones, or even steps of 1, 2 or 5."""
    values, texts = settings.get("tickvals"), settings.get("ticktext")
    if values is None:
        if axis.names:
            return [(axis.px(float(i)), name) for i, name in enumerate(axis.names)]
        values = list(_even(axis))
    if texts is None:
        texts = [f"{value:,g}" for value in values]
    ticks = [(axis.at(value), text) for value, text in zip(values, texts, strict=False)]
    low, high = sorted((axis.start_px, axis.end_px))
    return [(at, text) for at, text in ticks if at is not None and low - 0.5 <= at <= high + 0.5]


def _even(axis: Axis) -> Iterator[float]:
    low, high = sorted((axis.low, axis.high))
    if axis.log:
        yield from decade_ticks(10.0**low, 10.0**high)
        return
    size = 10.0 ** math.floor(math.log10((high - low) / MOST_STEPS))
    step = next(size * factor for factor in (1, 2, 5, 10) if (high - low) / (size * factor) <= MOST_STEPS)
    for i in range(math.ceil(low / step), math.floor(high / step) + 1):
        yield round(i * step, 10)


def _end(value: float, reference: str, axes: dict[str, Axis], is_shape: bool) -> float:
    """Return the pixel of an end of a shape or annotation; annotations use exponents on a logarithmic axis."""
    letter = "x" if reference.startswith("x") else "y"
    axis = axes[f"{letter}axis{reference[1:]}"]
    place_px = axis.at(value) if is_shape else axis.px(float(value))
    return axis.start_px if place_px is None else place_px


def _shape(shape: Spec, axes: dict[str, Axis], box: _Box) -> str:
    def px(letter: str, end: int) -> float:
        reference, value = shape.get(f"{letter}ref") or letter, shape[f"{letter}{end}"]
        if reference == "paper":
            return box.across(value) if letter == "x" else box.up(value)
        return _end(value, reference, axes, True)

    x0, x1, y0, y1 = px("x", 0), px("x", 1), px("y", 0), px("y", 1)
    line = shape.get("line") or {}
    if shape["type"] == "rect":
        return element(
            "rect", x=min(x0, x1), y=min(y0, y1), width=abs(x1 - x0), height=abs(y1 - y0),
            fill=shape.get("fillcolor") or "none", opacity=shape.get("opacity"),
        )  # fmt: skip
    width = float(line.get("width", 2))
    return element(
        "line", x1=x0, x2=x1, y1=y0, y2=y1, stroke=line.get("color") or GUIDE, stroke_width=width,
        stroke_dasharray=dashes(line.get("dash"), width), opacity=shape.get("opacity"),
    )  # fmt: skip


def _annotation(note: Spec, axes: dict[str, Axis], box: _Box) -> str:
    size, pad = float((note.get("font") or {}).get("size", 13)), 2.0
    colour = (note.get("font") or {}).get("color")
    places = {}
    for letter, names in (("x", ("left", "center", "right")), ("y", ("bottom", "middle", "top"))):
        reference, value = note.get(f"{letter}ref") or letter, note[letter]
        on_paper = reference == "paper"
        at = (box.across(value) if letter == "x" else box.up(value)) if on_paper else (
            _end(value, reference, axes, False))  # fmt: skip
        anchor = note.get(f"{letter}anchor") or (names[0 if value < 1 / 3 else 2 if value > 2 / 3 else 1] if on_paper
                                                 else names[1])  # fmt: skip
        shift = float(note.get(f"{letter}shift") or 0)
        places[letter] = (at + (shift if letter == "x" else -shift), anchor)
    (x, anchor), (y, place) = places["x"], places["y"]
    x += {"left": pad, "center": 0, "right": -pad}[anchor]
    y += {"top": pad, "middle": 0, "bottom": -pad}[place]
    text = words(note["text"], x, y, size, anchor=anchor, place=place, fill=colour)
    return (_ground(note, x, y, size, anchor) if note.get("bgcolor") else "") + text


def _ground(note: Spec, x: float, y: float, size: float, anchor: str) -> str:
    """Draw paper under words centred vertically on their line."""
    width, height = width_px(note["text"], size) + 8, 1.3 * size + 4
    left = x - {"left": 4, "center": width / 2, "right": width - 4}[anchor]
    return element("rect", x=left, y=y - height / 2, width=width, height=height, rx=2, fill=note["bgcolor"])


def _legend(layout: Spec, traces: list[dict[str, Any]], box: _Box) -> list[str]:
    if not layout.get("showlegend"):
        return []
    legend = layout.get("legend") or {}
    shown = list(_entries(traces))
    columns, column_px = 1, 0.0
    if legend.get("orientation") == "h":
        fraction = legend.get("entrywidthmode") == "fraction"
        entry = float(legend.get("entrywidth") or 0)
        column_px = entry * (box.right - box.left) if fraction else entry + COLUMN_PX
        columns = max(1, int((box.right - box.left) // max(column_px, 1)))
        columns = min(columns, 3 if fraction else 2)
    size = float((legend.get("font") or {}).get("size", 13))
    rows = math.ceil(len(shown) / columns)
    first = box.up(float(legend.get("y", 1))) - rows * ROW_PX
    parts = []
    for i, trace in enumerate(shown):
        x, y = box.left + (i % columns) * column_px, first + (i // columns + 0.5) * ROW_PX
        parts += [_sample(trace, x, y), words(str(trace.get("name") or ""), x + SAMPLE_PX + 6, y, size)]
    return parts


def _entries(traces: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the traces named in the legend, in its order."""
    ranked = sorted(
        (trace.get("legendrank", 1000), i, trace)
        for i, trace in enumerate(traces)
        if trace.get("showlegend") is not False and trace["type"] != "heatmap"
    )
    yield from (trace for _, _, trace in ranked)


def _sample(trace: Spec, x: float, y: float) -> str:
    """Draw the sample of a trace in the legend."""
    if trace["type"] == "bar":
        marker = trace.get("marker") or {}
        return element("rect", x=x + 8, y=y - 6, width=14.0, height=12.0, fill=each(marker.get("color"), 0))
    mode, line, parts = trace.get("mode") or "lines+markers", trace.get("line") or {}, []
    if "lines" in mode:
        width = float(line.get("width", 2))
        d = f"M{short_number(x)},{short_number(y)}h{SAMPLE_PX}"
        parts.append(
            element("path", d=d, stroke=line.get("color"), stroke_width=width, fill="none",
                    stroke_dasharray=dashes(line.get("dash"), width))
        )  # fmt: skip
    if "markers" in mode:
        marker = trace["marker"]
        edge = marker.get("line") or {}
        colours = [each(part.get("color"), 0) for part in (marker, edge)]
        colour = next((part for part in colours if isinstance(part, str)), GUIDE)
        look = {"color": colour, "line": {"width": edge.get("width", 1), "color": each(edge.get("color"), 0) or colour}}
        size = min(float(each(marker.get("size", 6), 0)), 12.0)
        parts.append(symbol(each(marker.get("symbol") or "circle", 0), x + SAMPLE_PX / 2, y, size, look))
    return element("g", "".join(parts), opacity=trace.get("opacity"))


def _scale(trace: Spec, box: _Box) -> str:
    """Draw the colour bar of a map and its labels, right of the plot."""
    bar, low, high = trace["colorbar"], float(trace["zmin"]), float(trace["zmax"])
    scale, rows = trace["colorscale"], 48
    x, width, size = box.right + float(bar.get("xpad") or 10), float(bar.get("thickness") or 30), 11
    step = (box.bottom - box.top) / rows
    parts = [
        element("rect", x=x, y=box.bottom - (row + 1) * step, width=width, height=step + 0.5,
                fill=_css(scale, (row + 0.5) / rows))
        for row in range(rows)
    ]  # fmt: skip
    for value, text in zip(bar["tickvals"], bar["ticktext"], strict=False):
        if low <= value <= high:
            parts.append(words(text, x + width + 5, box.up((value - low) / (high - low)), size))
    return "".join(parts)


def _css(scale: Any, share: float) -> str:
    red, green, blue, _ = on_scale(share, scale, 0.0, 1.0)
    return f"rgb({red:.0f},{green:.0f},{blue:.0f})"
