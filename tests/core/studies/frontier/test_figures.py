"""The frontier map shows the line at its true place, and never an interpolated value as measured."""

import math
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.studies.frontier.answer import FrontierAnswer, frontier_answer, slice_of
from core.studies.frontier.figures import (
    TICK_SHARE,
    Who,
    axis_words,
    colour_span,
    fixed_words,
    frontier_figure,
    ratio_ticks_of,
    size_axis,
    undecided,
    who_is_ahead,
)
from core.studies.frontier.record import Axis, Setting
from core.workload.spec import Target
from simulated.frontier_studies import log2_speed_up, make_frontier_plan, make_frontier_study
from tests.support.figures import words

NAMES = ("cpu,threads=1", "cpu,threads=2")
SHORT = ("1 thread", "2 threads")
LAST = 74  # the largest setting of the plan


@cache
def answer_of(label: str = "measured", failed: bool = False, point: bool = True) -> FrontierAnswer:
    plan = make_frontier_plan() if point else make_frontier_plan(point=None)
    return frontier_answer(make_frontier_study(plan, label=label, failed={LAST: "No room for it."} if failed else None))


def draw(answer: FrontierAnswer, fixed: Axis = "depth", value: int = 2, place: Setting | None = None) -> go.Figure:
    return frontier_figure(answer, slice_of(answer, fixed, value), place)


def trace(figure: go.Figure, name: str) -> Any:
    return next((t for t in figure.data if t.name == name and t.type == "scatter"), None)


def test_the_break_even_line_lies_where_the_truth_ties() -> None:
    line = trace(draw(answer_of()), "equally fast")
    at = [log2_speed_up(Setting(2, 2**y, 2**x)) for x, y in zip(line.x, line.y, strict=True) if x is not None]
    assert len(at) > 10
    assert max(abs(f) for f in at) < 0.1  # log2: 7 %


def test_the_bounds_enclose_the_line_and_the_grey_lies_between_them() -> None:
    answer = answer_of()
    found = slice_of(answer, "depth", 2)
    grey = undecided(found, answer.band)
    assert grey.any
    assert not grey.holds.all()
    mean = np.array([[log2_speed_up(Setting(2, 2**y, 2**x)) for x in grey.x] for y in grey.y])
    assert grey.holds[np.abs(mean) < 0.01].all()
    assert not grey.holds[np.abs(mean) > 1.5].any()
    assert trace(draw(answer), "95 % bounds").line.dash == "dash"


@pytest.mark.parametrize("label", ["measured", "recorded"])
def test_measured_interpolated_and_modelled_are_told_apart_inside_the_picture(label: str) -> None:
    answer = answer_of(label)
    figure = draw(answer)
    dots, rings = trace(figure, label), trace(figure, "interpolated")
    here = [point for point in answer.points if point.setting.depth == 2]
    assert len(dots.x) == len(here)
    assert sorted(dots.x) == pytest.approx(sorted(math.log2(point.setting.batch) for point in here))
    assert "open" not in dots.marker.symbol
    assert "open" in rings.marker.symbol
    assert len(rings.x) + sum(point.setting in answer.study.plan.grid for point in here) == 25
    assert all(f"{label}:" in text for text in dots.customdata)
    assert all("interpolated, not measured" in text for text in rings.customdata)
    text = words(figure)
    assert f"Dots: {label}" in text
    assert "interpolated" in text
    assert f"{label} · 2026-01-05" in text
    surface = figure.data[0]
    assert "interpolated" in surface.hovertemplate
    assert "measured" not in surface.hovertemplate
    figure = draw(answer_of("modelled"))
    assert trace(figure, "measured") is None
    assert trace(figure, "modelled").marker.symbol == "circle-open"


