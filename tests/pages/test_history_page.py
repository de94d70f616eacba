"""The History page: every transition of a kept run, and imports that are refused without a trace."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.export import run_json
from core.ui import history
from core.ui.history import differences
from tests.support.pages import chart_titles, keep, open_page, text_of
from tests.support.runs import make_run

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def select(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Choose rows of the table; AppTest cannot click on them."""
    chosen: list[int] = []
    real = history._selected_rows
    monkeypatch.setattr(history, "_selected_rows", lambda found: (real(found), list(chosen))[1])

    def choose(at: AppTest, *rows: int) -> None:
        chosen[:] = rows
        at.run()
        assert not at.exception, at.exception

    return choose


def names(at: AppTest) -> list[str]:
    return list(at.dataframe[0].value["name"]) if at.dataframe else []


def test_empty_history_says_what_to_do() -> None:
    at = open_page("history")
    assert "No run is kept here yet" in text_of(at)
    assert at.page_link[0].label == "Measure this machine"


def test_runs_are_listed_newest_first(engine: Any) -> None:
    keep(engine.store, make_run(1))
    keep(engine.store, make_run(2))
    at = open_page("history")
    assert names(at) == ["784-128-10, made from seed 2", "784-128-10, made from seed 1"]
    assert "Select one run" in text_of(at)


def test_one_selected_run_shows_its_verdict_and_a_link(engine: Any, select: Any) -> None:
    keep(engine.store, make_run(1))
    at = open_page("history")
    select(at, 0)
    assert "ahead from batch" in at.subheader[0].value
    assert "Open" in [link.label for link in at.page_link]


def test_rename(engine: Any, select: Any) -> None:
    run_id = keep(engine.store, make_run(1))
    at = open_page("history")
    select(at, 0)
    at.text_input(key=f"name-{run_id}").set_value("Better name")
    at.button(key="save_name").click().run()
    assert names(at) == ["Better name"]
    at.text_input(key=f"name-{run_id}").set_value("   ")
    at.button(key="save_name").click().run()
    assert "needs at least one visible character" in at.error[0].value
    assert names(at) == ["Better name"]


def test_delete_and_undo(engine: Any, select: Any) -> None:
    keep(engine.store, make_run(1))
    keep(engine.store, make_run(2))
    at = open_page("history")
    select(at, 0, 1)
    select(at, 0)
    at.button(key="delete").click()
    select(at)
    assert names(at) == ["784-128-10, made from seed 1"]
    assert "Deleted “784-128-10, made from seed 2”." in text_of(at)
    at.button(key="undo").click().run()
    assert len(names(at)) == 2
    assert "Deleted" not in text_of(at)


def test_two_selected_runs_are_compared_on_one_chart(engine: Any, select: Any) -> None:
    keep(engine.store, make_run(1))
    keep(engine.store, make_run(2))
    at = open_page("history")
    select(at, 0, 1)
    assert chart_titles(at) == ["<b>Two runs compared: speed-up by batch size</b>"]
    assert [s.value for s in at.subheader if "ahead from batch" in s.value]
    assert len(at.subheader) == 2
    assert not at.warning


def test_comparing_with_a_run_without_rounds_says_so(engine: Any, select: Any) -> None:
    keep(engine.store, make_run(1))
    keep(engine.store, make_run(2).model_copy(update={"rounds": (), "cells": ()}))
    at = open_page("history")
    select(at, 0, 1)
    assert "Both runs need at least one round" in at.warning[0].value


def test_three_selected_runs_can_be_deleted_together(engine: Any, select: Any) -> None:
    for seed in (1, 2, 3):
        keep(engine.store, make_run(seed))
    at = open_page("history")
    select(at, 0, 1, 2)
    at.button(key="delete").click()
    select(at)
    assert names(at) == []
    at.button(key="undo").click().run()
    assert len(names(at)) == 3


def test_import_of_an_exported_run() -> None:
    at = open_page("history")
    at.file_uploader[0].upload("../../run.json", run_json(make_run(8, label="measured")).encode())
    at.run()
    assert not at.exception
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
        ("a.csv", b"target,batch,step_ms\ncpu,1,1\ngpu,1,2\nxla,1,2\n", "Not imported."),
        ("a.json", b'{"schema_version": 99}', "schema version 99"),
        ("a.json", b"{", "Not imported."),
        ("a.csv", b"x" * 20_000_001, "too large"),
    ],
    ids=["missing column", "NaN", "three targets", "other version", "broken", "too large"],
)
def test_refused_imports_say_why_and_keep_nothing(engine: Any, name: str, data: bytes, sentence: str) -> None:
    keep(engine.store, make_run(1))
    at = open_page("history")
    at.file_uploader[0].upload(name, data)
    at.run()
    assert not at.exception
    said = at.error[0].value.replace("\\", "")
    assert said.startswith("Not imported.")
    assert sentence in said
    assert len(names(at)) == 1


def test_differences_name_what_is_not_alike() -> None:
    first = make_run(1)
    assert first.plan is not None
    assert differences(first, make_run(2)) == []
    workload = first.plan.workload.model_copy(update={"mode": "infer"})
    other = first.model_copy(
        update={"target_names": ("cpu", "gpu:0"), "plan": first.plan.model_copy(update={"workload": workload})}
    )
    found = differences(first, other)
    assert len(found) == 2
    assert "gpu:0 over cpu" in found[0]
    assert "inference" in found[1]
