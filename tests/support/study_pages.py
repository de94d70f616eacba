"""Studies of every kind in the store of a page test, and the plan that a page has started."""

from collections.abc import Callable
from typing import Any

from streamlit.testing.v1 import AppTest

from core.studies.sweep.kind import SWEEP
from simulated.kinds import cases

MADE: dict[str, Callable[[], Any]] = {name: case.study for name, case in cases().items() if name != SWEEP.name}
"""A study of each kind except the sweep; those of a run belong to :data:`simulated.kinds.RUN`."""


def keep(engine: Any, kind: str, study: Any = None, study_id: str = "20260105-study") -> str:
    """Store a study as the engine and the command line do; by default the one in :data:`MADE`."""
    engine.store.add_study(kind, study_id, MADE[kind]() if study is None else study)
    return study_id


def start(engine: Any, at: AppTest, kind: str) -> Any:
    """Press the start button; return the plan that the page then asks the engine to measure."""
    at.button(key=f"measure_{kind}").click().run()
    return started_plan(engine, kind)


def started_plan(engine: Any, kind: str) -> Any:
    """Return the plan that the page last asked the engine to measure."""
    task, plan = engine.jobs.started[-1]
    assert task.name == kind
    return plan
