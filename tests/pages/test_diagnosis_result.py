"""The result on the Diagnosis page: each verdict, what qualifies it, which diagnosis is shown, the embedded view."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.analysis.findings import diagnose
from core.experiment import Diagnosis
from core.ui import diagnosed, machine
from tests.support.diagnoses import HELPING, helping_diagnosis, kept, make_diagnosis
from tests.support.pages import ROOT, chart_titles, open_page, text_of
from tests.support.runs import make_environment, make_run

RUN = make_run(4)
CHART = "<b>What each remedy gains</b>"


@pytest.fixture(autouse=True)
def _this_machine(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine
    monkeypatch.setattr(machine, "now", make_environment)


def test_helping_remedies_are_ranked_with_gain_evidence_crossover_and_how(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN, helping_diagnosis(RUN, label="measured")))
    text = text_of(at)
    assert "32 steps per execution helps most: 2." in at.subheader[0].value.replace("&#58;", ":")
    assert at.subheader[0].value.startswith(":material/trending_up:")
    assert "Even so, cpu,threads=1 stays ahead at batch 8" in text
    assert chart_titles(at) == [CHART]
    labels = [fold.label for fold in at.expander]
    assert labels[0].startswith("**32 steps per execution**, helps, 2.")
    assert labels[1].startswith("**XLA**, helps, 1.")
    assert "**Evidence.** 0.80" in text
    assert "Before: cpu,threads=2 ahead from batch" in text
    assert "**How.** Compile the model with jit\\_compile=True" in "".join(m.value for m in at.markdown)
    assert "**Beware.** Every new input shape compiles anew." in text
    assert "32 steps per execution 2." in text  # the metric, with its interval
    assert "Every remedy that was tried (measured)" in text
    assert "A stopwatch around the first epoch" in text
    assert "Rounds 18" in text
    assert "Starts of the workers 3" in text
    assert "Crossovers measured anew 1" in text
    assert "Other processes 3 %, at most 3 %" in text


def test_only_helping_remedies_are_unfolded(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN, helping_diagnosis(RUN)))
    opened = {fold.label.split("**")[1]: fold.proto.expanded for fold in at.expander if "**" in fold.label}
    assert opened.pop("XLA")
    assert opened.pop("32 steps per execution")
    assert set(opened) >= {"Mixed precision (mixed\\_bfloat16)"}
    assert not any(opened.values())


def test_what_was_not_tried_or_failed_is_listed_with_the_reason(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN, helping_diagnosis(RUN, failed={"xla": "The worker crashed."})))
    rows = at.table[0].value.set_index("Remedy")
    assert tuple(rows.loc["XLA"]) == ("failed", "The worker crashed.")
    assert tuple(rows.loc["Data resident on the device"]) == ("not tried", "The data is resident already.")


def test_none_helps_is_said_plainly_and_looks_different(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN, make_diagnosis(RUN, processes=3, rounds=10)))
    icon, _, sentence = at.subheader[0].value.partition(" ")
    assert icon == ":material/do_not_disturb_on:"
    assert sentence == ("None of these helps&#58; for this model at batch 8, cpu,threads=1 is the right target.")
    assert not [metric for metric in at.metric if "faster" in str(metric.value)]
    assert not [fold for fold in at.expander if "Several" in fold.label and fold.proto.expanded]


def test_open_intervals_are_not_passed_off_as_no_help(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN, make_diagnosis(RUN, HELPING, processes=1, rounds=3)))
    text = text_of(at)
    assert at.subheader[0].value.startswith(":material/help:")
    assert "The rounds do not settle whether these help" in text
    assert "The workers were started once only" in text


def test_a_cancelled_diagnosis_says_what_it_rests_on(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN, helping_diagnosis(RUN, status="cancelled")))
    assert "This diagnosis was cancelled; what follows rests on the 18 rounds measured until then." in text_of(at)
    assert CHART in chart_titles(at)


def test_a_diagnosis_without_rounds_says_that_nothing_can_be_said(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN, make_diagnosis(RUN, processes=0, status="cancelled")))
    text = text_of(at)
    assert "Nothing could be measured, so nothing can be said." in text
    assert "This diagnosis was cancelled; no round was measured." in text
    assert not chart_titles(at)
    assert not at.button(key="diagnose").disabled


def test_a_busy_machine_is_said(engine: Any) -> None:
    at = open_page("diagnosis", run=kept(engine, RUN, helping_diagnosis(RUN, other_cpu_pct=95.0)))
    assert "Other processes used 95 % of a core during 18 of 18 rounds." in text_of(at)


def test_one_of_several_diagnoses_can_be_chosen_and_the_address_names_it(engine: Any) -> None:
    older = helping_diagnosis(RUN, target=0, batch=64)
    run_id = kept(engine, RUN, older, make_diagnosis(RUN))
    at = open_page("diagnosis", run=run_id)
    assert "None of these helps" in text_of(at)
    assert at.query_params["study"] == "20260106-study1"
    choice = at.selectbox(key=f"diagnosis_study-{run_id}-20260106-study1")
    assert choice.options[1] == "cpu,threads=1 at batch 64, 2026-01-06 09:00 UTC"
    choice.select("20260106-study0").run()
    assert "cpu,threads=1 at batch 64" in text_of(at)
    assert at.query_params["study"] == "20260106-study0"


def test_an_address_reopens_exactly_its_diagnosis(engine: Any) -> None:
    run_id = kept(engine, RUN, helping_diagnosis(RUN), make_diagnosis(RUN))
    assert "helps most" in text_of(open_page("diagnosis", run=run_id, study="20260106-study0"))
    at = open_page("diagnosis", run=run_id, study="../../gone")
    assert "There is no such diagnosis of this run" in text_of(at)
    assert "None of these helps" in text_of(at)


def test_diagnoses_of_other_runs_are_not_shown(engine: Any) -> None:
    kept(engine, RUN, helping_diagnosis(RUN))
    other = make_run(6)
    at = open_page("diagnosis", run=kept(engine, other))
    assert not chart_titles(at)


def test_a_diagnosis_that_cannot_be_read_is_said_and_others_stay(engine: Any) -> None:
    run_id = kept(engine, RUN, helping_diagnosis(RUN))
    engine.store.add_study("diagnosis", "20260107-broken", run_id, '{"schema_version": 9}')
    at = open_page("diagnosis", run=run_id)
    assert "This is no Breakeven diagnosis" in text_of(at)
    assert CHART in chart_titles(at)


def embedded(run_id: str) -> AppTest:
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=30)
    at.context = {"is_embedded": True}
    at.run()
    at.switch_page("pages/diagnosis.py")
    at.query_params["run"] = run_id
    at.run()
    assert not at.exception, at.exception
    return at


def test_the_embedded_view_has_verdict_and_chart_only(engine: Any) -> None:
    at = embedded(kept(engine, RUN, make_diagnosis(RUN), helping_diagnosis(RUN)))
    assert "helps most" in at.subheader[0].value
    assert chart_titles(at) == [CHART]
    for kind in ("header", "button", "table", "expander", "selectbox", "page_link"):
        assert not getattr(at, kind), kind


def test_the_embedded_view_without_a_diagnosis_says_so(engine: Any) -> None:
    assert "This run has no diagnosis yet." in text_of(embedded(kept(engine, RUN)))


def test_the_file_holds_the_verdict_and_every_block(engine: Any) -> None:
    found = helping_diagnosis(RUN)
    data = json.loads(diagnosed.content(found, diagnose(RUN, found)))
    assert data["reason"] == "helps_but_behind"
    assert Diagnosis.model_validate_json(json.dumps(data["record"])) == found
    at = open_page("diagnosis", run=kept(engine, RUN, found))
    assert at.get("download_button")[0].proto.label == "JSON"


def test_names_cannot_smuggle_markup(engine: Any) -> None:
    run = RUN.model_copy(update={"name": "[x](http://evil.example) :red[z]"})
    at = open_page("diagnosis", run=kept(engine, run, helping_diagnosis(run)))
    assert ":red[" not in at.header[0].value
    assert "[x](http" not in at.header[0].value
