"""Store of studies: the history as used by pages, the command line and a running sweep."""

from __future__ import annotations

from typing import Any

from sqlalchemy import update

from core.rounds.run import Run
from core.store.catalogue import Imported, make_parts, put_description, put_run, put_study
from core.store.lists import Lists
from core.store.recording import Recording
from core.store.removal import Removal
from core.store.rows import insert_study, now, plain
from core.store.tables import MAX_NAME, RUNS
from core.studies.kind import Kind
from core.studies.registry import kind_of


class Store(Recording, Lists, Removal):
    """Studies of every kind in one database, safe to share between threads and between processes.

    ``url``: PostgreSQL or ``sqlite:///file``; by default BREAKEVEN_DATABASE_URL, else SQLite in the data folder.
    ``read_only``: nothing is written, which the database itself enforces, too; by default set by BREAKEVEN_READ_ONLY.
    Implements :class:`core.studies.store_queue.StudyStore`. Every method raises StoreError.
    """

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
            imported = put_study(db, known, record)
            if imported.new:
                make_parts(db, imported.id, parts)
                put_description(db, imported.id, known, record)
        return imported

    def _parted(self, kind: Kind[Any, Any, Any], record: Any) -> tuple[Any, tuple[str, ...]]:
        """Store the runs inside a record; return the record without them, and the ids of runs that become its parts.

        If the record was not measured here, runs that were here before, on their own, do not become parts.
        """
        about = kind.about(record)
        if not about.runs:
            return record, about.part_ids
        kept = {run.id: self.import_run(run) for run in about.runs}
        record = record.kept_apart({run_id: imported.id for run_id, imported in kept.items()})
        if record.label == "measured":
            return record, kind.about(record).part_ids
        return record, tuple(imported.id for imported in kept.values() if imported.new or imported.restored)
