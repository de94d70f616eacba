"""Times at which the parts of a sweep end: the rounds, then energy windows, Keras's own loop and traces."""

from __future__ import annotations

from collections.abc import Callable

from core.rounds.answer import loop
from core.rounds.plan import SweepPlan
from core.studies.sweep import schedule
from core.worker.clock import Clock

RESUME_SHARE = 0.3  # least share of the budget for a resumed sweep


class Timetable:
    """Times of a sweep that begins now and took ``elapsed_s`` before it was resumed, in seconds of the clock.

    ``lost_s`` returns the seconds lost to failed starts, by which the sweep is extended.
    """

    def __init__(self, plan: SweepPlan, clock: Clock, elapsed_s: float, lost_s: Callable[[], float]) -> None:
        self._plan, self._clock, self._elapsed_before_s, self._lost_s = plan, clock, elapsed_s, lost_s
        self._begin_s = clock.now_s()
        self._budget_s = max(plan.budget_s - elapsed_s, RESUME_SHARE * plan.budget_s)
        self.energy_s = 0.0
        """Seconds kept for energy windows."""
        self.closing_end_s = 0.0
        """End of the present part of the work after the rounds; 0 during the rounds."""

    @property
    def elapsed_s(self) -> float:
        return self._elapsed_before_s + self._clock.now_s() - self._begin_s

    @property
    def final_s(self) -> float:
        """End of the sweep."""
        return self._begin_s + self._budget_s + self._lost_s()

    @property
    def traces_and_loops_s(self) -> float:
        """Seconds kept for traces and for timing Keras's own loop."""
        return schedule.trace_reserve_s(self._plan) + loop.reserve_s(self._plan)

    @property
    def end_s(self) -> float:
        """End of the rounds."""
        return self.final_s - (max(0.0, self.energy_s) + self.traces_and_loops_s)

    def deadline_s(self) -> float:
        """Return the end of the present part, after which no block is begun."""
        return self.closing_end_s or self.end_s

    @property
    def rounds_s(self) -> float:
        """Seconds for all rounds, without the time lost to failed starts."""
        return self.end_s - self._begin_s - self._lost_s()

    @property
    def left_s(self) -> float:
        """Seconds left for rounds."""
        return self.end_s - self._clock.now_s()
