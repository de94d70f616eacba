"""Claims on realistic machines: simulated after real ones, quiet and beside programs that come and go.

Equal targets: test_coverage_equal.py. Goals and noise: benchmarks/coverage.py, simulated/noise.py.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from simulated.looks import Judged, Looked, claims_of, crossing_targets, looked_at, simulated
from simulated.noise import BUSY_MACHINE, QUIET, QUIET_MACHINE, NoiseModel
from simulated.simulation import Curve

MACHINES = pytest.mark.parametrize("noise", [QUIET_MACHINE, BUSY_MACHINE], ids=["quiet", "busy"])
MANY = (pytest.mark.statistical, pytest.mark.timeout(3600))
BUDGETS_S = (30.0, 45.0, 90.0)


def covered(sweeps: list[Judged]) -> float:
    return float(np.mean([hit for sweep in sweeps for hit in sweep.covered]))


def test_every_look_at_a_sweep_is_heard() -> None:
    """Make one target twice as fast: every look but the first few reports it."""
    seen = looked_at(simulated((Curve(1.0, 0.02), Curve(0.5, 0.01)), QUIET, 1), 100.0, every_s=2.0, more_s=20.0)
    assert seen.looks > 10
    assert min(len(seen.live), len(seen.halfway), len(seen.end), len(seen.prolonged)) >= 1
    assert seen.claims >= seen.live | seen.end


def test_equivalence_is_no_claim_to_be_wrong_about() -> None:
    assert claims_of(SimpleNamespace(claims=("equivalent",))) == set()
    assert claims_of(SimpleNamespace(claims=("equivalent", "crossover"))) == {"crossover"}
    assert Looked({"lead"}, frozenset({"ahead"}), frozenset({"crossover"})).claims == {"lead", "ahead", "crossover"}


@MACHINES
@pytest.mark.parametrize("sweeps", [pytest.param(150, marks=MANY)])
def test_crossovers_are_covered(noise: NoiseModel, sweeps: int) -> None:
    judged = [crossing_targets(noise, seed, BUDGETS_S[seed % 3]) for seed in range(sweeps)]
    assert covered(judged) >= 0.93
    assert np.mean([bool(one.covered) for one in judged if one.changes]) > 0.6


@MACHINES
@pytest.mark.parametrize(("count", "sweeps"), [pytest.param(3, 100, marks=MANY), pytest.param(6, 60, marks=MANY)])
def test_whole_answers_of_several_targets_are_right(noise: NoiseModel, count: int, sweeps: int) -> None:
    judged = [crossing_targets(noise, seed, 60.0, count) for seed in range(sweeps)]
    assert np.mean([one.right for one in judged]) >= 0.93
    assert covered(judged) >= 0.93
