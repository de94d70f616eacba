"""Marks of the frontier map: its axes and colours, the faster target in words, and where it is not clear."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.analysis.statistics import Array
from core.families import families
from core.figures.marks import with_gaps
from core.figures.style import TARGET_LOOKS, axis_title, literal, short
from core.numbers import counted, number
from core.studies.frontier.answer import FrontierSlice, Line, MeasuredPoint
from core.studies.frontier.plan import Axis, FrontierPlan, Setting

MIDDLE = "#F4F4F2"  # colour of a tie; the ends are the targets' colours
COLOURS = ((0.0, TARGET_LOOKS[0].colour), (0.5, MIDDLE), (1.0, TARGET_LOOKS[1].colour))
LEAST_SPAN = 1.0  # colours reach at least a factor of 2 to each side, else noise would look like a map
TICK_SHARE = {"x": 1 / 11, "y": 1 / 16}  # share of the axis that a tick's label takes in the narrowest chart
EDGE_SHARE = 0.05  # share of the axis, free at each end
HOVER_AT = 30  # characters of a target's name
FINER = 5  # factor on the slice's resolution, since an undecided band may be narrower than its steps


def axis_words(plan: FrontierPlan, axis: Axis) -> str:
    """Return the title of an axis in the plan's family, such as “Width (units a layer)”."""
    if axis == "batch":
        return "Batch size"
    return next(choice.label for choice in families()[plan.family].choices if choice.name == axis)


def fixed_words(plan: FrontierPlan) -> str:
    """Describe family, mode and the sizes that the map does not vary, for the line under the title."""
    family = families()[plan.family]
    chosen = dict(plan.sizes)
    parts = []
    for choice in family.choices:
        if choice.name in chosen:
            value = chosen[choice.name]
            shown = choice.words[value - choice.low] if choice.words else f"{value:,}"
            parts.append(f"{choice.label.split(' (')[0].lower()} {shown}")
    doing = f"training, {plan.optimizer}" if plan.mode == "train" else "inference"
    return f"{family.title} ({doing}): {', '.join(parts)}" if parts else f"{family.title} ({doing})"


@dataclass(frozen=True)
class Who:
    """Log2 speed-up in words: ``value`` “1.4× faster” or “not clear”, ``bounds``, and ``target`` or None."""

    value: str
    bounds: str
    target: str | None


def who_is_ahead(log2_speed_up: float, low: float | None, high: float | None, names: Sequence[str]) -> Who:
    """Describe the lead; bounds are those of the faster target or, if it is not clear, of the second over the first."""
    ratio = 2.0 ** abs(log2_speed_up)
    target = names[1] if log2_speed_up >= 0 else names[0]
    if low is None or high is None:
        return Who("not clear", "too few rounds for an interval", None)
    if low <= 0 <= high:
        return Who("not clear", f"{names[1]} {number(2**low)}× to {number(2**high)}× as fast", None)
    ends = (2**low, 2**high) if log2_speed_up >= 0 else (2**-high, 2**-low)
    return Who(f"{number(ratio)}× faster", f"{number(ends[0])}× to {number(ends[1])}×", target)


def _hover_names(names: Sequence[str]) -> tuple[str, str]:
    return literal(short(names[0], HOVER_AT)), literal(short(names[1], HOVER_AT))


def lead_hover(log2_speed_up: float, low: float | None, high: float | None, names: Sequence[str]) -> str:
    """Return the faster target, and below it the bounds; narrow enough to fit beside the pointer."""
    who = who_is_ahead(log2_speed_up, low, high, _hover_names(names))
    return f"{who.target} {who.value}<br>({who.bounds})" if who.target else f"{who.value}<br>({who.bounds})"


def point_hover(point: MeasuredPoint, names: Sequence[str]) -> str:
    """Describe a measured setting: its label, the faster target, both step times, and the rounds behind them."""
    rounds = counted(point.rounds, "round")
    starts = f"{counted(point.starts, 'start')} of the workers"
    times = [
        f"{name} {number(ms)} ms"
        for name, ms in zip(_hover_names(names), (point.first_ms, point.second_ms), strict=True)
    ]
    lead = lead_hover(point.log2_speed_up, point.low, point.high, names)
    return "<br>".join([f"<b>{point.setting.words}</b>", f"{point.label}: {lead}", *times, f"{rounds} in {starts}"])


