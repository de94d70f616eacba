"""What tests of the Batch page share: a run with its studies in the store, tabs, and a running study."""

from __future__ import annotations

import threading
from typing import Any

from streamlit.testing.v1 import AppTest

from core.measure.progress import Progress
from core.measure.studies import StudySnapshot, StudyTools
from core.memory_study import MemoryPlan, MemoryStudy
from core.results import Run
from tests.support.memories import GB, linear, make_memory_study
from tests.support.pages import chart_titles, keep
from tests.support.runs import make_run
from tests.support.simulation import VirtualClock

RUN = make_run(4, label="measured")
TIME, RATE, SAMPLE = "Time to the loss by batch (predicted)", "Throughput by batch", "Time per sample by batch"
AT = Progress("measuring", "Training: step 120", 0, 0, 20.0, 40.0)
FIRST, SECOND = RUN.target_names


def kept(engine: Any, run: Run = RUN, *, noise: Any = None, memory: Any = None) -> str:
    run_id = keep(engine.store, run)
    if noise is not None:
        engine.store.add_study("noise", "20260107-noise", run_id, noise.to_json())
    if memory is not None:
        engine.store.add_study("memory", "20260107-memory", run_id, memory.to_json())
    return run_id


def memory_study(target: int = 0, limit_bytes: int = 2 * GB, **changes: Any) -> MemoryStudy:
    """Of the run: batch 500 fits, 520 ran out."""
    assert RUN.plan is not None
    plan = MemoryPlan(
        workload=RUN.plan.workload, target=RUN.plan.targets[target], limit_bytes=limit_bytes, run_id=RUN.id
    )
    made = make_memory_study(linear(50e6, 2.6e6), (64, 500, 520), workload=RUN.plan.workload, limit_bytes=limit_bytes)
    return made.model_copy(update={"plan": plan, **changes})


def turn(at: AppTest, tab: str) -> AppTest:
    at.session_state["batch_tab"] = tab
    at.run()
    assert not at.exception, at.exception
    return at


def titles(at: AppTest) -> list[str]:
    return [title.removeprefix("<b>").removesuffix("</b>") for title in chart_titles(at)]


def running(kind: str) -> StudySnapshot:
    return StudySnapshot(kind, f"The {kind} study of run x", active=True, progress=AT)


def tools() -> StudyTools:
    return StudyTools(lambda *_: (), VirtualClock(1.0), threading.Event(), lambda: None, lambda _: None)
