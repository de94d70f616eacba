"""The charts of a noise study: the gradient noise scale along the training, and the held-out loss."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from core.analysis.noise_scale import TrainingNoise
from core.figures.marks import Span, add_level, add_spans, bounds_text
from core.figures.style import (
    GUIDE,
    RUN_LOOKS,
    axis_title,
    decade_ticks,
    environment_line,
    frame,
    log_axis,
    log_range,
    number,
)
from core.noise_study import NoiseStudy


def noise_scale_figure(study: NoiseStudy, noise: TrainingNoise) -> go.Figure:
    """The gradient noise scale (samples) at each checkpoint of the training with its interval, and their average."""
    look, figure = RUN_LOOKS[0], go.Figure()
    found = [scale for scale in noise.scales if scale.value]
    middles = [scale.value or 0.0 for scale in found]
    figure.add_scatter(
        x=[_place(scale.step) for scale in found], y=middles, mode="lines+markers", line=look.line(study.label),
        marker=look.marker(study.label), name=f"at a step ({study.label}, {sum(s.draws for s in found)} draws)",
        error_y={
            "type": "data", "symmetric": False, "color": look.colour, "thickness": 1.8, "width": 5,
            "array": [(s.high or m) - m for s, m in zip(found, middles, strict=True)],
            "arrayminus": [m - s.low for s, m in zip(found, middles, strict=True)],
        },
        customdata=[
            f"step {s.step:,.0f}<br>{bounds_text(m, s.low, s.high, 'samples')}<br>{s.draws} draws"
            for s, m in zip(found, middles, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip
    ends = [end for scale in found for end in (scale.low, scale.high) if end]
    x = log_range([1.0, *(_place(scale.step) for scale in noise.scales), _place(study.steps)], 0.04)
    y = log_range([*middles, *ends, noise.low, noise.high or noise.low])
    if noise.value is not None:
        _add_average(figure, noise)
    figure.update_xaxes(log_axis("Training steps (the start is drawn at 1)", x, decade_ticks(*x)))
    figure.update_yaxes(log_axis("Gradient noise scale (samples)", y, decade_ticks(*y)))
    under = [study.plan.title, "Well below it a doubled batch halves the steps; well above it, it saves none."]
    foot = ["Whiskers and band: 95 % intervals. The average counts steps by the progress that they make.",
            environment_line(study)]  # fmt: skip
    return frame(
        figure, f"Gradient noise scale ({study.label})", under, foot, legend_rows=1 + (noise.value is not None)
    )


def _add_average(figure: go.Figure, noise: TrainingNoise) -> None:
    """The average up to the target loss as a level with its band."""
    assert noise.value is not None
    if noise.high is not None and noise.low > 0:
        figure.add_shape(
            type="rect", xref="paper", x0=0, x1=1, y0=noise.low, y1=noise.high, fillcolor=GUIDE, opacity=0.2,
            line={"width": 0}, layer="below",
        )  # fmt: skip
    add_level(figure, noise.value)
    figure.add_scatter(
        x=[None], y=[None], mode="lines", line={"color": GUIDE, "width": 2, "dash": "dot"},
        name=f"average up to the loss: {number(noise.value)} samples", hoverinfo="skip",
    )  # fmt: skip


def loss_figure(study: NoiseStudy) -> go.Figure:
    """The held-out loss along the training at the reference batch, with the loss to reach."""
    look, figure = RUN_LOOKS[1], go.Figure()
    losses = [point.loss for point in study.losses]
    figure.add_scatter(
        x=[_place(point.step) for point in study.losses], y=losses, mode="lines+markers",
        line=look.line(study.label), marker={**look.marker(study.label), "size": 6},
        name=f"held-out loss at batch {study.plan.batch:,} ({study.label})",
        customdata=[point.step for point in study.losses],
        hovertemplate="step %{customdata:,}<br>loss %{y:.4g}<extra></extra>",
    )  # fmt: skip
    add_level(figure, study.target_loss)
    x = log_range([1.0, *(_place(point.step) for point in study.losses)], 0.04)
    spans = [] if study.steps_to_loss is None else [_reached(study, study.steps_to_loss)]
    rows = add_spans(figure, spans, x)
    figure.update_xaxes(log_axis("Training steps (the start is drawn at 1)", x, decade_ticks(*x)))
    figure.update_yaxes(
        title=axis_title("Held-out loss"), range=_from_zero([*losses, study.target_loss]),
        gridcolor="rgba(136,136,136,0.22)", zeroline=False,
    )  # fmt: skip
    level = f"Dotted: the loss to reach, {study.target_loss:.3g}"
    under = [study.plan.title, f"{level}{'.' if spans else '; it was not reached.'}"]
    return frame(figure, f"Loss ({study.label})", under, [environment_line(study)], legend_rows=1, label_rows=rows)


def _reached(study: NoiseStudy, steps: float) -> Span:
    words = f"loss {study.target_loss:.3g} after {steps:,.0f} steps"
    return Span(_place(steps), None, None, words, RUN_LOOKS[1].colour, "dash")


def _from_zero(values: Sequence[float]) -> list[float]:
    return [0.0, 1.06 * max(values)]


def _place(step: float) -> float:
    """Where a step stands on a logarithmic axis."""
    return max(1.0, step)
