"""Which cores a worker is bound to whose framework takes the number of its threads from nothing else, and what holds a
process back that others start: niceness and limits of threads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, MutableMapping
from pathlib import Path

THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that limit the threads of a library from the moment it is loaded."""
IN_A_STEP = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Those of libraries that compute in a step; OpenBLAS serves NumPy alone."""
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


def niceness() -> int | None:
    """Of this process, above 0 where everything else comes first; None where the system has no such thing."""
    return os.nice(0) if hasattr(os, "nice") else None


def unhindered(environment: MutableMapping[str, str] = os.environ) -> int | None:
    """Take limits of threads out of the environment and put this process at niceness 0, as far as it may; what it
    starts from here on inherits both. Returns the niceness that is left.
    """
    for name in THREAD_LIMITS:
        environment.pop(name, None)
    if (niceness() or 0) > 0:
        with contextlib.suppress(OSError):  # only root, or who was given CAP_SYS_NICE, may come first again
            os.setpriority(os.PRIO_PROCESS, 0, 0)
    return niceness()
