"""Building blocks of static pictures: positions on axes, words, symbols, dashes, colours, hatching. Pure functions.

Names and units are Plotly's: sizes in pixels, positions on a logarithmic axis as exponents of ten.
"""

from __future__ import annotations

import base64
import html
import math
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Spec = Mapping[str, Any]
"""A part of a figure in Plotly's own form."""
ANCHORS = {"left": "start", "center": "middle", "right": "end"}
LINE_HEIGHT, ASCENT = 1.3, 0.35  # relative to the font size; the second is half the height of a capital
CHARACTER = 0.54  # mean width of a character, relative to the font size
DASHES = {"dot": (1, 1), "dash": (3, 3), "longdash": (5, 5), "dashdot": (3, 1, 1, 1), "longdashdot": (5, 2, 1, 2)}
"""Multiples of the line width, as in Plotly."""
_TAG = re.compile(r"(</?[bi]>)")
_FIELD = re.compile(r"%\{(\w+)(?:\[(\d+)\])?(?::([^}]*))?\}")
STYLES = {"<b>": 'font-weight="bold"', "<i>": 'font-style="italic"'}


@dataclass(frozen=True)
class Axis:
    """Mapping of values to pixels. ``low`` and ``high`` are in the axis's own unit and may be reversed."""

    log: bool
    low: float
    high: float
    start_px: float
    end_px: float
    names: tuple[str, ...] = ()

    def at(self, value: Any) -> float | None:
        """Return the pixel of a data value; None if it has no place on the axis."""
        if isinstance(value, str):
            return self.px(float(self.names.index(value))) if value in self.names else None
        if value is None or not math.isfinite(value) or (self.log and value <= 0):
            return None
        return self.px(math.log10(value) if self.log else float(value))

    def px(self, unit: float) -> float:
        """Return the pixel of a position in the axis's own unit."""
        return self.start_px + (unit - self.low) / (self.high - self.low) * (self.end_px - self.start_px)


@dataclass(frozen=True)
class Panel:
    """The two axes of a trace."""

    x: Axis
    y: Axis

    def points(self, xs: Iterable[Any], ys: Iterable[Any]) -> list[tuple[float, float] | None]:
        """Return positions in pixels, with None at every gap."""
        points: list[tuple[float, float] | None] = []
        for x, y in zip(xs, ys, strict=False):
            across, up = self.x.at(x), self.y.at(y)
            points.append(None if across is None or up is None else (across, up))
        return points


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """Return an SVG element; None attributes are left out, ``_`` stands for ``-`` (and ``class_`` for ``class``)."""
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    text = "".join(f' {key}="{_value(value)}"' for key, value in pairs)
    return f"<{name}{text}>{content}</{name}>" if content else f"<{name}{text}/>"


def _value(value: object) -> str:
    return short_number(value) if isinstance(value, float) else html.escape(str(value))


def short_number(value: float) -> str:
    """Return a pixel rounded to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def escaped(markup: str) -> str:
    """Return Plotly's text, free of tags, as XML."""
    return html.escape(html.unescape(markup), quote=False)


def words(
    markup: str, x: float, y: float, size: float, *, anchor: str = "left", place: str = "middle", **attributes: object
) -> str:
    """Draw text with Plotly's ``<b>``, ``<i>`` and ``<br>``, beside, above or below a position."""
    lines = markup.split("<br>")
    height, step = len(lines) * LINE_HEIGHT * size, LINE_HEIGHT * size
    top = {"top": 0.0, "middle": -height / 2, "bottom": -height}[place]
    first = y + top + step / 2 + ASCENT * size
    shared = {"font_size": size, "text_anchor": ANCHORS[anchor], **attributes}
    return "".join(
        element("text", _styled(line), x=x, y=first + row * step, **shared) for row, line in enumerate(lines) if line
    )


def _styled(line: str) -> str:
    if _TAG.search(line) is None:
        return escaped(line)
    spans, style = "", ""
    for part in _TAG.split(line):
        if part in STYLES:
            style = STYLES[part]
        elif _TAG.fullmatch(part):
            style = ""
        elif part:
            spans += f"<tspan {style}>{escaped(part)}</tspan>" if style else escaped(part)
    return spans


def width_px(markup: str, size: float) -> float:
    """Estimate the width of the widest line."""
    return max(len(html.unescape(_TAG.sub("", line))) for line in markup.split("<br>")) * CHARACTER * size


def hover(trace: Spec, index: int) -> str:
    """Return Plotly's hover text of a point as a tooltip in plain lines; empty if it has none."""
    template = trace.get("hovertemplate")
    if not template or trace.get("hoverinfo") == "skip":
        return ""

    def field(match: re.Match[str]) -> str:
        values = trace.get(match[1])
        value = values[index] if values is not None and index < len(values) else ""
        if match[2] is not None:
            value = value[int(match[2])]
        return format(value, match[3]) if match[3] and not isinstance(value, str) else str(value)

    filled = _FIELD.sub(field, template.partition("<extra>")[0])
    return element("title", escaped(_TAG.sub("", filled.replace("<br>", "\n"))))


def dashes(dash: str | None, width: float) -> str | None:
    if dash in (None, "solid"):
        return None
    if dash in DASHES:
        return ",".join(short_number(part * max(3.0, width)) for part in DASHES[dash])
    return str(dash).replace("px", "")


def each(value: Any, index: int) -> Any:
    """Return a point's value of a property that is either shared or per point."""
    return value[index] if isinstance(value, (list, tuple, np.ndarray)) else value


