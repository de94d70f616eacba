"""Claims about equal targets on realistic machines, quiet and beside programs that come and go.

They may be told apart in at most 3 % of sweeps, at any look at the run: a report while it ran, its state when cancelled
half-way, its end, and after it was continued. In a file of its own, since a file's tests share a process.
"""

import pytest

from simulated.looks import equal_targets
from simulated.noise import BUSY_MACHINE, QUIET_MACHINE, NoiseModel

MACHINES = pytest.mark.parametrize("noise", [QUIET_MACHINE, BUSY_MACHINE], ids=["quiet", "busy"])
MANY = (pytest.mark.statistical, pytest.mark.timeout(3600))
BUDGETS_S = (30.0, 45.0, 90.0)


@MACHINES
@pytest.mark.parametrize("sweeps", [pytest.param(100, marks=MANY)])
def test_equal_targets_are_not_told_apart_at_any_look(noise: NoiseModel, sweeps: int) -> None:
    claims = []
    for seed in range(sweeps):
        more_s = 30.0 if seed % 4 == 0 else 0.0
        every_s = 1.0 if seed % 10 == 0 else 10.0  # a look also follows each start, where alone claims change
        claims.append(equal_targets(noise, seed, BUDGETS_S[seed % 3], every_s=every_s, more_s=more_s).claims)
    assert sum(map(bool, claims)) <= 0.03 * sweeps, [sorted(one) for one in claims if one]