def test_dots_have_the_colour_of_their_own_number_on_the_scale_of_the_map() -> None:
    figure = draw(answer_of())
    dots, surface = trace(figure, "measured"), figure.data[0]
    values = [p.log2_speed_up for p in answer_of().points if p.setting.depth == 2]
    assert list(dots.marker.color) == values
    assert (dots.marker.cmin, dots.marker.cmax) == (surface.zmin, surface.zmax)
    assert surface.zmid == 0
    assert surface.zmin == -surface.zmax
    assert surface.colorscale == dots.marker.colorscale


def test_failed_settings_are_crosses_with_their_reason_and_no_dots() -> None:
    figure = draw(answer_of(failed=True), value=4)
    crosses = trace(figure, "not measured")
    assert (list(crosses.x), list(crosses.y)) == ([8.0], [9.0])
    assert "No room" in crosses.customdata[0]
    assert "out of memory" in crosses.customdata[0]
    assert trace(draw(answer_of(failed=True), value=2), "not measured") is None


def test_the_own_point_is_a_filled_star_in_its_slice_and_guides_cross_where_it_is_read_out() -> None:
    here, elsewhere = draw(answer_of()), draw(answer_of(), value=4)
    star = trace(here, "your point")
    assert (list(star.x), list(star.y), star.marker.symbol) == ([5.0], [7.0], "star")
    assert "★ 2 threads " in words(here)
    assert "(measured)" in words(here)
    assert trace(elsewhere, "your point").marker.symbol == "star-open"
    assert "★" not in words(elsewhere)
    assert "at depth 2" in trace(elsewhere, "your point").customdata[0]
    assert trace(draw(answer_of(point=False)), "your point") is None
    figure = draw(answer_of(), place=Setting(2, 64, 16))
    assert [(s.x0, s.x1) for s in figure.layout.shapes if s.x0 == s.x1] == [(4.0, 4.0)]
    assert [(s.y0, s.y1) for s in figure.layout.shapes if s.y0 == s.y1] == [(6.0, 6.0)]
    assert not draw(answer_of()).layout.shapes


def test_workload_machine_and_both_sides_stand_inside_the_picture() -> None:
    text = words(draw(answer_of()))
    assert "Multi-layer perceptron (training, adam): inputs 784, classes 10" in text
    assert "<b>Which target is faster, at depth 2</b>" in text
    assert "Speed-up of 2 threads over 1 thread: above 1× means faster." in text
    assert "1 thread faster" in text
    assert "2 threads faster" in text
    assert "Example CPU" in text
    answer = frontier_answer(make_frontier_study(starts=1, rounds=1, environment=None))
    figure = draw(answer)
    assert "machine unknown" in words(figure)
    assert set(trace(figure, "recorded").marker.color) == {0.0}  # no interval, no colour of a target


@pytest.mark.parametrize(
    ("fixed", "value", "axes"),
    [
        ("depth", 2, ("Batch size", "Width (units per layer)")),
        ("width", 128, ("Batch size", "Depth (hidden layers)")),
        ("batch", 32, ("Width (units per layer)", "Depth (hidden layers)")),
    ],
)
def test_any_two_axes_make_the_map(fixed: Axis, value: int, axes: tuple[str, str]) -> None:
    figure = draw(answer_of(), fixed, value)
    assert {figure.layout.xaxis.title.text, figure.layout.yaxis.title.text} == set(axes)
    assert figure.to_json()


@pytest.mark.parametrize("shift", [-6.0, 6.0])
def test_without_a_tie_there_is_no_line_and_one_side(shift: float) -> None:
    answer = frontier_answer(make_frontier_study(truth=lambda s: log2_speed_up(s) + shift))
    figure = draw(answer)
    assert trace(figure, "equally fast") is None
    ahead = [a.text for a in figure.layout.annotations if a.text.endswith(" faster")]
    assert ahead == [f"{SHORT[shift > 0]} faster"]
    assert "Grey" not in words(figure)


