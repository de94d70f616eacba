"""Drawing of a figure's traces as SVG: curves with bands, markers and whiskers, bars, maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from core.figures.svg_parts import (
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
    words,
)

WHISKER_END = 4.0


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
    found = dict(marker)
    colours, scale = found.get("color"), found.get("colorscale")
    if scale is not None and isinstance(colours, (list, tuple)):
        on = on_scale(colours, scale, found["cmin"], found["cmax"])
        found["color"] = [f"rgb({red:.0f},{green:.0f},{blue:.0f})" for red, green, blue, _ in on]
    return found


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
            low, high = (place.start_px if one is None else one for one in ends)
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
    ends = [across.px(one) if across.names else across.at(one) for one in (start, start + width)]
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
