"""Runs of one, three and six targets with a known truth."""

from __future__ import annotations

from typing import Any

from core.base.evidence import Gpu
from core.rounds.run import Run
from core.workload.spec import Target
from simulated.runs import make_run, planned

TARGETS = (
    Target(threads=1),
    Target(device="gpu:0"),
    Target(device="gpu:0", precision="mixed_float16"),
    Target(threads=2),
    Target(threads=1, execution="xla"),
    Target(threads=2, execution="xla"),
)
FLOORS_MS, SLOPES_MS = (0.3, 0.9, 1.1, 0.45, 0.25, 0.4), (0.02, 0.002, 0.0012, 0.012, 0.021, 0.0115)
COUNTS = (1, 3, 6)


def run_of(count: int, seed: int = 3, **made: Any) -> Run:
    """Return a run of the first ``count`` of :data:`TARGETS`."""
    run = planned(make_run(seed, floors_ms=FLOORS_MS[:count], slopes_ms=SLOPES_MS[:count], **made),
                  targets=TARGETS[:count])  # fmt: skip
    gpus = (Gpu(name="Tesla T4"),) if count > 1 else ()
    return run.model_copy(update={"environment": run.environment.model_copy(update={"gpus": gpus})})
