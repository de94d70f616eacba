"""Frontier map: log2 speed-up over two of depth, width and batch, with the line where the targets tie.

The colours of the plane are interpolated; dots are measured settings, in the colour of their own number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.analysis.statistics import Array
from core.base.numbers import counted, number
from core.figures.marks import FAILED_WORDS, anchor, with_gaps
from core.figures.style import GUIDE, INK, TARGET_LOOKS, axis_title, flat_legend, frame, literal, short, wrapped
from core.networks.families import families
from core.studies.frontier.answer import FailedSetting, FrontierAnswer, FrontierSlice, Line, MapCell, MeasuredPoint
from core.studies.frontier.record import Axis, FrontierPlan, Setting
from core.workload.names import are

MIDDLE = "#F4F4F2"  # colour of a tie; the ends are the targets' colours
COLOURS = ((0.0, TARGET_LOOKS[0].colour), (0.5, MIDDLE), (1.0, TARGET_LOOKS[1].colour))
LEAST_SPAN = 1.0  # colours reach at least a factor of 2 to each side, else noise would look like a map
TICK_SHARE = {"x": 1 / 11, "y": 1 / 16}  # share of the axis that a tick's label takes in the narrowest chart
EDGE_SHARE = 0.05  # share of the axis, free at each end
HOVER_AT = 30  # characters of a target's name
FINER = 5  # factor on the slice's resolution, since an undecided band may be narrower than its steps


def axis_words(plan: FrontierPlan, axis: Axis) -> str:
    """Return the title of an axis in the plan's family, such as “Width (units per layer)”."""
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


def undecided(plane: FrontierSlice, band: float) -> Undecided:
    """Return where the interval of the surface (``band`` standard deviations to each side) contains a tie."""
    old = np.log2(np.array(plane.fine_x)), np.log2(np.array(plane.fine_y))
    new = _finer(old[0]), _finer(old[1])
    low = _between(old, new, plane.fine_mean - band * plane.fine_sd)
    high = _between(old, new, plane.fine_mean + band * plane.fine_sd)
    return Undecided(*new, (low <= 0) & (high >= 0))


def _finer(axis: Array) -> Array:
    steps = np.arange((len(axis) - 1) * FINER + 1) / FINER
    return np.interp(steps, np.arange(len(axis)), axis)


def _between(old: tuple[Array, Array], new: tuple[Array, Array], values: Array) -> Array:
    """Interpolate y × x values bilinearly."""
    wide = np.stack([np.interp(new[0], old[0], row) for row in values])
    return np.stack([np.interp(new[1], old[1], column) for column in wide.T], axis=1)


def at_slice(setting: Setting, plane: FrontierSlice) -> bool:
    """Tell whether a setting lies in the slice's plane."""
    return bool(getattr(setting, plane.fixed) == plane.value)


BAND, CLEAR = "rgba(22,33,43,0.22)", "rgba(22,33,43,0)"
RIGHT_PX = 62  # for the colour bar
PLOT_PX = 260
TITLE_AT = 24  # characters of a target in the title
REASON_AT = 60  # characters per line beside the pointer
COLUMNS = 3  # columns of the legend; a phone has more rows of it
CORNER_PX, CORNER_AT = 22, 20  # characters that leave room for the other corner in the narrowest chart


def frontier_figure(answer: FrontierAnswer, plane: FrontierSlice, place: Setting | None = None) -> go.Figure:
    """Plot the map of one slice. ``place`` is the setting that the page reads out: dotted guides cross there."""
    figure = go.Figure()
    span = colour_span([*(cell.mean for cell in answer.cells), *(p.log2_speed_up for p in answer.points)])
    _surface(figure, answer, plane, span)
    _lines(figure, plane)
    if place is not None:
        _guides(figure, plane, place)
    _settings(figure, answer, plane, span)
    label_rows = _own_point(figure, answer, plane, span)
    _sides(figure, answer, plane)
    figure.update_xaxes(size_axis(axis_words(answer.study.plan, plane.x_axis), plane.x, "x"))
    figure.update_yaxes(size_axis(axis_words(answer.study.plan, plane.y_axis), plane.y, "y"))
    return _framed(figure, answer, plane, label_rows)


