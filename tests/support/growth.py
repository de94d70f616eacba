"""Growth of run time with input size, as a ratio within one run: load and machine speed affect both sides alike."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMES = 4
MOST = 9.0
"""Four times the input takes four times as long for linear work, sixteen times for quadratic work."""


def growth(make: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return the processor time at ``TIMES`` the size, over that at the size; the best of three each."""
    small, large = make(size), make(TIMES * size)
    return min(_seconds(large) for _ in range(3)) / min(_seconds(small) for _ in range(3))


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
