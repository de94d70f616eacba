"""The charts of a scaling study show its numbers, its crossovers, its label and its machine."""

from typing import Any

import plotly.graph_objects as go
import pytest

from core.studies.scaling.answer import scaling_answer
from core.studies.scaling.figures import efficiency_figure, speed_figure
from core.studies.scaling.record import ScalingStudy
from simulated.scalings import FOUR, LOGICAL, ONE, TWO, make_scaling_study
from tests.support.figures import words

FIGURES = (speed_figure, efficiency_figure)
MANY = (ONE, TWO, FOUR)


def draw(function: Any, study: ScalingStudy) -> go.Figure:
    return function(scaling_answer(study))


@pytest.mark.parametrize("function", FIGURES)
def test_label_machine_and_workload_stand_inside_the_picture(function: Any) -> None:
    text = words(draw(function, make_scaling_study()))
    assert "recorded · 2026-01-05" in text
    assert "784-512-512-10 (training, adam)," in text
    assert "of all devices" in text
    assert "shows no speed" not in text
    assert "no speed of" in words(draw(function, make_scaling_study(targets=LOGICAL)))


@pytest.mark.parametrize("function", FIGURES)
@pytest.mark.parametrize(
    "study", [make_scaling_study(processes=1, rounds=2), make_scaling_study(targets=MANY, environment=None)]
)
def test_every_state_can_be_drawn(function: Any, study: ScalingStudy) -> None:
    figure = draw(function, study)
    assert figure.layout.height > 300
    assert figure.to_json()


def test_throughput_has_a_curve_for_each_number_of_devices_and_its_crossover() -> None:
    study = make_scaling_study(targets=MANY)
    answer = scaling_answer(study)
    figure = speed_figure(answer)
    curves = [trace for trace in figure.data if trace.mode == "lines+markers"]
    assert [curve.name for curve in curves] == ["GPU 0", "GPUs 0 and 1", "GPUs 0 to 3"]
    cell = answer.answer.cell(1, 4096)
    assert curves[1].y[-1] == pytest.approx(cell.samples_per_s)
    for one in answer.several:
        (change,) = one.verdict.crossovers
        assert f"{one.name}: crossover {change.batch:,.0f} ({change.low:,.0f} to {change.high:,.0f})" in words(figure)


def test_efficiency_has_both_kinds_in_percent() -> None:
    answer = scaling_answer(make_scaling_study())
    curves = [trace for trace in efficiency_figure(answer).data if trace.mode == "lines+markers"]
    assert [curve.name for curve in curves] == ["GPUs 0 and 1, same batch", "GPUs 0 and 1, same batch per replica"]
    strong, weak = curves
    (found,) = answer.several
    assert list(strong.y) == pytest.approx([100 * one.value for one in found.strong])
    assert list(weak.x) == [one.batch for one in found.weak]
