"""The History page: every transition of a kept run, and imports that are refused without a trace."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from core.spec import Target
from core.store.tables import RUNS
from core.studies.kind import Context
from core.studies.registry import kind_of, kinds
from core.studies.study import run_id_of
from core.studies.sweep.export import run_json
from core.ui import history, kept
from core.ui.share import json_bytes
from tests.support.batch_page import RUN
from tests.support.frontier_studies import make_frontier_study
from tests.support.noises import make_noise_study
from tests.support.pages import damage, keep, open_page, text_of, titles
from tests.support.pipelines import make_pipeline_experiment
from tests.support.runs import make_run, planned
from tests.support.study_pages import MADE
from tests.support.study_pages import keep as keep_study

pytestmark = pytest.mark.usefixtures("this_machine")
every_kind = pytest.mark.parametrize("kind", MADE)


@pytest.fixture
def select(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Choose rows of the table; AppTest cannot click on them."""
    chosen: list[int] = []
    real = history._selected_rows
    monkeypatch.setattr(history, "_selected_rows", lambda found: (real(found), list(chosen))[1])

    def choose(at: AppTest, *rows: int) -> None:
        chosen[:] = rows
        at.run()

    return choose


def names(at: AppTest) -> list[str]:
    return list(at.dataframe[0].value["name"]) if at.dataframe else []


def test_empty_history_says_what_to_do() -> None:
    at = open_page("history")
    assert "Nothing is kept here yet" in text_of(at)
    assert at.page_link[0].label == "Measure this machine"


def test_several_rows_are_deleted_together_and_brought_back(engine: Any, select: Any) -> None:
    for seed in (1, 2, 3):
        keep(engine.store, make_run(seed))
    at = open_page("history")
    assert "Select one row" in text_of(at)
    select(at, 0, 1, 2)
    select(at, 0, 1)
    at.button(key="delete").click()
    select(at)
    assert names(at) == ["784-128-10, made from seed 1"]
    assert "Deleted 2 studies." in text_of(at)
    at.button(key="undo").click().run()
    assert names(at) == [f"784-128-10, made from seed {seed}" for seed in (3, 2, 1)]
    assert "Deleted" not in text_of(at)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_selected_runs_are_compared_on_one_chart_and_in_one_table(engine: Any, select: Any, count: int) -> None:
    for seed in range(1, count + 1):
        keep(engine.store, make_run(seed))
    at = open_page("history")
    select(at, *range(count))
    assert titles(at) == [f"{count} runs compared: speed-up by batch size"]
    table = at.table[0].value
    assert list(table[""]) == [*"ABCDEF"[:count]]
    assert set(table["Targets"]) == {"1 thread against 2 threads"}
    assert all("faster from batch" in verdict for verdict in table["Verdict"])
    assert [link.label for link in at.page_link if link.label.startswith("Open")] == [
        f"Open {letter}" for letter in "ABCDEF"[:count]
    ]
    assert not at.warning


def test_what_differs_between_compared_runs_is_said(engine: Any, select: Any) -> None:
    keep(engine.store, make_run(1))
    keep(engine.store, planned(make_run(2), targets=(Target(threads=1), Target(threads=2, execution="xla"))))
    at = open_page("history")
    select(at, 0, 1)
    assert [warning.value for warning in at.warning] == [
        "Different targets. A&#58; 1 thread against 2 threads, XLA; B&#58; 1 thread against 2 threads."
    ]


def test_a_run_without_rounds_is_left_out_of_a_comparison(engine: Any, select: Any) -> None:
    for seed in (1, 2):
        keep(engine.store, make_run(seed))
    keep(engine.store, make_run(3).model_copy(update={"rounds": (), "cells": ()}))
    at = open_page("history")
    select(at, 0, 1, 2)
    assert "made from seed 3” has no rounds" in at.warning[0].value
    assert titles(at) == ["2 runs compared: speed-up by batch size"]
    select(at, 0, 1)
    assert not titles(at)


def test_more_than_six_runs_are_not_compared(engine: Any, select: Any) -> None:
    for seed in range(7):
        keep(engine.store, make_run(seed))
    at = open_page("history")
    select(at, *range(7))
    assert not titles(at)
    assert "7 rows selected. Two to 6 sweeps can be compared" in text_of(at)
    assert at.button(key="delete").label == "Delete 7 rows"


