"""Charts and tables of one, three and six targets."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from core.figures.style import DARK_PAPER, PAPER, TARGET_LOOKS
from core.rounds.answer.analyse import analyse, cell_statistics, compare
from core.rounds.answer.answer import Band, Boundary, Fastest
from core.rounds.answer.baseline import ahead_words, baseline_table, is_change
from core.rounds.run import only
from core.rounds.show.compare_figures import interference_figure
from core.rounds.show.figures import speed_up_figure, step_time_figure, throughput_figure
from core.rounds.show.overhead_figure import overhead_figure
from core.rounds.show.report import html_report
from tests.support.figures import trace, traces_by_mode, upright, words
from tests.support.targets import COUNTS, run_of

RUNS = {count: run_of(count, noise=0.03) for count in COUNTS}
ANSWERS = {count: analyse(run) for count, run in RUNS.items()}
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
"""Colour vision deficiencies on linear RGB, at full severity (Machado, Oliveira and Fernandes 2009)."""
TO_LMS = [[0.4122215, 0.5363325, 0.051446], [0.2119035, 0.6806995, 0.107397], [0.0883025, 0.2817188, 0.6299787]]
TO_LAB = [[0.2104543, 0.7936178, -0.004072], [1.9779985, -2.4285922, 0.4505937], [0.025904, 0.7827718, -0.8086758]]
"""Oklab (Ottosson 2020), in which equal distances look about equally large."""


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    return np.array(TO_LAB) @ np.cbrt(np.array(TO_LMS) @ np.clip(rgb, 0, 1))


@pytest.mark.parametrize("seen", DEFICIENCIES)
def test_six_curves_are_told_apart_by_colour_by_mark_and_by_dash(seen: str) -> None:
    """Compare with Okabe and Ito: the closest two of their first six are 0.076 apart."""
    colours = [oklab(np.array(DEFICIENCIES[seen]) @ linear(look.colour)) for look in TARGET_LOOKS]
    assert min(np.linalg.norm(a - b) for a, b in combinations(colours, 2)) > 0.09
    for of in ("symbol", "dash"):
        assert len({getattr(look, of) for look in TARGET_LOOKS}) == len(TARGET_LOOKS) == 6


def test_every_colour_stands_out_from_light_and_dark_paper() -> None:
    weights = np.array([0.2126, 0.7152, 0.0722])
    for look in TARGET_LOOKS:
        own = float(weights @ linear(look.colour))
        for paper in (PAPER, DARK_PAPER):
            low, high = sorted((own, float(weights @ linear(paper))))
            assert (high + 0.05) / (low + 0.05) > 2.2, (look.colour, paper)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("draw", [step_time_figure, throughput_figure, overhead_figure, interference_figure])
def test_each_target_has_a_curve_by_its_name_and_the_picture_its_label(draw, count: int) -> None:
    run = RUNS[count]
    figure = draw(run, ANSWERS[count])
    shown = [one.name for one in figure.data if one.showlegend is not False]
    assert all(any(name in text for text in shown) for name in run.names)
    assert "recorded · 2026-01-05" in words(figure)
    assert not any(notation in words(figure) for notation in run.target_names)
    assert all(entry.count("threads=") == 0 for entry in shown)


def test_the_strip_shows_the_fastest_on_the_same_axis_with_its_boundaries() -> None:
    run, answer = RUNS[6], ANSWERS[6]
    assert answer.fastest is not None
    figure = step_time_figure(run, answer)
    fields = [one for one in figure.data if one.yaxis == "y2" and one.fill == "toself"]
    assert len(fields) == sum(len(band.targets) for band in answer.fastest.bands)
    for band in answer.fastest.bands:
        mine = [one for one in fields if min(one.x) == pytest.approx(band.from_batch)]
        assert [one.line.color for one in mine[::-1]] == [TARGET_LOOKS[target].colour for target in band.targets]
        assert all((one.fillpattern.shape == "/") is (len(band.targets) > 1) for one in mine)
    assert figure.layout.yaxis.domain[1] < figure.layout.yaxis2.domain[0], "the strip is above the curves"
    changes = [boundary for boundary in answer.fastest.boundaries if is_change(boundary)]
    assert [line.x0 for line in upright(figure)] == [boundary.batch for boundary in changes]
    for boundary in changes:
        assert f"{round(boundary.batch):,} ({round(boundary.low):,} to {round(boundary.high):,})" in words(figure)
    several = any(len(band.targets) > 1 and not band.level for band in answer.fastest.bands)
    assert ("Hatched: not clear" in words(figure)) is several
    assert not [one for one in throughput_figure(run, answer).data if one.yaxis == "y2"]


def test_where_only_the_evidence_ends_there_is_no_line_and_what_is_level_is_not_hatched() -> None:
    run, answer = RUNS[3], ANSWERS[3]
    bands = (Band(1, 40, (0,)), Band(40, 1024, (0, 1), level=True))
    fastest = Fastest(bands, (Boundary(40, None, None, (0,), (0, 1)),))
    figure = step_time_figure(run, replace(answer, fastest=fastest))
    assert upright(figure) == []
    assert "a tie" in words(figure)
    assert "within the margin" in words(figure)
    assert "Hatched" not in words(figure)


def test_a_single_target_shows_floor_slope_and_where_half_is_overhead() -> None:
    run, answer = RUNS[1], ANSWERS[1]
    (fit,) = answer.fits
    figure = step_time_figure(run, answer)
    assert set(next(one for one in figure.data if one.name.startswith("Fixed cost")).y) == {fit.floor_ms}
    slope = next(one for one in figure.data if one.name.startswith("Cost per sample"))
    assert [y / x for x, y in zip(slope.x, slope.y, strict=True)] == pytest.approx([fit.slope_ms] * 2)
    assert [line.x0 for line in upright(figure)] == [fit.half_overhead_batch]
    assert "Fitted from recorded" in words(figure)


def test_every_other_target_is_over_the_baseline_and_its_crossover_is_marked() -> None:
    run, answer = RUNS[6], ANSWERS[6]
    figure = speed_up_figure(run, answer)
    assert [one.name for one in traces_by_mode(figure)] == list(run.names[1:])
    assert "Speed-up over CPU," in words(figure)
    for one in answer.against:
        found = [c.batch for c in one.verdict.crossovers]
        marks = [t for t in figure.data if t.name == f"{run.names[one.target]}, crossover"]
        assert [list(mark.x) for mark in marks] == ([found] if found else [])
    bars = trace(figure, "GPU 0, crossover").error_x
    (crossover,) = answer.against[0].verdict.crossovers
    assert crossover.batch - bars.arrayminus[0] == pytest.approx(crossover.low)


def test_the_table_against_the_baseline_has_speed_ups_with_intervals_and_the_crossover() -> None:
    run, answer = RUNS[3], ANSWERS[3]
    table = baseline_table(run, answer)
    assert table.columns == (
        "Target", "At batch 1", "At batch 8", "At batch 128", "At batch 1,024", "Faster than CPU, 1 thread",
    )  # fmt: skip
    assert [row[0] for row in table.rows] == ["GPU 0", "GPU 0, mixed precision"]
    (crossover,) = answer.against[0].verdict.crossovers
    assert table.rows[0][-1].startswith(f"from {crossover.batch:.0f} (")
    assert all(" to " in cell and cell.endswith(")") and "× (" in cell for row in table.rows for cell in row[1:-1])
    assert ahead_words(replace(answer.against[0], verdict=replace(answer.verdict, kind="inconclusive"))) == "not clear"


def test_a_run_of_some_of_its_targets_says_of_them_what_the_whole_says() -> None:
    run = RUNS[6]
    pair = only(run, (0, 2))
    assert pair.target_names == (run.target_names[0], run.target_names[2])
    ours, theirs = compare(pair)[0], compare(run, None, 0, 2)[0]
    assert ours.crossovers == theirs.crossovers
    whole = {(cell.target, cell.batch): cell.step_ms for cell in cell_statistics(run)}
    assert all(cell.step_ms == whole[(0, 2)[cell.target], cell.batch] for cell in cell_statistics(pair))
    assert {setup.target for setup in pair.setups} == {0, 1}
    assert type(run).from_json(pair.to_json()) == pair
    assert only(run, range(6)) is run


@pytest.mark.parametrize("count", COUNTS)
def test_the_report_names_every_target_and_gives_its_notation_once(count: int) -> None:
    run = RUNS[count]
    page = html_report(run, ANSWERS[count])
    for number, (name, notation) in enumerate(zip(run.names, run.target_names, strict=True), 1):
        assert f"<th>Target {number}</th><td>{name}: {notation}</td>" in page
    assert ("the baseline (recorded)" in page) is (count > 2)