def _surface(figure: go.Figure, answer: FrontierAnswer, plane: FrontierSlice, span: float) -> None:
    """Draw the interpolated plane, shaded grey where it is not clear which target is faster."""
    names = answer.study.plan.names
    x, y = np.array(plane.fine_x), np.array(plane.fine_y)
    reach = answer.band * plane.fine_sd
    over = np.stack(
        [
            np.broadcast_to(x[None, :], plane.fine_mean.shape), np.broadcast_to(y[:, None], plane.fine_mean.shape),
            2.0**plane.fine_mean, 2.0 ** (plane.fine_mean - reach), 2.0 ** (plane.fine_mean + reach),
        ],
        axis=-1,
    )  # fmt: skip
    ticks, words = ratio_ticks_of(span)
    first, second = (literal(short(name, HOVER_AT)) for name in names)
    hover = f"interpolated: {second}<br>%{{customdata[2]:.3g}}× as fast as {first}"
    figure.add_heatmap(
        x=np.log2(x), y=np.log2(y), z=plane.fine_mean, zmin=-span, zmax=span, zmid=0, colorscale=COLOURS,
        zsmooth="best", name="interpolated", customdata=over.astype("float32"),
        hovertemplate=f"{_place_hover(plane)}<br>{hover}<br>(95 %: %{{customdata[3]:.3g}}× to %{{customdata[4]:.3g}}×)"
        "<extra></extra>",
        colorbar={
            "tickvals": ticks, "ticktext": words, "thickness": 12, "x": 1.0, "xpad": 8, "len": 1.0, "outlinewidth": 0,
            "tickfont": {"size": 11}, "ypad": 0,
        },
    )  # fmt: skip
    doubt = undecided(plane, answer.band)
    if doubt.any:
        figure.add_heatmap(
            x=doubt.x, y=doubt.y, z=doubt.holds.astype("uint8"), zmin=0, zmax=1, colorscale=[[0, CLEAR], [1, BAND]],
            showscale=False, hoverinfo="skip", name="not clear",
        )  # fmt: skip


def _place_hover(plane: FrontierSlice) -> str:
    def shown(axis: Axis) -> str:
        digits = ".1f" if axis == "depth" else ",.0f"
        if axis == plane.fixed:
            return f"{axis} {plane.value:,.0f}"
        return f"{axis} %{{customdata[{0 if axis == plane.x_axis else 1}]:{digits}}}"

    return ", ".join(shown(axis) for axis in ("depth", "width", "batch"))


def _lines(figure: go.Figure, plane: FrontierSlice) -> None:
    """Draw the line where the targets tie, and the bounds between which it lies."""
    x, y = outline(plane.contour)
    if x:
        figure.add_scatter(
            x=x, y=y, mode="lines", name="equally fast", line={"color": INK, "width": 3}, hoverinfo="skip",
        )  # fmt: skip
    x, y = outline((*plane.lower, *plane.upper))
    if x:
        figure.add_scatter(
            x=x, y=y, mode="lines", name="95 % bounds", line={"color": INK, "width": 1.3, "dash": "dash"},
            hoverinfo="skip",
        )  # fmt: skip


def _guides(figure: go.Figure, plane: FrontierSlice, place: Setting) -> None:
    line = {"color": INK, "width": 1, "dash": "dot"}
    x, y = (math.log2(getattr(place, axis)) for axis in (plane.x_axis, plane.y_axis))
    ends = {axis: (math.log2(values[0]), math.log2(values[-1])) for axis, values in (("x", plane.x), ("y", plane.y))}
    figure.add_shape(type="line", x0=x, x1=x, y0=ends["y"][0], y1=ends["y"][1], line=line, layer="above")
    figure.add_shape(type="line", y0=y, y1=y, x0=ends["x"][0], x1=ends["x"][1], line=line, layer="above")


