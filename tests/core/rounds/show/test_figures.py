"""Figures follow from the run and the answer, whatever the shape of the run."""

import math
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.figures import style
from core.figures.marks import Point, Span, band_outline, label_rows
from core.figures.style import CONFIG, chart_config
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Crossover, Lead
from core.rounds.run import Run
from core.rounds.show.compare_figures import interference_figure
from core.rounds.show.figures import speed_up_figure, step_time_figure, throughput_figure
from core.rounds.show.overhead_figure import overhead_figure
from simulated.runs import BATCHES, make_run
from tests.support.figures import traces_by_mode, upright, words

RUN_FIGURES = (step_time_figure, speed_up_figure, throughput_figure, overhead_figure, interference_figure)
RUN = make_run()
ANSWER = analyse(RUN)


def curve(figure: go.Figure, name: str) -> Any:
    return next(t for t in figure.data if t.name == name and t.mode and "markers" in t.mode)


@pytest.mark.parametrize("draw", RUN_FIGURES)
def test_label_and_environment_stand_inside_every_picture(draw: Any) -> None:
    text = words(draw(RUN, ANSWER))
    assert "recorded" in text
    assert "Example CPU" in text
    assert "TensorFlow 2.21.0" in text


def test_targets_and_modelled_runs_look_different() -> None:
    run = make_run(label="modelled")
    figure = step_time_figure(run, analyse(run))
    curves = traces_by_mode(figure)
    assert [t.line.dash for t in curves] == ["dash", "dash"]
    assert all(t.marker.symbol.endswith("-open") and t.name.endswith("(modelled)") for t in curves)
    measured = step_time_figure(RUN, ANSWER)
    assert not any(t.marker.symbol.endswith("-open") for t in traces_by_mode(measured))
    first, second = traces_by_mode(measured)
    assert (first.line.color, second.line.color) == ("#0072B2", "#D55E00")
    assert first.marker.symbol != second.marker.symbol
    assert first.line.dash != second.line.dash


def test_step_time_shows_every_cell_with_its_interval() -> None:
    trace = curve(step_time_figure(RUN, ANSWER), "2 threads")
    cells = [c for c in ANSWER.cells if c.target == 1]
    assert list(trace.x) == [c.batch for c in cells]
    assert list(trace.y) == [c.step_ms for c in cells]
    assert style.number(cells[0].low_ms or math.nan) in trace.customdata[0]


def test_throughput_bounds_turn_round() -> None:
    figure = throughput_figure(RUN, ANSWER)
    band = next(t for t in figure.data if t.fill == "toself")
    first = next(c for c in ANSWER.cells if c.target == 0)
    assert band.y[0] == pytest.approx(1000 * first.batch / (first.low_ms or math.nan))
    assert band.y[0] > 1000 * first.batch / first.step_ms > band.y[-1]


def test_crossover_band_stands_where_the_answer_says_if_it_has_an_interval() -> None:
    crossover = ANSWER.verdict.crossovers[0]
    figure = speed_up_figure(RUN, ANSWER)
    lines = upright(figure)
    bands = [s for s in figure.layout.shapes if s.type == "rect"]
    assert lines[0].x0 == crossover.batch
    assert (bands[0].x0, bands[0].x1) == (crossover.low, crossover.high)
    label = next(a for a in figure.layout.annotations if a.text.startswith("crossover"))
    assert label.x == pytest.approx(math.log10(crossover.batch))
    assert f"({round(crossover.low)} to {round(crossover.high)})" in label.text
    assert any("≥ 5 %" in a.text for a in figure.layout.annotations)
    bare = replace(
        ANSWER, verdict=replace(ANSWER.verdict, crossovers=(Crossover(40.0, None, None, "cpu,threads=2"),), lead=None)
    )
    figure = speed_up_figure(RUN, bare)
    assert not [s for s in figure.layout.shapes if s.type == "rect"]
    assert "crossover 40" not in words(figure)


def test_parity_is_always_in_sight() -> None:
    run = make_run(floors_ms=(0.1, 2.0), slopes_ms=(0.001, 0.02))
    figure = speed_up_figure(run, analyse(run))
    low, high = figure.layout.yaxis.range
    assert low < 0 < high
    assert "1×" in figure.layout.yaxis.ticktext


def test_failed_cells_are_marked_with_their_reason() -> None:
    run = make_run(with_failures=True)
    answer = analyse(run)
    figure = step_time_figure(run, answer)
    crosses = next(t for t in figure.data if t.marker.symbol == "x-thin")
    failed = [c for c in run.cells if c.outcome in ("out_of_memory", "skipped")]
    assert list(crosses.x) == [c.batch for c in failed]
    assert list(crosses.customdata) == [c.reason for c in failed]
    low, high = figure.layout.yaxis.range
    assert all(low < math.log10(y) < high for y in crosses.y)
    assert "of memory, skipped" in words(figure)
    assert "out of memory" in words(speed_up_figure(run, answer))