def size_axis(title: str, values: Sequence[float], side: str) -> dict[str, Any]:
    """Return an axis over log2 of a size, with ticks at the grid's values, thinned so that labels never touch."""
    at = [math.log2(value) for value in values]
    span = max(at[-1] - at[0], 1e-9)
    room = max(EDGE_SHARE * span, 1e-3)
    shown = _thinned(at, TICK_SHARE[side] * (span + 2 * room))
    return {
        "title": axis_title(title), "range": [at[0] - room, at[-1] + room], "tickvals": [at[i] for i in shown],
        "ticktext": [f"{values[i]:,.0f}" for i in shown], "showgrid": False, "zeroline": False, "ticks": "outside",
        "automargin": False,
    }  # fmt: skip


def _thinned(at: Sequence[float], apart: float) -> list[int]:
    """Return indices of positions at least ``apart``, always including the first and the last."""
    shown = [0]
    for i in range(1, len(at)):
        if at[i] - at[shown[-1]] >= apart:
            shown.append(i)
    if len(at) > 1 and shown[-1] != len(at) - 1:
        if len(shown) > 1:
            shown.pop()
        shown.append(len(at) - 1)
    return shown


def colour_span(values: Sequence[float]) -> float:
    """Return the reach of the colours to each side, in octaves: a whole number that covers all values."""
    finite = [abs(value) for value in values if math.isfinite(value)]
    return float(max(LEAST_SPAN, math.ceil(max(finite, default=0.0) - 1e-9)))


def ratio_ticks_of(span: float) -> tuple[list[float], list[str]]:
    """Return positions (log2) and labels of the colour bar: 1× (as fast as the first target) in the middle."""
    stride = max(1, math.ceil(span / 4))
    above = range(stride, int(span) + 1, stride)
    places = [*(-octave for octave in reversed(above)), 0, *above]
    return [float(octave) for octave in places], [f"{2**o:,}×" if o >= 0 else f"1/{2**-o:,}×" for o in places]


def outline(lines: Sequence[Line]) -> tuple[list[float | None], list[float | None]]:
    """Return the pieces of a contour as one trace, in log2, with gaps between them."""
    return with_gaps([(math.log2(x), math.log2(y)) for x, y in zip(line.x, line.y, strict=True)] for line in lines)


@dataclass(frozen=True, eq=False)
class Undecided:
    """Mask ``holds`` of where the interval contains a tie; y × x at log2 positions."""

    x: Array
    y: Array
    holds: NDArray[np.bool_]

    @property
    def any(self) -> bool:
        return bool(self.holds.any())


def undecided(found: FrontierSlice, band: float) -> Undecided:
    """Return where the interval of the surface (``band`` standard deviations to each side) contains a tie."""
    old = np.log2(np.array(found.fine_x)), np.log2(np.array(found.fine_y))
    new = _finer(old[0]), _finer(old[1])
    low = _between(old, new, found.fine_mean - band * found.fine_sd)
    high = _between(old, new, found.fine_mean + band * found.fine_sd)
    return Undecided(*new, (low <= 0) & (high >= 0))


def _finer(axis: Array) -> Array:
    steps = np.arange((len(axis) - 1) * FINER + 1) / FINER
    return np.interp(steps, np.arange(len(axis)), axis)


def _between(old: tuple[Array, Array], new: tuple[Array, Array], values: Array) -> Array:
    """Interpolate y × x values bilinearly."""
    wide = np.stack([np.interp(new[0], old[0], row) for row in values])
    return np.stack([np.interp(new[1], old[1], column) for column in wide.T], axis=1)


def at_slice(setting: Setting, found: FrontierSlice) -> bool:
    """Tell whether a setting lies in the slice's plane."""
    return bool(getattr(setting, found.fixed) == found.value)
