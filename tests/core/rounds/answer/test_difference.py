"""The difference of a run from another: a ratio with an interval that covers the truth, and a sentence."""

import math

import numpy as np
import pytest

from core.rounds.answer.analyse import analyse
from core.rounds.answer.comparison import Estimate, ratio, stated
from core.rounds.run import Run
from simulated.runs import make_run


def said(*runs: Run) -> tuple[str, ...]:
    return stated(runs, [analyse(run) for run in runs])


def test_a_ratio_of_two_estimates_has_the_interval_of_independent_parts() -> None:
    found = ratio(Estimate(2.0, 2.0 / 1.1, 2.0 * 1.1), Estimate(3.0, 3.0 / 1.2, 3.0 * 1.2))
    width = math.exp(math.hypot(math.log(1.1), math.log(1.2)))
    assert found == pytest.approx((1.5, 1.5 / width, 1.5 * width))
    same = Estimate(5.0, 4.0, 7.0)
    low, high = ratio(same, same)[1:]
    assert low < 1 < high


def test_the_interval_of_a_ratio_holds_the_truth_as_often_as_it_says() -> None:
    """Draw estimates with normal logarithms, and the 95 % interval that follows from their known spread."""
    rng, held = np.random.default_rng(5), 0
    for _ in range(2_000):
        parts = []
        for truth, spread in ((40.0, 0.05), (60.0, 0.15)):
            middle = math.log(truth) + rng.normal(0.0, spread)
            parts.append(Estimate(*(math.exp(middle + 1.96 * side * spread) for side in (0, -1, 1))))
        found = ratio(*parts)
        held += found.low <= 1.5 <= found.high
    assert 0.935 <= held / 2_000 <= 0.965


def test_crossovers_are_set_against_each_other() -> None:
    (sentence,) = said(make_run(1), make_run(2, floors_ms=(0.3, 1.6)))
    assert sentence.startswith("B against A: the crossover is at batch ")
    assert sentence.endswith(", 95 % intervals (clear).")
    assert " instead of 4" in sentence
    (sentence,) = said(make_run(1), make_run(2))
    assert sentence.endswith("95 % intervals (not clear).")


def test_without_a_crossover_in_both_the_speed_ups_are() -> None:
    always = make_run(2, floors_ms=(0.8, 0.3))
    sentences = said(always, make_run(1), always)
    assert sentences[0].startswith("B against A:")
    assert "speed-up" in sentences[0]
    assert sentences[1].startswith("C against A:")
    assert "1 times as" in sentences[1]
    assert sentences[1].endswith("(not clear).")


def test_of_single_targets_the_step_times_are() -> None:
    slow, fast = make_run(1, floors_ms=(0.6,), slopes_ms=(0.04,)), make_run(2, floors_ms=(0.3,), slopes_ms=(0.02,))
    (sentence,) = said(slow, fast)
    assert "a step takes 0.496 to 0.508 times" in sentence
    assert "clear at each of them" in sentence


def test_nothing_is_claimed_without_an_interval_or_a_batch_in_common() -> None:
    nothing = "B against A: no batch has an interval in both, so nothing is said of their difference."
    assert said(make_run(1), make_run(2, processes=1, passes=1, rounds_per_pass=1)) == (nothing,)
    flat = {"floors_ms": (0.8, 0.3), "processes": 3}
    assert said(make_run(1, batches=(1, 2), **flat), make_run(2, batches=(8, 16), **flat)) == (nothing,)  # type: ignore[arg-type]
