"""Each method against answers known in closed form."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.analysis.numerics import (
    bisect,
    bisect_whole,
    levenberg_marquardt,
    rising_zeros,
    runs,
    sign_changes,
    with_differences,
    zero_between,
    zeros,
)

X = np.arange(8.0)


@given(st.integers(-5, 40), st.integers(1, 60), st.integers(0, 60))
def test_bisection_finds_a_root_to_the_last_bits_and_the_last_whole_number_that_holds(
    low: int, width: int, place: int
) -> None:
    last = low + place % width
    assert bisect_whole(lambda n: n <= last, low, low + width) == last
    assert bisect(lambda x: x * x < 2, 0.0, 2.0) == pytest.approx(math.sqrt(2), rel=1e-15)


def test_zeros_are_interpolated_count_once_on_a_point_and_rising_ones_are_told_apart() -> None:
    y = np.array([-1.0, 3.0, 1.0, -1.0, -2.0, -2.0, 2.0, 2.0])
    assert zeros(X, y) == pytest.approx([0.25, 2.5, 5.5])
    assert rising_zeros(X, y) == pytest.approx([0.25, 5.5])
    assert zeros(X, np.ones(8)) == []
    assert zeros(X[:3], np.array([-1.0, 0.0, 1.0])) == [1.0]
    assert zeros(X[:3], np.array([1.0, 0.0, -1.0])) == [1.0]
    assert zeros(X[:3], np.array([-1.0, 0.0, -1.0])) == []
    assert zero_between(X, np.array([-np.inf, 2.0]), 0) == 1.0
    assert zero_between(X, np.array([-2.0, np.inf]), 0) == pytest.approx(0.0)


@given(arrays(float, 8, elements=st.floats(-3, 3)))
def test_signs_differ_on_the_two_sides_of_every_change_and_runs_tile_the_values(y: np.ndarray) -> None:
    changes = sign_changes(y)
    assert all((y[i] > 0) != (y[i + 1] > 0) for i in changes)
    assert len(changes) == len(runs((y > 0).astype(float))) - 1
    assert runs(np.array([1.0, 1.0, -1.0, 0.0, 0.0, 0.0])) == [(0, 2), (2, 3), (3, 6)]


def test_least_squares_recovers_a_curve_with_given_or_numerical_derivatives() -> None:
    y = 3.0 * np.exp(-0.4 * X)

    def residuals(p: np.ndarray) -> np.ndarray:
        return y - np.exp(p[0] - p[1] * X)

    def model(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        curve = np.exp(p[0] - p[1] * X)
        return y - curve, np.stack([-curve, X * curve], axis=1)

    start = np.array([0.0, 0.0])
    for one in (model, with_differences(residuals)):
        assert levenberg_marquardt(one, start).parameters == pytest.approx([math.log(3.0), 0.4], rel=1e-6)
    bounded = levenberg_marquardt(model, start, lowest=np.array([-1.0, 0.5]))
    assert bounded.parameters[1] == 0.5
    assert bounded.residuals == pytest.approx(y - np.exp(bounded.parameters[0] - 0.5 * X))
