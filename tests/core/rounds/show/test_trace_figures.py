"""Figures of traces: bars must sum to the step and meet the fitted line, a timeline must show each event once."""

import math
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.figures.style import INK, TARGET_LOOKS, on_dark
from core.rounds.run import Run
from core.rounds.show.trace_figures import (
    MAX_LANES,
    PART_LOOKS,
    chosen_lanes,
    lane_words,
    shown_step_ms,
    timeline_figure,
    trace_share_figure,
)
from core.traces.record import PARTS, Span, TracedCell
from simulated.runs import make_run, planned
from tests.support.figures import trace, words
from tests.support.traced import GEMM, cpu_cell, gpu_cell, with_traces

CELLS = (gpu_cell(1, step_ms=1.0, ratio=1.62), gpu_cell(32), gpu_cell(1024, step_ms=9.0))


def traced_run(*cells: TracedCell) -> Run:
    return with_traces(make_run(4), *(cells or CELLS))


def bars(figure: go.Figure) -> list[Any]:
    return [trace for trace in figure.data if trace.type == "bar"]


def test_parts_of_every_cell_are_stacked_to_the_whole_step_with_compute_on_top() -> None:
    stack = bars(trace_share_figure(traced_run(), 1))
    assert len(stack) == len(PARTS)
    for cell in range(3):
        ends = [trace.base[cell] + trace.y[cell] for trace in stack]
        assert [trace.base[cell] for trace in stack][1:] == pytest.approx(ends[:-1])
        assert ends[-1] == pytest.approx(100)
    run = traced_run()
    compute = bars(trace_share_figure(run, 1))[-1]
    assert compute.name == "compute"
    assert compute.base[1] == pytest.approx(100 * CELLS[1].device.mean().overhead_share)


def test_nothing_stands_over_the_bars_that_means_something_else() -> None:
    figure = trace_share_figure(traced_run(), 1)
    assert not [t for t in figure.data if t.type == "scatter"]
    assert "fitted" not in words(figure)


def test_a_cell_whose_trace_lost_events_is_faded_and_named_so() -> None:
    run = traced_run(gpu_cell(8, ratio=1.0, dropped_events=7), *CELLS[1:])
    shown = words(trace_share_figure(run, 1))
    assert "(events lost)" in shown
    assert "1.3 times" in shown
    assert "lost 7 events" in words(timeline_figure(run, run.traces[0]))
    assert "lost" not in words(trace_share_figure(traced_run(gpu_cell(8, ratio=1.6), *CELLS[1:]), 1))


def test_cells_not_to_be_trusted_are_faded_and_named_with_their_ratio() -> None:
    figure = trace_share_figure(traced_run(), 1)
    opacity = bars(figure)[0].marker.opacity
    assert opacity[0] < 0.5
    assert tuple(opacity[1:]) == (1.0, 1.0)
    assert "(1.62×)" in words(figure)
    assert "be trusted" in bars(figure)[0].customdata[0]
    assert "be trusted" not in words(trace_share_figure(traced_run(*CELLS[1:]), 1))


def test_only_cells_and_parts_of_the_target_stand_in_the_picture_in_the_words_of_the_device() -> None:
    names = [trace.name for trace in bars(trace_share_figure(traced_run(cpu_cell(8)), 0))]
    assert names == ["framework between operations", "compute"]
    assert any(t.name.startswith("launch and host") for t in bars(trace_share_figure(traced_run(), 1)))
    figure = trace_share_figure(traced_run(cpu_cell(8), *CELLS), 1)
    assert all(len(trace.y) == 3 for trace in bars(figure))


@given(st.sets(st.integers(1, 4096), min_size=1, max_size=8))
def test_bars_surround_their_batch_and_never_touch(batches: set[int]) -> None:
    run = traced_run(*(gpu_cell(batch) for batch in sorted(batches)))
    trace = bars(trace_share_figure(run, 1))[0]
    edges = [(x, x + width) for x, width in zip(trace.x, trace.width, strict=True)]
    for batch, (left, right) in zip(sorted(batches), edges, strict=True):
        assert math.sqrt(left * right) == pytest.approx(batch)
    assert all(a[1] < b[0] for a, b in pairwise(edges))


def test_every_part_has_a_colour_and_a_hatching_of_its_own() -> None:
    assert set(PART_LOOKS) == set(PARTS)
    assert len({look.colour for look in PART_LOOKS.values()}) == len(PARTS)
    assert len({look.pattern for look in PART_LOOKS.values()}) == len(PARTS)
    assert not {look.colour for look in PART_LOOKS.values()} & {look.colour for look in TARGET_LOOKS}


