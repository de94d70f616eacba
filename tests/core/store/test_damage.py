"""A damaged row costs only itself, a damaged file is set aside, and foreign files are left alone."""

from __future__ import annotations

import random
import sqlite3
import stat
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.base.schema import UserError
from core.store import Store, StoreError, data_dir
from core.store import rows as store_rows
from core.store.database import is_damaged, set_aside
from core.studies.pipeline.kind import PIPELINE
from simulated.pipelines import make_pipeline_experiment
from simulated.runs import make_run

SMALL: Any = {"batches": (1, 8, 64), "processes": 2, "passes": 1, "rounds_per_pass": 2}
NO_TEXT = "CAST(x'ff7b' AS TEXT)"


def history() -> Path:
    return data_dir() / "runs.sqlite3"


def change(*statements: str) -> None:
    with sqlite3.connect(history()) as db:
        for statement in statements:
            assert db.execute(statement).rowcount > 0
    db.close()


@pytest.fixture
def ids() -> tuple[str, str, str]:
    """Store a sound run, and a run and a study to be damaged."""
    store = Store()
    sound, damaged = (store.add(make_run(seed=seed, **SMALL)) for seed in (1, 2))
    store.add_study("pipeline", "20260101-study0", make_pipeline_experiment())
    store.close()
    return sound, damaged, "20260101-study0"


RUN_HEADS = ["'{'", "'[1]'", "'7'", "'null'", "'{}'", "7", "x'ff'", "x'7b7d'", NO_TEXT, "'" + "[" * 100_000 + "'"]


@pytest.mark.parametrize("head", RUN_HEADS, ids=lambda head: head[:12])
@pytest.mark.parametrize("which", [1, 2], ids=["run", "study"])
def test_a_damaged_record_is_named_and_costs_itself(ids: tuple[str, str, str], head: str, which: int) -> None:
    change(f"UPDATE runs SET head = {head} WHERE id = '{ids[which]}'")
    store = Store()
    assert {summary.id for summary in store.summaries()} == set(ids)
    assert store.load(ids[0]).rounds
    said: list[str] = []
    assert set(store.records(PIPELINE, said.append)) == {"20260101-study0"} - {ids[which]}
    if which == 1:
        with pytest.raises(StoreError) as caught:
            store.load(ids[1])
        said.append(str(caught.value))
    assert len(said) == 1
    assert said[0].startswith(f"The stored {'run' if which == 1 else 'study'} {ids[which]} (“")
    assert "\n" not in said[0]
    store.close()


@pytest.mark.parametrize(
    "change_of_parts",
    [
        "UPDATE rounds SET json = '{' WHERE run_id = '{id}'",
        "UPDATE rounds SET json = x'7b7d' WHERE run_id = '{id}'",
        f"UPDATE rounds SET json = {NO_TEXT} WHERE run_id = '{{id}}'",
        "UPDATE records SET kind = 'surprise', key = position WHERE run_id = '{id}'",
        "UPDATE records SET json = '[]' WHERE run_id = '{id}'",
        "UPDATE runs SET elapsed_s = 'long' WHERE id = '{id}'",
    ],
)
def test_a_damaged_part_of_a_run_is_named_and_costs_that_run(ids: tuple[str, str, str], change_of_parts: str) -> None:
    change(change_of_parts.replace("{id}", ids[1]))
    store = Store()
    with pytest.raises(StoreError, match=rf"stored run {ids[1]} "):
        store.load(ids[1])
    assert store.load(ids[0]).rounds
    store.close()


COLUMNS = ("id", "name", "created_at", "title", "target_a", "cells", "label", "status", "kind")
WRONG = [*product(COLUMNS, ("x'ff'", NO_TEXT)), *product(("cells", "label", "status"), ("'many'",))]