@given(st.lists(st.integers(1, 65_536), min_size=2, max_size=16, unique=True), st.sampled_from(["x", "y"]))
def test_ticks_are_true_values_far_enough_apart_and_hold_both_ends(values: list[int], side: str) -> None:
    values = sorted(values)
    axis = size_axis("Batch size", values, side)
    low, high = axis["range"]
    assert axis["ticktext"][0] == f"{values[0]:,}"
    assert axis["ticktext"][-1] == f"{values[-1]:,}"
    assert low < math.log2(values[0])
    assert high > math.log2(values[-1])
    for place, text in zip(axis["tickvals"], axis["ticktext"], strict=True):
        assert round(2**place) == int(text.replace(",", ""))
    gaps = np.diff(axis["tickvals"])
    assert len(gaps) == 1 or gaps.min() >= TICK_SHARE[side] * (high - low) * 0.999


@given(st.lists(st.floats(-12, 12), max_size=8))
def test_colours_reach_as_far_to_either_side_and_hold_every_value(values: list[float]) -> None:
    span = colour_span(values)
    assert span >= 1
    assert all(abs(value) <= span + 1e-6 for value in values)
    places, shown = ratio_ticks_of(span)
    assert places == [-place for place in reversed(places)]
    assert shown[places.index(0.0)] == "1×"
    assert 3 <= len(places) <= 9
    assert max(places) <= span


@given(st.floats(-8, 8), st.floats(0.001, 4))
def test_words_of_a_lead_agree_with_its_interval(value: float, half: float) -> None:
    who = who_is_ahead(value, value - half, value + half, NAMES)
    if abs(value) <= half:
        assert (who.value, who.target) == ("not clear", None)
    else:
        assert who.target == NAMES[value > 0]
        assert "faster" in who.value
    nobody = who_is_ahead(value, None, None, NAMES)  # no interval, no claim
    assert (nobody.value, nobody.target) == ("not clear", None)
    assert "too few rounds" in nobody.bounds


def test_bounds_of_a_lead_are_those_of_the_one_who_leads() -> None:
    assert who_is_ahead(-1.0, -2.0, -0.5, NAMES) == Who("2× faster", "1.41× to 4×", NAMES[0])
    assert who_is_ahead(1.0, 0.5, 2.0, NAMES) == Who("2× faster", "1.41× to 4×", NAMES[1])


def test_hover_texts_of_long_targets_stay_beside_the_pointer() -> None:
    targets = (Target(threads=1, precision="mixed_bfloat16", execution="xla"), Target(device="gpu:0", execution="xla"))
    study = make_frontier_study(make_frontier_plan(targets=targets), failed={LAST: "No room for it. " * 20})
    figure = draw(frontier_answer(study), value=4)
    hovers = [text for t in figure.data if t.type == "scatter" and t.customdata is not None for text in t.customdata]
    assert len(hovers) >= 26
    assert max(len(line) for text in hovers for line in text.split("<br>")) <= 70


def test_words_of_a_family_say_kinds_and_not_numbers() -> None:
    plan = make_frontier_plan(family="recurrent", sizes=(("cell", 1),), targets=(Target(), Target(threads=1)))
    assert axis_words(plan, "width") == "Width (units)"
    assert fixed_words(plan).startswith("Recurrent")
    assert "cell GRU" in fixed_words(plan)


@pytest.mark.parametrize(
    ("truth", "noise", "title"),
    [
        (lambda s: log2_speed_up(s) + 6, 0.02, "2 threads are clearly faster everywhere, at depth 2"),
        (lambda s: log2_speed_up(s) - 6, 0.02, "1 thread is clearly faster everywhere, at depth 2"),
        (lambda _: 0.0, 0.05, "Nowhere clear which target is faster, at depth 2"),
    ],
)
def test_the_title_claims_no_more_than_the_map_shows(truth: Any, noise: float, title: str) -> None:
    answer = frontier_answer(make_frontier_study(truth=truth, noise=noise))
    assert f"<b>{title}</b>" in words(draw(answer))
