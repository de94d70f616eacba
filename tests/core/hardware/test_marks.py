"""A modelled card in the charts of a measured run: never without dash, hollow mark and the word."""

import dataclasses
import math
from typing import Any

import plotly.graph_objects as go
import pytest

from core.hardware.compare import Against
from core.hardware.curve import CardCurve, RecordedStep
from core.hardware.start_figure import overlay
from core.rounds.answer.analyse import analyse
from core.rounds.show.figures import speed_up_figure, step_time_figure
from simulated.hosts import CARD, make_curve, with_curve
from simulated.runs import BATCHES, make_run
from tests.support.figures import traces_by_mode, upright, words

RUN = make_run(3)
ANSWER = analyse(RUN)
WITH_CARD = (step_time_figure, speed_up_figure)


def beside(curve: CardCurve | None = None) -> Against:
    """Return the card with a known curve: 1 ms at every batch, so that both CPUs cross it."""
    return with_curve(RUN, ANSWER, curve or make_curve(lambda _: 1.0, BATCHES, -0.2, 0.3))


def traces_of_card(figure: go.Figure) -> list[Any]:
    return [trace for trace in figure.data if trace.name.startswith(CARD.name)]


def curves_of_card(figure: go.Figure) -> list[Any]:
    return [trace for trace in traces_by_mode(figure) if trace.name.startswith(CARD.name)]


@pytest.mark.parametrize("draw", WITH_CARD)
def test_the_card_is_dashed_hollow_named_modelled_and_changes_nothing_measured(draw: Any) -> None:
    card = beside()
    alone, figure = draw(RUN, ANSWER), draw(RUN, ANSWER, overlay(card))
    curves = curves_of_card(figure)
    assert len(curves) == 1
    assert curves[0].line.dash == "dash"
    assert curves[0].marker.symbol.endswith("-open")
    assert curves[0].name.endswith("(modelled)")
    assert all("modelled" in text for text in curves[0].customdata)
    assert all("(modelled)" in trace.name and trace.legendrank > 1000 for trace in traces_of_card(figure))
    assert curves[0].line.color not in {t.line.color for t in figure.data if t not in traces_of_card(figure)}
    text = words(figure)
    assert "a modelled GPU" in text
    assert "No worker ran" in text
    assert card.crossover.sentence in text
    assert "recorded ·" in text  # the run's own label
    measured = [trace for trace in figure.data if trace not in traces_of_card(figure)]
    assert [trace.to_plotly_json() for trace in measured] == [trace.to_plotly_json() for trace in alone.data]
    assert "modelled" not in words(alone)
    assert figure.layout.margin.t > alone.layout.margin.t  # room for its row of the legend


def test_values_are_the_curves_own_in_sight_and_not_bridged_where_withheld() -> None:
    figure = step_time_figure(RUN, ANSWER, overlay(beside(make_curve(lambda b: 1000.0 + b, BATCHES, -0.1, 0.1))))
    (curve,) = curves_of_card(figure)
    assert dict(zip(curve.x, curve.y, strict=True)) == {b: 1000.0 + b for b in BATCHES}
    assert figure.layout.yaxis.range[1] > math.log10(2024 * math.exp(0.1))
    figure = step_time_figure(RUN, ANSWER, overlay(beside(make_curve(lambda _: 1.0, BATCHES, withheld=(8,)))))
    (curve,) = curves_of_card(figure)
    assert curve.x[0] == 16


def test_the_modelled_crossover_is_marked_beside_the_measured_one_where_it_is_resolved() -> None:
    card = beside()
    figure = speed_up_figure(RUN, ANSWER, overlay(card))
    assert card.crossover.batch is not None
    lines = [shape.x0 for shape in upright(figure)]
    assert card.crossover.batch in lines
    assert ANSWER.verdict.crossovers[0].batch in lines
    assert f"modelled crossover {math.ceil(card.crossover.batch)} (" in words(figure)
    assert "than 1 thread" in words(figure)
    card = beside(make_curve(lambda _: 1.0, BATCHES, -2.0, 0.1))
    assert card.crossover.low is None
    figure = speed_up_figure(RUN, ANSWER, overlay(card))
    assert "(1 or less" in words(figure)
    figure = speed_up_figure(RUN, ANSWER, overlay(beside(make_curve(lambda _: 1e-3, BATCHES, -0.1, 0.1))))
    assert "modelled crossover" not in words(figure)
    assert "(2 threads) throughout" in words(figure)


def test_recorded_points_are_solid_filled_under_their_own_label_and_nothing_bridges_them() -> None:
    curve = make_curve(lambda _: 1.0, BATCHES, -0.1, 0.1)
    recorded = {b: RecordedStep(CARD.name, b, 0.9, 0.8, 1.0, "launch", "recorded: A run", "recorded") for b in (16, 32)}
    points = tuple(recorded.get(point.batch, point) for point in curve.points)
    figure = step_time_figure(RUN, ANSWER, overlay(beside(dataclasses.replace(curve, points=points))))
    pieces = curves_of_card(figure)
    assert [tuple(p.x) for p in pieces] == [(1, 2, 4, 8), (16, 32), (64, 128, 256, 512, 1024)]
    assert [p.line.dash for p in pieces] == ["dash", "solid", "dash"]
    assert [p.marker.symbol for p in pieces] == ["square-open", "square", "square-open"]
    assert [p.name for p in pieces if p.showlegend] == [f"{CARD.name} (modelled)", f"{CARD.name}, recorded"]
    assert "Card 1, recorded" in words(figure)


def test_an_interval_that_rules_nothing_out_leaves_the_other_curves_readable() -> None:
    figure = step_time_figure(RUN, ANSWER, overlay(beside(make_curve(lambda _: 1.0, BATCHES, -700.0, 700.0))))
    low, high = figure.layout.yaxis.range
    assert high - low < 4  # decades
    band = next(trace for trace in traces_of_card(figure) if trace.fill == "toself")
    assert all(y is None or math.isfinite(y) for y in band.y)
