"""The map's contours against shapes whose zero is known; axes are in their own units, lines straight in log2."""

import numpy as np
import pytest

from core.studies.frontier.answer import zero_lines

X, Y = np.geomspace(1 / 4, 4, 41), np.geomspace(1 / 2, 8, 31)
LOG_X, LOG_Y = np.meshgrid(np.log2(X), np.log2(Y))


def test_a_plane_has_one_straight_line_from_edge_to_edge() -> None:
    (line,) = zero_lines(X, Y, LOG_Y - 0.5 * LOG_X - 0.73)
    assert np.log2(line.y) == pytest.approx(0.5 * np.log2(line.x) + 0.73)
    assert sorted((line.x[0], line.x[-1])) == pytest.approx([1 / 4, 4])
    assert list(line.x) in (sorted(line.x), sorted(line.x, reverse=True)), "in order along the line"


def test_circles_are_closed_lines_of_their_own() -> None:
    lines = zero_lines(X, Y, np.minimum(np.hypot(LOG_X + 1, LOG_Y - 1), np.hypot(LOG_X - 1, LOG_Y - 1)) - 0.5)
    assert len(lines) == 2
    assert all((line.x[0], line.y[0]) == (line.x[-1], line.y[-1]) for line in lines)


def test_no_sign_change_or_a_single_value_has_no_line() -> None:
    assert zero_lines(X, Y, np.ones_like(LOG_X)) == ()
    assert zero_lines(X, Y[:1], LOG_X[:1]) == ()


def test_no_line_runs_through_what_cannot_run() -> None:
    (line,) = zero_lines(X, Y, np.where(LOG_X > 0.51, np.nan, LOG_Y - 1.01))
    assert np.log2(max(line.x)) == pytest.approx(0.5)


def test_a_saddle_joins_the_corners_of_its_mean() -> None:
    lines = zero_lines(np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.array([[2.0, -1.0], [-1.0, 2.0]]))
    assert len(lines) == 2
    assert all(abs(np.log2(x / y)) > 0.3 for line in lines for x, y in zip(line.x, line.y, strict=True))