def _settings(figure: go.Figure, answer: FrontierAnswer, plane: FrontierSlice, span: float) -> None:
    """Draw the settings of this slice: measured as filled dots, failed as crosses, others as rings."""
    plan = answer.study.plan
    measured = [point for point in answer.points if at_slice(point.setting, plane)]
    known = {point.setting for point in measured}
    failed = [failure for failure in answer.failed if at_slice(failure.setting, plane) and failure.setting not in known]
    known |= {failure.setting for failure in failed}
    open_ = [cell for cell in answer.cells if at_slice(cell.setting, plane) and cell.setting not in known]
    _rings(figure, open_, answer, plane)
    if failed:
        _crosses(figure, failed, plan, plane)
    if not measured:
        return
    label = answer.study.label
    marker: dict[str, Any] = {"size": 12, "symbol": "circle", "line": {"width": 3, "color": INK}}
    if label == "modelled":
        marker |= {"symbol": "circle-open", "color": INK}
    else:
        shown = [0.0 if p.low is None else p.log2_speed_up for p in measured]  # without an interval, no colour
        marker |= {"color": shown, "colorscale": COLOURS, "cmin": -span, "cmax": span}
    figure.add_scatter(
        **_at([p.setting for p in measured], plane), mode="markers", name=label, marker=marker,
        customdata=[point_hover(point, plan.names) for point in measured],
        hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip


def _rings(figure: go.Figure, cells: Sequence[MapCell], answer: FrontierAnswer, plane: FrontierSlice) -> None:
    if not cells:
        return
    names, words = answer.study.plan.names, []
    for cell in cells:
        reach = answer.band * cell.sd
        lead = lead_hover(cell.mean, cell.mean - reach, cell.mean + reach, names)
        words.append(f"<b>{cell.setting.words}</b><br>{cell.label}, not measured:<br>{lead}")
    figure.add_scatter(
        **_at([cell.setting for cell in cells], plane), mode="markers", name="interpolated",
        marker={"symbol": "circle-open", "size": 5, "color": INK, "line": {"width": 1}}, opacity=0.6,
        customdata=words, hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip


def _crosses(figure: go.Figure, failed: Sequence[FailedSetting], plan: FrontierPlan, plane: FrontierSlice) -> None:
    names = plan.target_names
    colours = [
        TARGET_LOOKS[names.index(failure.target)].colour if failure.target in names else GUIDE for failure in failed
    ]
    words = [
        f"<b>{failure.setting.words}</b><br>"
        f"{literal(plan.name_of(failure.target) if failure.target else 'both targets')}: "
        f"{FAILED_WORDS.get(failure.outcome, 'not reached')}<br>"
        f"{'<br>'.join(map(literal, wrapped([failure.reason], REASON_AT)))}"
        for failure in failed
    ]
    figure.add_scatter(
        **_at([failure.setting for failure in failed], plane), mode="markers", name="not measured",
        marker={"symbol": "x-thin", "size": 9, "line": {"width": 2.5, "color": colours}},
        customdata=words, hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip


def _at(settings: Sequence[Setting], plane: FrontierSlice) -> dict[str, list[float]]:
    return {
        "x": [math.log2(getattr(setting, plane.x_axis)) for setting in settings],
        "y": [math.log2(getattr(setting, plane.y_axis)) for setting in settings],
    }


def _own_point(figure: go.Figure, answer: FrontierAnswer, plane: FrontierSlice, span: float) -> int:
    """Draw the operating point as a star, filled in its own slice, labelled above; return the rows of labels used."""
    point = answer.point
    if point is None:
        return 0
    here, at = at_slice(point.setting, plane), _at([point.setting], plane)
    lead = lead_hover(point.log2_speed_up, point.low, point.high, answer.study.plan.names)
    words = (
        f"{point.label}: {lead}"
        if here
        else f"Your point lies at {plane.fixed} {getattr(point.setting, plane.fixed):,}."
    )
    figure.add_scatter(
        **at, mode="markers", name="your point", customdata=[f"<b>{point.setting.words}</b><br>{words}"],
        marker={
            "symbol": "star" if here else "star-open", "size": 16, "color": [point.log2_speed_up], "cmin": -span,
            "cmax": span, "colorscale": COLOURS if here else [[0, INK], [1, INK]], "line": {"width": 1.8, "color": INK},
        },
        hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip
    if not here:
        return 0
    names = answer.study.plan.names
    who = who_is_ahead(point.log2_speed_up, point.low, point.high, names)
    target = f"{literal(short(who.target, CORNER_AT))} " if who.target else ""
    low, high = math.log2(plane.x[0]), math.log2(plane.x[-1])
    figure.add_annotation(
        x=at["x"][0], yref="paper", y=1, yshift=4, yanchor="bottom", showarrow=False, font={"size": 12.5},
        text=f"★ {target}{who.value} ({point.label})",
        xanchor=anchor((at["x"][0] - low) / max(high - low, 1e-9)),
    )  # fmt: skip
    return 1


def _sides(figure: go.Figure, answer: FrontierAnswer, plane: FrontierSlice) -> None:
    """Write which target is faster into the corner where that is clearest; colour is never the only difference."""
    names = answer.study.plan.names
    low = plane.fine_mean - answer.band * plane.fine_sd
    high = plane.fine_mean + answer.band * plane.fine_sd
    rows: list[int] = []
    for name, sure in ((names[0], -high), (names[1], low)):
        corners = {(row, column): float(np.nan_to_num(sure[row, column])) for row in (0, -1) for column in (0, -1)}
        (row, column), value = max(corners.items(), key=lambda item: item[1])
        if value <= 0:
            _side_inside(figure, plane, name, sure)
            continue
        away = CORNER_PX if row not in rows else 2.2 * CORNER_PX  # two in one row would overlap on a phone
        rows.append(row)
        figure.add_annotation(
            x=math.log2(plane.x[column]), y=math.log2(plane.y[row]), text=f"{literal(short(name, CORNER_AT))} faster",
            showarrow=False,
            xanchor="left" if column == 0 else "right", yanchor="middle", xshift=-8 if column == 0 else 8,
            yshift=away if row == 0 else -away, bgcolor="rgba(255,255,255,0.72)", borderpad=2,
            font={"size": 11.5, "color": INK},
        )  # fmt: skip


def _side_inside(figure: go.Figure, plane: FrontierSlice, name: str, sure: Array) -> None:
    """Write the faster target where that is clearest, on a map whose corners are blank or not clear."""
    sure = np.nan_to_num(sure)
    row, column = np.unravel_index(int(np.argmax(sure)), sure.shape)
    if sure[row, column] <= 0:
        return
    shown = np.flatnonzero(sure.any(axis=0))
    figure.add_annotation(
        x=math.log2(plane.fine_x[column]), y=math.log2(plane.fine_y[row]), showarrow=False, borderpad=2,
        text=f"{literal(short(name, CORNER_AT))} faster", bgcolor="rgba(255,255,255,0.72)",
        xanchor="left" if column - shown[0] < shown[-1] - column else "right", font={"size": 11.5, "color": INK},
    )  # fmt: skip


def _framed(figure: go.Figure, answer: FrontierAnswer, plane: FrontierSlice, label_rows: int) -> go.Figure:
    study, names = answer.study, answer.study.plan.names
    lead = f"Speed-up of {names[1]} over {names[0]}: above 1× means faster."
    under = [fixed_words(study.plan), lead]
    foot = [_note(study.label, bool(plane.lower or plane.upper))]
    rows = math.ceil(sum(trace.showlegend is not False for trace in figure.data if trace.type == "scatter") / COLUMNS)
    title = f"{_found_words(answer, plane)}, at {plane.fixed} {plane.value:,.0f}"
    frame(figure, title, under, foot, study, legend_rows=rows, label_rows=label_rows, plot_px=PLOT_PX)
    figure.update_layout(margin={"r": RIGHT_PX})
    _name(figure)
    return flat_legend(figure, size=12)


def _name(figure: go.Figure) -> None:
    """Draw every mark of the legend in a grey visible on light and dark paper; on the map it is ink."""
    for trace in [shown for shown in figure.data if shown.type == "scatter" and shown.showlegend is not False]:
        marker, line = trace.marker, trace.line
        figure.add_scatter(
            x=[None], y=[None], mode=trace.mode, name=trace.name, hoverinfo="skip", opacity=trace.opacity,
            line={"color": GUIDE, "width": line.width, "dash": line.dash},
            marker={"color": GUIDE, "symbol": marker.symbol, "size": marker.size,
                    "line": {"color": GUIDE, "width": marker.line.width}},
        )  # fmt: skip
        trace.showlegend = False


def _found_words(answer: FrontierAnswer, plane: FrontierSlice) -> str:
    """Return a title that claims no more than the slice shows."""
    first, second = (short(name, TITLE_AT) for name in answer.study.plan.names)
    reach = answer.band * plane.fine_sd
    faster = bool((plane.fine_mean - reach > 0).any())  # NaN, where a target cannot run, is neither
    slower = bool((plane.fine_mean + reach < 0).any())
    clear = not undecided(plane, answer.band).any
    if faster and slower:
        return "Which target is faster"
    if not faster and not slower:
        return "Nowhere clear which target is faster"
    name = second if faster else first
    everywhere = clear and not np.isnan(plane.fine_mean).any()
    return f"{name} {are(name)} clearly faster everywhere" if everywhere else f"Where {name} {are(name)} clearly faster"


def _note(label: str, bounded: bool) -> str:
    doubt = " Grey, inside the dashed bounds: not clear." if bounded else ""
    dots = f"Dots: {label}, in the colour of their own number. Colours around them: interpolated."
    return f"{dots}{doubt} Blank: nothing measured nearby."
