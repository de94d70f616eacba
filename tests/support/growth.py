"""How work grows with its input, as a ratio within one run: other programs and faster machines change both sides."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMES = 4
MOST = 9.0
"""Four times the input takes four times as long where work is linear, sixteen times where it is quadratic."""


def growth(make: Callable[[int], Callable[[], object]], size: int) -> float:
    """Processor time of what ``make`` makes for ``TIMES`` the size, over that for the size; the best of three each."""
    small, large = make(size), make(TIMES * size)
    return min(_seconds(large) for _ in range(3)) / min(_seconds(small) for _ in range(3))


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
