"""The store itself: what pages, the command line and a running sweep ask of the history of studies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import RowMapping, delete, select, update

from core.evidence import Status
from core.schema import UserError
from core.store.database import Database
from core.store.owner import is_alive, this_process
from core.store.rows import (
    SWEEP,
    Summary,
    content,
    insert_run,
    insert_study,
    now,
    plain,
    put_records,
    read_row,
    read_run,
    read_study,
    read_summaries,
)
from core.store.tables import MAX_NAME, RECORDS, ROUNDS, RUNS, NotResumed, RunNotFound, StoreError
from core.studies.kind import Kind
from core.studies.study import new_id, run_id_of
from core.studies.sweep.record import Run, RunRecord

KEEP_DELETED = timedelta(days=30)
R = TypeVar("R")


def only_readable(
    summaries: Iterable[Summary], load: Callable[[Summary], R], unreadable: Callable[[str], None] = lambda _: None
) -> dict[str, R]:
    """What ``load`` gives for each, by id; one damaged study costs itself, and why goes to ``unreadable``."""
    records: dict[str, R] = {}
    for summary in summaries:
        try:
            records[summary.id] = load(summary)
        except (UserError, OSError) as error:
            unreadable(str(error))
    return records


class Store:
    """Studies of every kind in one database; safe to share between threads, and between processes that open it too.

    ``url``: PostgreSQL or ``sqlite:///file``; by default BREAKEVEN_DATABASE_URL, else SQLite in the data folder.
    Implements :class:`core.studies.store_queue.StudyStore`. Every method raises StoreError.
    """

    def __init__(self, url: str | None = None) -> None:
        self._database = Database(url)

    @property
    def where(self) -> str:
        """The file, or the database's URL without its password."""
        return self._database.where

    @property
    def notice(self) -> str | None:
        """That a damaged file was set aside, and where it is now."""
        return self._database.notice

    def close(self) -> None:
        self._database.close()

    def begin(self, run: Run) -> None:
        """Keep a new run, or resume one that was stopped (same id), with status ``running``.

        One that was stopped must have been measured here, and no other living process may be measuring it. Raises
        NotResumed.
        """
        with self._database.write() as db:
            row = read_row(db, run.id)
            if row is None:
                insert_run(db, run)
            elif row["label"] != "measured":
                raise NotResumed(f"Run {run.id} was measured elsewhere and cannot be resumed on this machine.")
            elif _is_measured(row) and row["owner"] != this_process():
                raise NotResumed(f"Run {run.id} is being measured by another process; wait for it or cancel it there.")
            started = {"status": "running", "owner": this_process(), "seen_at": now(), "deleted_at": None}
            db.execute(update(RUNS).where(RUNS.c.id == run.id).values(started))

    def record(self, run_id: str, records: tuple[RunRecord, ...]) -> None:
        """Commit records at once; a Cell, TracedCell, LoopCost or Warning replaces the one of the same place."""
        with self._database.write() as db:
            if read_row(db, run_id) is None:
                raise RunNotFound(f"There is no run {run_id} to add rounds to.")
            put_records(db, run_id, records)

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:
        self._change(run_id, status=status, elapsed_s=elapsed_s, owner="", seen_at=now())

    def load(self, run_id: str) -> Run:
        """The whole run of a sweep. Raises RunNotFound for an unknown or deleted one."""
        with self._database.read() as db:
            return read_run(db, _there(read_row(db, run_id), SWEEP, f"run {run_id}"))

    def study(self, kind: Kind[Any, R, Any], study_id: str) -> R:
        """The record of a study. Raises RunNotFound for an unknown or deleted one, UserError for a damaged one."""
        if kind.streams:
            return self.load(study_id)  # type: ignore[return-value]  # a sweep's record is its run
        with self._database.read() as db:
            row = _there(read_row(db, study_id), kind.name, f"study {study_id}")
            return read_study(kind, row)

    def summaries(self, kind: str | None = None, run_id: str | None = None) -> tuple[Summary, ...]:
        """Every study that was not deleted, newest first, of one kind and one run where given; no record is read.

        A row that is damaged is left out; :meth:`damaged` says which.
        """
        with self._database.read() as db:
            return tuple(read_summaries(db, kind, run_id)[0])

    def damaged(self) -> tuple[str, ...]:
        """A sentence on each row that :meth:`summaries` leaves out."""
        with self._database.read() as db:
            return tuple(read_summaries(db, None, None)[1])

    def records(self, kind: Kind[Any, R, Any], unreadable: Callable[[str], None]) -> dict[str, R]:
        """Every record of a kind by id, newest first; why another cannot be read goes to ``unreadable``."""
        return only_readable(self.summaries(kind.name), lambda summary: self.study(kind, summary.id), unreadable)

    def rename(self, run_id: str, name: str) -> None:
        clean = plain(name)[:MAX_NAME]
        if not clean:
            raise StoreError("A name needs at least one visible character.")
        self._change(run_id, name=clean)

    def delete(self, run_id: str) -> None:
        """Hide a run or study; :meth:`restore` brings it back. What was deleted 30 days ago is removed for good."""
        with self._database.read() as db:
            row = read_row(db, run_id)
        if row is not None and _is_measured(row):
            raise StoreError("This run is being measured; cancel it before deleting it.")
        self._change(run_id, deleted_at=now())
        self.purge()

    def restore(self, run_id: str) -> None:
        self._change(run_id, deleted_at=None)

    def purge(self, older_than: timedelta = KEEP_DELETED) -> int:
        """Remove for good what was deleted longer ago than that, and studies of such runs; returns how many."""
        limit = (datetime.now(UTC) - older_than).isoformat()
        with self._database.write() as db:
            ids = db.execute(select(RUNS.c.id).where(RUNS.c.deleted_at < limit)).scalars().all()
            for run_id in ids:
                db.execute(delete(ROUNDS).where(ROUNDS.c.run_id == run_id))
                db.execute(delete(RECORDS).where(RECORDS.c.run_id == run_id))
                db.execute(delete(RUNS).where(RUNS.c.id == run_id))
                db.execute(delete(RUNS).where(RUNS.c.run_id == run_id))
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
                run = run.model_copy(update={"id": new_id()})
            insert_run(db, run)
        return run.id

    def add_study(self, kind: str, study_id: str, record: Any, name: str | None = None) -> None:
        """Keep a finished study of another kind than a sweep, by default under its title."""
        with self._database.write() as db:
            insert_study(db, kind, study_id, record, record.to_json(), run_id_of(record), now())
            if name is not None and plain(name):
                db.execute(update(RUNS).where(RUNS.c.id == study_id).values(name=plain(name)[:MAX_NAME]))

    def import_study(self, kind: str, record: Any) -> str:
        """Keep a study of another kind than a sweep that came from a file, and return its id.

        One that is here already with the same content (label apart) keeps its id, deleted or not.
        """
        recorded, created_at = _recorded(record), record.created_at[:40] or now()
        alike = (RUNS.c.kind == kind) & (RUNS.c.title == plain(record.title))
        with self._database.write() as db:
            for study_id, head in db.execute(select(RUNS.c.id, RUNS.c.head).where(alike)).all():
                with suppress(UserError):
                    if _recorded(type(record).from_json(head)) == recorded:
                        db.execute(update(RUNS).where(RUNS.c.id == study_id).values(deleted_at=None))
                        return str(study_id)
            study_id = new_id()
            insert_study(db, kind, study_id, recorded, recorded.to_json(), run_id_of(record), created_at)
        return study_id

    def mark_interrupted(self, ended: str = "") -> int:
        """Runs that nobody measures any more become ``interrupted``; returns how many.

        Those are the runs whose process is gone, and the run ``ended``, if this process has stopped measuring it
        without being able to store that.
        """
        running = RUNS.c.status == "running"
        with self._database.read() as db:
            rows = db.execute(select(RUNS.c.id, RUNS.c.owner, RUNS.c.seen_at).where(running)).all()
        here = ended, this_process()
        gone = [
            (run_id, owner) for run_id, owner, seen_at in rows
            if str(run_id).isprintable() and ((run_id, owner) == here or not is_alive(owner, seen_at))
        ]  # fmt: skip
        if not gone:
            return 0
        with self._database.write() as db:
            for run_id, owner in gone:
                same = (RUNS.c.id == run_id) & running
                if db.execute(select(RUNS.c.owner).where(same).with_for_update()).scalar() == owner:  # else resumed
                    db.execute(update(RUNS).where(same).values(status="interrupted", owner=""))
        return len(gone)

    def _change(self, run_id: str, **values: Any) -> None:
        with self._database.write() as db:
            if read_row(db, run_id) is None:
                raise RunNotFound(f"There is no run {run_id} here.")
            db.execute(update(RUNS).where(RUNS.c.id == run_id).values(values))


def _is_measured(row: RowMapping) -> bool:
    return row["status"] == "running" and is_alive(row["owner"], row["seen_at"])


def _there(row: RowMapping | None, kind: str, what: str) -> RowMapping:
    """The row, if it is one of that kind and was not deleted. Raises RunNotFound."""
    if row is None or row["deleted_at"] is not None or row["kind"] != kind:
        raise RunNotFound(f"There is no {what[:80]} here; it was deleted, or measured on another machine.")
    return row


def _recorded(record: Any) -> Any:
    """The record, no longer measured here. A diagnosis takes its label from its experiment."""
    if "label" in type(record).model_fields:
        return record.model_copy(update={"label": "recorded"}) if record.label == "measured" else record
    experiment = record.experiment.model_copy(update={"label": "recorded"})
    return record.model_copy(update={"experiment": experiment})
