"""Seconds from the press of the button to the answer: the first point, an estimate, its interval.

    python -m benchmarks.seconds [--sweeps 10] [--budget 90] [--warm-only] [--page] [--json FILE]

Real sweeps of the example network, one CPU thread as a graph against one with XLA, batches 1 to 8,192, through the job
that pages use. *Warm*: the templates that are made when a page opens exist; *cold*: nothing does. Seconds count from
the press to the snapshot that a page would receive. A sweep is stopped once its interval is within ±10 %. An interval
is within ±25 % of its estimate if both its ends are. Each sweep is printed with the machine's load (1 min) before it:
the goals are for an idle one. With ``--page`` the first chart is awaited in a real browser, too.

Goals: first point 5 s (3 s warm), first estimate 8 s, ±25 % in 20 s, ±10 % in 60 s, in 9 of 10 sweeps. The median times
of starting and preparing are printed as flags for ``benchmarks.refinement``, which compares with a fixed grid.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.server import new_tab, open_browser, running_server
from core.rounds.answer.answer import Answer
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.store import Store
from core.studies.jobs import Jobs
from core.studies.sweep.kind import SWEEP, new_run
from core.worker.process import worker_environment
from core.worker.templates import OFF, TEMPLATES
from core.workload.spec import Target, Workload, parse_batches

TARGETS = (Target(threads=1, execution="graph"), Target(threads=1, execution="xla"))
GOALS_S = {"first point": (5.0, 3.0), "first estimate": (8.0, 8.0), "±25 %": (20.0, 20.0), "±10 %": (60.0, 60.0)}
"""Goals in seconds: (cold, warm)."""
ENOUGH = 0.9  # share of the sweeps
LOOK_S = 0.05
WARM_S = 120.0


@dataclass
class Seconds:
    """Seconds of one sweep; missing goals were not reached. ``crossover``: the last estimate with its interval."""

    warm: bool
    load: float
    reached_s: dict[str, float] = field(default_factory=dict)
    crossover: tuple[float, float | None, float | None] | None = None
    starts: list[str] = field(default_factory=list)
    startup_s: float = 0.0
    prepare_s: float = 0.0


def reached(run: Run, answer: Answer | None) -> list[str]:
    """Return the goals that a snapshot meets."""
    crossovers = answer.verdict.crossovers if answer is not None else ()
    goals = ["first point"] * bool(run.rounds) + ["first estimate"] * bool(crossovers)
    if crossovers and all(c.low is not None and c.high is not None for c in crossovers):
        off = max(max(c.batch - c.low, c.high - c.batch) / c.batch for c in crossovers)  # type: ignore[operator]
        goals += [f"±{width} %" for width in (25, 10) if 100 * off <= width]
    return goals


def measure(store: Store, plan: SweepPlan, warm: bool) -> Seconds:
    """Run one sweep in a job of its own, stopped at the last goal."""
    row = Seconds(warm, round(os.getloadavg()[0], 2))
    jobs = Jobs(store)
    if warm:
        jobs.warm_up()
        TEMPLATES.of([(target, worker_environment(target)) for target in TARGETS], WARM_S)
    begin_s = time.monotonic()
    jobs.start(SWEEP, new_run(plan))
    while (snapshot := jobs.snapshot()) is not None:
        for goal in reached(snapshot.record, snapshot.answer):
            row.reached_s.setdefault(goal, round(time.monotonic() - begin_s, 2))
        if not snapshot.active:
            break
        if len(row.reached_s) == len(GOALS_S):
            jobs.cancel()
        time.sleep(LOOK_S)
    assert snapshot is not None
    if snapshot.error:
        raise SystemExit(snapshot.error)
    _describe(row, snapshot.record, snapshot.answer)
    jobs.close()
    return row


def _describe(row: Seconds, run: Run, answer: Answer | None) -> None:
    if answer is not None and answer.verdict.crossovers:
        crossover = answer.verdict.crossovers[0]
        row.crossover = crossover.batch, crossover.low, crossover.high
    row.starts = [str(process.start) for process in run.processes]
    by_start: dict[int, float] = {}
    for process in run.processes:
        by_start[process.index] = max(by_start.get(process.index, 0.0), process.startup_ms / 1000)
    row.startup_s = statistics.median(by_start.values())
    row.prepare_s = statistics.median(
        (setup.build_ms + setup.first_call_ms + setup.warmup_ms) / 1000 for setup in run.setups
    )


def first_chart_s(warm_s: float) -> float:
    """Return the seconds from the press in a browser, with the form's proposal, to the first chart of the sweep."""
    with tempfile.TemporaryDirectory() as name, running_server(Path(name)) as server, open_browser() as browser:
        page = new_tab(browser, 1440, 900)
        page.goto(f"{server.address}/sweep")
        button = page.get_by_role("button", name="Measure this machine")
        button.wait_for()
        time.sleep(warm_s)
        begin_s = time.monotonic()
        button.click()
        page.locator('[class*="st-key-chart-live-"] .js-plotly-plot').first.wait_for()
        return time.monotonic() - begin_s


