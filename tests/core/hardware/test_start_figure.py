"""The charts of the first screen: modelled values never look measured, and no share claims an interval."""

import dataclasses
import math
from typing import Any

import plotly.graph_objects as go
import pytest

from core.base.numbers import first_batch
from core.figures.style import WRAP_AT
from core.hardware.interval import Modelled
from core.hardware.model import ModelledParts
from core.hardware.start_figure import overhead_share, share_figure, share_words, steps_figure
from core.rounds.answer.analyse import analyse
from simulated.hosts import CARD, make_curve, with_curve
from simulated.runs import BATCHES, make_run
from tests.support.figures import trace, traces_by_mode, upright, words

RUN = make_run(3)
ANSWER = analyse(RUN)
CURVE = make_curve(lambda _: 1.0, BATCHES, -0.2, 0.3)
BESIDE = with_curve(RUN, ANSWER, CURVE)
CPU, GPU = f"{RUN.names[1]} (recorded)", f"{CARD.name} (modelled)"
PARTS = ModelledParts(
    host_ms=3.0, launch_ms=2.0, arithmetic_ms=1.0, bandwidth_ms=0.5, transfer_ms=0.5, step_ms=6.0, limited_by="host"
)


def parts(**changes: float) -> ModelledParts:
    return dataclasses.replace(PARTS, **changes)  # type: ignore[arg-type]


def test_the_share_is_what_arithmetic_and_traffic_leave_of_the_step() -> None:
    assert overhead_share(PARTS) == pytest.approx(0.75)
    assert overhead_share(parts(arithmetic_ms=0.0, bandwidth_ms=0.0)) == 1.0
    assert overhead_share(parts(arithmetic_ms=5.0, bandwidth_ms=4.0)) == 0.0  # they overlap
    shares = [overhead_share(parts(step_ms=step)) for step in (2.0, 4.0, 8.0)]
    assert shares == sorted(shares)


def test_the_share_is_said_in_words_at_both_ends_and_that_it_has_no_interval() -> None:
    steps = [point for point in BESIDE.curve.stretch if isinstance(point, Modelled)]
    first, last = (f"{100 * overhead_share(step.parts):.0f}" for step in (steps[0], steps[-1]))
    said = share_words(BESIDE)
    assert said.startswith("Modelled, a point")
    assert f"{first} % at batch {BATCHES[0]:,}" in said.replace("\u202f", " ").replace("\xa0", " ")
    assert f"{last} % at batch {BATCHES[-1]:,}" in said.replace("\u202f", " ").replace("\xa0", " ")
    withheld = make_curve(lambda _: 1.0, BATCHES, withheld=BATCHES)
    assert share_words(with_curve(RUN, ANSWER, withheld)) == ""


def test_the_cpu_is_solid_the_card_dashed_and_hollow_and_the_crossover_between_them_marked() -> None:
    figure = steps_figure(RUN, ANSWER, 1, BESIDE)
    assert {one.name for one in traces_by_mode(figure)} == {CPU, GPU}
    cpu, card = trace(figure, CPU), trace(figure, GPU)
    assert (cpu.line.dash, cpu.marker.symbol) == ("solid", "circle")
    assert card.line.dash == "dash"
    assert card.marker.symbol.endswith("-open")
    cells = {cell.batch: cell.step_ms for cell in ANSWER.cells if cell.target == 1}
    assert dict(zip(cpu.x, cpu.y, strict=True)) == cells
    assert [line.x0 for line in upright(figure)] == [BESIDE.crossover.batch]
    text = words(figure)
    for said in (f"modelled crossover {first_batch(BESIDE.crossover.batch)} (", BESIDE.crossover.sentence,
                 "No worker ran for", "Interval: ", "recorded · 2026-01-05 · Example CPU"):  # fmt: skip
        assert said in text
    top = 10 ** figure.layout.yaxis.range[1]
    assert top > max(cell.high_ms for cell in ANSWER.cells if cell.target == 1)


def test_a_card_without_numbers_leaves_the_cpu_alone() -> None:
    figure = steps_figure(RUN, ANSWER, 1, with_curve(RUN, ANSWER, make_curve(lambda _: 1.0, BATCHES, withheld=BATCHES)))
    assert [one.name for one in traces_by_mode(figure)] == [CPU]
    assert not upright(figure)
    assert "Modelled: withheld" in words(figure)


def test_the_share_is_pale_dashed_without_band_and_says_what_it_is() -> None:
    figure = share_figure(RUN, BESIDE)
    (curve,) = figure.data
    assert curve.opacity < 1
    assert curve.line.dash == "dash"
    assert curve.marker.symbol.endswith("-open")
    assert curve.name == f"{CARD.name} (modelled, no interval)"
    assert all("modelled, no interval" in text for text in curve.customdata)
    known = [point for point in CURVE.points if isinstance(point, Modelled)]
    assert list(curve.y) == pytest.approx([100 * overhead_share(point.parts) for point in known])
    text = words(figure)
    for said in (
        "(modelled)",
        "a point estimate without an interval",
        "arithmetic",
        "No worker ran",
        "recorded · 2026",
    ):
        assert said in text


@pytest.mark.parametrize("figure", [steps_figure(RUN, ANSWER, 1, BESIDE), share_figure(RUN, BESIDE)])
def test_a_saved_picture_holds_every_line_of_the_footnote(figure: go.Figure) -> None:
    notes: list[Any] = [note for note in figure.layout.annotations if note.yref == "paper" and note.y == 0]
    assert len(notes) > 3
    assert max(len(note.text) for note in notes) <= WRAP_AT
    heights = [note.yshift for note in notes]
    assert min(heights) > -figure.layout.margin.b
    assert math.isfinite(figure.layout.height)
