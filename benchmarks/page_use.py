"""CPU time of an open page during a sweep, in the engine's pauses and between them (benchmarks.polling --use).

Linux only: /proc separates the engine's threads from those of the page. The server's part of the page is its whole
CPU time without that of the threads that live as long as the sweep, except the event loop's; Streamlit's scripts run
in short-lived threads.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.server import Server, browser_processes

GOAL = 0.02  # of a core used by the server between pauses
SAMPLE_S = 0.1
DRAWING_S = 1.5  # after the announcement of a pause the page draws; a slow browser's later work counts as between
LIVES = 0.8  # share of samples that contain a thread of the engine


@dataclass(frozen=True)
class Sample:
    """CPU seconds so far at one moment: of the server, of its single threads, of the browser."""

    at_s: float
    server_s: float
    threads_s: dict[int, float]
    browser_s: float


@dataclass(frozen=True)
class PageUse:
    """CPU seconds of the page in the server and in the browser within ``wall_s``."""

    wall_s: float = 0.0
    server_s: float = 0.0
    browser_s: float = 0.0

    def plus(self, other: PageUse) -> PageUse:
        return PageUse(self.wall_s + other.wall_s, self.server_s + other.server_s, self.browser_s + other.browser_s)

    def shares(self) -> tuple[float, float]:
        """Return the shares of a core used by server and browser."""
        return self.server_s / max(self.wall_s, 1e-9), self.browser_s / max(self.wall_s, 1e-9)


def sample(server: Server) -> Sample:
    threads = {}
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        try:
            threads[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue  # the process has just ended
    browser_s = 0.0
    for process in browser_processes():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        browser_s += times.user + times.system
    return Sample(time.monotonic(), server.cpu_s(), threads, browser_s)


def uses(samples: list[Sample], announced_s: list[float], event_loop: int) -> tuple[PageUse, PageUse]:
    """Return the use in pauses, and between them. ``event_loop``: the thread that serves."""
    everywhere = [thread for moment in samples for thread in moment.threads_s]
    engine = {
        thread for thread in set(everywhere)
        if thread != event_loop and everywhere.count(thread) > LIVES * len(samples)
    }  # fmt: skip
    within, between = PageUse(), PageUse()
    for before, after in pairwise(samples):
        engine_s = sum(after.threads_s[t] - before.threads_s[t] for t in engine
                       if t in before.threads_s and t in after.threads_s)  # fmt: skip
        use = PageUse(
            after.at_s - before.at_s,
            after.server_s - before.server_s - engine_s,
            after.browser_s - before.browser_s,
        )
        if any(pause - SAMPLE_S <= before.at_s <= pause + DRAWING_S for pause in announced_s):
            within = within.plus(use)
        else:
            between = between.plus(use)
    return within, between


def table(sweeps: list[tuple[PageUse, PageUse]], pauses: int) -> tuple[str, bool]:
    """Return the use over all sweeps as lines, and True if the goal is met."""
    within, between = PageUse(), PageUse()
    for in_pauses, outside in sweeps:
        within, between = within.plus(in_pauses), between.plus(outside)
    lines = [f"{pauses} pauses in {within.wall_s + between.wall_s:.0f} s", "of a core         server  browser"]
    for name, use in (("between pauses", between), ("in pauses", within), ("together", within.plus(between))):
        server, browser = use.shares()
        lines.append(f"{name:<16} {server:>7.1%}  {browser:>7.1%}")
    met = between.shares()[0] <= GOAL
    lines.append(f"server between pauses, goal at most {GOAL:.0%}: {'met' if met else 'not met'}")
    return "\n".join(lines), met
