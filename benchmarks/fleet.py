"""Does a fleet run stay quick and small as machines grow in number, and lose nothing?

    python -m benchmarks.fleet growth [--machines 10 30 100 300 1000] [--rounds 500] [--json FILE]
    python -m benchmarks.fleet faults [--machines 1000] [--json FILE]

*growth*: a fleet run on a simulated cluster (no Ray), with a store (SQLite in a temporary folder): wall time, CPU
time and peak memory, in one process per number of machines. The exit status is 0 if both grow at most in proportion to
the machines (within a factor of 1.3, beyond the cost without any machine).

*faults*: every kind of planted fault on an equal share of the machines, in the first start, in both, or never; every
round that a machine reported must be in the records once, and complete runs must stay complete. The exit status is 0 if
nothing is lost.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from core.studies.fleet.run import run_fleet
from simulated.fleets import (
    HARMLESS,
    RETRIED,
    Fault,
    FleetRecorder,
    SimulatedCluster,
    fleet_plan,
    machines,
    records_of,
    template,
    tools_on,
)

MOST_GROWTH = 1.3


def grow(number: int, rounds: int, url: str, answer: Any) -> None:
    """Run one fleet of that many machines into a store, in this process."""
    from core.store import Store

    made = template(rounds)
    store = Store(url)
    cluster = SimulatedCluster(machines(number), made)
    before_mb, before_cpu_s, begin_s = peak_mb(), time.process_time(), time.perf_counter()
    study = run_fleet(tools_on(cluster, store), fleet_plan(made), cluster)
    wall_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - before_cpu_s
    assert all(machine.state == "finished" for machine in study.machines)
    kept = sum(summary.rounds for summary in store.summaries("sweep"))
    store.close()
    answer.put((number, len(made.rounds) * number, kept, wall_s, cpu_s, before_mb, peak_mb()))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def growth(numbers: list[int], rounds: int) -> tuple[bool, list[dict[str, Any]]]:
    rows = []
    print("machines   rounds    wall s   CPU s ms per machine   memory MB   of which before")
    context = multiprocessing.get_context("spawn")
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            answer = context.Queue()
            process = context.Process(target=grow, args=(number, rounds, f"sqlite:///{folder}/runs.sqlite3", answer))
            process.start()
            _, made, kept, wall_s, cpu_s, before_mb, after_mb = answer.get()
            process.join()
        assert kept == made, f"{made - kept} rounds are lost"
        print(f"{number:8,} {made:8,} {wall_s:9.1f} {cpu_s:7.1f} {1000 * wall_s / number:14.0f} {after_mb:11.0f} "
              f"{before_mb:10.0f}", flush=True)  # fmt: skip
        rows.append({"machines": number, "rounds": made, "wall_s": wall_s, "cpu_s": cpu_s, "before_mb": before_mb,
                     "after_mb": after_mb})  # fmt: skip
    first, last = rows[0], rows[-1]
    ratio = last["machines"] / first["machines"]
    slower = last["wall_s"] / (first["wall_s"] * ratio)
    memory = (last["after_mb"] - last["before_mb"]) / max(1.0, (first["after_mb"] - first["before_mb"]) * ratio)
    print(f"Each of {last['machines']:,} machines takes {slower:.2f} times as long as each of {first['machines']:,}.")
    return slower <= MOST_GROWTH and memory <= MOST_GROWTH, rows


def faults(number: int) -> tuple[bool, list[dict[str, Any]]]:
    """Run a fleet with each kind of fault on an equal share of the machines, at one or both starts."""
    made = template()
    whole, recorder = list(records_of(made)), FleetRecorder()
    kinds: list[Fault | None] = [None, *RETRIED, *HARMLESS, "refuses", "nice", "threads", "fails", "empty"]
    planned = machines(number, [kinds[n % len(kinds)] for n in range(number)])
    twice = {n for n in range(number) if (n // len(kinds)) % 2 and kinds[n % len(kinds)] in RETRIED}
    for n in twice:
        planned[n].faults[2] = planned[n].faults[1]
    cluster = SimulatedCluster(planned, made)
    study = run_fleet(tools_on(cluster, recorder), fleet_plan(made), cluster)
    rows: dict[tuple[str, bool], Counter[str]] = {}
    for n, machine in enumerate(study.machines):
        row = rows.setdefault((kinds[n % len(kinds)] or "none", n in twice), Counter())
        row["machines"] += 1
        row[machine.state] += 1
        if machine.state == "finished":
            row["not whole"] += recorder.records[machine.run_id or ""] != whole
    damaged = sum(records != whole[: len(records)] for records in recorder.records.values())
    print("fault          starts  machines  finished  lost  failed  refused  not whole")
    for (fault, both), row in rows.items():
        counts = [row[name] for name in ("machines", "finished", "lost", "failed", "refused", "not whole")]
        print(f"{fault:14} {'both' if both else 'first':6} " + " ".join(f"{count:8,}" for count in counts))
    print(f"{sum(map(len, recorder.records.values())):,} records of {len(recorder.records):,} runs; in {damaged} a "
          f"record is missing, twice or out of order; still running: {len(cluster.running)}.")  # fmt: skip
    expected = all(
        row["lost" if both else "finished"] == row["machines"] for (fault, both), row in rows.items()
        if fault in (*RETRIED, *HARMLESS, "none")
    )  # fmt: skip
    good = expected and not damaged and not cluster.running and not sum(row["not whole"] for row in rows.values())
    return good, [{"fault": fault, "both": both, **row} for (fault, both), row in rows.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["growth", "faults"])
    parser.add_argument("--machines", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.what == "growth":
        good, rows = growth(options.machines or [10, 30, 100, 300, 1000], options.rounds)
    else:
        good, rows = faults((options.machines or [1000])[0])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
