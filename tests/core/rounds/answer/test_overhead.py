"""Floor and slope from step times of known curves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.rounds.answer.analyse import analyse, cell_statistics
from core.rounds.answer.overhead import fit_target, solve
from simulated.simulation import Curve
from tests.support.points import run_of

BATCHES = tuple(2**i for i in range(11))


@settings(max_examples=50)
@given(st.floats(0.01, 10), st.floats(-8, 0), st.sampled_from([1.0, 1.5, 2.0, 3.0, 4.0]))
def test_a_noiseless_curve_is_found_exactly(floor_ms: float, log_knee: float, q: float) -> None:
    slope_ms = floor_ms * 2.0**log_knee
    curve = Curve(floor_ms, slope_ms, q)
    batches = np.array(BATCHES, dtype=float)
    found = solve(batches, np.array([curve.step_ms(b) for b in batches]))
    assert found.q == q
    assert np.exp(found.log_floor) == pytest.approx(floor_ms, rel=1e-3)
    assert np.exp(found.log_slope) == pytest.approx(slope_ms, rel=1e-3)


def test_the_fit_answers_what_the_page_asks() -> None:
    curve = Curve(0.8, 0.01, 2.0)
    answer = analyse(run_of(curve.step_ms, BATCHES, processes=4, rounds=4, process_noise=0.02))
    fit = answer.fits[0]
    assert fit.trusted
    assert fit.floor_low_ms < 0.8 < fit.floor_high_ms
    assert fit.slope_low_ms < 0.01 < fit.slope_high_ms
    assert fit.overhead_share(1) > 0.95
    assert fit.overhead_share(1024) < 0.05
    assert fit.overhead_share(fit.half_overhead_batch) == pytest.approx(0.5, abs=1e-9)
    assert fit.half_overhead_low < 0.8 / 0.01 / 3**0.5 < fit.half_overhead_high
    assert fit.step_ms(64) == pytest.approx(curve.step_ms(64), rel=0.05)


def test_intervals_cover_the_truth() -> None:
    curve, covered = Curve(0.8, 0.01, 2.0), 0
    for seed in range(100):
        run = run_of(curve.step_ms, BATCHES, processes=4, rounds=2, process_noise=0.03, noise=0.02, seed=seed)
        fit = fit_target(run, 0, cell_statistics(run))
        covered += fit.floor_low_ms <= 0.8 <= fit.floor_high_ms
    assert covered >= 90


def test_too_few_batches_give_no_fit() -> None:
    run = run_of(lambda b: 1.0 + b, (1, 2))
    assert fit_target(run, 0, cell_statistics(run)) is None


@pytest.mark.parametrize(
    ("curve", "says"),
    [
        (Curve(1.0, 1e-5), "Most of the largest batch is fixed cost"),
        (Curve(1e-3, 1.0), "Little of the smallest batch is fixed cost"),
    ],
)
def test_a_knee_outside_the_range_is_said(curve: Curve, says: str) -> None:
    run = run_of(curve.step_ms, BATCHES, noise=0.01)
    fit = fit_target(run, 0, cell_statistics(run))
    assert not fit.trusted
    assert says in fit.note


def test_a_curve_of_another_shape_is_not_trusted() -> None:
    run = run_of(lambda b: 1.0 if b in (1, 4, 16, 64) else 3.0, BATCHES, noise=0.001)
    fit = fit_target(run, 0, cell_statistics(run))
    assert "misses the measured" in fit.note
