"""The study that docs/adding_a_study.md adds: its code is taken from the document and runs from plan to page."""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

import core.cli
import core.studies
from core.cli import commands, main
from core.store import Store
from core.studies.jobs import Jobs
from core.studies.kind import Context, Kind
from core.studies.registry import kind_of, kinds, read_any
from core.ui import registry
from core.ui.navigation import ROUTED
from core.ui.registry import Engine
from simulated.pages import PATIENCE_S
from simulated.simulation import Curve, Machine

TEXT = (Path(__file__).parents[3] / "docs" / "adding_a_study.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))
STARTS_S = (5.0, 4.0, 7.0, 4.5, 6.0, 4.2, 4.8, 30.0)  # the last one stalls
VERDICT = "Ready after 4900 ms, 95 % interval 4000 to 30000, measured"


class Starting(Machine):
    """Machine whose workers take :data:`STARTS_S` to start, in turn."""

    def launch(self, targets: Any, deadline_s: float, *_: object) -> Any:
        self.startup_s = STARTS_S[self.starts % len(STARTS_S)]
        return super().launch(targets, deadline_s)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write the files to their own folder, where ``core`` finds those that belong to it."""
    before = set(sys.modules)
    for name, source in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source, encoding="utf-8")
    monkeypatch.setattr(core.studies, "__path__", [*core.studies.__path__, str(tmp_path / "core" / "studies")])
    monkeypatch.setattr(core.cli, "__path__", [*core.cli.__path__, str(tmp_path / "core" / "cli")])
    importlib.invalidate_caches()
    kinds.cache_clear()
    yield tmp_path
    kinds.cache_clear()
    for name in set(sys.modules) - before:
        if "startup" in name:
            del sys.modules[name]
    for package in (core.studies, core.cli):
        vars(package).pop("startup", None)


@pytest.fixture
def toy(folder: Path) -> Kind[Any, Any, Any]:
    assert folder
    return kind_of("startup")


@pytest.fixture
def machine() -> Starting:
    return Starting((Curve(1.0, 0.1), Curve(1.0, 0.1)))


@pytest.fixture
def engine(machine: Starting, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    store = Store()
    jobs = Jobs(store, launcher=machine.launch, clock=machine.clock, interference=lambda: None, meter=lambda: None)
    made = Engine(store, jobs)
    monkeypatch.setattr(registry, "engine", lambda: made)
    registry.load.clear()
    yield made
    jobs.close()
    store.close()


def plan_of(toy: Kind[Any, Any, Any], starts: int) -> Any:
    assert toy
    return importlib.import_module("core.studies.startup.record").StartupPlan(starts=starts)


def measure(engine: Engine, toy: Kind[Any, Any, Any], starts: int) -> str:
    study_id = engine.jobs.start(toy, plan_of(toy, starts))
    engine.jobs.wait(30)
    return study_id


def test_the_registry_finds_it_short_and_complete(toy: Kind[Any, Any, Any]) -> None:
    assert toy.title == "Start-up study"
    assert kinds()["startup"] is toy
    assert len(kinds()) > 1
    lines = [line for source in FILES.values() for line in source.splitlines() if line.strip()]
    assert len(lines) <= 85
    assert {name.split("/")[0] for name in FILES} == {"core", "pages"}


def test_a_job_measures_it_the_store_keeps_it_and_its_export_is_read_back(
    toy: Kind[Any, Any, Any], engine: Engine, machine: Starting
) -> None:
    study_id = measure(engine, toy, 8)
    done = engine.jobs.snapshot("startup")
    assert (done.id, done.title, done.error, done.active) == (study_id, "Start-up of cpu", None, False)
    assert (machine.starts, machine.open_workers) == (8, 0)
    record = engine.store.study(toy, study_id)
    assert record == done.record
    assert record.starts_ms == tuple(1000 * s for s in STARTS_S)
    assert (record.status, record.label, record.elapsed_s) == ("finished", "measured", pytest.approx(sum(STARTS_S)))
    assert toy.text(record, toy.answer(record, Context()), Context()) == VERDICT
    [summary] = engine.store.summaries("startup")
    assert (summary.id, summary.title) == (study_id, "Start-up of cpu")
    exported = json.dumps(toy.export(record, toy.answer(record, Context()), Context()))
    assert json.loads(exported)["startup_ms"] == [4900, 4000, 30000]
    assert read_any(exported) == (toy, record)


def test_a_budget_and_a_cancellation_keep_what_was_measured(
    toy: Kind[Any, Any, Any], engine: Engine, machine: Starting
) -> None:
    engine.jobs.start(toy, plan_of(toy, 50).model_copy(update={"budget_s": 10.0}))
    engine.jobs.wait(30)
    record = engine.jobs.snapshot("startup").record  # type: ignore[union-attr]
    assert (len(record.starts_ms), record.status) == (3, "finished")
    launch = machine.launch
    engine.jobs._launcher = lambda targets, s, *_: [engine.jobs.cancel(), launch(targets, s)][1]  # during a start
    study_id = measure(engine, toy, 8)
    assert engine.store.study(toy, study_id).status == "cancelled"
    assert len(engine.store.study(toy, study_id).starts_ms) == 1


@pytest.fixture
def command(folder: Path, machine: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the command on simulated workers."""
    assert folder
    made = importlib.import_module("core.cli.startup").startup_command
    monkeypatch.setitem(commands.commands, "startup", made)
    monkeypatch.setattr("core.worker.process.launch_processes", machine.launch)
    monkeypatch.setattr("core.worker.clock.WallClock", lambda: machine.clock)
    monkeypatch.setattr("core.machine.interference.InterferenceSampler", lambda: None)
    monkeypatch.setattr("core.machine.meter.Meter", lambda: None)


@pytest.mark.usefixtures("command")
def test_its_command_says_writes_and_keeps_it(
    toy: Kind[Any, Any, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "startup.json"
    assert main(["startup", "--starts", "8", "--out", str(out), "--name", "Cold start"]) == 0
    said = capsys.readouterr()
    assert said.out == VERDICT + "\n"
    assert f"Wrote {out}." in said.err
    kind, record = read_any(out.read_bytes())
    assert kind is toy
    store = Store()
    [summary] = store.summaries("startup")
    assert (summary.name, store.study(toy, summary.id)) == ("Cold start", record)
    store.close()


@pytest.mark.usefixtures("command")
def test_its_command_claims_nothing_without_an_interval(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["startup", "--starts", "5", "--no-store"]) == 1
    assert "at least six starts" in capsys.readouterr().err
    assert main(["startup", "--starts", "99"]) == 2
    assert main(["startup", "--help"]) == 0
    assert "how long it takes until it is ready" in " ".join(capsys.readouterr().out.split())


def opened(folder: Path, **query: str) -> AppTest:
    at = AppTest.from_file(str(folder / "pages" / "startup.py"), default_timeout=PATIENCE_S)
    at.session_state[ROUTED] = True  # as below the app's router
    for name, value in query.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception, at.exception
    return at


def test_its_page_measures_and_shows_it(folder: Path, toy: Kind[Any, Any, Any], engine: Engine) -> None:
    at = opened(folder)
    assert [text.value for text in at.text] == []
    next(button for button in at.button if button.label == "Measure start-up").click().run()
    engine.jobs.wait(30)
    assert not at.run().exception, at.exception
    assert [text.value for text in at.text] == [VERDICT]
    [summary] = engine.store.summaries(toy.name)
    assert at.query_params["study"] == summary.id
    assert [text.value for text in opened(folder, study=summary.id).text] == [VERDICT]


def kept_study() -> None:
    from core.ui import kept, registry

    for summary in registry.engine().store.summaries():
        kept.show(summary)
        kept.link(summary)
        kept.file(summary)


def test_the_history_shows_it(toy: Kind[Any, Any, Any], engine: Engine) -> None:
    measure(engine, toy, 8)
    at = AppTest.from_function(kept_study, default_timeout=PATIENCE_S).run()
    assert not at.exception, at.exception
    assert "Ready after 4900 ms" in at.header[0].value
    assert at.markdown[0].value == "**Start-up study**"
    assert at.caption[0].value == "Start-up of cpu"
