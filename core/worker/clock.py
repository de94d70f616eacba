"""Time as the supervisor sees it, so that tests can run a sweep on a virtual clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_s(self) -> float:
        """Monotonic seconds."""


class WallClock:
    """The system's monotonic clock."""

    def now_s(self) -> float:
        return time.perf_counter()
