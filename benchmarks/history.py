"""Does the history stay quick as it grows? Lists, searches, comparing and opening among 1,000 to 100,000 runs.

    python -m benchmarks.history [--runs 1000 10000 100000] [--url postgresql://…] [--repeats 20] [--json FILE]

The runs are made, not measured: small ones from seeds, copied under their own names, days and tags, and a few of 495
rounds, which are opened and compared. They are stored in SQLite in a temporary folder, and in the empty PostgreSQL
database of ``--url`` (``.ci/postgres start`` makes one), which keeps its tables afterwards. Times are wall time in one
process, with the analysis when something is opened or compared; a first, uncounted call warms up each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, insert, select, text

from core.rounds.answer.analyse import analyse
from core.rounds.answer.comparison import comparison_rows, differences
from core.rounds.run import Run
from core.store import Store, Wanted
from core.store.rows import searched
from core.store.tables import RECORDS, ROUNDS, RUNS, TAGS
from simulated.runs import make_run

GOAL_MS = 300.0
PAGE = 50
TEMPLATES, OPENED, COMPARED = 8, 12, 6
FIRST_DAY = datetime(2025, 1, 1, tzinfo=UTC)
TAGGED_EVERY = 100
SMALL = {"batches": (1, 8, 64), "processes": 2, "passes": 1, "rounds_per_pass": 2}


def fill(store: Store, count: int) -> list[str]:
    """Store that many made runs; return the ids of those that are opened."""
    templates = [
        store.add(make_run(seed, floors_ms=(0.3, 0.6 + 0.1 * seed), **SMALL))  # type: ignore[arg-type]
        for seed in range(1, TEMPLATES + 1)
    ]
    with store._database.write() as db:
        rows = [dict(db.execute(select(RUNS).where(RUNS.c.id == name)).mappings().one()) for name in templates]
        for some in _chunks(count, 5_000):
            made = [_copy(rows[n % TEMPLATES], n) for n in some]
            db.execute(insert(RUNS), made)
            if tagged := [{"run_id": row["id"], "tag": "release"} for row in made if row["words"].endswith("release")]:
                db.execute(insert(TAGS), tagged)
        for name in templates:
            copy_parts(db, name)
    large = [
        make_run(100 + n, batches=tuple(2**i for i in range(11)), processes=5, rounds_per_pass=5, passes=2)
        for n in range(OPENED)
    ]
    ids = [store.add(run.model_copy(update={"rounds": run.rounds[:495]})) for run in large]
    count_rows(store)
    return ids


def copy_parts(db: Connection, run_id: str) -> None:
    """Copy the rounds and records of a run to its copies, whose ids continue its own."""
    for table in (ROUNDS, RECORDS):
        others = ", ".join(f'part."{column.name}"' for column in table.columns if column.name != "run_id")
        db.execute(
            text(
                f"INSERT INTO {table.name} SELECT runs.id, {others} FROM runs, {table.name} AS part "
                f"WHERE runs.id LIKE '{run_id}-%' AND part.run_id = '{run_id}'"
            )
        )


def count_rows(store: Store) -> None:
    """Let the database count its rows, by which it plans queries; PostgreSQL does so by itself after a while."""
    with store._database.read() as db:
        db.execution_options(isolation_level="AUTOCOMMIT").execute(
            text("ANALYZE" if store._database.is_sqlite else "VACUUM ANALYZE")
        )


def _chunks(count: int, size: int) -> Iterator[range]:
    for start in range(0, count, size):
        yield range(start, min(count, start + size))


def _copy(row: dict[str, object], n: int) -> dict[str, object]:
    """Return a copy of the row with its own name, network, machine and day."""
    day = FIRST_DAY + timedelta(minutes=7 * n)
    copy = row | {
        "id": f"{row['id']}-{n:06d}", "name": f"nightly {n}", "created_at": day.isoformat(),
        "network": f"784-{64 + n % 500}-10 (training, adam)", "machine": f"Machine {n % 37}, 16 cores",
    }  # fmt: skip
    return copy | {"words": searched(copy, ("release",) if n % TAGGED_EVERY == 0 else ())}


def timed_actions(store: Store, ids: Sequence[str], count: int) -> dict[str, Callable[[], object]]:
    """Return the timed actions by name."""
    rare, turn = f"nightly {count // 2}", iter(range(10**9))

    def opened(run_id: str) -> tuple[Run, object]:
        run = store.load(run_id)
        return run, analyse(run)

    def compare() -> object:
        runs, answers = zip(*map(opened, ids[:COMPARED]), strict=True)
        return differences(runs), comparison_rows(runs, answers)

    return {
        "list, newest": lambda: store.find(Wanted(), PAGE),
        "list, last page": lambda: store.find(Wanted(), PAGE, count - PAGE),
        "list, one kind": lambda: store.find(Wanted(kind="sweep", label="recorded"), PAGE),
        "list, one tag": lambda: store.find(Wanted(tag="release"), PAGE),
        "search, all match": lambda: store.find(Wanted(words="training"), PAGE),
        "search, one in 37": lambda: store.find(Wanted(words="machine 12, threads"), PAGE),
        "search, one name": lambda: store.find(Wanted(words=rare), PAGE),
        "search, nothing": lambda: store.find(Wanted(words="unheard-of"), PAGE),
        "tags": store.tags,
        f"compare {COMPARED}": compare,
        "open": lambda: opened(ids[next(turn) % len(ids)]),
    }


def median_ms(act: Callable[[], object], repeats: int) -> float:
    took = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        act()
        took.append(1000 * (time.perf_counter() - start))
    return statistics.median(took[1:])


def measure(url: str, count: int, repeats: int) -> dict[str, float]:
    """Return medians in ms; ``start`` opens the filled store once."""
    store = Store(url)
    start = time.perf_counter()
    ids = fill(store, count)
    print(f"{store.where}: {count:,} runs made in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    store.close()
    start = time.perf_counter()
    store = Store(url)
    medians = {"start of a server": 1000 * (time.perf_counter() - start)}
    assert store.find(Wanted(), PAGE).total == count + TEMPLATES + OPENED
    medians |= {name: median_ms(act, repeats) for name, act in timed_actions(store, ids, count).items()}
    store.close()
    return medians


def empty(url: str) -> None:
    """Remove the tables of an earlier size from the PostgreSQL database."""
    store = Store(url)
    with store._database.write() as db:
        for table in ("runs", "rounds", "records", "tags", "curves", "schema_version"):
            db.execute(text(f"DROP TABLE {table}"))
    store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--url", help="of an empty PostgreSQL database, to be measured, too")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON, too")
    options = parser.parse_args()
    os.environ.pop("BREAKEVEN_DATABASE_URL", None)
    by_store: dict[str, dict[str, float]] = {}
    for count in options.runs:
        with tempfile.TemporaryDirectory() as folder:
            by_store[f"SQLite {count:,}"] = measure(f"sqlite:///{folder}/runs.sqlite3", count, options.repeats)
        if options.url:
            empty(options.url)
            by_store[f"PostgreSQL {count:,}"] = measure(options.url, count, options.repeats)
    rows = list(next(iter(by_store.values())))
    print(f"| median ms | {' | '.join(by_store)} |")
    print(f"| --- |{' ---: |' * len(by_store)}")
    for name in rows:
        print(f"| {name} | {' | '.join(f'{column[name]:.0f}' for column in by_store.values())} |")
    worst = max(value for column in by_store.values() for name, value in column.items() if not name.startswith("start"))
    met = worst < GOAL_MS
    print(f"slowest {worst:.0f} ms (goal under {GOAL_MS:.0f}): {'met' if met else 'not met'}")
    if options.json:
        options.json.write_text(json.dumps({"label": "made", "median_ms": by_store}, indent=2) + "\n")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
