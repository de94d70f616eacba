"""The History page: every transition of a kept run, and imports that are refused without a trace."""

import json
import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from core.base.text import sentence_case
from core.rounds.show.export import run_json
from core.store.tables import RUNS
from core.studies.kind import Context
from core.studies.registry import kind_of, kinds
from core.ui.downloads import json_bytes
from core.ui.history import page as history
from core.ui.history import stored
from simulated.frontier_studies import make_frontier_study
from simulated.kinds import RUN
from simulated.noises import make_noise_study
from simulated.pages import damage, keep, open_page, says, text_of
from simulated.pipelines import make_pipeline_experiment
from simulated.runs import make_run
from tests.support.study_pages import MADE
from tests.support.study_pages import keep as keep_study

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]
every_kind = pytest.mark.parametrize("kind", MADE)
SEED = "784-128-10, made from seed"


def names(at: AppTest) -> list[str]:
    return list(at.dataframe[0].value["name"]) if at.dataframe else []


def test_an_empty_history_leads_to_a_measurement() -> None:
    at = open_page("history")
    assert not at.dataframe
    assert at.page_link[0].label == "Measure this machine"


def test_several_rows_are_deleted_together_and_brought_back(engine: Any, select: Any) -> None:
    for seed in (1, 2, 3):
        keep(engine.store, make_run(seed))
    at = open_page("history")
    assert "Select a row" in text_of(at)
    select(at, 0, 1, 2)
    select(at, 0, 1)
    at.button(key="delete").click()
    select(at)
    assert names(at) == [f"{SEED} 1"]
    assert "Deleted 2 studies" in text_of(at)
    at = open_page("history")  # a reload, or another user
    at.button(key="undo").click().run()
    assert names(at) == [f"{SEED} {seed}" for seed in (3, 2, 1)]
    assert "Deleted" not in text_of(at)


def test_what_was_deleted_earlier_is_brought_back_from_below_the_list(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in (1, 2):
        engine.store.delete(keep(engine.store, make_run(seed)))
    monkeypatch.setattr(history, "AT_TOP", timedelta(0))
    at = open_page("history")
    assert "undo" not in [button.key for button in at.button]
    assert [button.label for button in at.button].count("Bring back") == 2
    next(button for button in at.button if button.label == "Bring back").click().run()
    assert names(at) == [f"{SEED} 2"]


def test_the_list_says_what_each_study_says(engine: Any) -> None:
    keep(engine.store, make_run(1, processes=4), status="cancelled")
    keep_study(engine, "pipeline")
    table = open_page("history").dataframe[0].value
    first, second = table.to_dict("records")
    assert first["verdict"].startswith("Not input-bound")
    assert second["verdict"].startswith("Cancelled. 2 threads ")
    assert (second["network"], second["targets"]) == ("784-128-10 (training, adam)", " against ".join(RUN.names))
    assert "(4 cores)" in second["machine"]
    assert (first["network"], first["targets"]) == ("784-128-10 (training, adam)", "CPU")


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ({"find": "ALPHA"}, {"Alpha"}),
        ({"find": "release"}, {f"{SEED} 2"}),
        ({"find": "784 threads training example"}, {"Alpha", f"{SEED} 2"}),
        ({"find": "100%"}, set()),
        ({"kind": "Pipeline study"}, {"784-128-10 (training, adam) on CPU, batch 64"}),
        ({"tag": "release"}, {f"{SEED} 2"}),
        ({"kind": "Pipeline study", "tag": "release"}, set()),
    ],
    ids=lambda value: "" if isinstance(value, set) else str(value),  # the order of a set differs between processes
)
def test_what_is_looked_for_stands_in_the_address(engine: Any, address: dict[str, str], found: set[str]) -> None:
    runs = [keep(engine.store, make_run(seed)) for seed in (1, 2)]
    keep_study(engine, "pipeline")
    engine.store.rename(runs[0], "Alpha")
    engine.store.tag([runs[1]], add=["release"])
    at = open_page("history", **address)
    assert set(names(at)) == found
    assert bool(found) is (":material/search_off:" not in [info.icon for info in at.info])


