"""The Gaussian process against closed forms and its own draws."""

import numpy as np
import pytest

from core.analysis.gaussian_process import (
    INTERCEPT_SD,
    SLOPE_SD,
    Observed,
    Parameters,
    Prior,
    Priors,
    condition,
    fit_parameters,
)

TRUE = Parameters(signal=0.6, start=0.05, drift=0.02, unit=0.03, lengths=(2.0, 6.0))
PRIORS = Priors(Prior(0.7, 0.8), Prior(4.0, 0.7), Prior(0.05, 0.5), Prior(0.02, 0.7), Prior(0.02, 0.7))


def drawn(seed: int, n: int = 120, starts: int = 4) -> tuple[Observed, np.ndarray, np.ndarray]:
    """Return observations of a function drawn from the process, and the function itself at other points."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4, 4, (n + 60, 2))
    scaled = x / np.array(TRUE.lengths)
    r = np.sqrt(5 * ((scaled[:, None] - scaled[None]) ** 2).sum(-1))
    kernel = TRUE.signal**2 * (1 + r + r * r / 3) * np.exp(-r) + 1e-9 * np.eye(n + 60)
    f = np.linalg.cholesky(kernel) @ rng.normal(size=n + 60) + 0.4 + x @ np.array([0.5, -0.3])
    start = np.arange(n) * starts // n
    y = f[:n] + rng.normal(0, TRUE.start, starts)[start] + rng.normal(0, TRUE.unit, n)
    return Observed(x[:n], y, np.zeros(n), start, np.arange(n, dtype=float)), x[n:], f[n:]


def test_one_observation_is_the_textbook_posterior_and_far_away_the_prior_returns() -> None:
    observed = Observed(np.zeros((1, 2)), np.array([1.0]), np.array([0.01]), np.zeros(1, dtype=int), np.zeros(1))
    mean, sd = condition(observed, TRUE).at(np.zeros((1, 2)))
    prior = INTERCEPT_SD**2 + TRUE.signal**2
    noise = 0.01 + TRUE.start**2 + TRUE.drift**2 + TRUE.unit**2
    assert mean[0] == pytest.approx(prior / (prior + noise), rel=1e-6)
    assert sd[0] ** 2 == pytest.approx(prior * noise / (prior + noise), rel=1e-5)
    _, sd = condition(observed, TRUE).at(np.array([[100.0, 0.0]]))
    assert sd[0] ** 2 == pytest.approx(SLOPE_SD**2 * 100**2 + TRUE.signal**2, rel=0.01)


def test_intervals_hold_what_they_say_for_functions_drawn_from_it() -> None:
    inside = []
    for seed in range(60):
        observed, x, f = drawn(seed)
        mean, sd = condition(observed, TRUE).at(x)
        inside.append(np.mean(np.abs(mean - f) <= 1.96 * sd))
    assert 0.91 <= np.mean(inside) <= 0.98


def test_fitted_parameters_find_the_function_and_the_longer_length() -> None:
    errors = []
    for seed in range(6):
        observed, x, f = drawn(seed)
        mean, _ = condition(observed, fit_parameters(observed, PRIORS)).at(x)
        errors.append(np.sqrt(np.mean((mean - f) ** 2)))
    assert np.mean(errors) < 0.12
    found = [fit_parameters(drawn(seed)[0], PRIORS).lengths for seed in range(5)]
    assert sum(one[1] > one[0] for one in found) >= 4


def test_starts_that_differ_are_told_from_single_units() -> None:
    observed, x, _ = drawn(0)
    apart = Observed(
        observed.x, observed.y + 0.5 * (observed.start % 2), observed.variance, observed.start, observed.at_s
    )
    calm, moved = fit_parameters(observed, PRIORS), fit_parameters(apart, PRIORS)
    assert moved.start > 1.5 * calm.start
    assert moved.unit < 3 * calm.unit
    assert np.mean(condition(apart, moved).at(x)[1]) > np.mean(condition(observed, calm).at(x)[1])


def test_more_units_of_one_start_do_not_make_its_offset_known() -> None:
    parameters = Parameters(signal=0.01, start=0.2, drift=0.001, unit=0.01, lengths=(4.0, 4.0))
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (200, 2))
    for starts, expected in ((1, 0.2), (4, 0.1)):
        observed = Observed(x, rng.normal(0, 0.01, 200), np.zeros(200), np.arange(200) % starts, np.zeros(200))
        _, sd = condition(observed, parameters).at(np.zeros((1, 2)))
        assert sd[0] == pytest.approx(expected, rel=0.1)


def test_fitting_is_deterministic_and_goes_on_from_an_earlier_fit() -> None:
    observed, _, _ = drawn(3)
    first = fit_parameters(observed, PRIORS)
    assert fit_parameters(observed, PRIORS) == first
    again = fit_parameters(observed, PRIORS, first)
    assert again.start == pytest.approx(first.start, rel=0.5)


def test_a_band_for_many_places_holds_them_at_once() -> None:
    """Check one place (1.96), the same place many times, and places that are all but independent (Šidák 1967)."""
    known = Parameters(signal=1.0, start=0.05, drift=0.02, unit=0.03, lengths=(1e-3, 1e-3))
    far = np.array([[float(i), 0.0] for i in range(20)])
    surface = condition(
        Observed(far, np.zeros(20), np.zeros(20), np.arange(20), np.zeros(20)), known
    )  # shows the linear mean, so that the rest of neighbours is independent
    between = far[:10] + 0.5
    assert surface.simultaneous_band(far[:1]) == pytest.approx(1.96, rel=0.03)
    assert surface.simultaneous_band(np.repeat(far[:1], 30, axis=0)) == pytest.approx(1.96, rel=0.03)
    assert surface.simultaneous_band(between) == pytest.approx(2.80, rel=0.06)


def test_a_band_for_many_places_holds_functions_of_the_process() -> None:
    outside = 0
    for seed in range(60):
        observed, places, true = drawn(seed, n=40)
        surface = condition(observed, TRUE)
        mean, sd = surface.at(places)
        outside += bool(np.any(np.abs(true - mean) > surface.simultaneous_band(places) * sd))
    assert outside <= 8  # of 60; 3 are expected
