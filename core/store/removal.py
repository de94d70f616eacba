"""Deleting studies: hidden first, to be brought back for a while, then removed for good."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, select, update

from core.store.catalogue import put_back
from core.store.listing import Deletion, read_deletions
from core.store.recording import is_measured
from core.store.records import Records, known
from core.store.rows import SWEEP, now
from core.store.tables import AT_ONCE, CURVES, RECORDS, ROUNDS, RUNS, TAGS, StoreError

KEEP_DELETED = timedelta(days=30)


def kept_until(deleted_at: str) -> datetime:
    """Return the end of the period in which a deletion at that time (ISO 8601) can be undone. Raises ValueError."""
    return datetime.fromisoformat(deleted_at) + KEEP_DELETED


def _ago(time: timedelta) -> str:
    return (datetime.now(UTC) - time).isoformat()


def prunable(db: Connection, before: str) -> list[str]:
    """Return the ids of studies older than ``before`` (ISO 8601, UTC) that may be removed.

    They are not deleted, running or tagged, have no younger or tagged studies, and belong to no tagged run. A fleet run
    takes its machines' runs along, and stays with them if one has a tag.
    """
    tagged = select(TAGS.c.run_id)
    child = RUNS.alias()
    held = select(child.c.run_id).where(
        child.c.run_id.isnot(None),
        child.c.deleted_at.is_(None),
        child.c.id.in_(tagged) | (child.c.created_at >= before),
    )
    conditions: tuple[ColumnElement[bool], ...] = (
        RUNS.c.deleted_at.is_(None),
        RUNS.c.status != "running",
        RUNS.c.created_at < before,
        RUNS.c.id.notin_(tagged),
        RUNS.c.id.notin_(held),
        RUNS.c.run_id.is_(None) | RUNS.c.run_id.notin_(tagged),
        RUNS.c.part_of.is_(None),
        RUNS.c.id.notin_(select(child.c.part_of).where(child.c.part_of.isnot(None), child.c.id.in_(tagged))),
    )
    ids = list(db.execute(select(RUNS.c.id).where(*conditions).order_by(RUNS.c.created_at)).scalars())
    return [*ids, *parts_of(db, ids)]


def parts_of(db: Connection, ids: Sequence[str]) -> list[str]:
    """Return the machines' runs of those ids that are fleet runs."""
    parts: list[str] = []
    for start in range(0, len(ids), AT_ONCE):
        parts += db.execute(select(RUNS.c.id).where(RUNS.c.part_of.in_(ids[start : start + AT_ONCE]))).scalars()
    return parts


def remove(db: Connection, ids: Sequence[str]) -> None:
    """Remove studies for good, with their untagged dependants."""
    tagged = select(TAGS.c.run_id)
    for start in range(0, len(ids), AT_ONCE):
        some = ids[start : start + AT_ONCE]
        for table in (ROUNDS, RECORDS, TAGS, CURVES):
            db.execute(delete(table).where(table.c.run_id.in_(some)))
        db.execute(delete(RUNS).where(RUNS.c.id.in_(some)))
        db.execute(delete(RUNS).where(RUNS.c.run_id.in_(some), RUNS.c.id.notin_(tagged)))


class Removal(Records):
    """Deletions, which can be undone until :func:`kept_until`."""

    def delete(self, *study_ids: str) -> None:
        """Hide studies, all with the same time of deletion; :meth:`undo` brings them back until :func:`kept_until`.

        A run of ours without rounds is removed at once, since there is nothing to bring back. A fleet run takes its
        machines' runs along.
        """
        at, empty = now(), []
        with self._database.write() as db:
            for study_id in study_ids:
                row = known(db, study_id)
                if is_measured(row):
                    raise StoreError("This run is being measured; cancel it before deleting it.")
                if row["kind"] == SWEEP and row["label"] == "measured" and row["rounds"] == 0:
                    empty.append(study_id)
                gone = (RUNS.c.id == study_id) | ((RUNS.c.part_of == study_id) & RUNS.c.deleted_at.is_(None))
                db.execute(update(RUNS).where(gone).values(deleted_at=at))
            remove(db, empty)
        self.purge()

    def restore(self, run_id: str) -> None:
        with self._database.write() as db:
            put_back(db, known(db, run_id))

    def deletions(self, limit: int) -> tuple[Deletion, ...]:
        """Return deletions that can be undone, newest first."""
        with self._database.read() as db:
            return tuple(read_deletions(db, limit))

    def undo(self, at: str) -> int:
        """Bring back everything deleted at that time (:attr:`Deletion.at`); return the number of studies."""
        with self._database.write() as db:
            return db.execute(update(RUNS).where(RUNS.c.deleted_at == at).values(deleted_at=None)).rowcount

    def purge(self, older_than: timedelta = KEEP_DELETED) -> int:
        """Remove for good what was deleted longer ago than that, with untagged studies of those runs; return the
        number.
        """
        with self._database.write() as db:
            ids = db.execute(select(RUNS.c.id).where(RUNS.c.deleted_at < _ago(older_than))).scalars().all()
            remove(db, ids)
        return len(ids)

    def prune(self, older_than: timedelta, for_good: bool = False, dry: bool = False) -> int:
        """Delete studies older than that, unless they, a study of theirs or the run they belong to is tagged.

        With ``for_good`` they cannot be brought back (:meth:`free_room`). With ``dry`` nothing is deleted. Returns the
        number of studies.
        """
        if dry:
            with self._database.read() as db:
                return len(prunable(db, _ago(older_than)))
        at = now()
        with self._database.write() as db:
            ids = prunable(db, _ago(older_than))
            if for_good:
                remove(db, ids)
            for some in (ids[start : start + AT_ONCE] for start in range(0, 0 if for_good else len(ids), AT_ONCE)):
                db.execute(update(RUNS).where(RUNS.c.id.in_(some)).values(deleted_at=at))
        return len(ids)

    def free_room(self) -> None:
        """Return the space of studies removed for good to the disk."""
        self._database.compact()
