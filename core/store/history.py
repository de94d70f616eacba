"""The store itself: what pages, the command line and a running sweep ask of the history of runs."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, select, update

from core.measure.progress import Record
from core.results import Run, Status
from core.store.database import MAX_NAME, RECORDS, ROUNDS, RUNS, Database, RunNotFound, StoreError
from core.store.owner import is_alive, this_process
from core.store.rows import RunSummary, content, insert_run, now, plain, put_records, read_row, read_run, read_summaries
from core.store.studies import StudyKind, StudySummary, add_study, drop_studies, read_studies, read_study

KEEP_DELETED = timedelta(days=30)
ID_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


def new_run_id() -> str:
    """Date and six random characters, as in 20261121-7f3k2a."""
    return f"{datetime.now(UTC):%Y%m%d}-{''.join(secrets.choice(ID_CHARACTERS) for _ in range(6))}"


class Store:
    """Runs in one database; safe to share between threads, and between processes that open it too.

    ``url``: PostgreSQL or ``sqlite:///file``; by default BREAKEVEN_DATABASE_URL, else SQLite in the data folder.
    Implements :class:`core.measure.progress.Recorder`. Every method raises StoreError.
    """

    def __init__(self, url: str | None = None) -> None:
        self._database = Database(url)

    @property
    def where(self) -> str:
        """The file, or the database's URL without its password."""
        return self._database.where

    def close(self) -> None:
        self._database.close()

    def begin(self, run: Run) -> None:
        """Keep a new run, or take an interrupted one up again (same id), with status ``running``.

        An interrupted one must have been measured here, and no living process may be measuring it.
        """
        with self._database.write() as db:
            row = read_row(db, run.id)
            if row is None:
                insert_run(db, run)
            elif row["label"] != "measured":
                raise StoreError(f"Run {run.id} was measured elsewhere and cannot be taken up again on this machine.")
            elif row["status"] == "running" and is_alive(row["owner"], row["seen_at"]):
                raise StoreError(f"Run {run.id} is being measured by another process; wait for it or cancel it there.")
            started = {"status": "running", "owner": this_process(), "seen_at": now(), "deleted_at": None}
            db.execute(update(RUNS).where(RUNS.c.id == run.id).values(started))

    def record(self, run_id: str, records: tuple[Record, ...]) -> None:
        """Commit records at once; a Cell, TracedCell or Warning replaces the one of the same cell or code."""
        with self._database.write() as db:
            if read_row(db, run_id) is None:
                raise RunNotFound(f"There is no run {run_id} to add rounds to.")
            put_records(db, run_id, records)

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:
        self._change(run_id, status=status, elapsed_s=elapsed_s, owner="", seen_at=now())

    def load(self, run_id: str) -> Run:
        """The whole run. Raises RunNotFound for an unknown or deleted one."""
        with self._database.read() as db:
            row = read_row(db, run_id)
            if row is None or row["deleted_at"] is not None:
                raise RunNotFound(f"There is no run {run_id} here; it was deleted, or measured on another machine.")
            return read_run(db, row)

    def summaries(self) -> tuple[RunSummary, ...]:
        """Every run that was not deleted, newest first; no round is read."""
        with self._database.read() as db:
            return read_summaries(db)

    def rename(self, run_id: str, name: str) -> None:
        clean = plain(name)[:MAX_NAME]
        if not clean:
            raise StoreError("A run's name needs at least one visible character.")
        self._change(run_id, name=clean)

    def delete(self, run_id: str) -> None:
        """Hide a run; :meth:`restore` brings it back. What was deleted over 30 days ago is purged on the way."""
        with self._database.read() as db:
            row = read_row(db, run_id)
        if row is not None and row["status"] == "running" and is_alive(row["owner"], row["seen_at"]):
            raise StoreError("This run is being measured; cancel it before deleting it.")
        self._change(run_id, deleted_at=now())
        self.purge()

    def restore(self, run_id: str) -> None:
        self._change(run_id, deleted_at=None)

    def purge(self, older_than: timedelta = KEEP_DELETED) -> int:
        """Remove for good what was deleted longer ago than that; returns how many runs."""
        limit = (datetime.now(UTC) - older_than).isoformat()
        with self._database.write() as db:
            ids = db.execute(select(RUNS.c.id).where(RUNS.c.deleted_at < limit)).scalars().all()
            for run_id in ids:
                db.execute(delete(ROUNDS).where(ROUNDS.c.run_id == run_id))
                db.execute(delete(RECORDS).where(RECORDS.c.run_id == run_id))
                db.execute(delete(RUNS).where(RUNS.c.id == run_id))
                drop_studies(db, run_id)
        return len(ids)

    def add(self, run: Run) -> str:
        """Keep an imported run and return its id.

        Measured elsewhere becomes ``recorded``, ``running`` becomes ``interrupted``. A run that is here already with
        the same content (name and label apart) keeps its id, deleted or not; other content gets a new id.
        """
        label = "recorded" if run.label == "measured" else run.label
        status = "interrupted" if run.status == "running" else run.status
        run = run.model_copy(update={"label": label, "status": status})
        with self._database.write() as db:
            row = read_row(db, run.id)
            if row is not None and content(read_run(db, row)) == content(run):
                db.execute(update(RUNS).where(RUNS.c.id == run.id).values(deleted_at=None))
                return run.id
            if row is not None:
                run = run.model_copy(update={"id": new_run_id()})
            insert_run(db, run)
        return run.id

    def add_study(self, kind: StudyKind, study_id: str, run_id: str | None, body: str) -> None:
        """Keep a finished pipeline study or diagnosis as JSON."""
        with self._database.write() as db:
            add_study(db, kind, study_id, run_id, body)

    def studies(self, kind: StudyKind, run_id: str | None = None) -> tuple[StudySummary, ...]:
        """Newest first; those of one run where ``run_id`` is given."""
        with self._database.read() as db:
            return read_studies(db, kind, run_id)

    def load_study(self, study_id: str) -> str:
        """A study's JSON. Raises RunNotFound."""
        with self._database.read() as db:
            return read_study(db, study_id)

    def mark_interrupted(self) -> int:
        """Runs whose process is gone become ``interrupted``; returns how many. Called when an app starts."""
        running = RUNS.c.status == "running"
        with self._database.read() as db:
            rows = db.execute(select(RUNS.c.id, RUNS.c.owner, RUNS.c.seen_at).where(running)).all()
        gone = [(run_id, owner) for run_id, owner, seen_at in rows if not is_alive(owner, seen_at)]
        if not gone:
            return 0
        with self._database.write() as db:
            for run_id, owner in gone:
                same = (RUNS.c.id == run_id) & (RUNS.c.owner == owner) & running  # not taken up again meanwhile
                db.execute(update(RUNS).where(same).values(status="interrupted", owner=""))
        return len(gone)

    def _change(self, run_id: str, **values: Any) -> None:
        with self._database.write() as db:
            if read_row(db, run_id) is None:
                raise RunNotFound(f"There is no run {run_id} here.")
            db.execute(update(RUNS).where(RUNS.c.id == run_id).values(values))