def test_a_long_history_has_pages(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PAGE", 2)
    for seed in range(5):
        keep(engine.store, make_run(seed))
    assert [name[-1] for name in names(open_page("history"))] == ["4", "3"]
    at = open_page("history", list="3")
    assert [name[-1] for name in names(at)] == ["0"]
    assert ["5", "5", "5"] in [re.findall(r"\d+", caption.value) for caption in at.caption]


def test_tags_are_put_on_several_and_taken_from_one(engine: Any, select: Any) -> None:
    for seed in (1, 2, 3):
        keep(engine.store, make_run(seed))
    at = open_page("history")

    def save(*tags: str) -> list[str]:
        at.multiselect[0].set_value(list(tags))
        at.button(key="save_tags").click().run()
        assert not at.error
        return list(at.dataframe[0].value["tags"])

    select(at, 0, 1)
    assert save("release", "old card") == ["old card, release", "old card, release", ""]
    select(at, 1)
    assert at.multiselect[0].value == ["old card", "release"]
    assert save("release") == ["old card, release", "release", ""]
    select(at, 0, 1)
    assert at.multiselect[0].value == ["release"], "only what all of them have"
    at.multiselect[0].set_value(["x" * 50])
    at.button(key="save_tags").click().run()
    assert "40 characters" in at.error[0].value


def test_import_of_an_exported_run() -> None:
    at = open_page("history")
    at.file_uploader[0].upload("../../run.json", run_json(make_run(8, label="measured")).encode())
    at.run()
    assert f"Imported “{SEED} 8”" in at.success[0].value.replace("\\", "")
    assert names(at) == [f"{SEED} 8"]
    assert list(at.dataframe[0].value["label"]) == ["recorded"]
    at.run()
    assert not at.success
    assert len(names(at)) == 1
    at.file_uploader[0].upload("again.json", run_json(make_run(8, label="measured")).encode())
    at.run()
    says(at, f"“{SEED} 8”", "198 rounds", "already here, recorded")
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
        assert not at.error or "visible character" in at.error[0].value
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
    data = json_bytes(lambda: stored.data(summary))
    assert json.loads(data)["record"] == json.loads(record.to_json())
    words = f"the {kind_of(kind).noun} “{record.title}”"
    at = open_page("history")

    def upload() -> str:
        at.file_uploader[0].upload("../study.json", data)
        at.run()
        return text_of(at)

    assert f"{sentence_case(words)} is already here, {summary.label};" in upload()
    engine.store.delete(study_id)
    engine.store.purge(timedelta(seconds=-1))
    assert f"Imported {words}." in upload()
    assert "Open" in [link.label for link in at.page_link]
    assert f"{sentence_case(words)} is already here," in upload()
    (found,) = engine.store.summaries(kind)
    engine.store.delete(found.id)
    assert f"{sentence_case(words)} was here already" in upload()
    assert len(names(at)) == 2
    (found,) = engine.store.summaries(kind)
    assert (found.label, found.created_at, found.run_id) == (
        record.as_recorded().label,
        record.created_at,
        kind_of(kind).about(record).run_id,
    )


@pytest.mark.parametrize("kind", ["sweep", *MADE])
def test_a_damaged_study_says_so_and_can_still_be_deleted(engine: Any, select: Any, kind: str) -> None:
    keep(engine.store, RUN)
    damage(engine.store, RUN.id if kind == "sweep" else keep_study(engine, kind))
    at = open_page("history")
    select(at, 0)
    assert f"no Breakeven {kind_of(kind).record.noun}" in at.error[0].value
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
    assert "“hologram”" in at.error[0].value


def test_a_diagnosis_whose_run_is_gone_says_so_and_keeps_its_file(engine: Any, select: Any) -> None:
    keep_study(engine, "diagnosis")
    at = open_page("history")
    select(at, 0)
    assert "of this diagnosis" in at.info[0].value
    assert [button.proto.label for button in at.get("download_button")] == ["JSON"]
    (summary,) = engine.store.summaries()
    assert stored.data(summary) == {"record": json.loads(MADE["diagnosis"]().to_json())}


@pytest.mark.parametrize(
    ("kind", "study", "sentence"),
    [
        ("frontier", make_frontier_study(settings=(0,), starts=1), "too few"),
        ("pipeline", make_pipeline_experiment(rounds=0), "Nothing was measured"),
        ("noise", make_noise_study(RUN, draws=()), "Too few gradients"),
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
    assert at.button(key="compare").disabled
    assert "2 rows selected" in text_of(at)
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
    assert len(said) == len(bad)
    assert all(any(run_id in text for run_id in bad) for text in said)
    assert [summary.id for summary in engine.store.summaries()] == [sound]
