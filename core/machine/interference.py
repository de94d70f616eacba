"""Other activity on the machine between two moments: other processes, steal time, the CPU's clock, GPU neighbours.

Causes that slow a GPU itself are read while it computes (:mod:`core.machine.meter`). Sampling is cheap enough
for every round: the busiest processes are only looked for if others use more than 5 % of a core, and then at most every
two seconds.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from core.base.evidence import Interference, ProcessUse
from core.machine.environment import cpu_mhz
from core.machine.nvml import Handle, Nvml
from core.workload.spec import Target

SCAN_FROM_PCT = 5.0  # percent of one core, all other processes together
SCAN_EVERY_S = 2.0
MIN_INTERVAL_S = 0.1  # the kernel counts in ticks of 10 ms: a shorter interval is added to the next
SLOW_EVERY_S = 1.0  # minimum interval for clocks and GPUs, which take milliseconds to read
BUSIEST = 3
NOT_BUSY = ("idle", "iowait", "steal", "guest", "guest_nice")  # guest time is already part of user time


@dataclass(frozen=True)
class CpuTimes:
    """Seconds since boot, summed over all cores. ``steal_s`` is None if the system does not count it."""

    at_s: float
    busy_s: float
    total_s: float
    steal_s: float | None
    own_s: float


def read_cpu_times() -> CpuTimes:
    """Read system-wide CPU times, and this process's own."""
    times = psutil.cpu_times()
    fields = times._asdict()
    own = os.times()
    return CpuTimes(
        at_s=time.monotonic(),
        busy_s=sum(v for name, v in fields.items() if name not in NOT_BUSY),
        total_s=sum(v for name, v in fields.items() if not name.startswith("guest")),
        steal_s=fields.get("steal"),
        own_s=own.user + own.system,
    )


@dataclass(frozen=True)
class _Window:
    """Seconds in which something was measured, not yet in any sample: of the clock, of others, stolen, of all cores."""

    elapsed_s: float = 0.0
    others_s: float = 0.0
    stolen_s: float | None = 0.0
    total_s: float = 0.0

    def with_more(self, before: CpuTimes, now: CpuTimes, ours_s: float) -> _Window:
        """Return the window with the time between two readings added."""
        known = self.stolen_s is not None and before.steal_s is not None and now.steal_s is not None
        return _Window(
            self.elapsed_s + now.at_s - before.at_s,
            self.others_s + now.busy_s - before.busy_s - ours_s,
            self.stolen_s + now.steal_s - before.steal_s if known else None,  # type: ignore[operator]
            self.total_s + now.total_s - before.total_s,
        )

    @property
    def steal_pct(self) -> float | None:
        """The stolen share of all cores in percent; None if the system does not count it."""
        if self.stolen_s is None or self.total_s <= 0:
            return None
        return round(100 * max(0.0, self.stolen_s) / self.total_s, 1)


Waits = dict[tuple[int, int], float]
"""Seconds during which threads, by process and thread, were runnable but waited for a core."""


def read_waits(pids: Iterable[int]) -> Waits:
    """Return the waits of all threads of these processes so far; empty if not available (proc(5), schedstat)."""
    waits = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError, ValueError, IndexError):  # the thread has just ended
                    waits[pid, int(task.name)] = int((task / "schedstat").read_bytes().split()[1]) * 1e-9
    return waits


