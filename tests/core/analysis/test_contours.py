"""Contour lines against shapes whose zero is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.analysis.contours import zero_lines

X, Y = np.linspace(-2, 2, 41), np.linspace(-1, 3, 31)
XX, YY = np.meshgrid(X, Y)


def test_a_plane_has_one_straight_line_from_edge_to_edge() -> None:
    (line,) = zero_lines(X, Y, YY - 0.5 * XX - 0.73)
    assert all(y == pytest.approx(0.5 * x + 0.73) for x, y in line)
    assert {round(line[0][0], 6), round(line[-1][0], 6)} == {-2.0, 2.0}
    rising = [x for x, _ in line]
    assert rising in (sorted(rising), sorted(rising, reverse=True)), "in order along the line"


def test_a_circle_is_closed() -> None:
    (line,) = zero_lines(X, Y, np.hypot(XX, YY - 1.0) - 0.8)
    assert line[0] == line[-1]
    assert all(np.hypot(x, y - 1.0) == pytest.approx(0.8, abs=0.01) for x, y in line)


def test_two_circles_are_two_lines() -> None:
    z = np.minimum(np.hypot(XX + 1, YY - 1), np.hypot(XX - 1, YY - 1)) - 0.5
    assert len(zero_lines(X, Y, z)) == 2


def test_no_sign_change_has_no_line() -> None:
    assert zero_lines(X, Y, np.ones_like(XX)) == []
    assert zero_lines(X, Y[:1], XX[:1]) == []


def test_no_line_runs_through_what_cannot_run() -> None:
    z = np.where(XX > 0.51, np.nan, YY - 1.01)
    (line,) = zero_lines(X, Y, z)
    assert max(x for x, _ in line) == pytest.approx(0.5)


def test_a_saddle_keeps_its_lines_apart() -> None:
    lines = zero_lines(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([[2.0, -1.0], [-1.0, 2.0]]))
    assert len(lines) == 2
    centre_is_positive = [all(abs(x - y) > 0.3 for x, y in line) for line in lines]
    assert all(centre_is_positive), "the positive corners are joined through the middle"


@given(arrays(float, (5, 6), elements=st.floats(-3, 3).filter(lambda v: abs(v) > 1e-3)))
def test_every_edge_with_a_sign_change_is_crossed_once(z: np.ndarray) -> None:
    lines = zero_lines(np.arange(6.0), np.arange(5.0), z)
    crossings = int(np.sum(np.diff(z > 0, axis=0)) + np.sum(np.diff(z > 0, axis=1)))
    points = [point for line in lines for point in (line[:-1] if line[0] == line[-1] and len(line) > 2 else line)]
    assert len(points) == crossings
