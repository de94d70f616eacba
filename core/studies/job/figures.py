"""Charts of a job: where its time went, and its time by length on every target."""

from __future__ import annotations

import plotly.graph_objects as go

from core.base.numbers import duration, number, percent
from core.figures.marks import Point, add_band, add_upright, add_zone
from core.figures.style import (
    GUIDE,
    TARGET_LOOKS,
    Look,
    frame,
    linear_axis,
    literal,
    log_axis,
    log_range,
    name_legend,
    name_rows,
)
from core.studies.job.answer import Bounds, JobAnswer, OnTarget
from core.studies.job.breakdown import PARTS
from core.studies.job.export import headline, seen_sentence, time_sentence
from core.studies.job.record import JobStudy

ROW_PX, NAME_PX = 26, 168
LEAST = 0.002
"""Share of the wall time from which a part has a bar of its own."""
WORK = ("steps",)
LENGTHS = 40


def time_figure(study: JobStudy, answer: JobAnswer) -> go.Figure:
    """Draw the seconds of every part of the script, largest first; the steps in the first colour, the rest hollow."""
    wall_s = max(sum(answer.seconds.values()), 1e-9)
    shown = [(part, amount) for part, amount in answer.seconds.items() if amount >= LEAST * wall_s or part == "loop"]
    shown.sort(key=lambda item: -item[1])
    look, figure = TARGET_LOOKS[0], go.Figure()
    largest = max(amount for _, amount in shown)
    figure.add_bar(
        x=[amount for _, amount in shown], y=[PARTS[part] for part, _ in shown], orientation="h", name=study.label,
        marker={
            "color": [look.colour if part in WORK else look.band() for part, _ in shown],
            "line": {"color": look.colour, "width": 1.6},
        },
        text=[f"{duration(amount)}, {percent(amount / wall_s, 1)}" for _, amount in shown], textposition="outside",
        cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    figure.update_xaxes(linear_axis("Seconds", (0, 1.9 * largest)))
    figure.update_yaxes(autorange="reversed", showgrid=False, ticklabelstandoff=6)
    foot = ["All parts together are the wall time. Filled: the steps themselves."]
    under = [time_sentence(study.capture, answer), seen_sentence(study.capture)]
    framed = frame(
        figure, "Where the time went", under, foot, study, legend_rows=0, plot_px=ROW_PX * len(shown) + 10
    )  # fmt: skip
    framed.update_layout(margin={**framed.layout.margin.to_plotly_json(), "l": NAME_PX})
    for note in framed.layout.annotations:
        note.xshift -= NAME_PX - 68
    return framed


def length_figure(study: JobStudy, answer: JobAnswer) -> go.Figure:
    """Draw the job's time by its length, one line per target with its 95 % band; start and compiling included."""
    figure, length = go.Figure(), answer.length
    per_epoch = length.steps if length.unit == "1,000 steps" else 1.0
    lengths = _lengths(answer)
    once_s = answer.targets[0].total_s.value - length.epochs * answer.targets[0].epoch_s.value
    seconds: list[float] = []
    for target, look in zip(answer.targets, TARGET_LOOKS, strict=False):
        points = [_point(target, once_s, epochs, per_epoch) for epochs in lengths]
        seconds += [point.value for point in points]
        _add_line(figure, points, literal(target.name), look)
    x = log_range([epochs * per_epoch for epochs in lengths], 0.0)
    unit = "epochs" if length.unit == "epoch" else "steps"
    figure.update_xaxes(log_axis(f"Length of the job ({unit})", x))
    figure.update_yaxes(log_axis("Time (s)", log_range(seconds)))
    add_upright(figure, length.epochs * per_epoch)
    foot = ["Dashed upright: this job's length. Bands: 95 % interval against the script's own target."]
    if answer.reason in ("pays", "never") and (pays := answer.pays_from) is not None and pays.high > 0:
        add_zone(figure, max(x[0], pays.low * per_epoch), min(x[1], pays.high * per_epoch), GUIDE, 0.18)
        foot.append("Grey: length from which the other target is faster, 95 %.")
    names = [target.name for target in answer.targets]
    name_legend(figure, names)
    return frame(
        figure, "Time by length of the job", [headline(study, answer)], foot, study, legend_rows=name_rows(names)
    )  # fmt: skip


def _lengths(answer: JobAnswer) -> list[float]:
    """Return lengths in epochs from a tenth of what matters to ten times that, evenly spaced on a log axis."""
    matters = [answer.length.epochs]
    if answer.pays_from is not None and answer.pays_from.value > 0:
        matters.append(answer.pays_from.value)
    low, high = min(matters) / 10, 10 * max(matters)
    return [low * (high / low) ** (place / (LENGTHS - 1)) for place in range(LENGTHS)]


def _point(target: OnTarget, once_s: float, epochs: float, per_epoch: float) -> Point:
    def total(extra: float, epoch: float) -> float:
        return max(1e-6, once_s + extra + epochs * epoch)

    extra, epoch = target.extra_s, target.epoch_s
    time = Bounds(total(extra.value, epoch.value), total(extra.low, epoch.low), total(extra.high, epoch.high))
    hover = f"{number(epochs * per_epoch)}: {duration(time.value)} ({duration(time.low)} to {duration(time.high)})"
    return Point(epochs * per_epoch, time.value, time.low, time.high, hover)


def _add_line(figure: go.Figure, points: list[Point], name: str, look: Look) -> None:
    add_band(figure, points, name, look.band(), name)
    figure.add_scatter(
        x=[point.batch for point in points], y=[point.value for point in points], mode="lines", name=name,
        line=look.line("measured"), legendgroup=name, customdata=[point.hover for point in points],
        hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
    )  # fmt: skip