@pytest.mark.parametrize("which", ["shares", "timeline"])
def test_label_and_machine_stand_inside_the_picture(which: str) -> None:
    run = traced_run()
    figure = trace_share_figure(run, 1) if which == "shares" else timeline_figure(run, CELLS[1])
    assert "recorded" in words(figure)
    assert "Example CPU" in words(figure)
    assert "2 threads" in words(figure)


def test_dark_pictures_keep_their_bars_and_change_their_ink() -> None:
    dark = on_dark(timeline_figure(traced_run(), CELLS[1]))
    assert dark.layout.font.color != INK
    assert len(bars(dark)) == len(PARTS)


def test_timeline_shows_each_event_once_where_and_when_it_was_outlined_however_short() -> None:
    cell = CELLS[1]
    figure = timeline_figure(traced_run(), cell)
    drawn = sorted((base, x) for t in bars(figure) for base, x in zip(t.base, t.x, strict=True))
    assert drawn == sorted((span.start_ms, span.length_ms) for span in cell.device.timeline)
    assert len({y for trace in bars(figure) for y in trace.y}) == 3
    assert all(trace.marker.line.width >= 1 for trace in bars(figure))
    cell = cell.model_copy(update={"device": cell.device.model_copy(update={"timeline": ()})})
    assert not bars(timeline_figure(traced_run(cell), cell))


def test_timeline_zooms_along_time_only_and_begins_with_the_whole_step() -> None:
    figure = timeline_figure(traced_run(), CELLS[1])
    assert figure.layout.yaxis.fixedrange
    assert not figure.layout.xaxis.fixedrange
    assert figure.layout.xaxis.range[0] <= 0
    assert figure.layout.xaxis.range[1] >= 2.0
    assert "under the profiler" in words(figure)


def test_timeline_of_a_call_of_several_steps_is_as_long_as_the_call() -> None:
    run = traced_run()
    first, second = run.plan.targets
    many = second.model_copy(update={"steps_per_execution": 5})
    run = planned(run, targets=(first, many))
    assert shown_step_ms(run, CELLS[1]) == pytest.approx(10.0)
    assert "of 5 steps" in words(timeline_figure(run, CELLS[1]))


def test_hover_tells_name_and_length_in_short_lines_and_cannot_smuggle_markup() -> None:
    cell = gpu_cell(32)
    evil = Span(lane="<i>lane</i>", name='<a href="https://evil.example">x</a>', part="launch", start_ms=0, length_ms=1)
    cell = cell.model_copy(update={"device": cell.device.model_copy(update={"timeline": (evil,)})})
    figure = timeline_figure(traced_run(cell), cell)
    (text,) = bars(figure)[0].customdata
    assert "<a" not in text
    assert "&lt;a" in text
    assert "1,000 µs" in text
    assert "<i>" not in words(figure)
    compute = trace(timeline_figure(traced_run(), CELLS[1]), "compute")
    assert max(len(line) for line in compute.customdata[0].split("<br>")) < len(GEMM)


def lane(name: str, length_ms: float, part: Any = "launch") -> Span:
    return Span(lane=name, name="event", part=part, start_ms=0.0, length_ms=length_ms)


def test_lanes_where_the_device_works_come_first_and_the_least_busy_are_left_out_and_counted() -> None:
    events = [lane("python", 9.0), lane("tf_10", 1.0, "compute"), lane("tf_9", 1.0, "compute"), lane("ab", 1.0)]
    assert chosen_lanes(events) == (["tf_9", "tf_10", "ab", "python"], 0)
    events = [lane(f"thread {i}", 1.0 + i) for i in range(MAX_LANES + 3)]
    lanes, left_out = chosen_lanes(events)
    assert left_out == 3
    assert set(lanes) == {f"thread {i}" for i in range(3, MAX_LANES + 3)}
    cell = CELLS[1].model_copy(update={"device": CELLS[1].device.model_copy(update={"timeline": tuple(events)})})
    assert "The 3 least" in words(timeline_figure(traced_run(cell), cell))


@given(st.lists(st.text("ab1 ", min_size=1, max_size=40), unique=True, max_size=12))
def test_shortened_lane_names_stay_apart(lanes: list[str]) -> None:
    words_of = lane_words(lanes, 8)
    assert len(set(words_of)) == len(lanes)
