"""A locked database costs no measurement and no round: the rounds wait in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from core.store import Store, database
from core.store.tables import StoreUnavailable
from core.studies import store_queue
from core.studies.jobs import Jobs
from core.studies.sweep.kind import SWEEP, new_run
from simulated.runs import make_run
from simulated.simulation import Curve, Machine
from simulated.sweeps import plan


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Hold the database by another program that writes and does not end."""
    whole = make_url(url)
    if whole.drivername == "postgresql":
        whole = whole.set(drivername="postgresql+psycopg")
    engine = create_engine(whole)
    with engine.connect() as db:
        if engine.dialect.name == "sqlite":
            db.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            db.execute(text("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE"))
        yield
        db.rollback()
    engine.dispose()


@pytest.fixture
def machine() -> Machine:
    return Machine((Curve(0.3, 0.02), Curve(1.0, 0.003)))


@pytest.fixture
def jobs(url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)
    monkeypatch.setattr(store_queue, "RETRY_S", 0.01)
    store = Store(url)
    made = Jobs(store, launcher=machine.launch, clock=machine.clock, interference=lambda: None, meter=lambda: None)
    yield made
    made.close()
    store.close()


def test_a_sweep_goes_on_without_a_database_that_is_locked_from_before_its_start(
    url: str, jobs: Jobs, store: Store
) -> None:
    with locked(url):
        run_id = jobs.start(SWEEP, new_run(plan()))
        jobs.wait(60)
        done = jobs.snapshot()
        assert done is not None
        assert (done.active, done.error, done.record.status) == (False, None, "finished")
        assert done.unwritten is not None
        assert int(done.unwritten.split()[3].replace(",", "")) > len(done.record.rounds)
        assert "by another process" in done.unwritten
    jobs.close()
    assert jobs.snapshot().unwritten is None  # type: ignore[union-attr]
    kept = store.load(run_id)
    assert (kept.status, kept.rounds, kept.processes) == ("finished", done.record.rounds, done.record.processes)


def test_one_that_becomes_free_on_the_way_has_all_rounds_in_order(url: str, jobs: Jobs, store: Store) -> None:
    lock = locked(url)
    lock.__enter__()
    own, freed = jobs._follow, []

    def free_later(task: Any, progress: Any) -> None:
        own(task, progress)
        record = getattr(progress, "record", None)
        if record is not None and len(record.rounds) > 100 and not freed:
            lock.__exit__(None, None, None)
            freed.append(len(record.rounds))

    jobs._follow = free_later  # type: ignore[method-assign]
    run_id = jobs.start(SWEEP, new_run(plan()))
    jobs.wait(60)
    done = jobs.snapshot()
    assert done is not None
    assert freed
    assert freed[0] < len(done.record.rounds)
    jobs.close()
    assert store.load(run_id).rounds == done.record.rounds


def test_a_run_that_this_process_could_not_end_in_the_store_can_be_resumed(store: Store) -> None:
    """Resume a run whose row says that this very process measures it."""
    run = new_run(plan())
    store.begin(run)
    store.begin(run)
    assert store.load(run.id).status == "running"


@pytest.fixture
def begun_by_another(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Hold a new file of which another process makes a store: SQLite itself does not wait for it."""
    other = sqlite3.connect(tmp_path / "runs.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


def test_of_two_that_make_the_same_store_the_second_waits(
    begun_by_another: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def ended_meanwhile(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            begun_by_another.execute("COMMIT")

    monkeypatch.setattr(database.time, "sleep", ended_meanwhile)
    store = Store(f"sqlite:///{tmp_path / 'runs.sqlite3'}")
    assert len(waited) == 3
    run_id = store.add(make_run(1, batches=(1, 8), processes=1, passes=1, rounds_per_pass=2))
    assert store.load(run_id).id == run_id
    assert begun_by_another.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_one_that_never_ends_is_a_sentence(
    begun_by_another: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert begun_by_another.in_transaction
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    with pytest.raises(StoreUnavailable, match=r"0\.05 s"):
        Store(f"sqlite:///{tmp_path / 'runs.sqlite3'}")