class InterferenceSampler:
    """Sampler of the interference since the last call. Create it before any worker starts, and close it afterwards.

    ``read`` and ``read_waits`` replace the system in tests.
    """

    def __init__(
        self,
        read: Callable[[], CpuTimes] = read_cpu_times,
        read_waits: Callable[[Iterable[int]], Waits] = read_waits,
    ) -> None:
        self._read, self._read_waits = read, read_waits
        self._waits: Waits = {}
        self._before = read()
        self._ours_before_s = 0.0
        self._window = _Window()
        self._waits_at_s = self._before.at_s
        self._last = Interference()
        self._scan_at_s = -SCAN_EVERY_S
        self._scanned: dict[tuple[int, float], float] = {}
        self._slow_at_s = -SLOW_EVERY_S
        self._nvml = Nvml()
        self._gpus: tuple[Handle, ...] = ()
        self._neighbours: set[int] = set()

    def watch(self, targets: Iterable[Target]) -> None:
        """Watch the GPUs among these targets only. Processes that compute there already are neighbours."""
        self._gpus = self._nvml.measured(targets)
        self._neighbours = self._nvml.computing_pids(self._gpus)

    def close(self) -> None:
        """Close the GPU's management library; earlier samples stay valid."""
        self._nvml.close()

    def reset(self, our_cpu_s: float, our_pids: Iterable[int]) -> None:
        """Leave out the time since the last call: starting and preparing are no part of any sample.

        What was measured before, too briefly for a sample of its own, counts towards the next one.
        """
        self._before, self._ours_before_s = self._read(), our_cpu_s
        self._waits, self._waits_at_s = self._read_waits(our_pids), self._before.at_s

    def sample(self, our_cpu_s: float, our_pids: Iterable[int]) -> Interference:
        """Return the interference since the last sample, without what a reset left out.

        ``our_cpu_s``: CPU seconds of all workers so far (a drop means a restart). Below 0.1 s in all the last sample is
        returned again: the kernel's counters are too coarse for less.
        """
        workers = tuple(our_pids)
        now = self._read()
        ours_s = max(0.0, our_cpu_s - self._ours_before_s) + now.own_s - self._before.own_s
        window = self._window.with_more(self._before, now, ours_s)
        self._before, self._ours_before_s, self._window = now, our_cpu_s, window
        if window.elapsed_s < MIN_INTERVAL_S:
            return self._last
        self._window = _Window()
        other_pct = max(0.0, 100 * window.others_s / window.elapsed_s)
        pids = {*workers, os.getpid()}
        busiest = self._busiest(now.at_s, pids) if other_pct > SCAN_FROM_PCT else ()
        mhz, shared = self._slow_facts(now.at_s, pids)
        self._last = Interference(
            other_cpu_pct=round(other_pct, 1),
            busiest=busiest,
            steal_pct=window.steal_pct,
            wait_pct=self._wait_pct(workers, now.at_s),
            cpu_mhz=mhz,
            gpu_shared_by=shared,
        )
        return self._last

    def _wait_pct(self, pids: Iterable[int], now_s: float) -> float | None:
        """Return the waits of living threads in percent of one core; a new process counts from its next sample."""
        before, self._waits = self._waits, self._read_waits(pids)
        elapsed_s, self._waits_at_s = now_s - self._waits_at_s, now_s
        known = {pid for pid, _ in before} & {pid for pid, _ in self._waits}
        if not known or elapsed_s <= 0:
            return None
        waited_s = sum(s - before.get(key, 0.0) for key, s in self._waits.items() if key[0] in known)
        return round(100 * max(0.0, waited_s) / elapsed_s, 1)

    def _busiest(self, now_s: float, ours: set[int]) -> tuple[ProcessUse, ...]:
        """Return the busiest other processes since the last scan, or that scan's result if it is recent."""
        since_s = now_s - self._scan_at_s
        if since_s < SCAN_EVERY_S:
            return self._last.busiest
        before, self._scanned = self._scanned, {}
        used: dict[str, float] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid in ours:
                    continue
                times = process.cpu_times()
                key = process.pid, process.create_time()
                self._scanned[key] = times.user + times.system
                if before and (more := self._scanned[key] - before.get(key, 0.0)) > 0:
                    used[process.name()] = used.get(process.name(), 0.0) + more
        self._scan_at_s = now_s
        uses = [ProcessUse(name=name, cpu_pct=round(100 * s / since_s, 1)) for name, s in used.items()]
        uses = [use for use in uses if use.cpu_pct >= 1.0]
        return tuple(sorted(uses, key=lambda use: -use.cpu_pct)[:BUSIEST])

    def _slow_facts(self, now_s: float, ours: set[int]) -> tuple[float | None, tuple[str, ...]]:
        if now_s - self._slow_at_s < SLOW_EVERY_S:
            return self._last.cpu_mhz, self._last.gpu_shared_by
        self._slow_at_s = now_s
        return cpu_mhz(), self._sharing(ours)

    def _sharing(self, ours: set[int]) -> tuple[str, ...]:
        """Return the names of others that compute on the measured GPUs: neighbours, and processes known not to be ours.

        In a container the driver reports the host's process ids, even for our own workers, and they have no names here.
        Then processes that came later may be ours.
        """
        computing = self._nvml.computing_pids(self._gpus)
        others = computing - ours
        names = {pid: _process_name(pid) for pid in others} if computing & ours else {}
        names |= {pid: names.get(pid) or f"process {pid}" for pid in others & self._neighbours}
        return tuple(sorted({name for name in names.values() if name}))


def _process_name(pid: int) -> str | None:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return None
