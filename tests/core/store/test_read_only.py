"""A read-only store shows everything and writes nothing, whoever asks; the database itself refuses."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from core.machine.lock import Busy
from core.store import Store, StoreError, Wanted
from core.studies.jobs import Jobs
from core.studies.pipeline.kind import PIPELINE
from simulated.pipelines import make_pipeline_experiment
from simulated.runs import make_run

SMALL: Any = {"batches": (1, 8, 64), "processes": 2, "passes": 1, "rounds_per_pass": 2}
RUN = make_run(1, **SMALL)
WRITES: dict[str, Any] = {
    "begin": lambda s: s.begin(make_run(2, **SMALL)),
    "record": lambda s: s.record(RUN.id, RUN.rounds[:1]),
    "finish": lambda s: s.finish(RUN.id, "finished", 1.0),
    "rename": lambda s: s.rename(RUN.id, "x"),
    "tag": lambda s: s.tag([RUN.id], add=["x"]),
    "delete": lambda s: s.delete(RUN.id),
    "restore": lambda s: s.restore(RUN.id),
    "undo": lambda s: s.undo("2026-01-01"),
    "purge": lambda s: s.purge(),
    "prune": lambda s: s.prune(timedelta(days=1)),
    "add": lambda s: s.add(make_run(2, **SMALL)),
    "add again": lambda s: s.add(RUN),
    "add_study": lambda s: s.add_study("pipeline", "two", make_pipeline_experiment()),
    "import_study": lambda s: s.import_study("pipeline", make_pipeline_experiment()),
}


@pytest.fixture
def shown(store: Store, url: str) -> Any:
    """Open a store with a run and a study for reading."""
    store.add(RUN)
    store.add_study("pipeline", "one", make_pipeline_experiment())
    shown = Store(url, read_only=True)
    yield shown
    shown.close()


@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written(shown: Store, store: Store, write: str) -> None:
    before = store.summaries()
    with pytest.raises(StoreError, match=r"^Nothing can be"):
        WRITES[write](shown)
    assert store.summaries() == before
    assert (store.tags(), store.deletions(9)) == ({}, ())


def test_everything_is_shown(shown: Store) -> None:
    assert shown.read_only
    assert shown.load(RUN.id) == RUN
    assert shown.study(PIPELINE, "one") == make_pipeline_experiment()
    assert shown.find(Wanted(words="784"), 9).total == 2
    assert (shown.mark_interrupted(), shown.damaged()) == (0, ())


@pytest.mark.parametrize("statement", ["DELETE FROM runs", "UPDATE runs SET name = 'x'", "CREATE TABLE t (x TEXT)"])
def test_the_database_refuses_by_itself(shown: Store, store: Store, statement: str) -> None:
    with shown._database._engine.connect() as db, pytest.raises(DBAPIError):
        db.execute(text(statement))
    assert len(store.summaries()) == 2


def test_there_must_be_something_to_show(tmp_path: Path) -> None:
    path = tmp_path / "none.sqlite3"
    with pytest.raises(StoreError, match=r"^Nothing is kept"):
        Store(f"sqlite:///{path}", read_only=True)
    assert not path.exists()


def test_an_older_store_is_not_upgraded(url: str, store: Store) -> None:
    with store._database.write() as db:
        db.execute(text("UPDATE schema_version SET version = 3"))
    with pytest.raises(StoreError, match="BREAKEVEN_READ_ONLY"):
        Store(url, read_only=True)
    with store._database.read() as db:
        assert db.execute(text("SELECT version FROM schema_version")).scalar() == 3


@pytest.mark.parametrize(("value", "only"), [("1", True), ("yes", True), ("0", False), ("", False), ("no", False)])
@pytest.mark.usefixtures("store")
def test_the_variable_makes_a_server_read_only(
    url: str, monkeypatch: pytest.MonkeyPatch, value: str, only: bool
) -> None:
    monkeypatch.setenv("BREAKEVEN_READ_ONLY", value)
    opened = Store(url)
    assert opened.read_only is only
    if only:
        jobs = Jobs(opened)
        with pytest.raises(Busy, match="BREAKEVEN_READ_ONLY"):
            jobs.start(PIPELINE, None)  # type: ignore[arg-type]
        jobs.close()
    opened.close()
