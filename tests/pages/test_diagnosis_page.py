"""The Diagnosis page up to its result: what it refuses, what it starts, and every state of a diagnosis under way."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.analysis.findings import diagnose
from core.imports import read_run
from core.measure.progress import Progress
from core.measure.studies import StudySnapshot, StudyTools
from core.results import Run
from core.spec import Pipeline
from core.ui import diagnosed, diagnosis, machine
from tests.support.diagnoses import add, helping_diagnosis, kept, make_diagnosis
from tests.support.pages import chart_titles, open_page, snapshot_of, text_of
from tests.support.runs import make_environment, make_run
from tests.support.simulation import VirtualClock

RUN = make_run(4)
CHART = "<b>What each remedy gains</b>"
AT = Progress("measuring", "Measuring all variants in turn", 5, 11, 30.0, 90.0)
RUNNING = StudySnapshot("diagnosis", "The diagnosis of run x (cpu at batch 8)", active=True, progress=AT)


@pytest.fixture(autouse=True)
def _this_machine(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine
    monkeypatch.setattr(machine, "now", make_environment)


def button(at: AppTest) -> Any:
    return at.button(key="diagnose")


def test_before_the_first_diagnosis_the_page_says_what_would_be_tried(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN))
    assert "Every remedy that applies is measured beside the step as it is" in text_of(at)
    table = at.table[0].value.set_index("Remedy")["What would be measured"]
    assert table["Several steps per execution"].startswith("2 steps per execution; 8")
    assert table["Data resident on the device"] == "Not tried&#58; The data is resident already."
    assert not button(at).disabled
    assert not chart_titles(at)
    assert not at.error
    assert not at.warning


def test_proposed_are_the_second_target_and_the_largest_batch_at_which_it_is_behind(engine: Any) -> None:
    run_id = kept(engine, RUN)
    at = open_page("diagnosis", run=run_id)
    assert at.get_by_key(f"diagnosis_target-{run_id}").value == 1
    assert at.selectbox(key=f"diagnosis_batch-{run_id}-1").value == 32
    assert at.number_input(key="diagnosis_budget").value == 120.0


def test_the_button_starts_a_diagnosis_of_what_was_chosen(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(diagnosis, "run_diagnosis", lambda *given: asked.append(given))
    engine.jobs.on_study = lambda kind, description: StudySnapshot(kind, description, active=True, progress=AT)
    run_id = kept(engine, RUN)
    at = open_page("diagnosis", run=run_id)
    at.selectbox(key=f"diagnosis_batch-{run_id}-1").select(8).run()
    at.number_input(key="diagnosis_budget").set_value(60.0).run()
    button(at).click().run()
    assert not at.exception
    kind, description, work = engine.jobs.studies[0]
    assert kind == "diagnosis"
    assert description == f"The diagnosis of run {run_id} (cpu,threads=2 at batch 8)"
    assert f"{description}" in text_of(at)
    work(tools())
    assert asked[0][1].id == run_id
    assert asked[0][2:] == (1, 8, 60.0)


def tools(reports: list[Progress] | None = None) -> StudyTools:
    return StudyTools(
        launcher=lambda *_: (),
        clock=VirtualClock(100.0),
        cancel=threading.Event(),
        noise=lambda: None,
        report=[].append if reports is None else reports.append,
    )  # fmt: skip


def test_a_running_diagnosis_shows_progress_and_can_be_cancelled(engine: Any) -> None:
    engine.jobs.study = RUNNING
    at = open_page("diagnosis", run=kept(engine, RUN))
    text = text_of(at)
    assert "The diagnosis of run x (cpu at batch 8)" in text
    assert at.progress[0].text == "Measuring all variants in turn"
    assert at.progress[0].value == 25
    assert "Time left, at most 1 min 30 s" in text
    assert button(at).disabled
    at.button(key="cancel_diagnosis").click().run()
    assert engine.jobs.cancelled == 1


def test_before_its_first_report_a_diagnosis_is_starting(engine: Any) -> None:
    engine.jobs.study = replace(RUNNING, progress=None)
    at = open_page("diagnosis", run=kept(engine, RUN))
    assert at.progress[0].text == "Starting"


def test_the_end_of_a_diagnosis_shows_its_verdict(engine: Any) -> None:
    engine.jobs.study = RUNNING
    at = open_page("diagnosis", run=kept(engine, RUN))
    add(engine, helping_diagnosis(RUN), 0)
    engine.jobs.study = replace(RUNNING, active=False)
    at.run()
    assert not at.exception
    assert "32 steps per execution helps most" in text_of(at)
    assert not button(at).disabled


def test_a_failed_diagnosis_says_why_and_leaves_the_older_one(engine: Any) -> None:
    engine.jobs.study = replace(RUNNING, active=False, error="TensorFlow is not installed.")
    at = open_page("diagnosis", run=kept(engine, RUN, helping_diagnosis(RUN)))
    assert "(cpu at batch 8) failed: TensorFlow is not installed." in text_of(at)
    assert CHART in chart_titles(at)


def test_a_run_from_elsewhere_cannot_be_diagnosed_here(example: Run) -> None:
    at = open_page("diagnosis", run=example.id)
    assert "This run is recorded: its step times come from another machine" in text_of(at)
    assert button(at).disabled
    assert "Several steps per execution" in list(at.table[0].value["Remedy"])


def test_imported_points_without_a_plan_offer_nothing(engine: Any) -> None:
    data = b"target,batch,step_ms\n" + b"".join(
        f"{t},{b},{b * m + f}\n".encode() for t, f, m in (("cpu", 0.1, 0.1), ("gpu", 2.0, 0.01)) for b in (1, 8, 64)
    )
    at = open_page("diagnosis", run=engine.store.add(read_run(data, "points.csv")))
    assert "Without its plan no remedy can be tried." in text_of(at)
    assert not at.button
    assert not at.table


def test_a_run_without_rounds_offers_nothing(engine: Any) -> None:
    empty = make_run(4).model_copy(update={"rounds": (), "cells": ()})
    at = open_page("diagnosis", run=kept(engine, empty))
    assert "No round was measured in this run" in text_of(at)
    assert not at.button


def test_a_running_sweep_has_to_end_first(engine: Any) -> None:
    run = make_run(5, status="running", label="measured")
    engine.jobs.current = snapshot_of(run)
    at = open_page("diagnosis", run=run.id)
    assert "This sweep is still running" in text_of(at)
    assert button(at).disabled


@pytest.mark.parametrize("busy", ["sweep", "pipeline", "elsewhere"])
def test_while_something_else_is_measured_nothing_can_start(engine: Any, busy: str) -> None:
    if busy == "sweep":
        engine.jobs.current = snapshot_of(make_run(5, status="running"))
    elif busy == "pipeline":
        engine.jobs.study = StudySnapshot("pipeline", "A pipeline study", active=True)
    else:
        engine.jobs.elsewhere = "Another Breakeven process (pid 7) is measuring: a pipeline study."
    at = open_page("diagnosis", run=kept(engine, RUN))
    said = {"sweep": "A sweep is running", "pipeline": "A pipeline study", "elsewhere": "pid 7"}[busy]
    assert said in text_of(at)
    assert button(at).disabled
    assert not at.progress


def test_a_running_diagnosis_keeps_a_sweep_waiting(engine: Any) -> None:
    engine.jobs.study = RUNNING
    at = open_page()
    assert "The diagnosis of run x (cpu at batch 8) is under way" in text_of(at)
    assert at.button(key="measure").disabled


def test_a_refusal_at_the_last_moment_is_said_once(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN))
    engine.jobs.refusal = "busy"
    button(at).click().run()
    assert "try again when it is done" in at.warning[0].value
    at.run()
    assert not at.warning


def test_another_machine_is_a_warning_before_and_after(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_environment().model_copy(update={"hostname_hash": "0"})
    monkeypatch.setattr(machine, "now", lambda: other)
    at = open_page("diagnosis", run=kept(engine, RUN))
    assert "This run names another machine" in at.warning[0].value
    assert not button(at).disabled
    found = helping_diagnosis(RUN)
    moved = found.experiment.model_copy(update={"environment": other})
    notices = diagnosed.notices(RUN, found.model_copy(update={"experiment": moved}), diagnose(RUN, found))
    assert [n.text for n in notices if "name different machines" in n.text]
    assert not [n for n in diagnosed.notices(RUN, found, diagnose(RUN, found)) if "machines" in n.text]


def test_after_a_start_the_new_diagnosis_is_shown_whatever_the_address_named(engine: Any) -> None:
    engine.jobs.on_study = lambda kind, description: StudySnapshot(kind, description, active=True, progress=AT)
    run_id = kept(engine, RUN, make_diagnosis(RUN))
    at = open_page("diagnosis", run=run_id)
    button(at).click().run()
    assert "study" not in at.query_params
    add(engine, helping_diagnosis(RUN), 7)
    engine.jobs.study = replace(RUNNING, active=False)
    at.run()
    assert "helps most" in text_of(at)
    assert at.query_params["study"] == "20260106-study7"


def test_a_way_of_feeding_is_among_what_would_be_tried(engine: Any) -> None:
    assert RUN.plan is not None
    plan = RUN.plan.model_copy(update={"pipeline": Pipeline(kind="tfdata", preprocess_us=50.0)})
    at = open_page("diagnosis", run=kept(engine, RUN.model_copy(update={"plan": plan})))
    rows = at.table[0].value.set_index("Remedy")["What would be measured"]
    assert rows["Prefetch AUTOTUNE"] == "Prefetch AUTOTUNE"
    assert rows["Parallel map calls, AUTOTUNE"] == "Parallel calls and prefetch AUTOTUNE"


def test_crossover_links_to_the_diagnosis_of_its_run(engine: Any) -> None:
    at = open_page("crossover", run=kept(engine, RUN))
    link = next(link for link in at.page_link if link.label == "What would help, measured on this machine")
    assert link.proto.page == "diagnosis"
