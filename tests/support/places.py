"""The page that measures each kind, for tests of their common behaviour."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamlit.testing.v1 import AppTest

from core.base.evidence import Warning
from core.studies.registry import kinds
from core.ui import menu
from simulated.diagnoses import helping_diagnosis
from simulated.frontier_studies import log2_speed_up, make_frontier_study
from simulated.jobs import made_job
from simulated.kinds import RUN
from simulated.kinds.memory import of_run as memory_study
from simulated.noises import make_noise_study
from simulated.pages import keep, open_page
from simulated.pipelines import make_pipeline_experiment
from simulated.resolutions import made_resolution
from simulated.scalings import Truth, make_scaling_study
from tests.support.study_pages import MADE


@dataclass(frozen=True)
class Place:
    """The page and button of a kind; ``other`` is a study that, unlike its kind's in MADE, ``says`` that text."""

    kind: str
    other: Callable[[], Any] = lambda: None
    says: str = ""
    counted: str = ""
    tab: str = ""
    measures_shown: bool = False  # its form measures what the shown study holds
    gone: str = "There is no such {noun} here; it was deleted, or measured on another machine."

    def __str__(self) -> str:
        return self.kind

    @property
    def page(self) -> str:
        page = menu.measuring(self.kind)
        assert page is not None
        return page

    @property
    def address(self) -> str:
        return menu.address(self.kind)

    @property
    def button(self) -> str:
        return f"measure_{self.kind}" if self.kind in kinds() else self.kind

    def make(self) -> Any:
        return MADE[self.kind]()

    @property
    def of_a_run(self) -> bool:
        return self.page in ("diagnosis", "batch", "hardware", "overhead")

    def open(self, engine: Any, embedded: bool = False, **query: str) -> AppTest:
        if self.of_a_run:
            if all(summary.id != RUN.id for summary in engine.store.summaries()):
                keep(engine.store, RUN)
            query["run"] = RUN.id
        return open_page(self.page, self.tab, embedded, **query)

    def start(self, at: AppTest) -> Any:
        return at.button(key=self.button)


SWEEP = Place("sweep", counted="No answer yet: 0 of 11 batch sizes measured.")
FRONTIER = Place(
    "frontier", lambda: make_frontier_study(truth=lambda s: log2_speed_up(s) + 6),
    "Inside this map the faster target does not change.", "5 of 14 settings measured.",
)  # fmt: skip
PIPELINE = Place(
    "pipeline", lambda: make_pipeline_experiment(truth=lambda _: 3.0),
    "Prefetch does not help here", "5 of 14 ways of feeding seen.",
)  # fmt: skip
SCALING = Place(
    "scaling", lambda: make_scaling_study(truth=Truth(together_ms=40.0)),
    "Use GPU 0 alone", "5 of 14 starts done.",
)  # fmt: skip
DIAGNOSIS = Place("diagnosis", lambda: helping_diagnosis(RUN), "helps most")
NOISE = Place(
    "noise", lambda: make_noise_study(RUN, elapsed_s=123.0),
    "draws of gradients in 2 min 03 s", tab="Gradient noise scale",
    gone="There is no such gradient noise study of this run; its newest one counts.",
)  # fmt: skip
MEMORY = Place(
    "memory", lambda: memory_study(status="cancelled"), "This search was cancelled",
    tab="Memory", gone="There is no such memory study of this run; its newest one counts.",
)  # fmt: skip
HOST = Place(
    "host",
    lambda: MADE["host"]().model_copy(update={"warnings": (Warning(code="x", text="No XLA here."),)}), "No XLA here.",
    tab="Host overhead", gone="There is no such host study here",
)  # fmt: skip
COMPILED = Place("compiled", tab="What the cards' compiler says")
RESOLUTION = Place(
    "resolution", lambda: made_resolution(factor=10.0),
    "The equal targets came out different",
)  # fmt: skip
JOB = Place(
    "job", lambda: made_job(floors_ms=(0.3, 0.6), slopes_ms=(0.02, 0.05)), "Nothing measured is faster than",
    measures_shown=True,
)  # fmt: skip
TRACE = Place("trace")
PITFALLS = Place("pitfalls", tab="Timing pitfalls, live")
TASKS = (TRACE, PITFALLS)  # not stored
FRAMED = (FRONTIER, PIPELINE)
STUDIES = (*FRAMED, SCALING, DIAGNOSIS, NOISE, MEMORY, HOST, RESOLUTION, JOB)
_SHOWN = {place.kind for place in (SWEEP, *STUDIES, COMPILED)} | {"fleet"}  # which begins on a cluster only
PLACES = (SWEEP, *STUDIES, COMPILED, *(Place(kind) for kind in kinds() if kind not in _SHOWN and menu.measuring(kind)))
"""Every kind that a page starts; those of :data:`STUDIES` have a second study to tell apart."""
