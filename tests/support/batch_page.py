"""Shared support for tests of the Batch page: a run with its studies in the store."""

from typing import Any

from core.rounds.run import Run
from simulated.kinds import RUN
from simulated.pages import keep

TIME, RATE, SAMPLE = "Time to the loss by batch (predicted)", "Throughput by batch", "Time per sample by batch"
COST, NOISE = "Cost of a million samples by batch", "Gradient noise scale"
FIRST, SECOND = RUN.target_names
NAMES = RUN.names


def kept(engine: Any, run: Run = RUN, **studies: Any) -> str:
    """Store a run as measured here, and studies by kind."""
    for kind, study in studies.items():
        engine.store.add_study(kind, f"20260107-{kind}", study)
    return keep(engine.store, run)
