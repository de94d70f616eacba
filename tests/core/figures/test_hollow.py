"""A point is hollow if it has no interval, or one from too few starts; the footnote explains it."""

from typing import Any

import pytest

from core.figures.marks import Point, band_outline, interval_note
from core.figures.style import words_of
from core.rounds.answer.analyse import analyse
from core.rounds.run import Run
from core.rounds.show.compare_figures import comparison_figure
from core.rounds.show.figures import speed_up_figure, step_time_figure, throughput_figure
from simulated.runs import BATCHES, make_run

FULL = make_run(4)
FIRST_STARTS = FULL.model_copy(update={"rounds": tuple(item for item in FULL.rounds if item.process < 2)})
"""Two starts of every batch: bands with an allowance."""
PART = FULL.model_copy(
    update={"rounds": tuple(item for item in FULL.rounds if item.process == 0 or item.batch in BATCHES[:3])}
)
"""Three starts at three batches only."""
LIVE = FULL.model_copy(update={"status": "running", "rounds": tuple(item for item in FULL.rounds if item.process < 1)})
FIGURES = (step_time_figure, throughput_figure, speed_up_figure)


def compared(run: Run, answer: Any) -> Any:
    return comparison_figure([run, run], [answer, answer])


def symbols(figure: Any) -> list[list[str]]:
    """Return the symbols of each curve's points."""
    curves = [trace for trace in figure.data if trace.mode == "lines+markers"]
    return [
        [one.marker.symbol] * len(one.x) if isinstance(one.marker.symbol, str) else list(one.marker.symbol)
        for one in curves
    ]


def bands(figure: Any) -> list[Any]:
    return [trace for trace in figure.data if trace.name and "95 % interval" in trace.name]


@pytest.mark.parametrize("make", [*FIGURES, compared])
def test_with_three_starts_every_point_is_filled(make: Any) -> None:
    figure = make(FULL, analyse(FULL))
    assert not [name for curve in symbols(figure) for name in curve if name.endswith("-open")]
    assert "ollow" not in " ".join(words_of(figure).foot)


@pytest.mark.parametrize("make", [*FIGURES, compared])
def test_fewer_than_three_starts_are_hollow_with_a_band_that_is_an_allowance(make: Any) -> None:
    figure = make(FIRST_STARTS, analyse(FIRST_STARTS))
    assert all(name.endswith("-open") for curve in symbols(figure) for name in curve)
    assert "fewer than three" in " ".join(words_of(figure).foot)


@pytest.mark.parametrize("make", FIGURES)
def test_only_the_points_with_few_starts_are_hollow(make: Any) -> None:
    (curve, *_) = symbols(make(PART, analyse(PART)))
    assert [name.endswith("-open") for name in curve] == [batch not in BATCHES[:3] for batch in BATCHES]


@pytest.mark.parametrize("make", FIGURES)
def test_a_live_picture_before_a_start_has_ended_is_hollow_without_bands_or_claim(make: Any) -> None:
    answer = analyse(LIVE)
    figure = make(LIVE, answer)
    assert answer.claims == ()
    assert all(name.endswith("-open") for curve in symbols(figure) for name in curve)
    assert not bands(figure)
    assert "Hollow: no interval" in " ".join(words_of(figure).foot)


def test_a_cancelled_run_keeps_no_claim_of_a_start_that_did_not_end() -> None:
    cut = LIVE.model_copy(update={"status": "cancelled"})
    assert analyse(cut).claims == ()
    assert all(one.low is None for one in analyse(cut).speed_ups)


def test_a_point_without_neighbours_shows_its_interval() -> None:
    lone = [Point(1, 1.0, None, None, ""), Point(8, 2.0, 1.5, 2.5, ""), Point(64, 3.0, None, None, "")]
    x, y = band_outline(lone)
    assert min(x) < 8 < max(x)
    assert (min(y), max(y)) == (1.5, 2.5)
    assert interval_note(lone) == "Bands: 95 % intervals. Hollow: no interval."
