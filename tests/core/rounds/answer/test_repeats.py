"""The same sweep on several occasions: what counts as the same, agreement of crossovers, and the summary of all."""

import random

import numpy as np
import pytest

from core.base.evidence import Environment
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Crossover
from core.rounds.answer.repeats import Occasion, Repeats, is_repeat, occasion, repeats, sentences
from core.rounds.run import Run
from simulated.runs import make_environment, make_run, planned

RUN = make_run(1)


def measured(**changes: object) -> Run:
    return RUN.model_copy(update={"label": "measured", "environment": make_environment(), **changes})


def named(*crossovers: tuple[float, float, float] | None, after: tuple[str, ...] = ()) -> Repeats:
    """Return repeats with occasions a minute apart, oldest first."""
    runs = [measured(created_at=f"2026-01-05T10:{minute:02}:00Z") for minute in range(len(crossovers))]
    sides = after or ("b",) * len(crossovers)
    pairs = zip(runs, crossovers, sides, strict=True)
    return repeats([Occasion(run, None if one is None else Crossover(*one, side)) for run, one, side in pairs])


def test_a_repeat_asks_the_same_of_the_same_machine() -> None:
    other = Environment(captured_at="", hostname_hash="elsewhere", cpu="Another")
    assert is_repeat(measured(), measured(name="again"))
    assert not is_repeat(measured(), measured(environment=other))
    assert not is_repeat(measured(), measured(environment=None))
    assert not is_repeat(measured(), measured(label="simulated"))
    assert not is_repeat(
        measured(), planned(measured(), workload=RUN.plan.workload.model_copy(update={"mode": "infer"}))
    )
    assert is_repeat(measured(), planned(measured(), budget_s=500.0))


def test_a_run_names_the_crossover_that_its_verdict_has() -> None:
    answer = analyse(RUN)
    assert occasion(RUN, answer).crossover == answer.verdict.crossovers[0]
    assert occasion(RUN, None).crossover is None


def test_two_occasions_agree_or_say_that_the_machine_was_not_alike() -> None:
    alike = named((205, 200, 211), (208, 202, 214))
    assert alike.agree is True
    assert len(sentences(alike)) == 1
    apart = named((205, 200, 210), (468, 436, 488))
    assert apart.agree is False
    assert "differ by more" in sentences(apart)[1]
    assert apart.occasions[0].crossover.batch == 468  # newest first


def test_opposite_crossovers_are_not_taken_together() -> None:
    found = named((20, 19, 21), (20, 19, 21), (20, 19, 21), after=("a", "b", "b"))
    assert (found.agree, found.together) == (False, None)


def test_one_occasion_says_nothing_and_runs_without_a_crossover_are_counted() -> None:
    assert sentences(named((20, 19, 21))) == ()
    assert "no run found" in sentences(named(None, None))[0]
    assert "2 runs with" in sentences(named((20, 19, 21), None, (20, 19, 21)))[0]


def test_three_and_more_give_one_crossover_and_what_the_next_run_would_find() -> None:
    found = named((205, 200, 209), (225, 207, 291), (191, 163, 291), (198, 180, 206), (227, 212, 264), (243, 229, 273))
    batch, low, high = found.together
    assert 190 < low < batch < high < 250
    assert found.next_range[0] < low
    assert high < found.next_range[1]
    assert sentences(found)[0] == (
        f"The same was measured 6 times on this machine: over all of them the crossover is {batch:.0f} ({low:.0f} to "
        f"{high:.0f}), and another run would find it within {found.next_range[0]:.0f} to {found.next_range[1]:.0f}."
    )


def test_bounds_at_one_batch_are_no_certainty() -> None:
    batch, low, high = named((64, 64, 64), (64, 64, 64), (65, 65, 65)).together
    assert low < batch < high < 66


@pytest.mark.parametrize("between", [0.0, 0.3])
def test_the_interval_over_all_and_that_of_the_next_run_hold_what_they_say(between: float) -> None:
    draw = random.Random(7)
    truth, held, next_held, apart, trials = 8.0, 0, 0, 0, 400
    for _ in range(trials):
        errors = [draw.uniform(0.03, 0.1) for _ in range(5)]
        centres = [draw.gauss(draw.gauss(truth, between), error) for error in errors]
        found = named(*((2**y, 2 ** (y - 1.96 * e), 2 ** (y + 1.96 * e)) for y, e in zip(centres, errors, strict=True)))
        held += found.together[1] <= 2**truth <= found.together[2]
        next_held += found.next_range[0] <= 2 ** draw.gauss(truth, between) <= found.next_range[1]
        apart += found.agree is False
    assert 0.92 <= held / trials <= 0.99
    assert next_held / trials >= 0.92
    assert apart / trials > 0.9 if between else apart / trials < 0.09


def test_batches_may_be_numpy_numbers() -> None:
    assert named(*[(np.float64(20), np.float64(19), np.float64(21))] * 3).agree is True
