"""Does a fleet run stay quick to open as its machines grow in number? 10 to 1,000 machines of 500 rounds each.

    python -m benchmarks.fleet_view [--machines 10 100 300 1000] [--url postgresql://…] [--repeats 9] [--json FILE]

The runs are made, not measured: templates of 500 rounds, copied under their own ids, each with a condensed curve that
scatters as machines of eight kinds do, with two targets each. They are stored in SQLite in a temporary folder, and in
the empty PostgreSQL database of ``--url`` (``.ci/postgres start`` makes one), which keeps its tables afterwards. The
data side of a page is timed: reading the study and the condensed runs, the answer, its chart, its table, the history
beside it. Nothing is cached between repeats; a first, uncounted one loads the modules.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from sqlalchemy import insert, select

from benchmarks.history import copy_parts, count_rows, empty, median_ms
from core.rounds.answer.condensed import CondensedRun, condense
from core.store import Store, Wanted
from core.store.curves import keep_curves
from core.store.tables import RUNS
from core.studies.fleet.answer import FleetAnswer, answer_of
from core.studies.fleet.figures import speed_up_figure
from core.studies.fleet.kind import FLEET
from core.studies.fleet.record import FleetMachine, FleetPlan, FleetStudy
from core.studies.fleet.text import columns, row, shown_batches
from simulated.runs import make_plan, make_run

GOAL_MS = 500.0
KINDS, BATCHES, PROCESSES, ROUNDS_EACH = 8, tuple(2**i for i in range(10)), 5, 500
STUDY_ID = "20260105-made-fleet"
PAGE_ROWS = ("open the fleet run", "condensed runs", "answer", "picture", "table")
"""The parts whose sum is the time of a page."""


def fill(store: Store, count: int) -> FleetStudy:
    """Store a fleet run of that many made machines, with their rounds."""
    rng, runs, per_pass = np.random.default_rng(1), [], ROUNDS_EACH // PROCESSES // len(BATCHES)
    for kind in range(KINDS):
        run = make_run(
            kind, batches=BATCHES, processes=PROCESSES, passes=1, rounds_per_pass=per_pass,
            floors_ms=(0.2 + 0.05 * kind, 0.5 + 0.08 * kind), slopes_ms=(0.03 / (1 + kind), 0.008 / (1 + kind)),
        )  # fmt: skip
        runs.append(run.model_copy(update={"id": f"made-{kind}"}))
        store.add(runs[-1])
    templates, ids = [condense(run) for run in runs], [f"made-{n % KINDS}-{n:05d}" for n in range(count)]
    with store._database.write() as db:
        rows = [dict(db.execute(select(RUNS).where(RUNS.c.id == run.id)).mappings().one()) for run in runs]
        db.execute(insert(RUNS), [rows[n % KINDS] | {"id": run_id, "name": run_id} for n, run_id in enumerate(ids)])
        for run in runs:
            copy_parts(db, run.id)
        keep_curves(db, (_unlike(templates[n % KINDS], run_id, rng) for n, run_id in enumerate(ids)))
    machines = tuple(
        FleetMachine(name=f"made-{n:04d}", state="finished", run_id=run_id, starts=1, labels={"kind": f"k{n % KINDS}"})
        for n, run_id in enumerate(ids)
    )
    study = FleetStudy(
        created_at="2026-01-05T09:00:00+00:00", plan=FleetPlan(sweep=make_plan(BATCHES)), machines=machines
    )
    store.add_study(FLEET.name, STUDY_ID, study)
    count_rows(store)
    return study


def _unlike(template: CondensedRun, run_id: str, rng: np.random.Generator) -> CondensedRun:
    """Return the curve of another machine of that kind: 3 % faster or slower, with scatter by its errors."""
    curves = []
    for curve in template.curves:
        off = rng.normal(0, 0.03) + rng.normal(0, 0.01, len(curve.batches))
        logs = tuple(log + float(o) for log, o in zip(curve.log_ms, off, strict=True))
        curves.append(curve.model_copy(update={"log_ms": logs}))
    return template.model_copy(update={"run_id": run_id, "curves": tuple(curves)})


def timed_actions(store: Store, study: FleetStudy) -> dict[str, Callable[[], object]]:
    """Return the timed actions by name."""
    curves = store.curves(study.part_ids)
    answer: FleetAnswer = answer_of(study, curves)
    batches = shown_batches(answer)
    return {
        "open the fleet run": lambda: store.study(FLEET, STUDY_ID),
        "condensed runs": lambda: store.curves(study.part_ids),
        "answer": lambda: answer_of(study, curves),
        "picture": lambda: speed_up_figure(study, answer),
        "table": lambda: (columns(answer, batches), [row(answer, result, batches) for result in answer.results]),
        "history, newest": lambda: store.find(Wanted(), 50),
        "history, its machines": lambda: store.find(Wanted(part_of=STUDY_ID), 50),
        "history, a search": lambda: store.find(Wanted(words="threads"), 50),
    }


def measure(url: str, count: int, repeats: int) -> dict[str, float]:
    """Return medians in ms, their sum for a page, and this program's memory by then."""
    store = Store(url)
    start = time.perf_counter()
    study = fill(store, count)
    print(f"{store.where}: {count:,} machines made in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    medians = {name: median_ms(act, repeats) for name, act in timed_actions(store, study).items()}
    store.close()
    page = sum(medians[name] for name in PAGE_ROWS)
    return medians | {"a page, together": page, "memory (MB)": psutil.Process().memory_info().rss / 1e6}


def growth(by_count: dict[int, dict[str, float]], name: str) -> float | None:
    """Return the exponent of growth from the smallest to the largest number of machines; 1 is proportional."""
    sizes = sorted(by_count)
    if len(sizes) < 2:
        return None
    first, last = by_count[sizes[0]][name], by_count[sizes[-1]][name]
    return math.log(max(last, 1e-3) / max(first, 1e-3)) / math.log(sizes[-1] / sizes[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--machines", type=int, nargs="+", default=[10, 100, 300, 1000])
    parser.add_argument("--url", help="of an empty PostgreSQL database, to be measured, too")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON, too")
    options = parser.parse_args()
    os.environ.pop("BREAKEVEN_DATABASE_URL", None)
    stores: dict[str, dict[int, dict[str, float]]] = {"SQLite": {}}
    for count in options.machines:
        with tempfile.TemporaryDirectory() as folder:
            stores["SQLite"][count] = measure(f"sqlite:///{folder}/runs.sqlite3", count, options.repeats)
        if options.url:
            empty(options.url)
            stores.setdefault("PostgreSQL", {})[count] = measure(options.url, count, options.repeats)
    worst = 0.0
    for store, by_count in stores.items():
        print(f"| {store}, median ms | {' | '.join(f'{count:,}' for count in by_count)} | growth |")
        print(f"| --- |{' ---: |' * (len(by_count) + 1)}")
        for name in next(iter(by_count.values())):
            power = growth(by_count, name)
            cells = " | ".join(f"{column[name]:.0f}" for column in by_count.values())
            print(f"| {name} | {cells} | {'' if power is None else f'{power:.2f}'} |")
        worst = max(worst, *(column["a page, together"] for column in by_count.values()))
    print(f"slowest page {worst:.0f} ms (goal under {GOAL_MS:.0f}): {'met' if worst < GOAL_MS else 'not met'}")
    if options.json:
        data: dict[str, Any] = {"label": "made", "stores": stores}
        options.json.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if worst < GOAL_MS else 1)


if __name__ == "__main__":
    main()
