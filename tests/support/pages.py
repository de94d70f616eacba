"""A fake engine for page tests: the real store in the test's folder, and a job whose state the test sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from streamlit.testing.v1 import AppTest

from core.analysis.analyse import analyse
from core.measure.jobs import TaskSnapshot
from core.measure.lock import Busy
from core.measure.progress import Progress, Snapshot
from core.measure.studies import StudySnapshot, StudyTools
from core.results import Run, Status
from core.spec import SweepPlan
from core.store import Store

ROOT = Path(__file__).parents[2]


class FakeJobs:
    """What pages ask of :class:`core.measure.jobs.Jobs`, remembered; nothing is measured."""

    def __init__(self) -> None:
        self.started: list[tuple[SweepPlan, str | None]] = []
        self.resumed: list[str] = []
        self.cancelled = 0
        self.current: Snapshot | None = None
        self.task: TaskSnapshot | None = None
        self.tasks: list[tuple[str, Callable[[], Any]]] = []
        self.study: StudySnapshot | None = None
        self.studies: list[tuple[str, str, Callable[[StudyTools], Any]]] = []
        self.on_study: Callable[[str, str], StudySnapshot] | None = None
        self.elsewhere: str | None = None
        self.refusal: str | None = None
        self.on_start: Callable[[SweepPlan], Snapshot] | None = None

    def start(self, plan: SweepPlan, name: str | None = None) -> str:
        if self.refusal:
            raise Busy(self.refusal)
        self.started.append((plan, name))
        if self.on_start:
            self.current = self.on_start(plan)
        return "20260105-started"

    def resume(self, run_id: str) -> str:
        if self.refusal:
            raise Busy(self.refusal)
        self.resumed.append(run_id)
        return run_id

    def cancel(self) -> None:
        self.cancelled += 1

    def snapshot(self) -> Snapshot | None:
        return self.current

    def busy_elsewhere(self) -> str | None:
        return self.elsewhere

    def run_task(self, description: str, work: Callable[[], Any]) -> bool:
        if self.refusal:
            return False
        self.tasks.append((description, work))
        return True

    def task_snapshot(self) -> TaskSnapshot | None:
        return self.task

    def start_study(self, kind: str, description: str, work: Callable[[StudyTools], Any]) -> bool:
        if self.refusal:
            return False
        self.studies.append((kind, description, work))
        if self.on_study:
            self.study = self.on_study(kind, description)
        return True

    def study_snapshot(self) -> StudySnapshot | None:
        return self.study

    def close(self) -> None:
        pass


def fake_engine() -> Any:
    return SimpleNamespace(store=Store(), jobs=FakeJobs())


def snapshot_of(run: Run, phase: str = "measuring", error: str | None = None, revision: int = 1) -> Snapshot:
    """A snapshot of a sweep in that phase, with the answer its rounds allow."""
    progress = Progress(phase, "Measuring batch 64, round 3", 7, 22, 21.0, 69.0)  # type: ignore[arg-type]
    return Snapshot(run, progress, analyse(run) if run.rounds else None, revision, error)


def keep(store: Store, run: Run, status: Status = "finished") -> str:
    """Store a run as measured here."""
    store.begin(run.model_copy(update={"label": "measured"}))
    store.finish(run.id, status, run.elapsed_s)
    return run.id


def open_page(page: str = "", **query: str) -> AppTest:
    """The app at a page, as after a click in its navigation."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30)
    for name, value in query.items():
        at.query_params[name] = value
    at.run()
    if page:
        at.switch_page(f"pages/{page}.py")
        for name, value in query.items():
            at.query_params[name] = value
        at.run()
    assert not at.exception, at.exception
    return at


def text_of(at: AppTest) -> str:
    """Everything readable on the page."""
    kinds = ("markdown", "caption", "subheader", "header", "info", "warning", "error", "success", "text")
    parts = [str(element.value) for kind in kinds for element in getattr(at, kind)]
    parts += [f"{metric.label} {metric.value} {metric.delta}" for metric in at.metric]
    parts += [link.label for link in at.page_link]
    return "\n".join(parts).replace("&#58;", ":").replace("\\", "")


def chart_titles(at: AppTest) -> list[str]:
    """First line of each chart on the page."""
    import json

    specs = [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]
    return [next(a["text"] for a in s["layout"]["annotations"] if a["text"].startswith("<b>")) for s in specs]
