"""The kind of docs/adding_a_study.md, from plan to page; tests/core/studies/test_toy_kind.py runs this where it is."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.cli import main
from core.store import Store
from core.studies.jobs import Jobs
from core.studies.kind import Context
from core.studies.registry import kind_of, read_any
from core.ui import menu, registry
from core.ui.navigation import pages
from core.ui.registry import Engine
from simulated.kinds import cases
from simulated.pages import open_page, running, text_of
from simulated.simulation import Curve, Machine

TOY = kind_of("startup")
STARTS_S = (5.0, 4.0, 7.0, 4.5, 6.0, 4.2, 4.8, 30.0)  # the last one stalls
VERDICT = "Ready after 4900 ms, 95 % interval 4000 to 30000, measured"


class Starting(Machine):
    """Machine whose workers take :data:`STARTS_S` to start, in turn."""

    def launch(self, targets: Any, deadline_s: float, *_: object) -> Any:
        self.startup_s = STARTS_S[self.starts % len(STARTS_S)]
        return super().launch(targets, deadline_s)


@pytest.fixture
def machine() -> Starting:
    return Starting((Curve(1.0, 0.1), Curve(1.0, 0.1)))


@pytest.fixture
def measuring(engine: Any, machine: Starting, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Replace the engine by one that measures on the simulated machine."""
    jobs = Jobs(engine.store, launcher=machine.launch, clock=machine.clock, interference=lambda: None,
                meter=lambda: None)  # fmt: skip
    made = Engine(engine.store, jobs)
    monkeypatch.setattr(registry, "engine", lambda: made)
    st.cache_resource.clear()
    yield made
    jobs.close()


def plan_of(starts: int, **changes: Any) -> Any:
    return cases()["startup"].plan().model_copy(update={"starts": starts, **changes})  # type: ignore[misc]


def measure(engine: Engine, starts: int, **changes: Any) -> str:
    study_id = engine.jobs.start(TOY, plan_of(starts, **changes))
    engine.jobs.wait(30)
    return study_id


def kept(engine: Any, study_id: str = "20260105-startup") -> str:
    engine.store.add_study("startup", study_id, cases()["startup"].study())
    return study_id


def test_a_job_measures_it_the_store_keeps_it_and_its_export_is_read_back(measuring: Engine, machine: Starting) -> None:
    study_id = measure(measuring, 8)
    done: Any = measuring.jobs.snapshot("startup")
    assert (done.id, done.title, done.error, done.active) == (study_id, "Start-up of cpu", None, False)
    assert (machine.starts, machine.open_workers) == (8, 0)
    record = measuring.store.study(TOY, study_id)
    assert record == done.record
    assert record.starts_ms == tuple(1000 * s for s in STARTS_S)
    assert (record.status, record.label, record.elapsed_s) == ("finished", "measured", pytest.approx(sum(STARTS_S)))
    assert TOY.text(record, TOY.answer(record, Context()), Context()) == VERDICT
    [summary] = measuring.store.summaries("startup")
    assert (summary.id, summary.title, summary.verdict) == (study_id, "Start-up of cpu", VERDICT)
    assert summary.target_names[0] == "cpu"
    exported = json.dumps(TOY.export(record, TOY.answer(record, Context()), Context()))
    assert json.loads(exported)["startup_ms"] == [4900, 4000, 30000]
    assert read_any(exported) == (TOY, record)


def test_a_budget_and_a_cancellation_keep_what_was_measured(measuring: Engine, machine: Starting) -> None:
    record: Any = measuring.store.study(TOY, measure(measuring, 50, budget_s=10.0))
    assert (len(record.starts_ms), record.status) == (3, "finished")
    launch, instruments = machine.launch, measuring.jobs._instruments
    stopping = lambda targets, s, *_: [measuring.jobs.cancel(), launch(targets, s)][1]  # noqa: E731  during a start
    measuring.jobs._instruments = replace(instruments, launcher=stopping)
    record = measuring.store.study(TOY, measure(measuring, 8))
    assert (len(record.starts_ms), record.status) == (1, "cancelled")


@pytest.fixture
def command(machine: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command measure on simulated workers."""
    monkeypatch.setattr("core.worker.process.launch_processes", machine.launch)
    monkeypatch.setattr("core.worker.clock.WallClock", lambda: machine.clock)
    monkeypatch.setattr("core.machine.interference.InterferenceSampler", lambda: None)
    monkeypatch.setattr("core.machine.meter.Meter", lambda: None)


@pytest.mark.usefixtures("command")
def test_its_command_says_writes_and_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "startup.json"
    assert main(["startup", "--starts", "8", "--out", str(out), "--name", "Cold start"]) == 0
    printed = capsys.readouterr()
    assert printed.out == VERDICT + "\n"
    assert f"Wrote {out}." in printed.err
    kind, record = read_any(out.read_bytes())
    assert kind is TOY
    store = Store()
    [summary] = store.summaries("startup")
    assert (summary.name, store.study(TOY, summary.id)) == ("Cold start", record)
    store.close()


@pytest.mark.usefixtures("command")
def test_its_command_claims_nothing_without_an_interval(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["startup", "--starts", "5", "--no-store"]) == 1
    assert "at least six starts" in capsys.readouterr().err
    assert main(["startup", "--starts", "99"]) == 2


def test_the_menu_has_its_page(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine
    assert "startup" in menu.groups()["More"]
    shown: dict[str, str] = {}
    monkeypatch.setattr(st, "Page", lambda *_, url_path, visibility, **__: shown.update({url_path: visibility}))
    pages()
    assert shown["startup"] == "visible"


def test_its_page_measures_and_shows_it(measuring: Engine) -> None:
    at = open_page("startup")
    assert VERDICT not in text_of(at)
    at.button(key="measure_startup").click().run()
    measuring.jobs.wait(30)
    at.run()
    assert VERDICT in text_of(at)
    [summary] = measuring.store.summaries("startup")
    assert at.query_params["study"] == summary.id


def files(at: AppTest) -> list[str]:
    return [element.proto.label for element in at.get("download_button")]


def test_its_page_shares_a_stored_study_with_files_and_opens_its_link(engine: Any) -> None:
    at = open_page("startup", study=kept(engine))
    assert VERDICT in text_of(at)
    assert {"JSON", "Markdown"} <= set(files(at))
    embedded = open_page("startup", embedded=True, study="20260105-startup")
    assert VERDICT in text_of(embedded)
    assert not embedded.button


def test_the_history_describes_opens_and_exports_it(engine: Any, select: Any) -> None:
    study_id = kept(engine)
    at = open_page("history")
    row = at.dataframe[0].value.iloc[0]
    assert (row["kind"], row["verdict"], row["targets"]) == ("Start-up study", VERDICT, "CPU")
    select(at, 0)
    assert VERDICT.partition(",")[0] in text_of(at)
    [link] = [link.proto for link in at.page_link if link.label == "Open"]
    assert (link.page, link.query_string) == ("startup", f"study={study_id}")
    assert "JSON" in files(at)


def test_the_chip_leads_to_its_page_and_leaves_the_progress_to_it(engine: Any) -> None:
    engine.jobs.show(running("startup", "Start-up of cpu"))
    at = open_page("history")
    assert [(link.label, link.proto.page) for link in at.page_link if link.label.startswith("To ")] == [
        ("To Start-up", "startup")
    ]
    at.button(key="running-cancel").click().run()
    assert engine.jobs.cancelled == 1
    own = [button.key for button in open_page("startup").button]
    assert "cancel_startup" in own
    assert "running-cancel" not in own
