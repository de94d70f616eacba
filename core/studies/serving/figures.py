"""Charts of a predicted service: latency over request rate on every target, and the cost of a million requests."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from core.base.numbers import counted, number
from core.base.text import sentence_case
from core.figures.marks import Span, add_level, add_spans, add_upright, whiskers
from core.figures.style import TARGET_LOOKS, Look, frame, literal, log_axis, log_range, name_legend, name_rows, short
from core.hardware.start_figure import CARD_LOOK
from core.rounds.run import Run
from core.rounds.show.figures import workload_line
from core.studies.serving.answer import ServedAnswer
from core.studies.serving.export import STATES, notes, rate_words
from core.studies.serving.prediction import ServingAnswer, TargetService
from core.studies.serving.record import ServingStudy
from core.studies.serving.service import Service

LEAST_SHARE = 20.0
"""Rates are drawn down to this part of the smallest capacity."""
COST_POINTS = 400


def look_of(target: TargetService) -> Look:
    """Return the style of a target, or of a modelled card."""
    return CARD_LOOK if target.label == "modelled" else TARGET_LOOKS[target.index]


def latency_figure(run: Run, answer: ServingAnswer) -> go.Figure:
    """Draw the promised percentile of latency over the request rate, with the limit and every target's capacity."""
    figure, service = go.Figure(), answer.service
    names, spans, rates, values = list[str](), list[Span](), list[float](), [service.limit_ms]
    for target in answer.targets:
        look, name = look_of(target), literal(short(sentence_case(target.title), 48))
        shown = name if target.label == "modelled" else f"{name} (predicted)"
        kept = target.curve.ms <= 20 * max(service.limit_ms, target.alone_ms)
        points = list(zip(target.curve.rates_per_s[kept].tolist(), target.curve.ms[kept].tolist(), strict=True))
        capacity = target.capacity_per_s.value if target.tells else 0.0
        if capacity:
            points = sorted([*points, (capacity, service.limit_ms)])
        x, y = [rate for rate, _ in points], [ms for _, ms in points]
        rates, values = [*rates, *x], [*values, *y]
        hover = [f"{number(rate)} requests/s: {number(ms)} ms" for rate, ms in points]
        figure.add_scatter(
            x=x, y=y, mode="lines+markers", name=shown, line=look.line("modelled"),
            marker=look.marker("modelled"), customdata=hover,
            hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
        )  # fmt: skip
        names.append(shown)
        if capacity:
            low, high = target.capacity_per_s.low, target.capacity_per_s.high
            words = f"{short(target.title, 24)}: {rate_words(target.capacity_per_s)}"
            spans.append(Span(capacity, low, high, words, look.colour, "dot"))
    bounds = log_range(rates or [1.0], 0.03)
    rows = add_spans(figure, spans, bounds)
    add_level(figure, service.limit_ms)
    if service.rate_per_s is not None and bounds[0] < service.rate_per_s < bounds[1]:
        add_upright(figure, service.rate_per_s)
    figure.update_xaxes(log_axis("Requests per second", bounds))
    figure.update_yaxes(log_axis(f"Latency, p{service.percentile} (ms)", log_range(values)))
    name_legend(figure, names)
    yours = "" if service.rate_per_s is None else " Dashed: your rate."
    foot = [
        *notes(answer),
        f"Dotted across: the limit. Upright: capacity with its 95 % interval; curves have none.{yours}",
    ]
    title = f"Latency by request rate (p{service.percentile})"
    return frame(
        figure, title, [workload_line(run), service_words(answer.service)], foot, run,
        legend_rows=name_rows(names), label_rows=rows,
    )  # fmt: skip