def rgba(colour: str) -> tuple[float, float, float, float]:
    if colour.startswith("#"):
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return red, green, blue, 1.0
    parts = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")]
    return parts[0], parts[1], parts[2], parts[3] if len(parts) > 3 else 1.0


def on_scale(values: Any, scale: Sequence[Sequence[Any]], low: float, high: float) -> np.ndarray:
    """Return red, green, blue (0 to 255) and opacity (0 to 1) of values on a colour scale, in a last axis."""
    place = np.clip((np.asarray(values, dtype=float) - low) / (high - low), 0, 1)
    stops, colours = [float(stop) for stop, _ in scale], np.array([rgba(colour) for _, colour in scale])
    return np.stack([np.interp(place, stops, colours[:, channel]) for channel in range(4)], axis=-1)


def png_of(pixels: np.ndarray) -> str:
    """Encode pixels (rows from the top; red, green, blue, opacity in bytes) as a data address of a PNG file."""
    rows, columns, _ = pixels.shape
    raw = b"".join(b"\0" + row.tobytes() for row in pixels.astype(np.uint8))
    header = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    whole = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return f"data:image/png;base64,{base64.b64encode(whole).decode()}"


def hatch(name: str, pattern: Spec) -> str:
    """Return a tile of Plotly's pattern, its strokes alone."""
    size, shape = float(pattern.get("size") or 8), pattern.get("shape") or "/"
    stroke = {
        "stroke": pattern.get("fgcolor") or "#444444", "stroke_width": size * float(pattern.get("solidity") or 0.3) / 2,
        "stroke_opacity": pattern.get("fgopacity"),
    }  # fmt: skip
    half, end = short_number(size / 2), short_number(size)
    paths = {
        "/": f"M-1,1L1,-1M0,{end}L{end},0M{short_number(size - 1)},{short_number(size + 1)}L{short_number(size + 1)},"
        f"{short_number(size - 1)}",
        "\\": f"M0,0L{end},{end}M-1,{short_number(size - 1)}L1,{short_number(size + 1)}M{short_number(size - 1)},-1"
        f"L{short_number(size + 1)},1",
        "x": f"M0,0L{end},{end}M0,{end}L{end},0",
        "-": f"M0,{half}H{end}",
        "|": f"M{half},0V{end}",
        "+": f"M0,{half}H{end}M{half},0V{end}",
        ".": f"M{half},{half}h0.1",
    }
    strokes = element("path", d=paths[shape], fill="none", stroke_linecap="round" if shape == "." else None, **stroke)
    return element("pattern", strokes, id=name, width=size, height=size, patternUnits="userSpaceOnUse")


def symbol(name: str, x: float, y: float, size: float, look: Spec, tip: str = "") -> str:
    """Draw a marker with Plotly's name and size; ``look`` has colour, line and opacity."""
    base = name.removesuffix("-open").removesuffix("-dot")
    colour, edge = look["color"], look.get("line") or {}
    only_lines = base in LINES
    attributes = {
        "fill": "none" if name.endswith("-open") or only_lines else colour,
        "stroke": edge.get("color") or colour, "stroke_width": float(edge.get("width", 0 if not only_lines else 1)),
        "opacity": look.get("opacity"),
    }  # fmt: skip
    path = element("path", tip, d=_outline(base, x, y, size / 2), **attributes)
    if name.endswith("-dot"):
        path += element("circle", cx=x, cy=y, r=size / 9, fill=edge.get("color"))
    return path


LINES = ("x-thin", "line-ns")
CORNERS = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle-up": ((0, -1.15), (1.15, 0.58), (-1.15, 0.58)),
    "triangle-left": ((-1.15, 0), (0.58, -1.15), (0.58, 1.15)),
    "triangle-right": ((1.15, 0), (-0.58, -1.15), (-0.58, 1.15)),
    "cross": ((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2),
              (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
    "x": ((0, -0.57), (0.57, -1.13), (1.13, -0.57), (0.57, 0), (1.13, 0.57), (0.57, 1.13), (0, 0.57), (-0.57, 1.13),
          (-1.13, 0.57), (-0.57, 0), (-1.13, -0.57), (-0.57, -1.13)),
    "star": tuple(
        ((0.55 if i % 2 else 1.4) * math.sin(math.pi * i / 5), (-0.55 if i % 2 else -1.4) * math.cos(math.pi * i / 5))
        for i in range(10)
    ),
}  # fmt: skip
"""Outlines around a circle of radius 1, with y pointing down."""


def _outline(base: str, x: float, y: float, r: float) -> str:
    def at(corners: Iterable[tuple[float, float]]) -> str:
        return "L".join(f"{short_number(x + r * right)},{short_number(y + r * down)}" for right, down in corners)

    if base == "x-thin":
        return f"M{at(((-1, -1), (1, 1)))}M{at(((-1, 1), (1, -1)))}"
    if base == "line-ns":
        return f"M{at(((0, -1.4), (0, 1.4)))}"
    if base in CORNERS:
        return f"M{at(CORNERS[base])}Z"
    radius = short_number(r)
    return f"M{short_number(x - r)},{short_number(y)}a{radius},{radius} 0 1 0 {short_number(2 * r)},0" + (
        f"a{radius},{radius} 0 1 0 {short_number(-2 * r)},0Z"
    )


def path_of(points: Iterable[tuple[float, float] | None], closed: bool = False) -> str:
    """Return a path through positions, broken at gaps."""
    pieces: list[list[str]] = [[]]
    for point in points:
        if point is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{short_number(point[0])},{short_number(point[1])}")
    return "".join(f"M{'L'.join(piece)}{'Z' if closed else ''}" for piece in pieces if len(piece) > 1)