def report(name: str, rows: Sequence[Seconds], page_s: Sequence[float]) -> bool:
    """Print the time taken to each goal; return True if enough sweeps met every goal."""
    print(f"{name}, {len(rows)} sweeps; load before them {min(r.load for r in rows)} to {max(r.load for r in rows)}")
    met = True
    for goal, (cold_s, warm_s) in GOALS_S.items():
        limit_s = warm_s if rows[0].warm else cold_s
        took = sorted(row.reached_s.get(goal, float("inf")) for row in rows)
        within = sum(seconds <= limit_s for seconds in took)
        good = within >= ENOUGH * len(rows)
        met &= good
        print(
            f"  {goal:<15} median {statistics.median(took):6.1f} s, slowest {took[-1]:6.1f} s; within {limit_s:g} s: "
            f"{within} of {len(took)} ({'met' if good else 'not met'})"
        )
    print(f"  crossovers: {', '.join(map(_crossover, rows))}")
    forked = sum(row.starts.count("forked") for row in rows)
    print(f"  workers: {forked} forked, {sum(row.starts.count('fresh') for row in rows)} started afresh")
    startup_s = statistics.median(row.startup_s for row in rows)
    prepare_s = 2 * statistics.median(row.prepare_s for row in rows)
    print(f"  python -m benchmarks.refinement --startup {startup_s:.2f} --prepare {prepare_s:.2f}")
    if page_s:
        print(f"  first chart in a browser: {', '.join(f'{seconds:.1f} s' for seconds in page_s)}")
    return met


def _crossover(row: Seconds) -> str:
    if row.crossover is None:
        return "none"
    batch, *bounds = row.crossover
    return "{} ({} to {})".format(f"{batch:.0f}", *("?" if bound is None else f"{bound:.0f}" for bound in bounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=10, help="of each kind")
    parser.add_argument("--budget", type=float, default=90.0, help="seconds of a sweep at most")
    parser.add_argument("--warm-only", action="store_true")
    parser.add_argument("--page", action="store_true", help="await the first chart in a browser, too")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    os.environ.pop(OFF, None)
    plan = SweepPlan(
        workload=Workload(network="784-512-512-10"), targets=TARGETS, batches=parse_batches("1:8192"),
        budget_s=options.budget, crossover_width=0.2, trace=False,
    )  # fmt: skip
    rows: list[Seconds] = []
    with tempfile.TemporaryDirectory() as name:
        store = Store(f"sqlite:///{Path(name) / 'runs.sqlite3'}")
        for warm in [True] * options.sweeps + [False] * (0 if options.warm_only else options.sweeps):
            rows.append(measure(store, plan, warm))
            print(f"{'warm' if warm else 'cold'}: {rows[-1].reached_s}", file=sys.stderr, flush=True)
        store.close()
    page_s = {warm: [first_chart_s(20.0 * warm)] if options.page else [] for warm in (True, False)}
    kinds = {warm: [row for row in rows if row.warm == warm] for warm in (True, False)}
    good = [report("Warm" if warm else "Cold", of, page_s[warm]) for warm, of in kinds.items() if of]
    if options.json:
        kept = {"label": "measured", "sweeps": [asdict(row) for row in rows], "page_s": page_s}
        options.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
