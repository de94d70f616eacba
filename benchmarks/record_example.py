"""Record the finished example that everybody sees first: a real sweep on this machine, with its environment.

    python -m benchmarks.record_example [--budget 90]

Writes core/data/example.json. Only the label changes on the way: what is measured here is recorded for everyone else.
"""

from __future__ import annotations

import argparse

from benchmarks.repeatability import measure
from core.analysis.analyse import analyse
from core.examples import EXAMPLE_FILE
from core.measure.lock import machine_lock
from core.spec import SweepPlan, Target, Workload, parse_batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=90.0)
    options = parser.parse_args()
    plan = SweepPlan(
        workload=Workload(network="784-512-512-10"),
        targets=(Target.parse("cpu,threads=1"), Target.parse("cpu,threads=2")),
        batches=parse_batches("1:1024"),
        budget_s=options.budget,
    )
    with machine_lock("the recording of the example"):
        run = measure(plan)
    shipped = run.model_copy(
        update={
            "label": "recorded",
            "id": f"example-{run.created_at[:10]}",
            "name": "Example: one CPU thread against two, 784-512-512-10, training with Adam",
        }
    )
    EXAMPLE_FILE.write_text(shipped.to_json() + "\n", encoding="utf-8")
    print(analyse(shipped).verdict.sentence)


if __name__ == "__main__":
    main()
