"""Binding of workers to cores, and removal of inherited handicaps: niceness and thread limits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, MutableMapping
from pathlib import Path

THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that limit the threads of a library from the moment it is loaded."""
IN_A_STEP = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of libraries that compute in a step; OpenBLAS serves NumPy alone."""
SIBLINGS = "/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"
SPEEDS = (
    "/sys/devices/system/cpu/cpu{core}/cpu_capacity",
    "/sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq",
)
"""Files that distinguish fast cores from slow ones (big.LITTLE, Intel's P and E cores)."""


class Place:
    """The cores of a worker: as many as its target has threads, or all that this process was started with.

    Targets with the same number of threads get the same cores, so that a core that is slow for seconds slows them alike
    (measured: benchmarks/turns.py). If the system does not allow binding, nothing changes.
    """

    def __init__(self, threads: int | None) -> None:
        self._all = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else frozenset()
        self._own = self._all if threads is None else frozenset(spread(self._all, threads))
        self._now = self._all

    def take(self, own: bool = True) -> bool:
        """Bind all threads, and those started later, to the target's cores, or release them to all cores.

        Returns False if the system refuses.
        """
        cores = self._own if own else self._all
        if cores != self._now and bind(cores):
            self._now = cores
        return bool(cores) and cores == self._now


def bind(cores: Collection[int], pid: int | None = None) -> bool:
    """Bind every thread of a process, by default this one, to these cores; return False if the system refuses."""
    tasks = Path(f"/proc/{os.getpid() if pid is None else pid}/task")
    try:
        for thread in tasks.iterdir():
            with contextlib.suppress(ProcessLookupError):  # the thread has just ended
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
    """Return a core's speed as stated by the system, in arbitrary units; 0 if not stated."""
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
    """Choose ``count`` logical cores: one per physical core before a second of any, the fastest first.

    A scheduler would choose them so. Among equal ones the last come first, since the first serve most interrupts.
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
    """Return this process's niceness, above 0 if everything else has priority; None if the system has no such value."""
    return os.nice(0) if hasattr(os, "nice") else None


def unhindered(environment: MutableMapping[str, str] = os.environ) -> int | None:
    """Remove thread limits from the environment and set niceness 0 as far as permitted; return the remaining niceness.

    Processes started later inherit both.
    """
    for name in THREAD_LIMITS:
        environment.pop(name, None)
    if (niceness() or 0) > 0:
        with contextlib.suppress(OSError):  # only root or a holder of CAP_SYS_NICE may lower it
            os.setpriority(os.PRIO_PROCESS, 0, 0)
    return niceness()
