"""Clock of the supervisor, replaceable so that tests can run a sweep in virtual time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_s(self) -> float:
        """Return monotonic seconds."""


class WallClock:
    """The system's monotonic clock."""

    def now_s(self) -> float:
        return time.perf_counter()