def test_import_of_an_exported_run() -> None:
    at = open_page("history")
    at.file_uploader[0].upload("../../run.json", run_json(make_run(8, label="measured")).encode())
    at.run()
    assert "Imported “784-128-10, made from seed 8”" in at.success[0].value.replace("\\", "")
    assert names(at) == ["784-128-10, made from seed 8"]
    assert list(at.dataframe[0].value["label"]) == ["recorded"]
    at.run()
    assert not at.success
    assert len(names(at)) == 1


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.csv", b"target,batch\ncpu,1\n", "step_ms"),
        ("a.csv", b"target,batch,step_ms\ncpu,1,nan\ngpu,1,2\n", "Not imported."),
        ("a.csv", b"target,batch,step_ms\n" + b"".join(b"%c,1,1\n" % name for name in b"abcdefg"), "Not imported."),
        ("a.json", b'{"schema_version": 99}', "schema version 99"),
        ("a.json", b"{", "Not imported."),
        ("a.csv", b"x" * 20_000_001, "too large"),
    ],
    ids=["missing column", "NaN", "seven targets", "other version", "broken", "too large"],
)
def test_refused_imports_say_why_and_keep_nothing(engine: Any, name: str, data: bytes, sentence: str) -> None:
    keep(engine.store, make_run(1))
    at = open_page("history")
    at.file_uploader[0].upload(name, data)
    at.run()
    said = at.error[0].value.replace("\\", "")
    assert said.startswith("Not imported.")
    assert sentence in said
    assert len(names(at)) == 1


def test_every_kind_of_study_is_listed_newest_first(engine: Any) -> None:
    keep(engine.store, RUN)
    for number, kind in enumerate(MADE):
        keep_study(engine, kind, study_id=f"study-{number}")
    table = open_page("history").dataframe[0].value
    assert set(table["kind"]) == {kind.title for kind in kinds().values()}
    assert list(table["kind"])[-1] == "Sweep"
    assert list(table["created"]) == sorted(table["created"], reverse=True)
    assert table["rounds"].notna().sum() == 1  # counts are of sweeps


@every_kind
def test_a_study_opens_on_its_page_and_says_there_what_it_is(engine: Any, select: Any, kind: str) -> None:
    keep(engine.store, RUN)
    study_id = keep_study(engine, kind)
    at = open_page("history")
    select(at, 0)
    record, context = MADE[kind](), Context(RUN)
    headline = kind_of(kind).text(record, kind_of(kind).answer(record, context), context).partition("\n")[0]
    assert headline in text_of(at)
    (link,) = [link.proto for link in at.page_link if link.label == "Open"]
    query = dict(parse_qsl(link.query_string))
    assert study_id in query.values()
    at = open_page(link.page, **query)
    assert not at.error
    assert {name: value for name, value in at.query_params.items() if name in query} in (
        query, {name: [value] for name, value in query.items()}
    )  # fmt: skip
    assert "A finished example" not in text_of(at)


@pytest.mark.parametrize("kind", ["sweep", *MADE])
def test_a_study_is_renamed_deleted_and_brought_back(engine: Any, select: Any, kind: str) -> None:
    study_id = keep(engine.store, RUN) if kind == "sweep" else keep_study(engine, kind)
    at = open_page("history")
    select(at, 0)
    for name in ("   ", "Better name"):
        at.text_input(key=f"name-{study_id}").set_value(name)
        at.button(key="save_name").click().run()
        assert bool(at.error) is (not name.strip())
        assert not at.error or "needs at least one visible character" in at.error[0].value
    assert names(at) == ["Better name"]
    at.button(key="delete").click()
    select(at)
    assert names(at) == []
    assert "Deleted “Better name”." in text_of(at)
    at.button(key="undo").click().run()
    assert names(at) == ["Better name"]


@every_kind
def test_the_file_of_a_study_comes_back_recorded_and_once(engine: Any, kind: str) -> None:
    keep(engine.store, RUN)
    study_id, record = keep_study(engine, kind), MADE[kind]()
    (summary,) = engine.store.summaries(kind)
    data = json_bytes(lambda: kept.data(summary))
    assert json.loads(data)["record"] == json.loads(record.to_json())
    words = f"the {kind_of(kind).noun} “{record.title}”"
    at = open_page("history")

    def upload() -> str:
        at.file_uploader[0].upload("../study.json", data)
        at.run()
        return text_of(at)

    if summary.label == "measured":
        assert f"Not imported again: {words} was measured here." in upload()
    engine.store.delete(study_id)
    engine.store.purge(timedelta(seconds=-1))
    for _ in range(2):
        assert f"Imported {words}. It is kept as recorded, not as measured here." in upload()
        assert "Open" in [link.label for link in at.page_link]
    assert len(names(at)) == 2
    (found,) = engine.store.summaries(kind)
    assert (found.label, found.created_at, found.run_id) == ("recorded", record.created_at, run_id_of(record))


