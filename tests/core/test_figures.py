"""Figures: what a reader sees must follow from the run and the answer, whatever the shape of the run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import figures
from core.analysis.analyse import analyse
from core.analysis.answer import Crossover, Lead
from core.figures import style
from core.figures.marks import Point, Span, band_outline, label_rows
from core.results import Run
from tests.support.runs import BATCHES, make_run

RUN_FIGURES = (
    figures.step_time_figure,
    figures.speed_up_figure,
    figures.throughput_figure,
    figures.overhead_figure,
    figures.noise_figure,
)


def words(figure: go.Figure) -> str:
    """All text inside the picture."""
    return " | ".join(annotation.text for annotation in figure.layout.annotations)


def curve(figure: go.Figure, name: str) -> Any:
    return next(t for t in figure.data if t.name == name and t.mode and "markers" in t.mode)


@pytest.mark.parametrize("draw", RUN_FIGURES)
def test_label_and_environment_stand_inside_every_picture(draw: Any) -> None:
    run = make_run()
    text = words(draw(run, analyse(run)))
    assert "recorded" in text
    assert "Example CPU" in text
    assert "TensorFlow 2.21.0" in text


def test_modelled_runs_look_different() -> None:
    run = make_run(label="modelled")
    figure = figures.step_time_figure(run, analyse(run))
    curves = [t for t in figure.data if t.mode == "lines+markers"]
    assert [t.line.dash for t in curves] == ["dash", "dash"]
    assert all(t.marker.symbol.endswith("-open") and t.name.endswith("(modelled)") for t in curves)
    measured = figures.step_time_figure(make_run(), analyse(make_run()))
    assert not any(t.marker.symbol.endswith("-open") for t in measured.data if t.mode == "lines+markers")


def test_targets_differ_in_colour_marker_and_dash() -> None:
    run = make_run()
    first, second = (t for t in figures.step_time_figure(run, analyse(run)).data if t.mode == "lines+markers")
    assert (first.line.color, second.line.color) == ("#0072B2", "#D55E00")
    assert first.marker.symbol != second.marker.symbol
    assert first.line.dash != second.line.dash


def test_step_time_shows_every_cell_with_its_interval() -> None:
    run = make_run()
    answer = analyse(run)
    trace = curve(figures.step_time_figure(run, answer), "cpu,threads=2")
    cells = [c for c in answer.cells if c.target == 1]
    assert list(trace.x) == [c.batch for c in cells]
    assert list(trace.y) == [c.step_ms for c in cells]
    assert style.number(cells[0].low_ms or math.nan) in trace.customdata[0]


def test_throughput_bounds_turn_round() -> None:
    run = make_run()
    answer = analyse(run)
    figure = figures.throughput_figure(run, answer)
    band = next(t for t in figure.data if t.fill == "toself")
    first = next(c for c in answer.cells if c.target == 0)
    assert band.y[0] == pytest.approx(1000 * first.batch / (first.low_ms or math.nan))
    assert band.y[0] > 1000 * first.batch / first.step_ms > band.y[-1]


def test_crossover_band_stands_where_the_answer_says() -> None:
    run = make_run()
    answer = analyse(run)
    crossover = answer.verdict.crossovers[0]
    assert crossover.low is not None
    assert crossover.high is not None
    figure = figures.speed_up_figure(run, answer)
    lines = [s for s in figure.layout.shapes if s.type == "line" and s.x0 == s.x1]
    bands = [s for s in figure.layout.shapes if s.type == "rect"]
    assert lines[0].x0 == crossover.batch
    assert (bands[0].x0, bands[0].x1) == (crossover.low, crossover.high)
    label = next(a for a in figure.layout.annotations if a.text.startswith("crossover"))
    assert label.x == pytest.approx(math.log10(crossover.batch))
    assert f"({round(crossover.low)} to {round(crossover.high)})" in label.text
    assert any("ahead ≥ 5 %" in a.text for a in figure.layout.annotations)


def test_crossover_without_interval_says_so_and_has_no_band() -> None:
    run = make_run()
    answer = analyse(run)
    bare = replace(
        answer, verdict=replace(answer.verdict, crossovers=(Crossover(40.0, None, None, "cpu,threads=2"),), lead=None)
    )
    figure = figures.speed_up_figure(run, bare)
    assert not [s for s in figure.layout.shapes if s.type == "rect"]
    assert "crossover 40 (no interval)" in words(figure)


def test_parity_is_always_in_sight() -> None:
    run = make_run(floors_ms=(0.1, 2.0), slopes_ms=(0.001, 0.02))
    figure = figures.speed_up_figure(run, analyse(run))
    low, high = figure.layout.yaxis.range
    assert low < 0 < high
    assert "1×" in figure.layout.yaxis.ticktext


def test_failed_cells_are_marked_with_their_reason() -> None:
    run = make_run(with_failures=True)
    answer = analyse(run)
    figure = figures.step_time_figure(run, answer)
    crosses = next(t for t in figure.data if t.marker.symbol == "x-thin")
    failed = [c for c in run.cells if c.outcome in ("out_of_memory", "skipped")]
    assert list(crosses.x) == [c.batch for c in failed]
    assert list(crosses.customdata) == [c.reason for c in failed]
    low, high = figure.layout.yaxis.range
    assert all(low < math.log10(y) < high for y in crosses.y)
    assert "cpu,threads=2: out of memory, skipped" in words(figure)
    assert "out of memory" in words(figures.speed_up_figure(run, answer))


def test_overhead_says_fitted_and_marks_the_half() -> None:
    run = make_run()
    answer = analyse(run)
    fit = answer.fits[0]
    assert fit is not None
    assert fit.half_overhead_batch is not None
    figure = figures.overhead_figure(run, answer)
    assert "fitted" in words(figure).lower()
    half = next(t for t in figure.data if t.name == "cpu,threads=1, half overhead")
    assert list(half.x) == [fit.half_overhead_batch]
    shares = curve(figure, "cpu,threads=1, fitted")
    assert shares.y[0] == pytest.approx(100 * fit.overhead_share(BATCHES[0]))


def test_overhead_without_a_fit_says_why_it_is_empty() -> None:
    run = make_run()
    answer = replace(analyse(run), fits=(None, None))
    assert "Too few batch sizes for a fit" in words(figures.overhead_figure(run, answer))


def test_compare_shows_both_runs_with_their_environment() -> None:
    runs = (make_run(0), make_run(1))
    figure = figures.compare_figure(runs, [analyse(run) for run in runs])
    curves = [t for t in figure.data if t.mode == "lines+markers"]
    assert [t.name[0] for t in curves] == ["A", "B"]
    assert curves[0].line.color != curves[1].line.color
    assert all(run.name in words(figure) for run in runs)


def test_noise_relates_every_block_to_its_cell() -> None:
    run = make_run()
    answer = analyse(run)
    trace = figures.noise_figure(run, answer).data[0]
    blocks = [(b, r.batch) for r in run.rounds for b in r.blocks if b.target == 0]
    assert len(trace.x) == len(blocks)
    cell = answer.cell(0, blocks[0][1])
    assert cell is not None
    assert trace.y[0] == pytest.approx(blocks[0][0].step_ms / cell.step_ms)


def test_imported_points_say_that_the_machine_is_unknown() -> None:
    run = make_run().model_copy(update={"plan": None, "environment": None})
    assert "machine unknown" in words(figures.step_time_figure(run, analyse(run)))


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
    assert figure.data or "Too few batch sizes" in words(figure)
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
    config = figures.chart_config("png", "name")
    assert config["toImageButtonOptions"]["format"] == "png"
    assert figures.CONFIG["toImageButtonOptions"]["format"] == "svg"
    assert config["showSendToCloud"] is False
    assert config["displaylogo"] is False


def test_lead_is_drawn_in_the_colour_of_its_target() -> None:
    run = make_run()
    answer = analyse(run)
    lead = Lead("cpu,threads=1", 0.1, 8.0, 7.0, 9.0)
    figure = figures.speed_up_figure(run, replace(answer, verdict=replace(answer.verdict, lead=lead)))
    line = next(s for s in figure.layout.shapes if s.type == "line" and s.x0 == s.x1 == 8.0)
    assert line.line.color == "#0072B2"
    assert "cpu,threads=1 ahead ≥ 10 % from 8 (7 to 9)" in words(figure)