@pytest.mark.parametrize(("column", "value"), WRONG)
def test_a_row_that_no_list_can_show_is_left_out_and_named(ids: tuple[str, str, str], column: str, value: str) -> None:
    change(f"UPDATE runs SET status = 'running' WHERE id = '{ids[1]}'")
    change(f"UPDATE runs SET {column} = {value} WHERE id = '{ids[1]}'")
    store = Store()
    assert {summary.id for summary in store.summaries()} == {ids[0], ids[2]}
    store.mark_interrupted()
    (sentence,) = store.damaged()
    assert ids[1] in sentence or column == "id"
    sentence.encode()
    store.close()


@pytest.mark.parametrize("seen_at", ["'noon'", "'2026-01-01'", "x'ff'", "7", NO_TEXT])
@pytest.mark.parametrize("owner", ["'elsewhere 1 2.0'", "x'ff'", "7", "''", "'elsewhere'", NO_TEXT])
def test_a_row_that_does_not_say_who_measures_is_interrupted(
    ids: tuple[str, str, str], seen_at: str, owner: str
) -> None:
    change(f"UPDATE runs SET status = 'running', seen_at = {seen_at}, owner = {owner} WHERE id = '{ids[1]}'")
    store = Store()
    assert store.mark_interrupted() == 1
    store.delete(ids[1])
    assert len(store.summaries()) == 2
    store.close()


def test_what_is_too_large_is_refused_and_not_loaded(
    ids: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_rows, "MAX_BYTES", 20_000)
    change(
        f"UPDATE runs SET head = head || printf('%.*c', 30000, ' ') WHERE id = '{ids[2]}'",
        f"UPDATE rounds SET json = json || printf('%.*c', 9000, ' ') WHERE run_id = '{ids[1]}'",
    )
    store = Store()
    assert len(store.summaries()) == 3
    assert store.load(ids[0]).rounds
    for ask in (lambda: store.load(ids[1]), lambda: store.study(PIPELINE, ids[2])):
        with pytest.raises(StoreError, match=r"than 0 MiB\.$"):
            ask()
    store.close()


@pytest.mark.parametrize("name", ["head", "name"])
def test_a_value_larger_than_anything_of_ours_never_arrives(ids: tuple[str, str, str], name: str) -> None:
    """Store 70 MB in one value: SQLite itself refuses to return it."""
    change(f"UPDATE runs SET {name} = printf('%.*c', 70000000, 'x') WHERE id = '{ids[2]}'")
    store = Store()
    with pytest.raises(StoreError, match="40 MiB"):
        store.study(PIPELINE, ids[2])
    assert ids[0] in {summary.id for summary in store.summaries()}
    assert store.load(ids[0]).rounds
    store.close()


def asides() -> list[Path]:
    return sorted(data_dir().glob("runs.sqlite3.damaged-*"))


def damage(kind: str) -> None:
    path = history()
    data = bytearray(path.read_bytes())
    if kind == "no database":
        data = bytearray(b"Dear diary" * 1000)
    elif kind == "header":
        data[0:16] = b"SQLite format X\0"
    elif kind == "truncated":
        del data[len(data) // 2 :]
    else:
        for page in range(1 if kind == "pages" else len(data) // 4096 - 12, len(data) // 4096):
            data[page * 4096 : page * 4096 + 100] = random.Random(page).randbytes(100)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("lines", "damaged"),
    [
        (["ok"], False),
        (["NUMERIC value in runs.name", "NULL value in runs.label"], False),
        (["NULL value in runs.label", "*** in database main ***\nTree 4 page 9: btreeInitPage() returns 11"], True),
        (["row 3 missing from index runs_by_time"], True),
    ],
)
def test_a_wrong_value_costs_a_row_and_a_broken_structure_the_file(lines: list[str], damaged: bool) -> None:
    """Check the wording of newer versions of SQLite, too."""
    result = SimpleNamespace(scalars=lambda: SimpleNamespace(all=lambda: lines), scalar=lambda: 1_000_000)
    assert is_damaged(SimpleNamespace(exec_driver_sql=lambda _: result)) is damaged  # type: ignore[arg-type]


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize("kind", ["no database", "header", "truncated", "pages", "last pages"])
def test_a_damaged_file_is_set_aside_whole_and_a_new_one_begins(kind: str) -> None:
    for n in (1, 2):
        if n == 2:
            store = Store()
            store.add(make_run(seed=3))
            store.close()
        damage(kind)
        content = history().read_bytes()
        store = Store()
        assert store.summaries() == ()
        assert len(asides()) == n
        assert str(asides()[-1]) in str(store.notice)
        assert asides()[-1].read_bytes() == content
        run = make_run(seed=1, **SMALL)
        assert store.load(store.add(run)).rounds == run.rounds
        store.close()
        again = Store()
        assert (len(again.summaries()), again.notice) == (1, None)
        again.close()


def test_what_lies_beside_a_damaged_file_goes_with_it(tmp_path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"db{end}").write_text(f"old{end}")
    aside = set_aside(tmp_path / "db", (tmp_path / "db").stat().st_ino)
    assert aside is not None
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        f"{aside.name}{end}": f"old{end}" for end in ("", "-wal", "-shm")
    }


