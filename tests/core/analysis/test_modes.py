"""Two modes are found if there are two, and at most one time in a hundred if there is one."""

from collections.abc import Callable

import numpy as np
import pytest

from core.analysis.statistics import MIN_SAMPLES, two_modes

Draw = Callable[[np.random.Generator, int], np.ndarray]


def long_tailed(core: float, length: float) -> Draw:
    """Return a narrow core and a flat tail: the hardest unimodal distribution that was found."""

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        narrow = 1 + 0.01 * np.abs(rng.standard_normal(count))
        return np.where(rng.random(count) < core, narrow, 1 + length * rng.random(count))

    return draw


ONE_MODE: dict[str, Draw] = {
    "normal": lambda rng, n: 1 + 0.02 * rng.standard_normal(n),
    "uniform": lambda rng, n: rng.uniform(1, 2, n),
    "log-normal": lambda rng, n: np.exp(0.5 * rng.standard_normal(n)),
    "wide log-normal": lambda rng, n: 1 + 0.2 * np.exp(1.5 * rng.standard_normal(n)),
    "gamma": lambda rng, n: 1 + 0.2 * rng.gamma(2, size=n),
    "exponential": lambda rng, n: 1 + 3 * rng.exponential(size=n),
    "pareto": lambda rng, n: 1 + rng.pareto(1, n),
    "half in a long tail": long_tailed(0.5, 2.0),
    "half in a tail": long_tailed(0.5, 0.5),
    "a quarter in a long tail": long_tailed(0.75, 2.0),
}


@pytest.mark.statistical
@pytest.mark.parametrize("count", [20, 30, 60, 120, 300])
@pytest.mark.parametrize("kind", ONE_MODE)
def test_one_mode_is_taken_for_two_at_most_one_time_in_a_hundred(kind: str, count: int) -> None:
    rng = np.random.default_rng([count, len(kind)])
    false = sum(two_modes(ONE_MODE[kind](rng, count)) is not None for _ in range(1000))
    assert false <= 10


@pytest.mark.parametrize("slower", [0.25, 0.5, 0.75])
def test_two_modes_are_found_with_their_medians(slower: float) -> None:
    rng = np.random.default_rng(7)
    slow = rng.random(60) < slower
    times = np.where(slow, 83 * np.exp(0.1 * rng.standard_normal(60)), 4.1 * np.exp(0.03 * rng.standard_normal(60)))
    found = two_modes(times)
    assert found is not None
    assert found.quick == pytest.approx(4.1, rel=0.05)
    assert found.slow == pytest.approx(83, rel=0.1)
    assert (found.slower, found.samples) == (int(slow.sum()), 60)


def test_modes_that_change_nothing_and_a_few_stalls_are_none() -> None:
    near = np.where(np.arange(60) % 2, 1.0, 1.2) + 0.001 * np.arange(60)
    assert two_modes(near) is None
    stalls = np.r_[np.full(55, 4.0) + 0.01 * np.arange(55), 40, 41, 42, 43, 44]
    assert two_modes(stalls) is None
    few = [4.0 + 0.01 * i for i in range(MIN_SAMPLES // 2)] + [80.0 + i for i in range(MIN_SAMPLES // 2 - 1)]
    assert two_modes(few) is None
    assert two_modes([*few, 90.0]) is not None
