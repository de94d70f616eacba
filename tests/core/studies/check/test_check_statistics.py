"""Error rate of a check, and its rate of finding a slowdown, on simulated machines with known truth.

Whole checks by the real runner, 60 s of virtual time, with the noise of simulated/simulation.py: heavy tails, drift
of both sides and of one alone, offsets of each process, stalls. Seeded. Each claim is tested twice: on a few checks,
which reveal a wrong sign, and on as many as its rate needs.
"""

import math
from collections import Counter
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

from core.rounds.run import Run
from core.studies.check.answer import CheckAnswer, check_answer
from simulated.checks import check_machine, check_plan, checked, checked_against, stored_run

COVERED = 0.93
"""Goal for 95 % intervals with heavy tails. Of 500 checks of batch 256 they held in 94 %, and in 92 % since a visit's
length follows the mean of its rounds: no difference beyond chance (1.5 standard errors).
"""
MANY = (pytest.mark.statistical, pytest.mark.timeout(900))


def answers(checks: int, ratio: Mapping[int, float] | float, batches: tuple[int, ...] = (1, 256)) -> list[CheckAnswer]:
    plan = check_plan(batches=batches)
    return [check_answer(checked(check_machine(ratio, seed=seed), plan)) for seed in range(checks)]


def share(found: list[CheckAnswer], verdict: str) -> float:
    return Counter(answer.verdict for answer in found)[verdict] / len(found)


@pytest.mark.parametrize(("checks", "most"), [(8, 0.125), pytest.param(200, 0.05, marks=MANY)], ids=["few", "many"])
@pytest.mark.parametrize("batches", [(256,), (1, 256), (1, 16, 64, 256)], ids=str)
def test_false_alarms(checks: int, most: float, batches: tuple[int, ...]) -> None:
    found = answers(checks, 1.0, batches)
    assert share(found, "slower") <= most
    assert len(batches) > 2 or share(found, "unchanged") + share(found, "faster") >= 0.4
    covered = [one.low <= 1.0 <= one.high for answer in found for one in answer.batches]
    assert np.mean(covered) >= COVERED - 2 * math.sqrt(COVERED * (1 - COVERED) / len(covered))


@pytest.mark.parametrize(("checks", "least"), [(8, 1.0), pytest.param(200, 0.95, marks=MANY)], ids=["few", "many"])
@pytest.mark.parametrize("ratio", [1.1, {1: 1.1}], ids=["everywhere", "at one batch"])
def test_a_slowdown_of_ten_percent_is_found(checks: int, least: float, ratio: Mapping[int, float] | float) -> None:
    found = answers(checks, ratio)
    assert share(found, "slower") >= least
    assert share(found, "unchanged") + share(found, "faster") <= 0.025


@pytest.mark.parametrize("checks", [pytest.param(200, marks=MANY)])
def test_a_slowdown_at_the_limit_is_seldom_called_unchanged(checks: int) -> None:
    assert share(answers(checks, 1.05), "unchanged") <= 0.025 + 2 * math.sqrt(0.025 / checks)


@cache
def stored(seed: int) -> Run:
    return stored_run(1_000 + seed)


@pytest.mark.parametrize(("checks", "most"), [(2, 0.0), pytest.param(100, 0.05, marks=MANY)], ids=["few", "many"])
def test_false_alarms_against_a_stored_run_where_occasions_differ(checks: int, most: float) -> None:
    """Let occasions differ by 3.5 % (standard deviation), which neither run can show."""
    rng = np.random.default_rng(5)
    found = []
    for seed in range(checks):
        occasion = math.exp(rng.normal(0, 0.035))
        machine = check_machine(1.0, seed=seed, factor=occasion)
        found.append(check_answer(checked_against(stored(seed), machine, max_slowdown=0.1)))
    assert share(found, "slower") <= most


@pytest.mark.parametrize("checks", [2, pytest.param(100, marks=MANY)])
def test_twice_as_slow_as_a_stored_run_is_found(checks: int) -> None:
    found = [
        check_answer(checked_against(stored(seed), check_machine(seed=seed, factor=2.0), max_slowdown=0.1))
        for seed in range(checks)
    ]
    assert share(found, "slower") >= 0.98
