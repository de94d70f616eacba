"""Shared support for tests of the Batch page: a run with its studies in the store."""

from typing import Any

from core.rounds.run import Run
from core.studies.memory.record import MemoryPlan, MemoryStudy
from simulated.memories import GB, linear, make_memory_study
from simulated.pages import keep
from simulated.runs import make_run

RUN = make_run(4, label="measured")
TIME, RATE, SAMPLE = "Time to the loss by batch (predicted)", "Throughput by batch", "Time per sample by batch"
FIRST, SECOND = RUN.target_names
NAMES = RUN.names


def kept(engine: Any, run: Run = RUN, **studies: Any) -> str:
    """Store a run as measured here, and studies by kind."""
    for kind, study in studies.items():
        engine.store.add_study(kind, f"20260107-{kind}", study)
    return keep(engine.store, run)


def memory_study(target: int = 0, limit_bytes: int = 2 * GB, **changes: Any) -> MemoryStudy:
    """Return a memory study of the run: batch 500 fits, 520 ran out."""
    workload, on = RUN.plan.workload, RUN.plan.targets[target]
    plan = MemoryPlan(workload=workload, target=on, limit_bytes=limit_bytes, run_id=RUN.id)
    made = make_memory_study(linear(50e6, 2.6e6), (64, 500, 520), workload=workload, limit_bytes=limit_bytes)
    return made.model_copy(update={"plan": plan, **changes})
