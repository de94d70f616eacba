"""Studies of every kind in the store of a page test, and the plan that a page has started."""

from collections.abc import Callable
from typing import Any

from streamlit.testing.v1 import AppTest

from simulated.fleet_studies import make_fleet
from simulated.noises import make_noise_study
from simulated.pipelines import make_pipeline_experiment
from simulated.resolutions import made_resolution
from simulated.scalings import make_scaling_study
from simulated.validations import made_validation
from tests.support import hardware_page
from tests.support.batch_page import RUN, memory_study
from tests.support.diagnoses import make_diagnosis
from tests.support.frontier_studies import make_frontier_study

MADE: dict[str, Callable[[], Any]] = {
    "frontier": make_frontier_study,
    "pipeline": make_pipeline_experiment,
    "scaling": make_scaling_study,
    "diagnosis": lambda: make_diagnosis(RUN),
    "noise": lambda: make_noise_study(RUN),
    "memory": memory_study,
    "host": lambda: hardware_page.STUDY,
    "fleet": lambda: make_fleet(batches=(1, 8, 64)),
    "resolution": made_resolution,
    "validation": made_validation,
}
"""A study of each kind except the sweep; those of a run belong to :data:`RUN`."""


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