def test_overhead_says_fitted_and_marks_the_half_or_why_it_is_empty() -> None:
    fit = ANSWER.fits[0]
    assert fit.half_overhead_batch is not None
    figure = overhead_figure(RUN, ANSWER)
    assert "fitted" in words(figure).lower()
    half = next(t for t in figure.data if t.name == "1 thread, half fixed cost")
    assert list(half.x) == [fit.half_overhead_batch]
    shares = curve(figure, "1 thread, fitted")
    assert shares.y[0] == pytest.approx(100 * fit.overhead_share(BATCHES[0]))
    answer = replace(ANSWER, fits=(None, None))
    assert "Too few batch" in words(overhead_figure(RUN, answer))


def test_noise_relates_every_block_to_its_cell() -> None:
    trace = interference_figure(RUN, ANSWER).data[0]
    blocks = [(b, r.batch) for r in RUN.rounds for b in r.blocks if b.target == 0]
    assert len(trace.x) == len(blocks)
    cell = ANSWER.cell(0, blocks[0][1])
    assert trace.y[0] == pytest.approx(blocks[0][0].step_ms / cell.step_ms)


def test_imported_points_say_that_the_machine_is_unknown() -> None:
    run = make_run().model_copy(update={"plan": None, "environment": None})
    assert "machine unknown" in words(step_time_figure(run, analyse(run)))


@pytest.mark.parametrize(
    "run",
    [
        make_run(batches=(1,)),
        make_run(batches=(1, 8), processes=1, passes=1, rounds_per_pass=1),
        make_run(batches=tuple(2**i for i in range(17))),
        make_run(noise=0.4),
    ],
    ids=["one batch", "one round", "whole range", "noisy"],
)
@pytest.mark.parametrize("draw", RUN_FIGURES)
def test_every_shape_of_run_can_be_drawn(draw: Any, run: Run) -> None:
    figure = draw(run, analyse(run))
    assert figure.data or "Too few batch" in words(figure)
    assert figure.layout.height > 300
    assert figure.layout.xaxis.tickvals is None or len(figure.layout.xaxis.tickvals) <= 12
    assert 2 <= len(figure.layout.yaxis.tickvals) <= 18


@given(
    st.lists(
        st.tuples(st.floats(1, 65_536), st.integers(8, 60)).map(
            lambda t: Span(t[0], None, None, "x" * t[1], "#888888", "solid")
        ),
        max_size=6,
    )
)
def test_labels_in_one_row_never_overlap(spans: list[Span]) -> None:
    from core.figures.marks import CHARACTER_PX, _left_edge

    bounds = (0.8, 80_000.0)
    rows = label_rows(spans, bounds)
    for i, a in enumerate(spans):
        for j, b in enumerate(spans):
            if i < j and rows[i] == rows[j]:
                left, right = sorted((_left_edge(s, bounds), len(s.text) * CHARACTER_PX) for s in (a, b))
                assert left[0] + left[1] <= right[0]


def test_band_breaks_where_a_point_has_no_interval() -> None:
    points = [Point(b, 1.0, None if b == 4 else 0.9, None if b == 4 else 1.1, "") for b in (1, 2, 4, 8, 16)]
    x, y = band_outline(points)
    assert x == [1, 2, 2, 1, None, 8, 16, 16, 8]
    assert y == [1.1, 1.1, 0.9, 0.9, None, 1.1, 1.1, 0.9, 0.9]


@given(st.floats(1e-4, 1e6), st.floats(1.01, 1e9))
def test_decade_ticks_lie_inside_and_rise(low: float, ratio: float) -> None:
    ticks = style.decade_ticks(low, low * ratio)
    assert ticks == sorted(ticks)
    assert all(low * 0.99 <= tick <= low * ratio * 1.01 for tick in ticks)
    assert len(ticks) <= 20


@given(st.floats(0.001, 0.95), st.floats(1.05, 1000))
def test_ratio_ticks_hold_parity(low: float, high: float) -> None:
    ticks = style.ratio_ticks(low, high)
    assert 1.0 in ticks
    assert len(ticks) <= 20


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.01234, "0.0123"), (1, "1"), (2.5, "2.5"), (1234.6, "1,235"), (4e-6, "4.00e-06")]
)
def test_numbers_keep_three_digits(value: float, text: str) -> None:
    assert style.number(value) == text


def test_chart_menu_saves_what_was_chosen_and_sends_nothing() -> None:
    config = chart_config("png", "name")
    assert config["toImageButtonOptions"]["format"] == "png"
    assert CONFIG["toImageButtonOptions"]["format"] == "svg"
    assert config["showSendToCloud"] is False
    assert config["displaylogo"] is False


def test_lead_is_drawn_in_the_colour_of_its_target() -> None:
    lead = Lead("cpu,threads=1", 0.1, 8.0, 7.0, 9.0)
    figure = speed_up_figure(RUN, replace(ANSWER, verdict=replace(ANSWER.verdict, lead=lead)))
    line = next(shape for shape in upright(figure) if shape.x0 == 8.0)
    assert line.line.color == "#0072B2"
    assert "faster from 8" in words(figure)
