"""Which cores a worker is bound to, and what holds a process back that others start: niceness and limits of threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, MutableMapping
from pathlib import Path

THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that limit the threads of a library from the moment it is loaded."""
IN_A_STEP = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Those of libraries that compute in a step; OpenBLAS serves NumPy alone."""
SIBLINGS = "/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"
SPEEDS = (
    "/sys/devices/system/cpu/cpu{core}/cpu_capacity",
    "/sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq",
)
"""Files that tell fast cores from slow ones (big.LITTLE, Intel's P and E cores)."""


class Place:
    """The cores of a worker: as many as its target has threads, or all that this process was started with.

    Targets with the same number of threads get the same cores, so that a core that is slow for seconds slows them alike
    (measured: benchmarks/turns.py). Where the system does not let a process be bound nothing changes.
    """

    def __init__(self, threads: int | None) -> None:
        self._all = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else frozenset()
        self._own = self._all if threads is None else frozenset(spread(self._all, threads))
        self._now = self._all

    def take(self, own: bool = True) -> bool:
        """Bind all threads, and with them those that they start from here on, to the target's cores, or let them use
        all again. False where the system refuses.
        """
        cores = self._own if own else self._all
        if cores != self._now and bind(cores):
            self._now = cores
        return bool(cores) and cores == self._now


def bind(cores: Collection[int], pid: int | None = None) -> bool:
    """Bind every thread of a process, or of this one, to these cores; False where the system does not let it."""
    tasks = Path(f"/proc/{os.getpid() if pid is None else pid}/task")
    try:
        for thread in tasks.iterdir():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.sched_setaffinity(int(thread.name), cores)
    except OSError:
        return False
    return True


def _siblings(core: int) -> str:
    try:
        return Path(SIBLINGS.format(core=core)).read_text().strip()
    except OSError:
        return str(core)


def _speed(core: int) -> int:
    """Return a core's speed as the system states it, in a unit of its own; 0 where it states none."""
    for file in SPEEDS:
        with contextlib.suppress(OSError, ValueError):
            return int(Path(file.format(core=core)).read_text())
    return 0


def spread(
    cores: Iterable[int],
    count: int,
    siblings: Callable[[int], str] = _siblings,
    speed: Callable[[int], int] = _speed,
) -> set[int]:
    """``count`` of the logical cores: one of each physical core before a second of any, the fastest first, as the
    scheduler would choose them, and of equal ones the last, since the first serve most interrupts.

    ``siblings`` names the physical core of a logical one.
    """
    turns: dict[str, int] = {}
    order = []
    for core in sorted(cores, reverse=True):
        physical = siblings(core)
        turns[physical] = turns.get(physical, 0) + 1
        order.append((turns[physical], -speed(core), -core))
    return {-core for *_, core in sorted(order)[:count]}


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
