"""The claim that matters most: intervals cover the true crossover as often as they say.

Whole sweeps by the real supervisor on simulated machines with known truth. The noise has heavy tails, drift common to
both targets and of one alone, offsets of each process, and stalls (tests/support/simulation.py). Seeded.
"""

import math
from collections import Counter

import numpy as np
import pytest

from core.analysis.analyse import compare
from core.analysis.answer import Verdict
from tests.support.simulation import Curve, Machine, NoiseModel, random_curves
from tests.support.sweeps import plan, sweep

BUDGETS_S = (30.0, 60.0, 90.0, 180.0)
SWEEPS = 1000


def verdict_of(machine: Machine, budget_s: float) -> Verdict:
    return compare(sweep(machine, plan(budget_s=budget_s)))[0]


@pytest.mark.timeout(900)
def test_the_interval_covers_the_truth_in_95_of_100_sweeps() -> None:
    covered: list[bool] = []
    missing = 0
    for seed in range(SWEEPS):
        machine = Machine(random_curves(np.random.default_rng(seed)), NoiseModel(), seed=seed)
        truth = machine.true_crossover(1, 1024)
        assert truth is not None
        verdict = verdict_of(machine, BUDGETS_S[seed % len(BUDGETS_S)])
        if verdict.kind != "crossover":
            assert verdict.kind == "inconclusive", "never a wrong certainty"
            missing += 1
            continue
        covered.append(any(c.low <= truth <= c.high for c in verdict.crossovers))
    assert 0.93 <= np.mean(covered) <= 0.97
    assert missing <= 0.05 * SWEEPS


def test_no_crossover_is_invented_where_there_is_none() -> None:
    same = (Curve(0.5, 0.01), Curve(0.5, 0.01))
    kinds = Counter(verdict_of(Machine(same, NoiseModel(), seed=seed), 60.0).kind for seed in range(150))
    assert kinds["crossover"] <= 0.05 * 150
    assert kinds["ahead"] <= 0.05 * 150
    assert kinds["tie"] + kinds["inconclusive"] >= 0.9 * 150


def test_a_target_ahead_throughout_is_never_called_a_crossover() -> None:
    ahead = (Curve(0.5, 0.01), Curve(0.55, 0.011))
    verdicts = [verdict_of(Machine(ahead, NoiseModel(), seed=seed), 60.0) for seed in range(100)]
    kinds = Counter(v.kind for v in verdicts)
    assert kinds["crossover"] <= 2
    assert {v.ahead for v in verdicts if v.kind == "ahead"} <= {"cpu"}


def test_a_machine_too_noisy_to_tell_is_called_inconclusive() -> None:
    close = (Curve(0.5, 0.010), Curve(0.55, 0.0095))
    wild = NoiseModel(tail=0.2, process=0.2, cell=0.1)
    verdicts = [verdict_of(Machine(close, wild, seed=seed), 60.0) for seed in range(60)]
    kinds = Counter(v.kind for v in verdicts)
    assert kinds["inconclusive"] >= 55
    assert Counter(v.reason for v in verdicts)["unstable_machine"] >= 50


def test_the_lead_covers_the_truth_too() -> None:
    covered = []
    for seed in range(200):
        first, second = random_curves(np.random.default_rng(seed))
        machine = Machine((first, second), NoiseModel(), seed=seed)
        lead = verdict_of(machine, 60.0).lead
        # the batch at which the second is ahead by exactly 5 % is the crossover with a first that is 5 % faster
        faster = Curve(first.floor_ms / 1.05, first.slope_ms / 1.05)
        truth = Machine((faster, second)).true_crossover(1, 1024)
        if lead is not None and truth is not None and math.log2(1024 / truth) > 0.5:
            covered.append(lead.low <= truth <= lead.high)
    assert len(covered) >= 150
    assert 0.91 <= np.mean(covered) <= 0.99