def served_figure(study: ServingStudy, answer: ServedAnswer) -> go.Figure:
    """Draw the measured percentile of latency over the request rate, with the limit and the predicted capacities."""
    figure, service = go.Figure(), answer.service
    spans, names, rates, values = list[Span](), list[str](), list[float](), [service.limit_ms]
    for index, target in enumerate(answer.targets):
        look, name = TARGET_LOOKS[index], literal(short(sentence_case(target.title), 48))
        points = [rate for rate in target.rates if rate.latency_ms is not None]
        known = [(q.value, q.low, q.high) for rate in points if (q := rate.latency_ms) is not None]
        x, y = [rate.rate_per_s for rate in points], [value for value, _, _ in known]
        rates, values = [*rates, *x, target.predicted.value], [*values, *y]
        hover = [f"{rate.requests:,} requests at {number(rate.rate_per_s)}/s: {number(ms)} ms, {STATES[rate.state]}"
                 for rate, ms in zip(points, y, strict=True)]  # fmt: skip
        figure.add_scatter(
            x=x, y=y, mode="lines+markers", name=name, line=look.line(study.label), marker=look.marker(study.label),
            error_y=whiskers(known, look.colour, 1.2, 4), customdata=hover,
            hovertemplate=f"<b>{name}</b><br>%{{customdata}}<extra></extra>",
        )  # fmt: skip
        names.append(name)
        words = f"{short(target.title, 24)}: predicted {number(target.predicted.value)}"
        spans.append(
            Span(target.predicted.value, target.predicted.low, target.predicted.high, words, look.colour, "dot")
        )
    bounds = log_range(rates, 0.03)
    rows = add_spans(figure, spans, bounds)
    add_level(figure, service.limit_ms)
    figure.update_xaxes(log_axis("Requests per second", bounds))
    figure.update_yaxes(log_axis(f"Latency, p{service.percentile} (ms)", log_range(values)))
    name_legend(figure, names)
    foot = [
        f"{sentence_case(study.label)}: {counted(answer.visits, 'visit')} of requests to one start of each batcher.",
        "Whiskers: 95 % interval of the mean of parts. Dotted across: the limit. Upright: predicted capacity.",
    ]
    return frame(
        figure, f"Measured latency by request rate (p{service.percentile})",
        [study.plan.workload.title, service_words(service)], foot, study, legend_rows=name_rows(names), label_rows=rows,
    )  # fmt: skip


def service_words(service: Service) -> str:
    """Return the batcher's settings in one line."""
    instances = f", {service.instances} instances" if service.instances > 1 else ""
    padded = ", padded" if service.pads else ""
    bursts = "" if service.burstiness == 1 else f", burstiness {service.burstiness:g}"
    return f"Largest batch {service.max_batch:,}, delay {service.max_delay_ms:g} ms{instances}{padded}{bursts}"


def cost_figure(run: Run, answer: ServingAnswer) -> go.Figure:
    """Draw the cost of a million requests over the request rate, with whole servers of every priced target."""
    figure, names, spans = go.Figure(), list[str](), list[Span]()
    priced = priced_targets(answer)
    most = 3 * max(target.capacity_per_s.value for target in priced)
    least = min(target.capacity_per_s.value for target in priced) / LEAST_SHARE
    rates, values = np.geomspace(least, most, COST_POINTS), list[float]()
    for target in priced:
        look, name = look_of(target), literal(short(sentence_case(target.title), 48))
        shown = name if target.label == "modelled" else f"{name} (predicted)"
        costs = [target.cost_per_million(float(rate)) for rate in rates]
        values += costs
        figure.add_scatter(
            x=rates.tolist(), y=costs, mode="lines", name=shown, line=look.line("modelled"),
            hovertemplate=f"<b>{name}</b><br>%{{x:.3s}} requests/s: %{{y:.3g}}<extra></extra>",
        )  # fmt: skip
        names.append(shown)
    bounds = log_range(rates, 0.0)
    for pays in answer.pays:
        if pays.rate_per_s and pays.low and pays.high and bounds[0] < pays.rate_per_s < bounds[1]:
            other = next(target for target in priced if target.index == pays.other)
            since = "costs less from" if pays.for_good else "first costs less at"
            words = f"{short(other.title, 24)}: {since} {number(pays.rate_per_s)}"
            spans.append(Span(pays.rate_per_s, pays.low, pays.high, words, look_of(other).colour, "solid"))
    rows = add_spans(figure, spans, bounds)
    currency = priced[0].price.currency if priced[0].price is not None else ""
    figure.update_xaxes(log_axis("Requests per second", bounds))
    figure.update_yaxes(log_axis(f"Cost of a million requests ({currency})", log_range(values)))
    name_legend(figure, names)
    shown = "; ".join(f"{t.title} at {t.price.amount}" for t in priced if t.price is not None)
    return frame(
        figure, "Cost of a million requests by rate", [workload_line(run), f"Your prices: {shown}."],
        [f"As many whole servers as keep {answer.service.promise}.", *notes(answer)], run,
        legend_rows=name_rows(names), label_rows=rows,
    )  # fmt: skip


def priced_targets(answer: ServingAnswer) -> list[TargetService]:
    """Return the targets whose cost can be drawn."""
    return [t for t in answer.targets if t.price is not None and t.capacity_per_s.value and t.tells]
