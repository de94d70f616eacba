"""Numerical methods under their standard names: bisection, zero crossings, runs, least squares.

Pure functions on NumPy; the caller documents the purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BISECTIONS = 64  # halvings until any interval of doubles has shrunk to neighbouring numbers
HUGE = 1e300  # stands for infinity in an interpolation
MAX_ITERATIONS = 60  # damped steps of a least-squares fit
DIFFERENCE_STEP = 1e-3  # of a forward difference, in parameters of order one


def bisect(below: Callable[[float], bool], low: float, high: float) -> float:
    """Return the point at which ``below``, true at ``low`` and false at ``high``, changes."""
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2


def bisect_whole(below: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest integer for which ``below`` holds; it is assumed true at ``low`` and false at ``high``."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low


def sign_changes(y: Array) -> list[int]:
    """Return indices i for which one of y[i] and y[i + 1] is above zero and the other is not."""
    above = y > 0
    return np.flatnonzero(above[:-1] != above[1:]).tolist()


def zero_between(x: Array, y: Array, i: int) -> float:
    """Return the zero of the line from point i to point i + 1; the finite point if the other is infinite."""
    a, b = np.clip(y[i : i + 2], -HUGE, HUGE)
    return float(x[i] + (x[i + 1] - x[i]) * (a / (a - b)))


def zeros(x: Array, y: Array) -> list[float]:
    """Return the zeros of the piecewise linear y, in ascending x."""
    return [zero_between(x, y, i) for i in sign_changes(y)]


def rising_zeros(x: Array, y: Array) -> list[float]:
    """Return the points at which the piecewise linear y rises above zero, in ascending x."""
    return [zero_between(x, y, i) for i in sign_changes(y) if y[i + 1] > 0]


def runs(values: NDArray[Any]) -> list[tuple[int, int]]:
    """Return first index and last index + 1 of each run of equal values."""
    return list(pairwise([0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]))


class LeastSquares(NamedTuple):
    """Parameters (p), and the residuals (n) and their derivatives (n × p) at them."""

    parameters: Array
    residuals: Array
    jacobian: Array


def levenberg_marquardt(
    model: Callable[[Array], tuple[Array, Array]],
    start: Array,
    lowest: Array | float = -np.inf,
    tolerance: float = 1e-9,
) -> LeastSquares:
    """Minimise the sum of squared residuals over parameters ≥ ``lowest`` by damped Gauss-Newton steps.

    Marquardt 1963. ``model`` returns residuals (n) and their derivatives (n × p). Stops when a step is below
    ``tolerance``, or after :data:`MAX_ITERATIONS`.
    """
    damping = 1e-3
    best = LeastSquares(start, *model(start))
    for _ in range(MAX_ITERATIONS):
        normal = best.jacobian.T @ best.jacobian
        diagonal = normal.reshape(-1)[:: len(start) + 1]  # a view
        diagonal += damping * (diagonal + 1e-9)
        step = np.linalg.solve(normal, -best.jacobian.T @ best.residuals)
        parameters = np.maximum(best.parameters + step, lowest)
        tried = LeastSquares(parameters, *model(parameters))
        settled = np.max(np.abs(parameters - best.parameters)) < tolerance
        if tried.residuals @ tried.residuals <= best.residuals @ best.residuals:
            best, damping = tried, max(damping / 5, 1e-9)
        else:
            damping *= 4
        if settled:
            break
    return best


def with_differences(residuals: Callable[[Array], Array]) -> Callable[[Array], tuple[Array, Array]]:
    """Wrap residuals to return their forward-difference derivatives, too, as :func:`levenberg_marquardt` requires."""

    def model(at: Array) -> tuple[Array, Array]:
        now, steps = residuals(at), DIFFERENCE_STEP * np.eye(len(at))
        return now, np.stack([(residuals(at + step) - now) / DIFFERENCE_STEP for step in steps], axis=1)

    return model


def evenly(items: Sequence[int], count: int) -> tuple[int, ...]:
    """Return at most ``count`` items, evenly spread, including the first and last."""
    if len(items) <= count:
        return tuple(items)
    return tuple(items[round(i * (len(items) - 1) / (count - 1))] for i in range(count))
