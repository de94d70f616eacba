"""Two sweeps whose starts alternate: while workers of one measure, the other waits for its turn.

A crossover moves between occasions, so a sweep of another day is no truth for it; one whose starts lie between its own
shares the occasion.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from core.rounds.run import Run
from core.studies.runner import StudyTools
from core.studies.sweep.supervisor import run_sweep
from core.worker.clock import Clock


class OwnTime:
    """A clock that stands still while its sweep waits for its turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waited_s = 0.0

    def now_s(self) -> float:
        return self._clock.now_s() - self._waited_s

    def leave_out_since(self, begin_s: float) -> None:
        """Take the time since ``begin_s`` as waited."""
        self._waited_s += self.now_s() - begin_s


class Turns:
    """The turns of some sweeps: each start of workers goes to the sweep that has used the least share of its time."""

    def __init__(self, sweeps: int) -> None:
        self._shares = [0.0] * sweeps
        self._measuring: int | None = None
        self._changed = threading.Condition()

    def take(self, sweep: int, share: float) -> None:
        """Give the turn away, and return when it is this sweep's again."""
        with self._changed:
            self._leave(sweep, share)
            self._changed.wait_for(lambda: self._measuring is None and self._shares[sweep] == min(self._shares))
            self._measuring = sweep

    def end(self, sweep: int) -> None:
        """Leave all further turns to the others."""
        with self._changed:
            self._leave(sweep, math.inf)

    def _leave(self, sweep: int, share: float) -> None:
        self._shares[sweep] = share
        if self._measuring == sweep:
            self._measuring = None
        self._changed.notify_all()


def alternating(tools: Sequence[StudyTools], runs: Sequence[Run]) -> list[Run]:
    """Measure new runs at the same time, one start of workers after the other; each within a budget of its own.

    Raises what one of them raised, which ends the others.
    """
    turns = Turns(len(runs))

    def measured(sweep: int) -> Run:
        own, clock, plan = tools[sweep], OwnTime(tools[sweep].clock), runs[sweep].plan
        assert plan is not None
        begin_s = clock.now_s()

        def launcher(*targets: Any, **options: Any) -> Any:
            waits_s = clock.now_s()
            turns.take(sweep, (waits_s - begin_s) / plan.budget_s)
            clock.leave_out_since(waits_s)
            return own.launcher(*targets, **options)

        try:
            return run_sweep(replace(own, launcher=launcher, clock=clock), runs[sweep])
        finally:
            turns.end(sweep)

    with ThreadPoolExecutor(len(runs)) as pool:
        futures = [pool.submit(measured, sweep) for sweep in range(len(runs))]
        try:
            for ended in wait(futures, return_when=FIRST_EXCEPTION).done:
                ended.result()
        except BaseException:  # also Ctrl-C, which only this thread gets
            for each in tools:
                each.cancel.set()
            raise
    return [future.result() for future in futures]
