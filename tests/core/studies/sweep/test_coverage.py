"""The most important claim: intervals cover the true crossover as often as they say.

Whole sweeps by the real supervisor on simulated machines with known truth. The noise has heavy tails, drift common to
both targets and of one alone, offsets of each process, and stalls (simulated/simulation.py). Seeded. Each claim is
tested twice: on a few sweeps, which reveal a wrong sign or a wrong bound, and on as many as its rate needs.
"""

import math
from collections import Counter
from functools import cache

import numpy as np
import pytest

from core.rounds.answer.analyse import compare
from core.rounds.answer.answer import Verdict
from simulated.simulation import Curve, Machine, NoiseModel, random_curves
from simulated.sweeps import plan, sweep

BUDGETS_S = (30.0, 60.0, 90.0, 180.0)
MANY = (pytest.mark.statistical, pytest.mark.timeout(900))


def verdict_of(machine: Machine, budget_s: float = 60.0) -> Verdict:
    return compare(sweep(machine, plan(budget_s=budget_s)))[0]


@cache
def verdict_of_random(seed: int) -> Verdict:
    machine = Machine(random_curves(np.random.default_rng(seed)), NoiseModel(), seed=seed)
    return verdict_of(machine, BUDGETS_S[seed % len(BUDGETS_S)])


@pytest.mark.parametrize(("sweeps", "least"), [(24, 0.9), pytest.param(300, 0.93, marks=MANY)], ids=["few", "many"])
def test_the_interval_covers_the_truth_in_95_of_100_sweeps(sweeps: int, least: float) -> None:
    covered: list[bool] = []
    octaves: list[float] = []
    missing = 0
    for seed in range(sweeps):
        truth = Machine(random_curves(np.random.default_rng(seed))).true_crossover(1, 1024)
        assert truth is not None
        verdict = verdict_of_random(seed)
        if verdict.kind != "crossover":
            assert verdict.kind == "inconclusive", "never a wrong certainty"
            missing += 1
            continue
        assert all(c.low <= c.batch <= c.high for c in verdict.crossovers)
        assert verdict.crossovers[0].ahead_after == "gpu:0"
        covered.append(any(c.low <= truth <= c.high for c in verdict.crossovers))
        octaves.append(math.log2(verdict.crossovers[0].high / verdict.crossovers[0].low))
    assert np.mean(covered) >= least
    assert np.median(octaves) < 0.5
    assert missing <= 0.05 * sweeps


@pytest.mark.parametrize("sweeps", [10, pytest.param(150, marks=MANY)])
def test_no_crossover_is_invented_where_there_is_none(sweeps: int) -> None:
    same = (Curve(0.5, 0.01), Curve(0.5, 0.01))
    kinds = Counter(verdict_of(Machine(same, NoiseModel(), seed=seed)).kind for seed in range(sweeps))
    assert kinds["crossover"] <= 0.05 * sweeps
    assert kinds["ahead"] <= 0.05 * sweeps
    assert kinds["tie"] + kinds["inconclusive"] >= 0.9 * sweeps


@pytest.mark.parametrize("sweeps", [10, pytest.param(100, marks=MANY)])
def test_a_target_ahead_throughout_is_never_called_a_crossover(sweeps: int) -> None:
    ahead = (Curve(0.5, 0.01), Curve(0.55, 0.011))
    verdicts = [verdict_of(Machine(ahead, NoiseModel(), seed=seed)) for seed in range(sweeps)]
    kinds = Counter(v.kind for v in verdicts)
    assert kinds["crossover"] <= 0.02 * sweeps
    assert {v.ahead for v in verdicts if v.kind == "ahead"} == {"cpu"}


@pytest.mark.parametrize("sweeps", [6, pytest.param(60, marks=MANY)])
def test_a_machine_too_noisy_to_tell_is_called_inconclusive(sweeps: int) -> None:
    close = (Curve(0.5, 0.010), Curve(0.55, 0.0095))
    wild = NoiseModel(tail=0.2, process=0.2, cell=0.1)
    verdicts = [verdict_of(Machine(close, wild, seed=seed)) for seed in range(sweeps)]
    kinds = Counter(v.kind for v in verdicts)
    assert kinds["inconclusive"] >= 0.9 * sweeps
    assert Counter(v.reason for v in verdicts)["unstable_machine"] >= 0.8 * sweeps


@pytest.mark.parametrize("sweeps", [12, pytest.param(100, marks=MANY)])
def test_the_lead_covers_the_truth_too(sweeps: int) -> None:
    covered = []
    for seed in range(1, 1 + len(BUDGETS_S) * sweeps, len(BUDGETS_S)):  # those of 60 s
        first, second = random_curves(np.random.default_rng(seed))
        lead = verdict_of_random(seed).lead
        # the batch at which the second is ahead by exactly 5 % is the crossover with a first that is 5 % faster
        faster = Curve(first.floor_ms / 1.05, first.slope_ms / 1.05)
        truth = Machine((faster, second)).true_crossover(1, 1024)
        if lead is not None and truth is not None and math.log2(1024 / truth) > 0.5:
            assert lead.target == "gpu:0"
            covered.append(lead.low <= truth <= lead.high)
    assert len(covered) >= 0.75 * sweeps
    assert np.mean(covered) >= 0.93
