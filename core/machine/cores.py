"""Which cores a worker is bound to whose framework takes the number of its threads from nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

SIBLINGS = "/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"


def bind(threads: int) -> bool:
    """Bind this process, and every thread that it starts from here on, to so many cores; False where the system does
    not let it. More than there are is all of them.
    """
    if not hasattr(os, "sched_setaffinity"):
        return False
    try:
        os.sched_setaffinity(0, spread(sorted(os.sched_getaffinity(0)), threads))
    except OSError:
        return False
    return True


def _siblings(core: int) -> str:
    try:
        return Path(SIBLINGS.format(core=core)).read_text().strip()
    except OSError:
        return str(core)


def spread(cores: Iterable[int], count: int, siblings: Callable[[int], str] = _siblings) -> set[int]:
    """``count`` of the logical cores, from the last: one of each physical core before a second of any.

    The first ones serve most interrupts. ``siblings`` names the physical core of a logical one.
    """
    turns: dict[str, int] = {}
    order = []
    for core in sorted(cores, reverse=True):
        physical = siblings(core)
        turns[physical] = turns.get(physical, 0) + 1
        order.append((turns[physical], -core))
    return {-core for _, core in sorted(order)[:count]}
