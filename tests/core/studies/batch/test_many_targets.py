"""The batch to train with, on one target and on three: each against the first."""

import pytest

from core.rounds.answer.analyse import analyse
from core.studies.batch.answer import batch_answer
from core.studies.batch.export import batch_data
from core.studies.batch.figures import cost_figure, memory_walls, throughput_figure
from core.studies.batch.shapes import MemoryLimit, Price
from simulated.noises import make_noise_study
from tests.support.figures import trace, words
from tests.support.targets import run_of

RUN = run_of(3)
ANSWER = analyse(RUN)


def prices(*amounts: float) -> list[Price]:
    named = zip(RUN.target_names, amounts, strict=False)
    return [Price(target=name, per_hour=amount, dated="2026-11-01") for name, amount in named]


def test_every_target_has_its_curve_its_best_batch_and_its_time_against_the_baseline() -> None:
    found = batch_answer(RUN, ANSWER, make_noise_study(RUN))
    assert [target.title for target in found.targets] == list(RUN.names)
    assert [(one.target, one.other) for one in found.loss_crossovers] == [
        (RUN.target_names[1], RUN.target_names[0]), (RUN.target_names[2], RUN.target_names[0]),
    ]  # fmt: skip
    said = " ".join(found.sentences)
    assert "precision is faster" in said
    assert not any(notation in said for notation in RUN.target_names)
    figure = throughput_figure(RUN, found)
    assert [trace(figure, name).marker.symbol for name in RUN.names] == ["circle", "diamond", "triangle-up"]


def test_costs_are_compared_with_the_baseline_where_it_has_a_price() -> None:
    found = batch_answer(RUN, ANSWER, prices=prices(0.2, 1.0, 1.0))
    assert [cost.prices[1].target for cost in found.costs] == list(RUN.target_names[1:])
    assert all("on GPU 0" in cost.sentence and "on CPU, 1" in cost.sentence for cost in found.costs)
    figure = cost_figure(RUN, found)
    assert "at 1 USD" in words(figure)
    data = batch_data(RUN, found, None)
    assert len(data["costs"]) == 2
    assert "cost" not in data
    assert "title" not in data["targets"][0]
    assert batch_answer(RUN, ANSWER, prices=prices(0.2, 1.0, 1.0)[1:]).costs == ()


def test_one_target_is_compared_with_nothing() -> None:
    run = run_of(1)
    found = batch_answer(run, analyse(run), make_noise_study(run))
    assert (len(found.targets), found.loss_crossovers, found.costs) == (1, (), ())
    assert not any("equal batch" in sentence for sentence in found.sentences)


@pytest.mark.parametrize("shared", [2, 3])
def test_equal_limits_of_some_targets_are_one_wall(shared: int) -> None:
    same, other = MemoryLimit(300, 200, 400), MemoryLimit(700, 600, 800)
    limits = {name: same if index < shared else other for index, name in enumerate(RUN.target_names)}
    walls, lines = memory_walls(batch_answer(RUN, ANSWER, memory=limits).targets, (1.0, 1024.0))
    assert [wall.batch for wall in walls] == [300, 700][: 4 - shared]
    assert ("all targets" in walls[0].text) is (shared == 3)
    assert len(lines) == 1


def test_many_limits_take_no_rows_above_the_plot() -> None:
    limits = {name: MemoryLimit(200 + 100 * index) for index, name in enumerate(RUN.target_names)}
    figure = throughput_figure(RUN, batch_answer(RUN, ANSWER, memory=limits))
    text = words(figure)
    assert "memory limit of" not in text
    assert all(f"{200 + 100 * index} (predicted) on {name}" in text for index, name in enumerate(RUN.names))
    assert len([shape for shape in figure.layout.shapes if shape.name == "memory limit"]) == len(RUN.names) == 3
