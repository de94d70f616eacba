"""The dashboard for ``benchmarks.busy``: as ``streamlit``, but a sweep's two targets may be the same.

python -m benchmarks.equal_server run app.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlencode

from benchmarks.server import environment, new_tab, open_browser, running_server
from core.base.schema import UserError
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.store import Store

POLL_S = 2.0
OVERDUE_S = 120.0


@contextmanager
def same_targets_allowed() -> Iterator[None]:
    """Let plans and forms of this process use a target twice."""
    with (
        patch.object(SweepPlan, "refuse_targets", lambda _: None),
        patch("core.ui.checks._refuse_alike", lambda *_: None),
    ):
        yield


def sweep_on_page(plan: SweepPlan) -> Run:
    """Measure the plan from the Sweep page of a real server, watched by a real browser, and return the run.

    Raises:
        RuntimeError: The sweep does not end.
    """
    query = [
        ("network", plan.workload.network.name),
        *(("target", str(target)) for target in plan.targets),
        ("budget", f"{plan.budget_s:g}"),
        ("batches", f"{plan.batches[0]}:{plan.batches[-1]}"),
    ]
    with (
        tempfile.TemporaryDirectory() as name,
        running_server(Path(name), module="benchmarks.equal_server") as server,
        open_browser() as browser,
    ):
        page = new_tab(browser, 1440, 900)
        page.goto(f"{server.address}/sweep?{urlencode(query)}")
        page.get_by_role("button", name="Measure this machine").click()
        return _ended(Path(environment(Path(name))["BREAKEVEN_DATA_DIR"]), plan.budget_s + OVERDUE_S)


def _ended(folder: Path, patience_s: float) -> Run:
    """Return the only run of a server's history once it has ended."""
    end_s = time.monotonic() + patience_s
    while time.monotonic() < end_s:
        time.sleep(POLL_S)
        try:
            with closing(Store(f"sqlite:///{folder / 'runs.sqlite3'}", read_only=True)) as store:
                known = store.summaries()
                if known and known[0].status != "running":
                    with same_targets_allowed():
                        return store.load(known[0].id)
        except UserError:  # the run does not exist yet
            continue
    raise RuntimeError("The sweep on the page did not end.")


def main() -> None:
    from streamlit.web import cli

    with same_targets_allowed():
        cli.main(prog_name="streamlit")


if __name__ == "__main__":
    main()
