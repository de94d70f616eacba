"""Runs overlaid on one chart: a curve per target, distinguishable by run and by target."""

import pytest

from core.rounds.answer.analyse import analyse
from core.rounds.show.compare_figures import comparison_figure
from simulated.runs import make_run
from tests.support.figures import traces_by_mode, words

RUN = make_run()
ANSWER = analyse(RUN)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_a_comparison_shows_every_run_with_its_environment(count: int) -> None:
    runs = [make_run(seed) for seed in range(count)]
    figure = comparison_figure(runs, [analyse(run) for run in runs])
    curves = traces_by_mode(figure)
    assert [t.name[0] for t in curves] == [*"ABCDEF"[:count]]
    for look in ("color", "dash"):
        assert len({t.line[look] for t in curves[:2]}) == 2
    assert all(run.name in words(figure) for run in runs)
    assert words(figure).startswith(f"<b>{count} runs compared:")


def test_a_comparison_with_a_run_of_one_target_is_of_step_times() -> None:
    alone = make_run(1, floors_ms=(0.3,), slopes_ms=(0.02,))
    answer = analyse(alone)
    curves = traces_by_mode(comparison_figure((RUN, alone), (ANSWER, answer)))
    assert [t.name for t in curves] == ["A: 1 thread", "A: 2 threads", "B: CPU, 1 thread"]
    assert list(curves[2].y) == [cell.step_ms for cell in answer.cells]
    assert curves[0].line.color == curves[1].line.color != curves[2].line.color
    assert len({curve.marker.symbol for curve in curves}) == 3


def test_a_comparison_has_a_curve_for_each_target_against_its_baseline() -> None:
    three = make_run(2, floors_ms=(0.3, 0.8, 0.5), slopes_ms=(0.02, 0.01, 0.015))
    curves = traces_by_mode(comparison_figure((three, RUN), (analyse(three), ANSWER)))
    assert [t.name for t in curves] == [
        "A: 2 threads over 1 thread", "A: 3 threads over 1 thread", "B: 2 threads over 1 thread"
    ]  # fmt: skip
