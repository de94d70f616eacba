"""Does the dashboard stay small and quick with 10,000 stored cells? Memory of the real server, reruns of every page.

    python -m benchmarks.dashboard [--cells 10000] [--reruns 30] [--json FILE]

A temporary store is filled with simulated runs (from seeds) of 22 cells each. Two things are measured: (1) with the
real server and a real browser that opens every page, and the Crossover page of several more runs, the server's memory
after each, and any library of TensorFlow mapped into it; (2) reruns of every page, timed with Streamlit's own AppTest:
the script with the store and all analysis, and the building of AppTest's tree of elements, but no network and no
browser.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.server import environment, new_tab, open_browser, running_server, settle
from core.store import Store
from simulated.runs import make_run

MEMORY_GOAL_MB = 250.0
RERUN_GOAL_MS = 200.0
NAMES = ("crossover", "frontier", "batch", "hardware", "overhead", "pipeline", "diagnosis", "history", "method")
PAGES = {"sweep": "sweep", **{name: name for name in NAMES}}
MORE_RUNS = 10  # opened one after the other, to fill the server's caches of runs and charts
PATIENCE_MS = 60_000


@dataclass(frozen=True)
class Reruns:
    """Times in milliseconds. ``first_ms`` is the first visit of a session, with empty caches for the page's content."""

    page: str
    first_ms: float
    median_ms: float
    p95_ms: float


def fill(cells: int) -> tuple[int, list[str]]:
    """Store runs until there are that many cells; return the cells stored and the runs' ids."""
    store = Store()
    ids: list[str] = []
    stored = 0
    while stored < cells:
        run = make_run(len(ids), passes=1)
        ids.append(store.add(run))
        stored += len(run.cells)
    counted = sum(summary.cells for summary in store.summaries())
    store.close()
    return counted, ids


def server_memory(folder: Path, ids: list[str]) -> tuple[dict[str, float], bool]:
    """Return the server's memory in MB after start, each page and more runs, and True if TensorFlow is loaded."""
    used_mb: dict[str, float] = {}
    with running_server(folder) as server, open_browser() as browser:
        page = new_tab(browser, 1280, 900, PATIENCE_MS)
        used_mb["started"] = server.rss_mb()
        for name, path in PAGES.items():
            page.goto(f"{server.address}/{path}")
            settle(page)
            used_mb[name] = server.rss_mb()
        for run_id in ids[:MORE_RUNS]:
            page.goto(f"{server.address}/crossover?run={run_id}")
            settle(page)
        used_mb[f"{MORE_RUNS} more runs"] = server.rss_mb()
        return used_mb, server.has_tensorflow()


def reruns(name: str, count: int) -> Reruns:
    from simulated.pages import open_page

    start = time.perf_counter()
    at = open_page(PAGES[name])
    first_ms = 1000 * (time.perf_counter() - start)
    took = []
    for _ in range(count):
        start = time.perf_counter()
        at.run()
        took.append(1000 * (time.perf_counter() - start))
        if at.exception:
            raise RuntimeError(f"The page {name} failed: {at.exception}")
    return Reruns(name, first_ms, statistics.median(took), statistics.quantiles(took, n=20)[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--reruns", type=int, default=30, help="of each page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON, too")
    options = parser.parse_args()
    os.environ.pop("BREAKEVEN_DATABASE_URL", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(environment(folder))
        cells, ids = fill(options.cells)
        print(f"{cells:,} cells in {len(ids)} runs stored")
        memory, tensorflow = server_memory(folder, ids)
        pages = [reruns(page, options.reruns) for page in PAGES]
    print("server memory after   MB")
    for step, used_mb in memory.items():
        print(f"{step:<18} {used_mb:>6.0f}")
    print("page        first ms  rerun median ms  95th percentile ms")
    for row in pages:
        print(f"{row.page:<10} {row.first_ms:>9.0f} {row.median_ms:>16.0f} {row.p95_ms:>19.0f}")
    highest, slowest = max(memory.values()), max(row.median_ms for row in pages)
    met = highest < MEMORY_GOAL_MB and not tensorflow and slowest < RERUN_GOAL_MS
    print(
        f"memory at most {highest:.0f} MB (goal under {MEMORY_GOAL_MB:.0f}), "
        f"TensorFlow {'loaded' if tensorflow else 'not loaded'} (goal not loaded), "
        f"slowest page {slowest:.0f} ms at the median (goal under {RERUN_GOAL_MS:.0f}): {'met' if met else 'not met'}"
    )
    if options.json:
        summary = {"label": "measured", "cells": cells, "memory_mb": memory, "tensorflow_loaded": tensorflow}
        options.json.write_text(json.dumps({**summary, "pages": [asdict(row) for row in pages]}, indent=2) + "\n")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
