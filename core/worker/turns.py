"""Preparation of a block, so that all are timed alike: the cores it runs on, and what runs before it."""

from __future__ import annotations

import time
import weakref

from core.machine.cores import Place
from core.machine.environment import quota_cores
from core.spec import Pipeline, Target
from core.worker import timing
from core.worker.step import Step

TURN_MS = 3.0  # between two blocks of a cell: after a longer pause another worker is assumed to have had its turn
MAX_LEAD_IN_MS = 20.0  # of a call on a CPU: if calls are longer, an untimed one is not worth its time


class Turns:
    """The turns of one worker's cells. :meth:`end` records that the device has just worked."""

    def __init__(self, target: Target) -> None:
        self._on_cpu = target.on_cpu
        self._place = Place((target.threads or quota_cores()) if target.on_cpu else None)
        self._end_s = float("-inf")
        self._last: weakref.ref[Step] | None = None

    def take_place(self, pipeline: Pipeline | None) -> None:
        """Bind this process to the target's cores.

        It stays unbound for a ``tf.data`` pipeline, whose threads work beside the step's, and outside of cells (None).
        """
        self._place.take(pipeline is not None and pipeline.kind != "tfdata")

    def end(self, step: Step | None = None) -> None:
        """End a turn; ``step`` is given if it was a block."""
        self._end_s, self._last = time.monotonic(), None if step is None else weakref.ref(step)

    @property
    def idle_ms(self) -> float:
        return 1000 * (time.monotonic() - self._end_s)

    def wake(self, step: Step, idle_ms: float, already_ms: float) -> float | None:
        """Run steps untimed after a pause or another cell's turn.

        On a CPU one call restores the caches, unless the pipeline already ran for ``already_ms``. On an accelerator the
        clocks rise; returns the ms that took, None on a CPU.
        """
        if not self._on_cpu:
            return timing.wake(lambda calls: step.run(calls * step.per_call), idle_ms, already_ms)
        turned = self._last is None or self._last() is not step or idle_ms > TURN_MS
        if turned and not already_ms and step.call_ms < MAX_LEAD_IN_MS:
            step.run(step.per_call)
        return None
