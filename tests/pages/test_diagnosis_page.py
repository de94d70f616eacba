"""The Diagnosis page up to its result: refusals, starts, and every state of a diagnosis under way."""

import json
from typing import Any

import pytest

from core.rounds.run import Run
from core.studies.diagnosis.answer import diagnose
from core.ui import machine
from core.ui.diagnosis import result
from core.workload.spec import Pipeline
from simulated.commands import holds
from simulated.diagnoses import helping_diagnosis
from simulated.pages import chart_titles, ended, open_page, running, text_of
from simulated.runs import make_environment, make_run, planned
from tests.support.diagnoses import kept
from tests.support.study_pages import start

pytestmark = pytest.mark.usefixtures("this_machine")
RUN = make_run(4)
SEVERAL, RESIDENT = "Several steps per execution", "Data resident on the device"
CHART = "<b>What each remedy gains</b>"


def test_before_the_first_diagnosis_the_page_says_what_would_be_tried_and_starts_what_is_chosen(engine: Any) -> None:
    run_id = kept(engine, RUN)
    at = open_page("diagnosis", run=run_id)
    assert "Every remedy that" in text_of(at)
    table = at.table[0].value.set_index("Remedy")["What would be measured"]
    assert table[SEVERAL].startswith("2 steps per")
    assert table[RESIDENT].startswith("Not tried&#58;")
    assert not at.button(key="measure_diagnosis").disabled
    assert not chart_titles(at)
    assert not at.error
    assert not at.warning
    assert at.get_by_key(f"diagnosis_target-{run_id}").value == 1
    assert at.number_input(key="diagnosis_budget").value == 120.0
    assert at.selectbox(key=f"diagnosis_batch-{run_id}-1").value == 32, "the largest at which it is behind"
    at.selectbox(key=f"diagnosis_batch-{run_id}-1").select(8).run()
    at.number_input(key="diagnosis_budget").set_value(60.0).run()
    plan = start(engine, at, "diagnosis")
    assert (plan.run.id, plan.target, plan.batch, plan.budget_s) == (run_id, 1, 8, 60.0)


def test_gains_are_drawn_while_it_runs_and_nothing_is_claimed(engine: Any) -> None:
    run_id = kept(engine, RUN)
    engine.jobs.show(running("diagnosis", record=helping_diagnosis(RUN)))
    at = open_page("diagnosis", run=run_id)
    assert chart_titles(at) == [CHART]
    (chart,) = at.get("plotly_chart")
    names = {trace.get("name") for trace in json.loads(chart.proto.spec)["data"]}
    assert "helps" not in names
    assert "What helps is said when the diagnosis ends." in text_of(at)
    other = helping_diagnosis(RUN).model_copy(update={"run_id": "20260101-other1"})
    engine.jobs.show(running("diagnosis", record=other))
    assert not chart_titles(open_page("diagnosis", run=run_id)), "it is of another run"


def test_a_failed_diagnosis_says_why_and_leaves_the_older_one(engine: Any) -> None:
    engine.jobs.show(ended("diagnosis", "Diagnosis of x", error="TensorFlow is not installed."))
    at = open_page("diagnosis", run=kept(engine, RUN, helping_diagnosis(RUN)))
    assert "Diagnosis of x: " in text_of(at)
    assert CHART in chart_titles(at)


def test_one_without_an_answer_says_why_also_embedded_in_another_page(engine: Any) -> None:
    odd = helping_diagnosis(RUN).model_copy(update={"target": 5})
    run_id = kept(engine, RUN, odd)
    for embedded in (False, True):
        at = open_page("diagnosis", embedded=embedded, run=run_id)
        (info,) = at.info
        holds(info.value, "target 6", "2 targets")
        assert not chart_titles(at)


def test_a_run_from_elsewhere_cannot_be_diagnosed_here(example: Run) -> None:
    at = open_page("diagnosis", run=example.id)
    assert "is recorded" in text_of(at)
    assert at.button(key="measure_diagnosis").disabled
    assert SEVERAL in list(at.table[0].value["Remedy"])


def test_another_machine_is_a_warning_before_and_after(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_environment().model_copy(update={"hostname_hash": "0"})
    monkeypatch.setattr(machine, "now", lambda: other)
    at = open_page("diagnosis", run=kept(engine, RUN))
    assert "another machine" in at.warning[0].value
    assert not at.button(key="measure_diagnosis").disabled
    found = helping_diagnosis(RUN)
    moved = found.experiment.model_copy(update={"environment": other})
    notices = result.notices(RUN, found.model_copy(update={"experiment": moved}), diagnose(RUN, found))
    assert [n.text for n in notices if "different machines" in n.text]
    assert not [n for n in result.notices(RUN, found, diagnose(RUN, found)) if "machines" in n.text]


def test_a_way_of_feeding_is_among_what_would_be_tried(engine: Any) -> None:
    fed = planned(RUN, pipeline=Pipeline(kind="tfdata", preprocess_us=50.0))
    at = open_page("diagnosis", run=kept(engine, fed))
    rows = at.table[0].value.set_index("Remedy")["What would be measured"]
    assert rows["Prefetch AUTOTUNE"] == "Prefetch AUTOTUNE"
    assert rows.str.endswith("prefetch AUTOTUNE").any()