def test_a_file_that_another_process_has_put_there_meanwhile_stays(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("new")
    assert set_aside(tmp_path / "db", 1) is None
    assert [path.name for path in tmp_path.iterdir()] == ["db"]


@pytest.mark.usefixtures("ids")
def test_a_damaged_file_that_another_process_has_open_stays() -> None:
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM runs').fetchone();"
        "print('open', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(history())], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    damage("no database")
    with pytest.raises(StoreError, match="is damaged"):
        Store()
    assert asides() == []
    assert history().read_bytes().startswith(b"Dear diary")
    child.communicate()
    Store().close()
    assert len(asides()) == 1


def test_a_file_named_by_the_user_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "diary"
    path.write_bytes(b"Dear diary" * 1000)
    with pytest.raises(StoreError, match="no Breakeven database"):
        Store(f"sqlite:///{path}")
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["diary"]
    assert path.read_bytes() == b"Dear diary" * 1000


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE notes (text TEXT)",
        "CREATE TABLE schema_version (version TEXT); INSERT INTO schema_version VALUES ('one')",
        "CREATE TABLE schema_version (version INTEGER); INSERT INTO schema_version VALUES (99)",
        "CREATE TABLE schema_version (id INTEGER)",
    ],
)
def test_a_sound_database_of_another_program_is_left_alone_in_our_own_place_too(statement: str) -> None:
    data_dir().mkdir()
    db = sqlite3.connect(history())
    db.executescript(statement)
    db.close()
    content = history().read_bytes()
    with pytest.raises(UserError):
        Store()
    assert asides() == []
    with sqlite3.connect(history()) as db:
        assert len(db.execute("SELECT name FROM sqlite_master").fetchall()) == 1
    assert history().read_bytes()[28:] == content[28:] or len(history().read_bytes()) == len(content)


@pytest.mark.usefixtures("ids")
def test_names_in_the_schema_that_are_no_text_are_a_sentence() -> None:
    content = history().read_bytes()
    assert b"target_a" in content
    history().write_bytes(content.replace(b"target_a", b"target_\xff"))
    try:
        store = Store()
        store.summaries()
        store.close()
    except StoreError as error:
        str(error).encode()


def test_only_its_user_can_read_the_history(ids: tuple[str, str, str]) -> None:
    def modes() -> set[int]:
        return {stat.S_IMODE(path.stat().st_mode) for path in data_dir().iterdir()}

    store = Store()
    store.rename(ids[0], "open")
    assert {path.name for path in data_dir().iterdir()} == {"runs.sqlite3", "runs.sqlite3-wal", "runs.sqlite3-shm"}
    assert (modes(), stat.S_IMODE(data_dir().stat().st_mode)) == ({0o600}, 0o700)
    for path in data_dir().iterdir():
        path.chmod(0o644)
    Store().close()
    assert modes() == {0o600}, "one from an earlier version, too"
    store.close()


def test_only_its_user_can_read_a_new_history_that_a_url_names(tmp_path: Path) -> None:
    Store(f"sqlite:///{tmp_path / 'team' / 'x.sqlite'}").close()
    assert stat.S_IMODE((tmp_path / "team" / "x.sqlite").stat().st_mode) == 0o600
