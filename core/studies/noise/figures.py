"""Charts of a noise study: the gradient noise scale along the training, and the held-out loss."""

from __future__ import annotations

import plotly.graph_objects as go

from core.base.numbers import number
from core.figures.marks import Span, add_level, add_spans, add_zone, bounds_text, whiskers
from core.figures.style import GUIDE, RUN_LOOKS, frame, linear_axis, log_axis, log_range
from core.studies.noise.answer import TrainingNoise
from core.studies.noise.record import NoiseStudy


def noise_scale_figure(study: NoiseStudy, noise: TrainingNoise) -> go.Figure:
    """Plot the gradient noise scale (samples) at each checkpoint of the training with its interval, and the average."""
    look, figure = RUN_LOOKS[0], go.Figure()
    scales = [scale for scale in noise.scales if scale.value]
    middles = [scale.value or 0.0 for scale in scales]
    figure.add_scatter(
        x=[_place(scale.step) for scale in scales], y=middles, mode="lines+markers", line=look.line(study.label),
        marker=look.marker(study.label), name=f"at a step ({study.label}, {sum(s.draws for s in scales)} draws)",
        error_y=whiskers([(m, s.low, s.high) for s, m in zip(scales, middles, strict=True)], look.colour, 1.8, 5),
        customdata=[
            f"step {s.step:,.0f}<br>{bounds_text(m, s.low, s.high, 'samples')}<br>{s.draws} draws"
            for s, m in zip(scales, middles, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip
    ends = [end for scale in scales for end in (scale.low, scale.high) if end]
    x = log_range([1.0, *(_place(scale.step) for scale in noise.scales), _place(study.steps)], 0.04)
    y = log_range([*middles, *ends, noise.low, noise.high or noise.low])
    if noise.value is not None:
        _add_average(figure, noise)
    figure.update_xaxes(log_axis("Training steps (the start is drawn at 1)", x))
    figure.update_yaxes(log_axis("Gradient noise scale (samples)", y))
    under = [study.plan.title, "Well below it a doubled batch halves the steps; well above it, it saves none."]
    foot = ["Whiskers and band: 95 % intervals. The average counts steps by the progress that they make."]
    title = f"Gradient noise scale ({study.label})"
    return frame(figure, title, under, foot, study, legend_rows=1 + (noise.value is not None))


def _add_average(figure: go.Figure, noise: TrainingNoise) -> None:
    """Draw the average up to the target loss as a level with its band."""
    assert noise.value is not None
    if noise.high is not None and noise.low > 0:
        add_zone(figure, noise.low, noise.high, GUIDE, 0.2, upright=False)
    add_level(figure, noise.value)
    figure.add_scatter(
        x=[None], y=[None], mode="lines", line={"color": GUIDE, "width": 2, "dash": "dot"},
        name=f"average up to the loss: {number(noise.value)} samples", hoverinfo="skip",
    )  # fmt: skip


def loss_figure(study: NoiseStudy) -> go.Figure:
    """Plot the held-out loss along the training at the reference batch, with the loss to reach."""
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
    figure.update_xaxes(log_axis("Training steps (the start is drawn at 1)", x))
    figure.update_yaxes(linear_axis("Held-out loss", (0.0, 1.06 * max(*losses, study.target_loss))))
    level = f"Dotted: the loss to reach, {number(study.target_loss)}"
    under = [study.plan.title, f"{level}{'.' if spans else '; it was not reached.'}"]
    return frame(figure, f"Loss ({study.label})", under, [], study, legend_rows=1, label_rows=rows)


def _reached(study: NoiseStudy, steps: float) -> Span:
    words = f"loss {number(study.target_loss)} after {steps:,.0f} steps"
    return Span(_place(steps), None, None, words, RUN_LOOKS[1].colour, "dash")


def _place(step: float) -> float:
    """Return the position of a step on a logarithmic axis."""
    return max(1.0, step)
