"""The Method page: words, rules, the machine, and the demonstration of pitfalls under the machine's lock."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.measure import pitfalls
from core.measure.jobs import TaskSnapshot
from core.measure.pitfalls import Figure, PitfallReport
from core.ui import demo, machine
from core.ui.words import RULES, TERMS
from tests.support.pages import open_page, snapshot_of, text_of
from tests.support.runs import make_environment, make_run

pytestmark = pytest.mark.usefixtures("engine")

REPORT = PitfallReport(
    workload="784-128-10", batch=32, infer_step_ms=0.5, train_step_ms=1.5,
    figures=(Figure(method="predict_first", step_ms=50.0, ratio=100.0),),
)  # fmt: skip


def open_tab(name: str) -> AppTest:
    at = open_page("method")
    at.session_state["method"] = name
    at.run()
    assert not at.exception, at.exception
    return at


def finished(result: Any = None, error: str | None = None) -> TaskSnapshot:
    task = TaskSnapshot("Timing")
    task.active, task.result, task.error = False, result, error
    return task


def test_every_word_is_explained() -> None:
    table = open_page("method").table[0].value
    assert [word.strip("*") for word in table["Word"]] == [term for term, _ in TERMS]


def test_every_rule_is_stated() -> None:
    text = text_of(open_tab("The rules"))
    assert all(title in text for title, _ in RULES)


def test_this_machine_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "now", make_environment)
    facts = open_tab("This machine").dataframe[0].value
    assert "Example CPU at 2.4 GHz" in set(facts["value"])


def test_demonstration_starts_through_the_job_queue(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(demo, "run_pitfalls", lambda *args: asked.append(args) or REPORT)
    at = open_tab("Timing pitfalls, live")
    at.selectbox(key="demo_batch").select(256).run()
    at.button(key="demo").click().run()
    description, work = engine.jobs.tasks[0]
    assert "batch 256" in description
    assert work() == REPORT
    assert asked[0][1] == 256
    assert asked[0][0].network.name == "784-128-10"


def test_demonstration_shows_every_way_beside_our_figure(engine: Any) -> None:
    engine.jobs.task = finished(REPORT)
    at = open_tab("Timing pitfalls, live")
    assert "Our inference step (measured) 0.5 ms" in text_of(at)
    row = at.table[0].value.iloc[0]
    assert row["Times our figure"] == "100×"
    assert row["Way of timing"] == pitfalls.TITLES["predict_first"]
    assert "first call" in row["Why"]


def test_a_running_demonstration_is_shown_and_cannot_start_twice(engine: Any) -> None:
    engine.jobs.task = TaskSnapshot("Timing 784-128-10")
    at = open_tab("Timing pitfalls, live")
    assert "Timing 784-128-10" in at.progress[0].text
    assert at.button(key="demo").disabled
    assert open_page().button(key="measure").disabled


def test_a_failed_demonstration_says_why(engine: Any) -> None:
    engine.jobs.task = finished(error="It took longer than 240 s.")
    assert open_tab("Timing pitfalls, live").error[0].value == "It took longer than 240 s."


def test_a_sweep_keeps_the_demonstration_waiting(engine: Any) -> None:
    engine.jobs.current = snapshot_of(make_run(5, status="running"))
    at = open_tab("Timing pitfalls, live")
    assert at.button(key="demo").disabled
    assert "Only one runs at a time" in text_of(at)


def test_a_refusal_at_the_last_moment_is_said(engine: Any) -> None:
    at = open_tab("Timing pitfalls, live")
    engine.jobs.refusal = "busy"
    at.button(key="demo").click().run()
    assert "try again when it is done" in at.warning[0].value
