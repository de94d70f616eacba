"""Chart of measured over predicted with the predicted interval: a bar across 1 covers the measured time."""

from __future__ import annotations

import plotly.graph_objects as go

from core.figures.marks import add_level, add_zone, bounds_text, whiskers
from core.figures.style import (
    GUIDE,
    TARGET_LOOKS,
    frame,
    literal,
    log_axis,
    log_range,
    name_legend,
    name_rows,
    ratio_axis,
    within_reach,
)
from core.studies.validation.answer import Checked, Validation
from core.studies.validation.export import factor_sentence, host_sentence, inside_sentence
from core.studies.validation.record import ValidationStudy

REACH = 8.0
"""Factor beyond the points up to which an axis shows their intervals."""
HOW = "Bars: measured over both ends of the predicted 95 % interval. One that crosses 1 holds the truth."


def validation_figure(study: ValidationStudy, answer: Validation) -> go.Figure:
    """Draw measured over predicted step time, by predicted step time (ms), with a colour and marker per network."""
    figure = go.Figure()
    steps = [step for step in answer.steps if step.factor is not None]
    names = list(dict.fromkeys(step.workload.network.name for step in steps))
    for name, look in zip(names, TARGET_LOOKS * (1 + len(names) // len(TARGET_LOOKS)), strict=False):
        mine = [step for step in steps if step.workload.network.name == name]
        points = [(step.factor or 1.0, *(step.bounds or (None, None))) for step in mine]
        figure.add_scatter(
            x=[step.predicted.step_ms for step in mine], y=[value for value, _, _ in points], mode="markers",
            error_y=whiskers(points, look.colour, 1.2, 3), name=literal(name), marker=look.marker("measured"),
            customdata=[_hover(step) for step in mine],
            hovertemplate=f"<b>{literal(name)}</b><br>%{{customdata}}<extra></extra>",
        )  # fmt: skip
    factors = [step.factor for step in steps if step.factor is not None]
    ends = [end for step in steps for end in step.bounds or ()]
    predicted_ms = log_range(step.predicted.step_ms or 0.0 for step in steps)
    figure.update_xaxes(log_axis("Predicted step time (ms)", predicted_ms))
    shown = log_range([1.0, *within_reach(factors, ends, REACH)])
    figure.update_yaxes(ratio_axis("Measured over predicted", shown))
    add_level(figure, 1.0, dash="solid")
    if (common := answer.first.factor) is not None:
        add_zone(figure, max(common.low, shown[0]), min(common.high, shown[1]), GUIDE, 0.18, upright=False)
    foot = [HOW, "Grey: the common factor's 95 % interval.", host_sentence(study.predictions)]
    under = [study.device_words, inside_sentence(answer.first), factor_sentence(answer.first)]
    name_legend(figure, names)
    return frame(
        figure, "Measured over predicted step time", under, foot, study, legend_rows=name_rows(names), plot_px=360
    )


def _hover(step: Checked) -> str:
    predicted, measured = step.predicted, step.measured
    doing = "training" if step.workload.training else "inference"
    if measured is None or predicted.step_ms is None:
        return ""
    return (
        f"{doing}, batch {step.batch:,}<br>"
        f"measured: {bounds_text(measured.step_ms, measured.low_ms, measured.high_ms, 'ms')}<br>"
        f"predicted: {bounds_text(predicted.step_ms, predicted.low_ms, predicted.high_ms, 'ms')}<br>"
        f"most of it: {predicted.limited_by}"
    )
