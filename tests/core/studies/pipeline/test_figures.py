"""The charts of a pipeline study show its numbers, its label and its machine, whatever was measured."""

import math
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.studies.experiment.record import Experiment
from core.studies.pipeline.answer import pipeline_answer
from core.studies.pipeline.figures import _CostAxis, calls_figure, cost_figure, feeding_figure
from core.workload.spec import Pipeline
from simulated.pipelines import make_pipeline_experiment
from tests.support.figures import upright, words

FIGURES = (feeding_figure, cost_figure, calls_figure)


def draw(function: Any, experiment: Experiment) -> go.Figure:
    return function(experiment, pipeline_answer(experiment))


@pytest.mark.parametrize("function", FIGURES)
def test_label_machine_and_workload_stand_inside_the_picture(function: Any) -> None:
    text = words(draw(function, make_pipeline_experiment()))
    assert "recorded · 2026-01-05" in text
    assert "Example CPU" in text
    assert "CPU, batch 64" in text
    assert "tf.data, prefetch auto" in text
    measured = make_pipeline_experiment(label="measured")
    assert "measured · 2026-01-05" in words(draw(function, measured))


@pytest.mark.parametrize("function", FIGURES)
@pytest.mark.parametrize(
    "experiment",
    [
        make_pipeline_experiment(processes=1, rounds=1),
        make_pipeline_experiment(failed={"resident": "No room."}),
        make_pipeline_experiment(failed={"host": "x", "prefetch-0": "x", "calls-1": "x", "cost-0": "x"}),
        make_pipeline_experiment(base=Pipeline(kind="tfdata")),
        make_pipeline_experiment(environment=None),
    ],
    ids=["one round", "no resident", "some missing", "idle base", "no environment"],
)
def test_every_state_can_be_drawn(function: Any, experiment: Experiment) -> None:
    figure = draw(function, experiment)
    assert figure.layout.height > 300
    assert figure.to_json()


def test_bars_are_their_familys_step_times_in_order_with_whiskers_and_the_resident_line() -> None:
    experiment = make_pipeline_experiment(seed=5)
    answer = pipeline_answer(experiment)
    figure = feeding_figure(experiment, answer)
    bars = figure.data[0]
    codes = ["resident", "host", "prefetch-0", "prefetch-1", "prefetch-2", "prefetch-4", "base"]
    measured = [answer.of(code) for code in codes]
    assert list(bars.y) == [fed.step_ms for fed in measured if fed is not None]
    assert figure.layout.xaxis.ticktext[-1] == "<b>prefetch<br>auto</b>"
    for fed, above, below in zip(measured, bars.error_y.array, bars.error_y.arrayminus, strict=True):
        assert fed.step_ms + above == pytest.approx(fed.high_ms)
        assert fed.step_ms - below == pytest.approx(fed.low_ms)
    resident = answer.of("resident")
    assert [shape.y0 for shape in figure.layout.shapes] == [resident.step_ms]
    assert figure.layout.yaxis.range[1] > max(bars.y)
    figure = draw(calls_figure, make_pipeline_experiment())
    assert list(figure.layout.xaxis.ticktext) == ["calls<br>1", "calls<br>2", "calls<br>4", "<b>calls<br>auto</b>"]


def test_the_cost_chart_has_time_and_share_at_the_same_places() -> None:
    experiment = make_pipeline_experiment(seed=6)
    answer = pipeline_answer(experiment)
    figure = cost_figure(experiment, answer)
    time, share = figure.data
    assert list(time.x) == list(share.x)
    assert list(figure.layout.xaxis.ticktext) == ["0", "50", "100", "200", "500"]
    family = answer.family(experiment.arms, "cost")
    assert list(share.y) == [100 * fed.share.shown[0] for fed in family if fed.share is not None]
    assert all(0 <= value <= 100 for value in share.y)


def test_the_starving_cost_is_marked_inside_its_bracket_if_there_is_one() -> None:
    experiment = make_pipeline_experiment(seed=4)
    figure = draw(cost_figure, experiment)
    band = next(shape for shape in figure.layout.shapes if shape.type == "rect")
    line = upright(figure)[0]
    assert (band.x0, band.x1) == (math.log2(50), math.log2(100))
    assert band.x0 <= line.x0 <= band.x1
    assert "starves from about" in words(figure)
    figure = draw(cost_figure, make_pipeline_experiment(truth=lambda _: 2.0))
    assert not [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert "starves" not in words(figure)


@given(st.lists(st.floats(0.5, 1e6), min_size=1, max_size=6, unique=True), st.booleans())
def test_positions_rise_with_the_cost_and_stay_inside_the_axis(costs: list[float], zero: bool) -> None:
    costs = sorted([0.0, *costs] if zero else costs)
    axis = _CostAxis.of(costs)
    at = [axis.position(cost) for cost in costs]
    assert at == sorted(at)
    low, high = axis.bounds
    assert all(low < position < high for position in at)
