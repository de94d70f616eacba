"""Base of the store's parts: one database, a record by its id, and the description that lists show of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, update

from core.base.files import read_only as asked_read_only
from core.base.schema import UserError
from core.rounds.run import Run
from core.store.catalogue import put_description
from core.store.database import Database
from core.store.listing import put_words
from core.store.rows import SWEEP, read_row, read_run, read_study
from core.store.tables import RUNS, RunNotFound
from core.studies.kind import Kind
from core.studies.registry import kind_of

R = TypeVar("R")


class Records:
    """Records of studies in one database. Every method raises StoreError."""

    def __init__(self, url: str | None = None, read_only: bool | None = None) -> None:
        self._database = Database(url, asked_read_only() if read_only is None else read_only)

    @property
    def read_only(self) -> bool:
        return self._database.read_only

    @property
    def where(self) -> str:
        """The file, or the database's URL without its password."""
        return self._database.where

    @property
    def notice(self) -> str | None:
        """Message that a damaged file was set aside, with its new path; else None."""
        return self._database.notice

    def close(self) -> None:
        self._database.close()

    def load(self, run_id: str) -> Run:
        """Return the whole run of a sweep. Raises RunNotFound for an unknown or deleted one."""
        with self._database.read() as db:
            return read_run(db, there(read_row(db, run_id), SWEEP, f"run {run_id}"))

    def study(self, kind: Kind[Any, R, Any], study_id: str) -> R:
        """Return the record of a study. Raises RunNotFound if unknown or deleted, UserError if damaged."""
        if kind.streams:
            return self.load(study_id)  # type: ignore[return-value]  # a sweep's record is its run
        with self._database.read() as db:
            row = there(read_row(db, study_id), kind.name, f"study {study_id}")
            return read_study(kind, row)

    def _change(self, run_id: str, **values: Any) -> None:
        with self._database.write() as db:
            known(db, run_id)
            db.execute(update(RUNS).where(RUNS.c.id == run_id).values(values))
            if "name" in values:
                put_words(db, run_id)

    def _describe(self, study_id: str) -> None:
        """Compute and store a study's description; the record is read before the transaction, since that may take a
        while.
        """
        kind, record = None, None
        with suppress(UserError), self._database.read() as db:
            row = known(db, study_id)
            kind = kind_of(row["kind"])
            record = read_run(db, row) if kind.streams else read_study(kind, row)
        with self._database.write() as db:
            put_description(db, study_id, kind, record)


def known(db: Connection, study_id: str) -> RowMapping:
    """Return a study's row. Raises RunNotFound."""
    row = read_row(db, study_id)
    if row is None:
        raise RunNotFound(f"There is no run {study_id} here.")
    return row


def there(row: RowMapping | None, kind: str, what: str) -> RowMapping:
    """Return the row if it has that kind and is not deleted. Raises RunNotFound."""
    if row is None or row["deleted_at"] is not None or row["kind"] != kind:
        raise RunNotFound(f"There is no {what[:80]} here; it was deleted, or measured on another machine.")
    return row
