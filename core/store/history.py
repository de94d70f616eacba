"""Store of studies: the history as used by pages, the command line and a running sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, RowMapping, func, select, update

from core.base.evidence import Status
from core.base.files import read_only as asked_read_only
from core.base.schema import UserError
from core.rounds.run import Run, RunRecord
from core.store.catalogue import Imported, make_parts, put_back, put_description, put_run, put_study, undescribed
from core.store.curves import keep_curves, made, read_curves, uncondensed
from core.store.database import Database
from core.store.listing import (
    Deletion,
    Found,
    Summary,
    Wanted,
    only_readable,
    put_tags,
    put_words,
    read_deletions,
    read_page,
    read_summaries,
    read_tags,
)
from core.store.rows import (
    SWEEP,
    head_of,
    insert_run,
    insert_study,
    now,
    plain,
    put_records,
    read_row,
    read_run,
    read_study,
)
from core.store.tables import MAX_NAME, RUNS, NotResumed, RunNotFound, StoreError
from core.studies.kind import Kind
from core.studies.registry import kind_of

if TYPE_CHECKING:
    from core.rounds.answer.condensed import CondensedRun
import os

import psutil
from sqlalchemy import ColumnElement, delete

from core.machine.lock import this_host
from core.store.tables import CURVES, RECORDS, ROUNDS, TAGS

AT_ONCE = 500  # ids per statement


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
    found: list[str] = []
    for start in range(0, len(ids), AT_ONCE):
        found += db.execute(select(RUNS.c.id).where(RUNS.c.part_of.in_(ids[start : start + AT_ONCE]))).scalars()
    return found


def remove(db: Connection, ids: Sequence[str]) -> None:
    """Remove studies for good, with their untagged dependants."""
    tagged = select(TAGS.c.run_id)
    for start in range(0, len(ids), AT_ONCE):
        some = ids[start : start + AT_ONCE]
        for table in (ROUNDS, RECORDS, TAGS, CURVES):
            db.execute(delete(table).where(table.c.run_id.in_(some)))
        db.execute(delete(RUNS).where(RUNS.c.id.in_(some)))
        db.execute(delete(RUNS).where(RUNS.c.run_id.in_(some), RUNS.c.id.notin_(tagged)))


# A process on another machine cannot be checked; a sweep that recorded nothing for this long is over.
SILENT_ELSEWHERE = timedelta(hours=1)


def this_process() -> str:
    return f"{this_host()} {os.getpid()} {psutil.Process().create_time():.2f}"


def is_alive(owner: str, seen_at: str) -> bool:
    """Return True if ``owner`` still runs or, on another machine, recorded anything recently.

    False if a damaged row tells neither.
    """
    try:
        host, _, process = owner.partition(" ")
        if host and host != this_host():
            return datetime.now(UTC) - datetime.fromisoformat(seen_at) < SILENT_ELSEWHERE
        pid, _, started = process.partition(" ")
        return abs(psutil.Process(int(pid)).create_time() - float(started)) < 1.0
    except (ValueError, TypeError, AttributeError, OverflowError, psutil.Error):
        return False


KEEP_DELETED = timedelta(days=30)
R = TypeVar("R")


class Store:
    """Studies of every kind in one database, safe to share between threads and between processes.

    ``url``: PostgreSQL or ``sqlite:///file``; by default BREAKEVEN_DATABASE_URL, else SQLite in the data folder.
    ``read_only``: nothing is written, which the database itself enforces, too; by default set by BREAKEVEN_READ_ONLY.
    Implements :class:`core.studies.store_queue.StudyStore`. Every method raises StoreError.
    """

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

    def begin(self, run: Run) -> None:
        """Store a new run, or resume a stopped one (same id), with status ``running`` and the plan to continue.

        A stopped run must have been measured here, and no other living process may be measuring it. Raises NotResumed.
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
            if row is not None:
                started["head"] = head_of(run)
            db.execute(update(RUNS).where(RUNS.c.id == run.id).values(started))

    def record(self, run_id: str, records: tuple[RunRecord, ...]) -> None:
        """Commit records at once; a Cell, TracedCell, LoopCost or Warning replaces the one with the same key."""
        with self._database.write() as db:
            if read_row(db, run_id) is None:
                raise RunNotFound(f"There is no run {run_id} to add rounds to.")
            put_records(db, run_id, records)

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:
        """Mark the run as ended, and compute its description for lists."""
        self._change(run_id, status=status, elapsed_s=elapsed_s, owner="", seen_at=now(), described=0)
        with suppress(StoreError):  # :meth:`describe` tries again
            self._describe(run_id)

    def load(self, run_id: str) -> Run:
        """Return the whole run of a sweep. Raises RunNotFound for an unknown or deleted one."""
        with self._database.read() as db:
            return read_run(db, _there(read_row(db, run_id), SWEEP, f"run {run_id}"))

    def study(self, kind: Kind[Any, R, Any], study_id: str) -> R:
        """Return the record of a study. Raises RunNotFound if unknown or deleted, UserError if damaged."""
        if kind.streams:
            return self.load(study_id)  # type: ignore[return-value]  # a sweep's record is its run
        with self._database.read() as db:
            row = _there(read_row(db, study_id), kind.name, f"study {study_id}")
            return read_study(kind, row)

    def summaries(
        self, kind: str | None = None, run_id: str | None = None, newest: int | None = None
    ) -> tuple[Summary, ...]:
        """Return studies that are not deleted, newest first, filtered by kind and run if given; at most ``newest``.

        No record is read. Damaged rows are left out; :meth:`damaged` lists them.
        """
        conditions = Wanted(kind=kind).conditions()
        if run_id is not None:
            conditions.append(RUNS.c.run_id == run_id)
        with self._database.read() as db:
            return tuple(read_summaries(db, conditions, newest)[0])

    def summary(self, study_id: str) -> Summary | None:
        """Return the summary of a study; None if it is deleted, missing or cannot be listed."""
        with self._database.read() as db:
            found, _ = read_summaries(db, [RUNS.c.deleted_at.is_(None), RUNS.c.id == study_id], 1)
        return found[0] if found else None

    def find(self, wanted: Wanted, limit: int, offset: int = 0) -> Found:
        """Return one page of the wanted studies, newest first."""
        with self._database.read() as db:
            return read_page(db, wanted, limit, offset)

    def damaged(self) -> tuple[str, ...]:
        """Return a sentence on each row that :meth:`summaries` leaves out."""
        with self._database.read() as db:
            return tuple(read_summaries(db, [RUNS.c.deleted_at.is_(None)])[1])

    def tags(self) -> dict[str, int]:
        """Return every tag in use with its number of studies."""
        with self._database.read() as db:
            return read_tags(db)

    def tag(self, study_ids: Iterable[str], add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        """Add tags to studies and remove others."""
        more, less = {plain(tag) for tag in add}, set(remove)
        with self._database.write() as db:
            for study_id in study_ids:
                found = read_summaries(db, [RUNS.c.id == study_id], 1)[0]
                if not found:
                    raise RunNotFound(f"There is no run {study_id[:64]} here.")
                put_tags(db, study_id, {*found[0].tags, *more} - less)

    def undescribed(self) -> int:
        """Return the number of studies without a current description."""
        with self._database.read() as db:
            return db.execute(select(func.count()).select_from(RUNS).where(*undescribed())).scalar() or 0

    def describe(self, at_most: int = 1) -> int:
        """Describe the newest studies that lack it, then make condensed runs that fleets lack; return the number.

        A damaged study gets an empty description.
        """
        newest = select(RUNS.c.id).where(*undescribed()).order_by(RUNS.c.created_at.desc()).limit(at_most)
        with self._database.read() as db:
            ids = db.execute(newest).scalars().all()
            bare = [] if ids else uncondensed(db, at_most)
        for study_id in ids:
            self._describe(study_id)
        return len(ids) + len(self.curves(bare))

    def records(self, kind: Kind[Any, R, Any], unreadable: Callable[[str], None]) -> dict[str, R]:
        """Return every readable record of a kind by id, newest first; errors of the others go to ``unreadable``."""
        return only_readable(self.summaries(kind.name), lambda summary: self.study(kind, summary.id), unreadable)

    def rename(self, run_id: str, name: str) -> None:
        clean = plain(name)[:MAX_NAME]
        if not clean:
            raise StoreError("A name needs at least one visible character.")
        self._change(run_id, name=clean)

    def delete(self, *study_ids: str) -> None:
        """Hide studies, all with the same time of deletion; :meth:`undo` brings them back until :func:`kept_until`.

        A run of ours without rounds is removed at once, since there is nothing to bring back. A fleet run takes its
        machines' runs along.
        """
        at, empty = now(), []
        with self._database.write() as db:
            for study_id in study_ids:
                row = _known(db, study_id)
                if _is_measured(row):
                    raise StoreError("This run is being measured; cancel it before deleting it.")
                if row["kind"] == SWEEP and row["label"] == "measured" and row["rounds"] == 0:
                    empty.append(study_id)
                gone = (RUNS.c.id == study_id) | ((RUNS.c.part_of == study_id) & RUNS.c.deleted_at.is_(None))
                db.execute(update(RUNS).where(gone).values(deleted_at=at))
            remove(db, empty)
        self.purge()

    def restore(self, run_id: str) -> None:
        with self._database.write() as db:
            put_back(db, _known(db, run_id))

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

    def add(self, run: Run) -> str:
        """Store an imported run and return its id, as :meth:`import_run` does."""
        return self.import_run(run).id

    def import_run(self, run: Run) -> Imported:
        """Store a run from a file, as :func:`core.store.catalogue.put_run` describes."""
        with self._database.write() as db:
            return put_run(db, run)

    def add_study(self, kind: str, study_id: str, record: Any, name: str | None = None) -> None:
        """Store a finished study of another kind than a sweep, by default under its title.

        The runs of a fleet run's machines are stored separately, and listed only with it from then on.
        """
        known = kind_of(kind)
        record, parts = self._parted(known, record)
        with self._database.write() as db:
            insert_study(db, kind, study_id, record, record.to_json(), known.about(record).run_id, now())
            if name is not None and plain(name):
                db.execute(update(RUNS).where(RUNS.c.id == study_id).values(name=plain(name)[:MAX_NAME]))
            make_parts(db, study_id, parts)
            put_description(db, study_id, known, record)

    def import_study(self, kind: str, record: Any) -> Imported:
        """Store a study from a file, of another kind than a sweep.

        One with the same content as a study here (apart from the label) keeps that one's id, deleted or not.
        """
        known = kind_of(kind)
        record, parts = self._parted(known, record)
        with self._database.write() as db:
            found = put_study(db, known, record)
            if found.new:
                make_parts(db, found.id, parts)
                put_description(db, found.id, known, record)
        return found

    def _parted(self, kind: Kind[Any, Any, Any], record: Any) -> tuple[Any, tuple[str, ...]]:
        """Store the runs inside a record; return the record without them, and the ids of runs that become its parts.

        If the record was not measured here, runs that were here before, on their own, do not become parts.
        """
        about = kind.about(record)
        if not about.runs:
            return record, about.part_ids
        kept = {run.id: self.import_run(run) for run in about.runs}
        record = record.kept_apart({run_id: found.id for run_id, found in kept.items()})
        if record.label == "measured":
            return record, kind.about(record).part_ids
        return record, tuple(found.id for found in kept.values() if found.new or found.restored)

    def curves(self, run_ids: Sequence[str], make_at_most: int | None = None) -> dict[str, CondensedRun]:
        """Return condensed runs, by run; missing ones are made from their rounds, at most ``make_at_most``."""
        with self._database.read() as db:
            found = read_curves(db, run_ids)
        missing = [run_id for run_id in run_ids if run_id not in found]
        new = made(missing[:make_at_most], self.load)
        if new and not self.read_only:
            with suppress(StoreError), self._database.write() as db:
                keep_curves(db, new.values())
        return found | new

    def mark_interrupted(self, ended: str = "") -> int:
        """Mark runs that nobody measures any more as ``interrupted``; return the number.

        Those are runs whose process is gone, and the run ``ended``, if this process stopped measuring it but could not
        store that.
        """
        if self.read_only:
            return 0
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
            _known(db, run_id)
            db.execute(update(RUNS).where(RUNS.c.id == run_id).values(values))
            if "name" in values:
                put_words(db, run_id)

    def _describe(self, study_id: str) -> None:
        """Compute and store a study's description; the record is read before the transaction, since that may take a
        while.
        """
        kind, record = None, None
        with suppress(UserError), self._database.read() as db:
            row = _known(db, study_id)
            kind = kind_of(row["kind"])
            record = read_run(db, row) if kind.streams else read_study(kind, row)
        with self._database.write() as db:
            put_description(db, study_id, kind, record)


def _is_measured(row: RowMapping) -> bool:
    return row["status"] == "running" and is_alive(row["owner"], row["seen_at"])


def kept_until(deleted_at: str) -> datetime:
    """Return the end of the period in which a deletion at that time (ISO 8601) can be undone. Raises ValueError."""
    return datetime.fromisoformat(deleted_at) + KEEP_DELETED


def _ago(time: timedelta) -> str:
    return (datetime.now(UTC) - time).isoformat()


def _known(db: Connection, study_id: str) -> RowMapping:
    """Return a study's row. Raises RunNotFound."""
    row = read_row(db, study_id)
    if row is None:
        raise RunNotFound(f"There is no run {study_id} here.")
    return row


def _there(row: RowMapping | None, kind: str, what: str) -> RowMapping:
    """Return the row if it has that kind and is not deleted. Raises RunNotFound."""
    if row is None or row["deleted_at"] is not None or row["kind"] != kind:
        raise RunNotFound(f"There is no {what[:80]} here; it was deleted, or measured on another machine.")
    return row
