"""Deadlines after which a worker counts as hung: the longest earlier time for the same work, times a factor, within
bounds set by the budget.

While nothing is known of a machine, a start or a preparation gets a minute however short the budget: importing a
framework from a cold disk takes tens of seconds, and XLA may compile a deep network for a minute. That applies to each
program's first start, since what was cached yesterday may be gone from memory. What took long once may take as long
again: no bound is tighter than twice that. Seconds throughout.

On a GPU the first preparation gets up to ten minutes of a long budget, since XLA tries several kernels for every layer
and the driver may have to compile kernels for the card; and everything there gets additional time for TensorFlow's wait
before it reports that memory ran out.
"""

from __future__ import annotations

FIRST_S, MOST_S = 60.0, 180.0
GPU_MOST_S = 600.0
GPU_RETRY_S = 20.0
"""TensorFlow's GPU allocator retries for 10 s when memory is short (bfc_allocator.cc, kMaxMillisToWait; seen in
tensorflow 60401), and a concurrent operation may wait once more. The retry is left on, since ``fit`` waits, too."""
SHARE = 0.5  # share of a long budget that one hang may cost
START_FACTOR, PREPARE_FACTOR = 5.0, 10.0  # for a busy machine; for a larger batch
BLOCK_FACTOR = 30.0  # blocks are short and stall easily
SURE_FACTOR = 2.0
SHORTEST_S, ENOUGH_S = 10.0, 20.0
READING_FACTOR, MOST_READING_S = 4.0, 600.0  # user data are read whole


def first_s(budget_s: float) -> float:
    """Return the deadline of a start, a preparation or the like of which nothing is known."""
    return _within(FIRST_S, SHARE * budget_s, MOST_S)


def first_prepare_s(budget_s: float, gpu: bool = False) -> float:
    """Return the deadline of the first preparation of its kind."""
    return _within(FIRST_S, SHARE * budget_s, GPU_MOST_S if gpu else MOST_S)


def reading_s(budget_s: float) -> float:
    """Return the deadline of a set-up with the user's data."""
    return _within(FIRST_S, READING_FACTOR * budget_s, MOST_READING_S)


def start_s(budget_s: float, longest_s: float | None) -> float:
    """Return the deadline of starting workers, from the longest start so far (None: there was none)."""
    if longest_s is None:
        return first_s(budget_s)
    most_s = _within(ENOUGH_S, SHARE * budget_s, MOST_S)
    return max(SURE_FACTOR * longest_s, _within(SHORTEST_S, START_FACTOR * longest_s, most_s))


def again_s(budget_s: float) -> float:
    """Return the deadline of a second start after the first one hung: what it had read is cached by now."""
    return first_s(budget_s) / 2


def prepare_s(budget_s: float, longest_s: float | None, expected_s: float = 0.0, gpu: bool = False) -> float:
    """Return the deadline of preparing a cell, from the longest similar preparation and the time ``expected_s``."""
    sure_s, most_s = SURE_FACTOR * max(longest_s or 0.0, expected_s), first_prepare_s(budget_s, gpu)
    if longest_s is None:
        return max(sure_s, most_s)
    least_s = _within(SHORTEST_S, budget_s, ENOUGH_S)
    return max(sure_s, _within(least_s, PREPARE_FACTOR * longest_s, most_s)) + GPU_RETRY_S * gpu


def block_s(budget_s: float, expected_s: float, gpu: bool = False) -> float:
    """Return the deadline of a block that should take ``expected_s``."""
    least_s = _within(SHORTEST_S, SHARE * budget_s, ENOUGH_S)
    known_s = _within(least_s, BLOCK_FACTOR * expected_s, max(budget_s, least_s))
    return max(SURE_FACTOR * expected_s, known_s) + GPU_RETRY_S * gpu


def release_s(budget_s: float) -> float:
    """Return the deadline of releasing a cell."""
    return _within(SHORTEST_S, budget_s, FIRST_S)


def _within(least: float, value: float, most: float) -> float:
    return max(least, min(value, most))
