"""Does a page that is open and polling slow the measurement? Step time with it over step time without.

    python -m benchmarks.polling [--sweeps 2] [--most 20] [--budget 90] [--segment 5] [--json FILE]

    python -m benchmarks.polling --use [--sweeps 2] [--budget 45]

With --use the page stays open during whole sweeps and only CPU time is counted, in the pauses that the engine makes for
its pages and between them, which other programs disturb little. Otherwise:

A real server, a real browser (Chromium), a real sweep started through the page. While it runs, the browser alternates
every few seconds between *open* (redrawing in pauses as it does in front of a user) and *closed*: all its processes
are suspended, so that the server goes on headless, without the load that opening a page again would put into the next
rounds. The store's count of rounds is noted at each change; the round in flight at that moment is dropped. A pair is
two neighbouring stretches of rounds in different states in the same worker processes; its ratio, open over closed, is
taken batch by batch. The interval comes from resampling pairs, and sweeps are repeated, at most --most of them, until
both targets' intervals lie below 1.03 (looking after every sweep makes their 95 % somewhat optimistic). What fell due
while the page was suspended is done at once, so that every open stretch holds a redraw of the charts, which is more
often than a user causes.

On two cores the browser itself competes with a target of two threads, so the CPU seconds per second that
server and browser use in both states stand beside the ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import psutil

from benchmarks.page_use import SAMPLE_S, Sample, sample, table, uses
from benchmarks.server import Server, browser_processes, new_tab, open_browser, running_server
from core.rounds.run import Run
from core.store import Store

GOAL, SHOWN = 1.02, 1.03  # limits of the ratio, and of its interval's upper end
PARTS = 2  # of the page drawn in a pause: the line of progress and the charts
RESAMPLES = 2_000
State = Literal["open", "closed"]


@dataclass
class Use:
    """Seconds in a state, and the CPU seconds that server and browser used in it while the sweep ran."""

    wall_s: float = 0.0
    server_s: float = 0.0
    browser_s: float = 0.0


@dataclass
class Log:
    """Log of one sweep: ``changes`` are (rounds stored, state from then on), with the use by state."""

    run_id: str = ""
    changes: list[tuple[int, State]] = field(default_factory=list)
    use: dict[State, Use] = field(default_factory=lambda: {"open": Use(), "closed": Use()})


class Browser:
    """Handle that suspends and resumes every process of the browser."""

    def __init__(self) -> None:
        self._processes = browser_processes()

    def set(self, state: State) -> None:
        for process in self._processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                if state == "open":
                    process.resume()
                else:
                    process.suspend()

    def cpu_s(self) -> float:
        total = 0.0
        for process in self._processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.cpu_times().user + process.cpu_times().system
        return total


def start_sweep(page: Any, server: Server, batches: str, budget_s: int) -> None:
    """Choose and start a sweep through the page, and wait for the first estimate, after which everything is drawn."""
    page.goto(f"{server.address}/sweep?batches={batches.replace(' ', '')}&budget={budget_s}&step_width=0.01")
    page.get_by_text(f"{len(batches.split(','))} batch sizes: {batches}.").wait_for()
    page.get_by_role("button", name="Measure this machine").click()
    page.locator(".js-plotly-plot").nth(1).wait_for()


def watch(store: Store, server: Server, segment_s: float) -> Log:
    """Alternate between open and closed until the sweep has ended. The browser is left open."""
    log, browser = Log(), Browser()
    state: State = "open"
    try:
        while True:
            before = time.monotonic(), server.cpu_s(), browser.cpu_s()
            browser.set(state)
            newest = store.summaries()[0]
            log.run_id = newest.id
            log.changes.append((newest.rounds, state))
            time.sleep(segment_s)
            if store.summaries()[0].status != "running":
                return log  # the rest of this stretch had no sweep
            use = log.use[state]
            use.wall_s += time.monotonic() - before[0]
            use.server_s += server.cpu_s() - before[1]
            use.browser_s += browser.cpu_s() - before[2]
            state = "closed" if state == "open" else "open"
    finally:
        browser.set("open")


Stretch = tuple[State, int, dict[tuple[int, int], list[float]]]


def stretches(run: Run, changes: list[tuple[int, State]]) -> list[Stretch]:
    """Return stretches of neighbouring rounds in one state and one pair of worker processes.

    Each is (state, process, step ms by target and batch). Rounds before the first change, and the round in flight at
    each change, are left out.
    """
    kept: list[Stretch] = []
    bounds = [*changes, (len(run.rounds), changes[-1][1])]
    for (start, state), (end, _) in pairwise(bounds):
        for item in run.rounds[start + 1 : end]:
            process = max(block.process for block in item.blocks)
            if not kept or kept[-1][:2] != (state, process) or item.index == start + 1:
                kept.append((state, process, defaultdict(list)))
            for block in item.blocks:
                kept[-1][2][block.target, item.batch].append(block.step_ms)
    return kept


def pair_ratios(kept: list[Stretch], target: int) -> list[float]:
    """Return open over closed for neighbouring stretches of the same processes: the median over their batches."""
    ratios = []
    for before, after in pairwise(kept):
        if before[0] == after[0] or before[1] != after[1]:
            continue
        opened, closed = (before[2], after[2]) if before[0] == "open" else (after[2], before[2])
        shared = [key for key in opened if key in closed and key[0] == target]
        if shared:
            by_batch = (statistics.median(opened[key]) / statistics.median(closed[key]) for key in shared)
            ratios.append(statistics.median(by_batch))
    return ratios


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return 95 % bounds of the median by resampling pairs (2.5 % and 97.5 % of the resampled medians)."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return medians[round(0.025 * RESAMPLES)], medians[round(0.975 * RESAMPLES) - 1]


@dataclass(frozen=True)
class Ratio:
    """Open over closed of one target, from all pairs so far."""

    target: str
    pairs: int
    ratio: float
    low: float
    high: float

    @property
    def is_shown(self) -> bool:
        return self.ratio <= GOAL and self.high < SHOWN


def ratios(logs: list[Log], runs: list[Run]) -> list[Ratio]:
    """Return the ratio of each target with at least two pairs."""
    by_target = []
    for target, name in enumerate(runs[0].target_names):
        pairs = [r for run, log in zip(runs, logs, strict=True)
                 for r in pair_ratios(stretches(run, log.changes), target)]  # fmt: skip
        if len(pairs) >= 2:
            by_target.append(Ratio(name, len(pairs), statistics.median(pairs), *interval(pairs)))
    return by_target


def measure(options: argparse.Namespace) -> tuple[list[Log], list[Ratio]]:
    """Run sweeps until the goal is shown for every target, or as many as are allowed."""
    logs: list[Log] = []
    runs: list[Run] = []
    by_target: list[Ratio] = []
    with tempfile.TemporaryDirectory() as name, running_server(Path(name)) as server, open_browser() as browser:
        store = Store(f"sqlite:///{Path(name) / 'data' / 'runs.sqlite3'}")
        while len(runs) < options.sweeps or (len(runs) < options.most and not _all_shown(by_target, runs[0])):
            page = new_tab(browser, 1280, 900)
            start_sweep(page, server, options.batches, options.budget)
            log = watch(store, server, options.segment)
            page.close()
            logs.append(log)
            runs.append(store.load(log.run_id))
            by_target = ratios(logs, runs)
            so_far = ", ".join(f"{of.ratio:.3f} ({of.low:.3f} to {of.high:.3f}), {of.pairs} pairs" for of in by_target)
            print(f"sweep {len(runs)}: {len(runs[-1].rounds)} rounds in {runs[-1].elapsed_s:.0f} s; {so_far}",
                  file=sys.stderr, flush=True)  # fmt: skip
        store.close()
    return logs, by_target


def measure_use(options: argparse.Namespace) -> bool:
    """Run sweeps with the page open throughout, print its use, and return True if the goal is met."""
    all_uses, pauses = [], 0
    with tempfile.TemporaryDirectory() as name, running_server(Path(name)) as server, open_browser() as browser:
        store = Store(f"sqlite:///{Path(name) / 'data' / 'runs.sqlite3'}")
        for number in range(options.sweeps):
            page = new_tab(browser, 1280, 900)
            announced_s, samples = list[float](), list[Sample]()
            page.on("websocket", partial(_note_news, announced_s))
            start_sweep(page, server, options.batches, options.budget)
            announced_s.clear()
            while store.summaries()[0].status == "running":
                for _ in range(round(1.0 / SAMPLE_S)):
                    samples.append(sample(server))
                    page.wait_for_timeout(1000 * SAMPLE_S)  # meanwhile the browser's messages are noted
            del samples[-round(1.5 / SAMPLE_S) :]  # the sweep may have ended within this time
            all_uses.append(uses(samples, announced_s, server.process.pid))
            pauses += len(announced_s) // PARTS
            print(f"sweep {number + 1}: {store.summaries()[0].rounds} rounds", file=sys.stderr, flush=True)
            page.close()
        store.close()
    text, met = table(all_uses, pauses)
    print(text)
    return met


def _note_news(announced_s: list[float], socket: Any) -> None:
    """Note when this socket tells the page about a pause."""
    if "pauses=1" in socket.url:
        socket.on("framereceived", lambda _: announced_s.append(time.monotonic()))


def _all_shown(by_target: list[Ratio], run: Run) -> bool:
    return len(by_target) == len(run.target_names) and all(of.is_shown for of in by_target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--use", action="store_true", help="only count the CPU time of an open page (Linux)")
    parser.add_argument("--sweeps", type=int, default=2, help="at least")
    parser.add_argument("--most", type=int, default=20, help="sweeps at most, while an interval is too wide")
    parser.add_argument("--budget", type=int, default=90, help="seconds of each sweep")
    parser.add_argument(
        "--segment", type=float, default=5.0, help="seconds between changes; charts redraw once in each"
    )
    parser.add_argument("--batches", default="64, 256", help="as typed into the page's list; default %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON, too")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    if options.use:
        sys.exit(0 if measure_use(options) else 1)
    logs, by_target = measure(options)
    if not by_target:
        raise SystemExit("Too few pairs of stretches in the same worker processes; use a larger --budget.")

    met = all(of.is_shown for of in by_target)
    print(f"{len(logs)} sweeps; load of the machine before them {load:.1f}")
    print("target            pairs  open/closed  95 % interval    goal")
    for of in by_target:
        good = "met" if of.is_shown else "not shown" if of.low <= GOAL else "not met"
        print(f"{of.target:<17} {of.pairs:>5} {of.ratio:>12.3f}  {of.low:.3f} to {of.high:.3f}   {good}")
    use = {state: _total([log.use[state] for log in logs]) for state in ("open", "closed")}
    print("CPU seconds per second server  browser")
    for state, total in use.items():
        print(f"{state:<20} {total.server_s / total.wall_s:>8.2f} {total.browser_s / total.wall_s:>8.2f}")
    print(f"page open and polling over headless, both targets (goal at most {GOAL}, interval below {SHOWN}): "
          f"{'met' if met else 'not shown'}")  # fmt: skip
    if options.json:
        targets = [asdict(of) for of in by_target]
        summary = {"label": "measured", "targets": targets, "cpu": {s: asdict(u) for s, u in use.items()}}
        options.json.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if met else 1)


def _total(uses: list[Use]) -> Use:
    return Use(sum(u.wall_s for u in uses), sum(u.server_s for u in uses), sum(u.browser_s for u in uses))


if __name__ == "__main__":
    main()
