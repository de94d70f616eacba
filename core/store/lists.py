"""Lists of studies with their tags, names, descriptions and condensed runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import func, select

from core.store.catalogue import undescribed
from core.store.curves import keep_curves, made, read_curves, uncondensed
from core.store.listing import Found, Summary, Wanted, only_readable, put_tags, read_page, read_summaries, read_tags
from core.store.records import Records
from core.store.rows import plain
from core.store.tables import MAX_NAME, RUNS, RunNotFound, StoreError
from core.studies.kind import Kind

if TYPE_CHECKING:
    from core.rounds.answer.condensed import CondensedRun

R = TypeVar("R")


class Lists(Records):
    """Lists, and what they show of each study; no method but :meth:`records` reads a whole record for a list."""

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
            summaries, _ = read_summaries(db, [RUNS.c.deleted_at.is_(None), RUNS.c.id == study_id], 1)
        return summaries[0] if summaries else None

    def find(self, wanted: Wanted, limit: int, offset: int = 0) -> Found:
        """Return one page of the wanted studies, newest first."""
        with self._database.read() as db:
            return read_page(db, wanted, limit, offset)

    def damaged(self) -> tuple[str, ...]:
        """Return a sentence on each row that :meth:`summaries` leaves out."""
        with self._database.read() as db:
            return tuple(read_summaries(db, [RUNS.c.deleted_at.is_(None)])[1])

    def records(self, kind: Kind[Any, R, Any], unreadable: Callable[[str], None]) -> dict[str, R]:
        """Return every readable record of a kind by id, newest first; errors of the others go to ``unreadable``."""
        return only_readable(self.summaries(kind.name), lambda summary: self.study(kind, summary.id), unreadable)

    def tags(self) -> dict[str, int]:
        """Return every tag in use with its number of studies."""
        with self._database.read() as db:
            return read_tags(db)

    def tag(self, study_ids: Iterable[str], add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        """Add tags to studies and remove others."""
        more, less = {plain(tag) for tag in add}, set(remove)
        with self._database.write() as db:
            for study_id in study_ids:
                summaries = read_summaries(db, [RUNS.c.id == study_id], 1)[0]
                if not summaries:
                    raise RunNotFound(f"There is no run {study_id[:64]} here.")
                put_tags(db, study_id, {*summaries[0].tags, *more} - less)

    def rename(self, run_id: str, name: str) -> None:
        clean = plain(name)[:MAX_NAME]
        if not clean:
            raise StoreError("A name needs at least one visible character.")
        self._change(run_id, name=clean)

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

    def curves(self, run_ids: Sequence[str], make_at_most: int | None = None) -> dict[str, CondensedRun]:
        """Return condensed runs, by run; missing ones are made from their rounds, at most ``make_at_most``."""
        with self._database.read() as db:
            stored = read_curves(db, run_ids)
        missing = [run_id for run_id in run_ids if run_id not in stored]
        new = made(missing[:make_at_most], self.load)
        if new and not self.read_only:
            with suppress(StoreError), self._database.write() as db:
                keep_curves(db, new.values())
        return stored | new
