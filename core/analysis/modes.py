"""Test whether step times have one mode or two: a gap between two clusters, with a stated false-alarm rate.

For any unimodal distribution and any three adjacent bands of equal width, the middle one holds in the long run no fewer
samples than the emptier of the outer two. Two clusters in the samples define the bands: one around the median of each,
and one between them. The test is the binomial probability of so few samples in the middle. Choosing the bands from the
same samples costs something: simulated on skewed unimodal times (normal, log-normal, gamma, exponential, Pareto,
uniform, a narrow core with a long flat tail), 20 to 300 samples, the false-alarm rate is 0.2 % at most, and must be
below 1 % (tests/core/analysis/test_modes.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.001
MIN_SAMPLES = 20  # with fewer than ten in each band LEVEL cannot be reached
MIN_RATIO = 1.25  # modes closer to each other change no conclusion


@dataclass(frozen=True)
class TwoModes:
    """Median of the quicker and of the slower samples, the number of slower ones, and of all."""

    quick: float
    slow: float
    slower: int
    samples: int


def two_modes(samples: Sequence[float]) -> TwoModes | None:
    """Return the modes if there are two, else None; also None for fewer than ``MIN_SAMPLES`` positive samples."""
    times = np.sort(np.asarray(samples, dtype=float))
    count = len(times)
    if count < MIN_SAMPLES or times[-1] < MIN_RATIO * times[0]:
        return None
    split = _split(times)
    quick, slow = float(np.median(times[:split])), float(np.median(times[split:]))
    if slow < MIN_RATIO * quick:
        return None
    edge = (slow - quick) / 4
    lower, upper = (int(np.sum(np.abs(times - centre) <= edge)) for centre in (quick, slow))
    between = int(np.sum((times > quick + edge) & (times < slow - edge)))
    fewest = min(lower, upper)
    if _at_most(between, between + fewest) > LEVEL:
        return None
    return TwoModes(quick, slow, count - split, count)


def _at_most(few: int, count: int) -> float:
    """Return the probability of at most ``few`` heads in ``count`` tosses."""
    number = np.arange(1, few + 1)
    logs = np.r_[0.0, np.cumsum(np.log((count - number + 1) / number))]
    return math.exp(float(np.logaddexp.reduce(logs)) - count * math.log(2))


def _split(times: np.ndarray) -> int:
    """Return the number of sorted samples in the first of two clusters, by least squares within clusters."""
    below = np.arange(1, len(times))
    above = len(times) - below
    sums = np.cumsum(times)[:-1]
    apart = sums / below - (times.sum() - sums) / above
    return int(np.argmax(apart**2 * below * above)) + 1
