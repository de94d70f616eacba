"""Coverage of the intervals of a scaling study, on simulated machines.

Whole studies by the real runner, 120 s of virtual time, with the noise of simulated/simulation.py: heavy tails,
drift of all targets and of one alone, offsets of each process, stalls. Seeded.
"""

import math

import numpy as np
import pytest

from core.studies.scaling.answer import Several, scaling_answer
from simulated.scalings import TRUTH, scaled, scaling_machine, scaling_plan
from simulated.simulation import QUIET, NoiseModel

MANY = (pytest.mark.statistical, pytest.mark.timeout(900))


def answers(studies: int, noise: NoiseModel | None = None) -> list[Several]:
    plan = scaling_plan(trace=False)
    return [scaling_answer(scaled(scaling_machine(noise=noise, seed=seed), plan)).several[0] for seed in range(studies)]


@pytest.mark.parametrize("studies", [2, pytest.param(100, marks=MANY)], ids=["few", "many"])
def test_efficiencies_and_crossover_are_covered(studies: int) -> None:
    found = answers(studies)
    least = 0.95 - 2 * math.sqrt(0.05 * 0.95 / studies) - 0.02
    for kind, truth in (
        ("strong", lambda batch: TRUTH.strong(batch, 2)),
        ("weak", lambda batch: TRUTH.weak(batch, 2)),
        ("replica", lambda batch: TRUTH.step_ms(batch, 1) / (2 * TRUTH.step_ms(batch / 2, 1))),
    ):
        held = [one.low <= truth(one.batch) <= one.high for several in found for one in getattr(several, kind)]
        assert np.mean(held) >= least, kind
    crossings = [several.verdict.crossovers for several in found]
    assert all(len(changes) == 1 for changes in crossings) or studies > 2
    known = [changes[0] for changes in crossings if len(changes) == 1]
    assert len(known) >= 0.95 * studies
    assert np.mean([change.low <= TRUTH.crossover(2) <= change.high for change in known]) >= least


def test_without_noise_every_number_is_the_truth() -> None:
    (found,) = answers(1, QUIET)
    for one in found.strong:
        assert math.isclose(one.value, TRUTH.strong(one.batch, 2), rel_tol=0.01)
    for one in found.weak:
        assert math.isclose(one.value, TRUTH.weak(one.batch, 2), rel_tol=0.01)
    (change,) = found.verdict.crossovers
    assert change.low < TRUTH.crossover(2) < change.high
    assert change.high / change.low < 1.2