@pytest.mark.parametrize("kind", ["sweep", *MADE])
def test_a_damaged_study_says_so_and_can_still_be_deleted(engine: Any, select: Any, kind: str) -> None:
    keep(engine.store, RUN)
    damage(engine.store, RUN.id if kind == "sweep" else keep_study(engine, kind))
    at = open_page("history")
    select(at, 0)
    assert f"This is no Breakeven {kind_of(kind).record.noun}" in at.error[0].value
    assert not at.get("download_button")
    at.button(key="delete").click()
    select(at)
    assert len(names(at)) == (kind != "sweep")


def test_a_kind_of_a_later_version_is_listed_and_said(engine: Any, select: Any) -> None:
    study_id = keep_study(engine, "host")
    with engine.store._database.write() as db:
        db.execute(update(RUNS).where(RUNS.c.id == study_id).values(kind="hologram"))
    at = open_page("history")
    assert list(at.dataframe[0].value["kind"]) == ["hologram"]
    select(at, 0)
    assert "There is no study of kind “hologram”" in at.error[0].value


def test_a_diagnosis_whose_run_is_gone_says_so_and_keeps_its_file(engine: Any, select: Any) -> None:
    keep_study(engine, "diagnosis")
    at = open_page("history")
    select(at, 0)
    assert "The run of this diagnosis is not here" in at.info[0].value
    assert [button.proto.label for button in at.get("download_button")] == ["JSON"]
    (summary,) = engine.store.summaries()
    assert kept.data(summary) == {"record": json.loads(MADE["diagnosis"]().to_json())}


@pytest.mark.parametrize(
    ("kind", "study", "sentence"),
    [
        ("frontier", make_frontier_study(settings=(0,), starts=1), "too few for a map"),
        ("pipeline", make_pipeline_experiment(rounds=0), "Nothing was measured in this pipeline study."),
        ("noise", make_noise_study(RUN, draws=()), "Too few gradients were drawn for a noise scale"),
    ],
    ids=["frontier", "pipeline", "noise"],
)
def test_a_study_that_says_nothing_says_why_and_keeps_its_file(
    engine: Any, select: Any, kind: str, study: Any, sentence: str
) -> None:
    keep_study(engine, kind, study)
    at = open_page("history")
    select(at, 0)
    assert sentence in at.info[0].value
    assert len(at.get("download_button")) == 1


def test_only_sweeps_are_compared(engine: Any, select: Any) -> None:
    keep(engine.store, RUN)
    keep_study(engine, "host")
    at = open_page("history")
    select(at, 0, 1)
    assert not titles(at)
    assert "Two to 6 sweeps can be compared; any number of rows can be deleted." in text_of(at)
    assert at.button(key="delete").label == "Delete 2 rows"


@pytest.mark.parametrize(("status", "offered"), [("cancelled", True), ("interrupted", True), ("finished", False)])
def test_a_sweep_that_was_stopped_can_be_resumed(engine: Any, select: Any, status: Any, offered: bool) -> None:
    run_id = keep(engine.store, make_run(9), status=status)
    at = open_page("history")
    select(at, 0)
    assert ("resume" in [b.key for b in at.button]) is offered
    if offered:
        at.button(key="resume").click().run()
        assert not at.exception
        task, run = engine.jobs.started[-1]
        assert (task.name, run.id) == ("sweep", run_id)
        assert "measure_sweep" in [b.key for b in at.button], "it is seen on the Sweep page"


def test_rows_that_cannot_be_listed_are_named(engine: Any) -> None:
    sound = keep(engine.store, make_run(1))
    bad = [keep(engine.store, make_run(seed)) for seed in range(2, 9)]
    with engine.store._database.write() as db:
        db.execute(update(RUNS).where(RUNS.c.id.in_(bad)).values(cells="many"))
    at = open_page("history")
    assert not at.exception
    said = [w.value for w in at.warning]
    assert len(said) == history.DAMAGED_SHOWN
    assert all(any(run_id in text for run_id in bad) for text in said)
    assert [summary.id for summary in engine.store.summaries()] == [sound]
