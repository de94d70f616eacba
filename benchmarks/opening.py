"""Time to open a page: from the address to the drawn chart, on the first opening of a server and later.

    python -m benchmarks.opening [--repeats 5] [--json FILE]

A real server with an empty store, which shows the shipped example, and a real browser on the same machine. *First*: the
first page requested from a server, in a browser without a cache, once for each of --servers servers. *New browser*: the
same later, in a browser without a cache. *Reload*: once more in the same browser. Then every page in a browser that has
been there. Each time is split at the moments when the browser opens its connection (before it: the frontend's own
files), when the server's first element arrives (before it: the session, imports, the router) and when the script ends;
the rest is drawn after that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.server import new_tab, open_browser, running_server
from core.ui import menu

FIRST_GOAL_S, GOAL_S = 5.0, 2.0
PATIENCE_MS = 60_000
CHARTS = {name: 1 for name in ("start", "sweep", "crossover", "frontier", "batch", "hardware", "overhead", "pipeline",
                               "diagnosis")}  # fmt: skip
DRAWN = """count => document.querySelector('[data-test-script-state="notRunning"]') &&
    document.querySelector("h1, h2") &&
    document.querySelectorAll(".js-plotly-plot .main-svg .plot, .js-plotly-plot .main-svg .cartesianlayer *").length
    >= count"""


@dataclass(frozen=True)
class Opening:
    """Seconds from requesting the address to: connection opened, script ended, heading and first chart drawn."""

    page: str
    how: str
    connected_s: float
    ended_s: float
    drawn_s: float


def opening(page: Any, address: str, name: str, how: str) -> Opening:
    """Open a page and time it; ``page`` is a browser tab that already shows the address if ``how`` is "reload"."""
    at: dict[str, float] = {}
    start = time.perf_counter()
    page.on("websocket", lambda _: at.setdefault("connected", time.perf_counter() - start))
    if how == "reload":
        page.reload(wait_until="commit")
    else:
        page.goto(f"{address}/{name}", wait_until="commit")
    page.locator("h1, h2").first.wait_for()
    page.locator('[data-test-script-state="notRunning"]').first.wait_for(state="attached")
    at["ended"] = time.perf_counter() - start
    page.wait_for_function(DRAWN, arg=CHARTS.get(name, 0), polling=20)
    return Opening(name or "root", how, at.get("connected", 0.0), at["ended"], time.perf_counter() - start)


def first_openings(servers: int, names: tuple[str, ...]) -> list[Opening]:
    """Return the openings of new servers and new browsers."""
    openings = []
    for name in names:
        for _ in range(servers):
            with (
                tempfile.TemporaryDirectory() as folder,
                open_browser() as browser,
                running_server(Path(folder)) as server,
            ):
                openings.append(opening(new_tab(browser, 1440, 900, PATIENCE_MS), server.address, name, "first"))
    return openings


def later_openings(repeats: int) -> list[Opening]:
    """Return the openings of one server on which every page has been requested before."""
    openings = []
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server, open_browser() as browser:
        known = new_tab(browser, 1440, 900, PATIENCE_MS)
        for name in menu.pages():
            opening(known, server.address, name, "once")
        known.goto("about:blank")  # an open page would keep polling
        for _ in range(repeats):
            fresh = new_tab(browser, 1440, 900, PATIENCE_MS)
            openings.append(opening(fresh, server.address, "", "new browser"))
            openings.append(opening(fresh, server.address, "", "reload"))
            fresh.context.close()
            for name in menu.pages():
                again = known.context.new_page()
                again.set_default_timeout(PATIENCE_MS)
                openings.append(opening(again, server.address, name, "later"))
                again.close()
    return openings


def rows(openings: list[Opening]) -> list[Opening]:
    """Return medians by page and way of opening, in the order of first occurrence."""
    grouped: dict[tuple[str, str], list[Opening]] = {}
    for entry in openings:
        grouped.setdefault((entry.page, entry.how), []).append(entry)
    return [
        Opening(page, how, *(statistics.median(getattr(entry, part) for entry in entries)
                             for part in ("connected_s", "ended_s", "drawn_s")))
        for (page, how), entries in grouped.items()
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="of each later opening")
    parser.add_argument("--servers", type=int, default=2, help="new ones for the first opening")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON, too")
    options = parser.parse_args()
    medians = rows([*first_openings(options.servers, ("", "crossover")), *later_openings(options.repeats)])
    print("page       how          connected s  script ended s  drawn s")
    for row in medians:
        print(f"{row.page:<10} {row.how:<12} {row.connected_s:>11.2f} {row.ended_s:>15.2f} {row.drawn_s:>8.2f}")
    missed = [row for row in medians if row.drawn_s > (FIRST_GOAL_S if row.how == "first" else GOAL_S)]
    print(f"first within {FIRST_GOAL_S:g} s, every later one within {GOAL_S:g} s: {'met' if not missed else 'not met'}")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in medians], indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
