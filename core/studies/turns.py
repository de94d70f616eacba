"""Turns of targets that use different numbers of cores: which of them must wake cores before a block."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from core.workload.spec import Target

IDLE_S = 0.02
"""After a longer pause of all targets cores count as idle."""


def uneven(targets: Collection[Target]) -> bool:
    """Return whether some of the targets leave cores idle that others use."""
    return len({target.cores for target in targets}) > 1


def up_and_down(order: Sequence[int], targets: Sequence[Target], turn: int) -> tuple[int, ...]:
    """Return the order by the targets' cores, reversed in every second turn, so that cores wake once in two.

    Targets with as many cores keep their order.
    """
    return tuple(sorted(order, key=lambda index: targets[index].cores, reverse=turn % 2 == 1))


class CoreTurns:
    """Turns of the targets of one measurement.

    After a turn of one thread, or a pause, steps of several threads are up to 45 % longer for a tenth of a second, as
    the other cores wake late (measured: benchmarks/turns.py waking). That would favour the target with fewer threads.
    """

    def __init__(self) -> None:
        self._targets: set[Target] = set()
        self._last: Target | None = None
        self._end_s = -math.inf

    def started(self, targets: Iterable[Target]) -> None:
        """Let these take turns with those before."""
        self._targets.update(targets)

    def wakes_cores(self, target: Target, now_s: float) -> bool:
        """Return whether cores that the target uses are idle now because of another's turn or a pause."""
        if not self._is_wider(target):
            return False
        return self._last is None or target.cores > self._last.cores or now_s - self._end_s > IDLE_S

    def ended(self, target: Target, now_s: float) -> None:
        """Note that the target's turn has just ended."""
        self._last, self._end_s = target, now_s

    def _is_wider(self, target: Target) -> bool:
        return any(target.cores > other.cores for other in self._targets)
