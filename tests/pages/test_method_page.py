"""The Method page: words, rules, the machine, the self-check and the pitfalls under the machine's lock."""

from typing import Any

import pytest

from core.studies import pitfalls
from core.studies.kind import Context
from core.studies.pitfalls import Figure, PitfallReport
from core.studies.resolution.export import EQUAL, UNEQUAL, sentence
from core.studies.resolution.kind import RESOLUTION
from core.studies.selfcheck.checks import CHECKS
from core.studies.selfcheck.record import HOLDS, LACKS
from core.ui import machine
from core.ui.method_text import RULES, TERMS
from simulated.pages import AT, ended, open_page, says, text_of, unfold, with_gpu
from simulated.resolutions import made_resolution
from simulated.runs import make_environment
from simulated.selfchecks import GPU, Device
from tests.support.study_pages import keep as keep_study

pytestmark = pytest.mark.usefixtures("engine")

REPORT = PitfallReport(
    workload="784-128-10", batch=32, infer_step_ms=0.5, train_step_ms=1.5,
    figures=(Figure(method="predict_first", step_ms=50.0, ratio=100.0),),
)  # fmt: skip


def test_every_word_is_explained() -> None:
    table = unfold(open_page("method"), "The words").table[0].value
    assert [word.strip("*") for word in table["Word"]] == [each.term for each in TERMS]


def test_every_rule_is_stated() -> None:
    text = text_of(unfold(open_page("method"), "The rules of measurement"))
    assert all(title in text for title, _ in RULES)


def test_this_machine_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "now", make_environment)
    facts = unfold(open_page("method"), "This machine").dataframe[0].value
    assert any("2.4 GHz" in str(value) for value in facts["value"])


def test_demonstration_starts_through_the_job_queue(engine: Any) -> None:
    at = unfold(open_page("method"), "Timing pitfalls, live")
    at.selectbox(key="demo_batch").select(256).run()
    at.button(key="pitfalls").click().run()
    ((task, plan),) = engine.jobs.started
    assert (task, plan) == (pitfalls.PITFALLS, 256)
    assert "batch 256" in task.describe(plan)


def test_demonstration_shows_every_way_beside_our_figure(engine: Any) -> None:
    engine.jobs.show(ended("pitfalls", record=REPORT))
    at = unfold(open_page("method"), "Timing pitfalls, live")
    assert "0.5 ms" in [metric.value for metric in at.metric]
    row = at.table[0].value.iloc[0]
    assert row["Times our figure"] == "100×"
    assert row["Way of timing"] == pitfalls.METHODS["predict_first"].title
    assert "first call" in row["Why"]


def test_a_self_check_starts_through_the_job_queue_and_can_be_cancelled(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_gpu(monkeypatch)
    engine.jobs.progress = AT
    at = unfold(open_page("method"), "Self-check of this machine")
    at.button(key="selfcheck").click().run()
    ((task, plan),) = engine.jobs.started
    assert task.describe(plan) == "Self-check of gpu:0"
    says(at, "Self-check of gpu:0")
    assert at.progress[0].value == 25
    at.button(key="cancel_selfcheck").click().run()
    assert engine.jobs.cancelled == 1


def test_a_self_check_shows_every_check_with_its_figure_and_offers_the_file(engine: Any) -> None:
    record = Device(GPU, "sync does not wait").check()
    engine.jobs.show(ended("selfcheck", record=record))
    at = unfold(open_page("method"), "Self-check of this machine")
    says(at, "18 hold", "1 fails", "does not wait", *HOLDS, LACKS)
    says(at, "(measured): 300 µs")
    says(at, *(f"**{title}**" for title, *_ in CHECKS.values()))  # what each is, from the docs
    table = at.table[0].value
    assert list(table["Result"]).count("fails") == 1
    assert set(table["Check"]) == {title for title, *_ in CHECKS.values()}
    (button,) = at.get("download_button")
    assert button.proto.label == "JSON"


def test_why_there_is_no_self_check_is_said(engine: Any) -> None:
    engine.jobs.show(ended("selfcheck", error="Another process measures."))
    at = unfold(open_page("method"), "Self-check of this machine")
    says(at, "Another process measures.")


def test_the_chosen_target_is_measured_against_itself(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpu(monkeypatch)
    at = open_page("method")
    at.selectbox(key="resolution_budget").select("2 min")
    at.button(key="measure_resolution").click().run()
    ((task, plan),) = engine.jobs.started
    assert task is RESOLUTION
    assert [str(target) for target in plan.targets] == ["gpu:0", "gpu:0"]
    assert (plan.budget_s, plan.batches) == (120.0, (1, 10, 102, 1024))


def test_what_this_machine_shows_stands_there_with_earlier_occasions_and_the_file(engine: Any) -> None:
    study = made_resolution()
    for day in range(1, 4):
        dated = study.model_copy(update={"created_at": f"2026-01-0{day}T09:00:00+00:00"})
        keep_study(engine, "resolution", dated, f"2026010{day}-study")
    at = open_page("method", study="20260103-study")
    found = RESOLUTION.answer(study, Context())
    says(at, sentence(study, found), EQUAL if found.is_equal else UNEQUAL, "on 3 occasions")
    (table,) = (table.value for table in at.table)
    assert list(table["Batch size"]) == ["1", "64"]
    assert "JSON" in [button.proto.label for button in at.get("download_button")]
