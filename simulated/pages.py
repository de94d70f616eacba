"""A fake engine for page tests: the real store in the test's folder, and a job whose state the test sets."""

import json
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from core.base.text import APART
from core.machine.lock import Busy
from core.rounds.answer.analyse import analyse
from core.rounds.run import Run, Status
from core.store import Store
from core.store.tables import RUNS
from core.studies.kind import Kind, Task
from core.studies.pauses import Pauses
from core.studies.progress import Progress, Snapshot
from core.studies.runner import StudyTools
from core.ui import machine
from simulated.commands import holds
from simulated.simulation import VirtualClock

ROOT = Path(__file__).parents[1]
AT = Progress("measuring", "Measuring in turn: batch 64", 5, 14, 30.0, 90.0)


def stop_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass between a report of a measurement and its page."""
    monkeypatch.setattr(Snapshot, "left_s", property(lambda snapshot: snapshot.progress.remaining_s))


def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine have a GPU beside its CPU."""
    here = machine.Machine(("cpu", "gpu:0"), {"cpu": "CPU", "gpu:0": "GPU 0 · Card"}, 8, ())
    monkeypatch.setattr(machine, "devices", lambda: here)


class FakeJobs:
    """Fake of :class:`core.studies.jobs.Jobs` that records the pages' calls; nothing is measured.

    With ``progress``, whatever is started then runs at that stage.
    """

    def __init__(self) -> None:
        self.started: list[tuple[Task[Any, Any], Any]] = []
        self.cancelled = 0
        self.elsewhere: str | None = None
        self.stopping = self.writing = False
        self.refusal: str | None = None
        self.progress: Progress | None = None
        self.pauses = Pauses(VirtualClock(1.0))
        self._snapshots: dict[str, Snapshot] = {}
        self._current = ""

    def start(self, task: Task[Any, Any], plan: Any) -> str:
        if self.refusal:
            raise Busy(self.refusal)
        task.check(plan)
        self.started.append((task, plan))
        record = plan if isinstance(task, Kind) and task.streams else None
        study_id = task.id_of(plan)
        if self.progress is not None:
            self.show(Snapshot(task.name, study_id, task.describe(plan), self.progress, record=record))
        return study_id

    def show(self, snapshot: Snapshot) -> None:
        """Let this be the latest measurement; it may be running."""
        self._snapshots[snapshot.kind], self._current = snapshot, snapshot.kind

    def snapshot(self, kind: str | None = None) -> Snapshot | None:
        return self._snapshots.get(self._current if kind is None else kind)

    def cancel(self) -> None:
        self.cancelled += 1

    def busy_elsewhere(self) -> str | None:
        return self.elsewhere

    def close(self) -> None:
        pass


def fake_engine() -> Any:
    return SimpleNamespace(store=Store(), jobs=FakeJobs())


def tools_of(engine: Any) -> StudyTools:
    """Return the engine's tools for a task; its workers cannot be started."""
    return StudyTools(lambda *_: (), VirtualClock(1.0), threading.Event(), None, lambda _: None, engine.store)


def running(kind: str, title: str = "A study of x", at: Progress = AT, **changes: Any) -> Snapshot:
    return Snapshot(kind, "20260105-running", title, at, **changes)


def ended(kind: str, title: str = "A study of x", **changes: Any) -> Snapshot:
    return running(kind, title, active=False, **changes)


def sweeping(run: Run, **changes: Any) -> Snapshot:
    """Return a running sweep, with the answer that its rounds allow."""
    progress = Progress("measuring", "Measuring batch 64, round 3", 7, 22, 21.0, 69.0)
    answer = analyse(run) if run.rounds else None
    return Snapshot("sweep", run.id, run.name, progress, record=run, answer=answer, **changes)


def keep(store: Store, run: Run, status: Status = "finished") -> str:
    """Store a run as measured here."""
    store.begin(run.model_copy(update={"label": "measured"}))
    store.finish(run.id, status, run.elapsed_s)
    return run.id


@cache
def _components() -> BidiComponentManager:
    """Return the installed packages' components, which every AppTest would otherwise discover again."""
    manager = BidiComponentManager()
    manager.discover_and_register_components(start_file_watching=False)
    return manager


def damage(store: Store, study_id: str, body: str = "{}") -> str:
    """Replace a stored study by an invalid record."""
    with store._database.write() as db:
        db.execute(update(RUNS).where(RUNS.c.id == study_id).values(head=body))
    return study_id


PATIENCE_S = 60
"""For one run of a page, which takes well under a second on an idle machine."""


def open_page(
    page: str = "sweep", tab: str = "", embedded: bool = False, context: dict[str, Any] | None = None,
    folds: Sequence[str] = (), **query: Any,
) -> AppTest:  # fmt: skip
    """Open the app at a page and one of its tabs or folded parts, as after a click; without a page at its root address.

    ``folds`` are the titles of more open parts.
    """
    at = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=PATIENCE_S)
    at._bidi_component_manager = _components()
    if tab:
        at.session_state[f"{page}_tab"] = tab
        at.session_state[f"folded-{tab}"] = True
    for title in folds:
        at.session_state[f"folded-{title}"] = True
    at.context = {"is_embedded": embedded} | (context or {})
    for name, value in query.items():
        at.query_params[name] = value
    if page:
        # what AppTest.switch_page does once a first run has told it the pages; that run would draw the first page
        at._page_hash = calc_hash(page)
    at.run()
    return at


def unfold(at: AppTest, *parts: str) -> AppTest:
    """Rerun the page with only these parts of its evidence open."""
    for key in [key for key in at.session_state._state.filtered_state if str(key).startswith("folded-")]:
        at.session_state[key] = False
    for part in parts:
        at.session_state[f"folded-{part}"] = True
    at.run()
    return at


def text_of(at: AppTest) -> str:
    """Return everything readable on the page."""
    kinds = ("title", "markdown", "caption", "subheader", "header", "info", "warning", "error", "success", "text")
    parts = [str(element.value) for kind in kinds for element in getattr(at, kind)]
    parts += [f"{metric.label} {metric.value} {metric.delta}" for metric in at.metric]
    parts += [link.label for link in at.page_link]
    return "\n".join(parts).replace("&#58;", ":").replace("\\", "").replace("&amp;", "&").replace("\u00a0", " ")


def says(at: AppTest, *sentences: str) -> None:
    """Check that each of the sentences is on the page."""
    holds(text_of(at).replace(APART, ""), *sentences)


def chart_titles(at: AppTest) -> list[str]:
    """Return the first line of each chart on the page."""
    specs = [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]
    return [next(a["text"] for a in s["layout"]["annotations"] if a["text"].startswith("<b>")) for s in specs]


def titles(at: AppTest) -> list[str]:
    """Return the chart titles without their markup."""
    return [title.removeprefix("<b>").removesuffix("</b>") for title in chart_titles(at)]
