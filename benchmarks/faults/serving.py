"""The real server of the dashboard, which starts a sweep as its page would: ``serving PORT BUDGET_S``."""

from __future__ import annotations

import sys
import threading

from core.cli import main
from core.rounds.plan import SweepPlan
from core.studies.sweep.kind import SWEEP, new_run
from core.workload.spec import Target, Workload


def measure(budget_s: float) -> None:
    from streamlit.runtime import exists

    from core.ui.registry import engine

    while not exists():
        threading.Event().wait(0.05)
    targets = (Target(threads=1), Target(threads=2))
    workload = Workload.model_validate({"network": "784-128-10"})
    plan = SweepPlan(workload=workload, targets=targets, batches=(1, 8, 64), trace=False, budget_s=budget_s)
    engine().jobs.start(SWEEP, new_run(plan))


if __name__ == "__main__":
    port, budget_s = sys.argv[1:]
    threading.Thread(target=measure, args=(float(budget_s),), daemon=True).start()
    options = ("--server.headless=true", f"--server.port={port}", "--browser.gatherUsageStats=false")
    sys.exit(main(["dashboard", *options]))
