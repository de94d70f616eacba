"""Charts of a pipeline study: step time by way of feeding, by parallel calls, and by preprocessing cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from core.base.numbers import number, percent, rounded
from core.figures.marks import add_level, add_upright, add_zone, anchor, bounds_text, whiskers
from core.figures.style import GRID, GUIDE, RUN_LOOKS, TARGET_LOOKS, Look, axis_title, frame, linear_axis, literal
from core.studies.experiment.record import Experiment
from core.studies.pipeline.answer import Fed, PipelineAnswer
from core.studies.pipeline.input_share import HIGH, MODERATE, Starvation
from core.studies.pipeline.plan import BASE, HOST, RESIDENT, Family, setting
from core.workload.names import full_name

TIME_PANEL, SHARE_PANEL = (0.47, 1.0), (0.0, 0.37)  # ranges of the plot's height
WHISKER_NOTE = "Whiskers: 95 % intervals."


@dataclass(frozen=True)
class _Bar:
    name: str
    fed: Fed
    look: Look
    pattern: str


def feeding_figure(experiment: Experiment, answer: PipelineAnswer) -> go.Figure:
    """Plot the step time (ms) with resident data, with a host array, and with ``tf.data`` by prefetch."""
    resident, host = answer.of(RESIDENT), answer.of(HOST)
    bars = [_Bar("resident", resident, RUN_LOOKS[0], "")] if resident else []
    bars += [_Bar("host<br>array", host, RUN_LOOKS[1], "/")] if host else []
    bars += _family_bars(experiment, answer, "prefetch", "prefetch")
    return _bars_figure(experiment, answer, bars, "Step time by way of feeding")


def calls_figure(experiment: Experiment, answer: PipelineAnswer) -> go.Figure:
    """Plot the step time (ms) by the parallel calls of the map."""
    bars = _family_bars(experiment, answer, "calls", "calls")
    return _bars_figure(experiment, answer, bars, "Step time by parallel calls")


def _family_bars(experiment: Experiment, answer: PipelineAnswer, family: Family, word: str) -> list[_Bar]:
    look, bars = _tfdata_look(experiment), []
    for fed in answer.family(experiment.arms, family):
        name = f"{word}<br>{setting(family, experiment.arms[fed.arm].pipeline).replace('AUTOTUNE', 'auto')}"
        bars.append(_Bar(f"<b>{name}</b>" if fed.code == BASE else name, fed, look, ""))
    return bars


def _tfdata_look(experiment: Experiment) -> Look:
    return TARGET_LOOKS[1 if experiment.arms[0].target.is_gpu else 0]


def _bars_figure(experiment: Experiment, answer: PipelineAnswer, bars: Sequence[_Bar], title: str) -> go.Figure:
    figure = go.Figure()
    known = [position for position, bar in enumerate(bars) if bar.fed.low_ms is not None]
    figure.add_bar(
        x=known, y=[bars[i].fed.step_ms for i in known], width=0.62, name="step time", showlegend=False,
        marker={
            "color": [bars[i].look.colour for i in known],
            "pattern": {"shape": [bars[i].pattern for i in known], "solidity": 0.25},
        },
        error_y=whiskers([_step(bars[i].fed) for i in known], GUIDE, 1.6, 5),
        customdata=[_hover(bars[i].fed) for i in known], hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip
    few = [position for position in range(len(bars)) if position not in known]
    if few:
        figure.add_scatter(
            x=few, y=[bars[i].fed.step_ms for i in few], mode="markers", name="too few rounds", showlegend=False,
            marker={"symbol": "circle-open", "size": 9, "color": GUIDE},
            customdata=[_hover(bars[i].fed) for i in few], hovertemplate="%{customdata}<extra></extra>",
        )  # fmt: skip
    top = max((_top(bar.fed) for bar in bars), default=1.0)
    for position, bar in enumerate(bars):
        figure.add_annotation(
            x=position, y=_top(bar.fed), text=_label(bar.fed), showarrow=False, yanchor="bottom", yshift=3,
            font={"size": 11},
        )  # fmt: skip
    _resident_level(figure, answer, "")
    figure.update_xaxes(
        tickvals=list(range(len(bars))), ticktext=[bar.name for bar in bars], range=[-0.6, max(len(bars), 1) - 0.4],
        tickfont={"size": 11}, tickangle=0, zeroline=False, showgrid=False,
    )  # fmt: skip
    figure.update_yaxes(linear_axis("Step time (ms)", (0, 1.24 * top)))
    legend = "Dotted: resident data. Bold: as chosen. Under the time: input-bound share, 1 − resident ÷ step."
    open_words = " Rings without a bar: too few rounds for an interval." if few else ""
    foot = [f"{WHISKER_NOTE} {legend}{open_words}"]
    return _framed(figure, experiment, title, foot)


def cost_figure(experiment: Experiment, answer: PipelineAnswer) -> go.Figure:
    """Plot step time (ms) above and input-bound share (%) below, by preprocessing cost (µs per sample)."""
    figure = go.Figure()
    fed_at_cost = answer.family(experiment.arms, "cost")
    costs = [experiment.arms[fed.arm].pipeline.preprocess_us for fed in fed_at_cost]
    axis = _CostAxis.of(costs)
    at = [axis.position(cost) for cost in costs]
    look = _tfdata_look(experiment)
    timed = [(x, fed) for x, fed in zip(at, fed_at_cost, strict=True) if fed.low_ms is not None]
    _line(figure, [x for x, _ in timed], [_step(fed) for _, fed in timed], look, [fed for _, fed in timed], "y")
    shared = [
        (x, fed) for x, fed in zip(at, fed_at_cost, strict=True) if fed.share is not None and fed.share.low is not None
    ]
    shares = [_percent(fed) for _, fed in shared]
    _line(figure, [x for x, _ in shared], shares, look, [fed for _, fed in shared], "y2")
    resident = answer.of(RESIDENT)
    _resident_level(figure, answer, "resident")
    for level, word in ((MODERATE, "moderate"), (HIGH, "high")):
        _level(figure, 100 * level, "y2", f"{percent(level)}: {word}")
    rows = _mark_starvation(figure, axis, answer.starvation)
    figure.update_xaxes(
        title=axis_title("Preprocessing (µs per sample)"), tickvals=at, ticktext=[f"{cost:,g}" for cost in costs],
        range=axis.bounds, gridcolor=GRID, zeroline=False, anchor="y2",
    )  # fmt: skip
    top = max([_top(fed) for fed in fed_at_cost] + ([resident.step_ms] if resident else []), default=1.0)
    figure.update_layout(
        yaxis=linear_axis("Step time (ms)", (0, 1.1 * top)) | {"domain": TIME_PANEL},
        yaxis2=linear_axis("Input-bound", (-3, 104), " %", (0, 50, 100)) | {"domain": SHARE_PANEL, "anchor": "x"},
    )
    few = " Too few rounds for an interval at some costs." if len(shared) < len(fed_at_cost) else ""
    foot = [f"{WHISKER_NOTE} Input-bound share: 1 − resident ÷ step.{few}"]
    return _framed(figure, experiment, "Step time and input-bound share by preprocessing cost", foot, rows)


@dataclass(frozen=True)
class _CostAxis:
    """Axis of the logarithm of the cost; a cost of 0 lies one doubling left of the smallest other one."""

    smallest_us: float
    largest_us: float
    has_zero: bool

    @classmethod
    def of(cls, costs_us: Sequence[float]) -> _CostAxis:
        positive = [cost for cost in costs_us if cost > 0] or [1.0]
        return cls(min(positive), max(positive), any(cost <= 0 for cost in costs_us))

    def position(self, cost_us: float) -> float:
        if cost_us >= self.smallest_us:
            return math.log2(cost_us)
        return math.log2(self.smallest_us) - 1 + cost_us / self.smallest_us

    @property
    def bounds(self) -> list[float]:
        low = math.log2(self.smallest_us) - self.has_zero
        return [low - 0.3, math.log2(self.largest_us) + 0.3]


def _line(
    figure: go.Figure,
    x: Sequence[float],
    values: Sequence[tuple[float, float | None, float | None]],
    look: Look,
    hovered: Sequence[Fed],
    axis: str,
) -> None:
    figure.add_scatter(
        x=list(x), y=[value for value, _, _ in values], mode="lines+markers", showlegend=False, yaxis=axis,
        line=look.line("measured"), marker=look.marker("measured"), error_y=whiskers(values, GUIDE, 1.6, 5),
        name="step time" if axis == "y" else "input-bound share",
        customdata=[_hover(fed) for fed in hovered], hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip


def _mark_starvation(figure: go.Figure, axis: _CostAxis, starvation: Starvation | None) -> int:
    """Draw a band between the costs that bracket starvation and a labelled line at the estimate; return the rows of
    labels used.
    """
    if (
        starvation is None
        or starvation.kind != "from"
        or starvation.cost_us is None
        or starvation.low_us is None
        or starvation.high_us is None
    ):
        return 0
    line = axis.position(starvation.cost_us)
    add_zone(figure, axis.position(starvation.low_us), axis.position(starvation.high_us), GUIDE, 0.14)
    add_upright(figure, line, width=1.8)
    low, high = axis.bounds
    words = f"starves from about {rounded(starvation.cost_us)} µs ({starvation.low_us:,g} to {starvation.high_us:,g})"
    figure.add_annotation(
        x=line, yref="paper", y=1, yshift=2, yanchor="bottom", text=words, showarrow=False, font={"size": 12.5},
        xanchor=anchor((line - low) / (high - low)),
    )  # fmt: skip
    return 1


def _resident_level(figure: go.Figure, answer: PipelineAnswer, words: str) -> None:
    if (resident := answer.of(RESIDENT)) is not None:
        _level(figure, resident.step_ms, "y", words)


def _level(figure: go.Figure, y: float, axis: str, words: str) -> None:
    """Draw a dotted guide across the plot, labelled at its right end if there are words."""
    add_level(figure, y, width=1.6, yref=axis, layer="above")
    if words:
        figure.add_annotation(
            xref="paper", x=1, yref=axis, y=y, xanchor="right", yanchor="bottom", text=words, showarrow=False,
            font={"size": 10.5},
        )  # fmt: skip


def _percent(fed: Fed) -> tuple[float, float | None, float | None]:
    assert fed.share is not None
    value, low, high = fed.share.shown
    return 100 * value, None if low is None else 100 * low, None if high is None else 100 * high


def _step(fed: Fed) -> tuple[float, float | None, float | None]:
    return fed.step_ms, fed.low_ms, fed.high_ms


def _top(fed: Fed) -> float:
    return max(fed.step_ms, fed.high_ms or 0.0)


def _label(fed: Fed) -> str:
    if fed.low_ms is None:
        return "too few<br>rounds"
    if fed.share is None:
        return f"{number(fed.step_ms)} ms"
    if fed.share.level == "unknown":
        return f"{number(fed.step_ms)} ms<br>not clear"
    share = percent(fed.share.shown[0])
    if fed.share.level == "none":
        share = "none" if fed.share.settled else f"≤ {fed.share.at_most}"
    return f"{number(fed.step_ms)} ms<br>{share}"


def _hover(fed: Fed) -> str:
    lines = [
        f"<b>{literal(fed.title)}</b>",
        literal(fed.pipeline),
        bounds_text(fed.step_ms, fed.low_ms, fed.high_ms, "ms"),
    ]
    if fed.share is not None:
        lines.append(f"input-bound {fed.share.words}")
    return "<br>".join([*lines, f"{fed.rounds} rounds"])


def about_lines(experiment: Experiment) -> tuple[str, str]:
    """Return what was fed, and the pipeline as chosen."""
    base = next((arm for arm in experiment.arms if arm.code == BASE), experiment.arms[0])
    step = f"{experiment.workload.title} on {full_name(base.target)}, batch {base.batch:,}"
    return step, f"As chosen: {base.pipeline.title}"


def _framed(figure: go.Figure, experiment: Experiment, title: str, foot: list[str], rows: int = 0) -> go.Figure:
    return frame(figure, title, about_lines(experiment), foot, experiment, legend_rows=0, label_rows=rows)
