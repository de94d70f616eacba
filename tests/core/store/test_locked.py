"""A database that is locked costs no measurement and no round: the rounds wait in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from core.store import Store, database
from core.studies import store_queue
from core.studies.jobs import Jobs
from core.studies.sweep.kind import SWEEP
from core.studies.sweep.start import new_run
from tests.support.simulation import Curve, Machine
from tests.support.sweeps import plan


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Another program writes, and does not end."""
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
        assert int(done.unwritten.split()[3]) > len(done.record.rounds)
        assert "stayed locked by another process" in done.unwritten
    jobs.close()
    assert jobs.snapshot().unwritten is None  # type: ignore[union-attr]
    kept = store.load(run_id)
    assert (kept.status, kept.rounds, kept.processes) == ("finished", done.record.rounds, done.record.processes)


def test_one_that_becomes_free_on_the_way_has_all_rounds_in_order(url: str, jobs: Jobs, store: Store) -> None:
    lock = locked(url)
    lock.__enter__()
    own, freed = jobs._keep, []

    def free_later(report: Any, progress: Any) -> None:
        report(progress)
        record = getattr(progress, "record", None)
        if record is not None and len(record.rounds) > 100 and not freed:
            lock.__exit__(None, None, None)
            freed.append(len(record.rounds))

    jobs._keep = lambda *given: partial(free_later, own(*given))  # type: ignore[method-assign]
    run_id = jobs.start(SWEEP, new_run(plan()))
    jobs.wait(60)
    done = jobs.snapshot()
    assert done is not None
    assert freed
    assert freed[0] < len(done.record.rounds)
    jobs.close()
    assert store.load(run_id).rounds == done.record.rounds


def test_a_run_that_this_process_could_not_end_in_the_store_can_be_resumed(store: Store) -> None:
    """Its row says that this very process measures it."""
    run = new_run(plan())
    store.begin(run)
    store.begin(run)
    assert store.load(run.id).status == "running"
