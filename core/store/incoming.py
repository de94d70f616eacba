"""Import of records from files: stored as recorded, and only once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import Connection, RowMapping, select, update

from core.schema import UserError
from core.store.catalogue import put_description
from core.store.rows import SWEEP, insert_run, insert_study, kept_as, now, plain, read_row
from core.store.tables import AT_ONCE, RUNS
from core.studies.registry import kind_of
from core.studies.study import new_id, run_id_of
from core.studies.sweep.record import Run


class Imported(NamedTuple):
    """Result of an import: the id, and whether the record is ``new`` here or was ``restored`` from deletion."""

    id: str
    new: bool
    restored: bool = False


def put_run(db: Connection, run: Run) -> Imported:
    """Store a run from a file.

    Measured elsewhere becomes ``recorded``, ``running`` becomes ``interrupted``. A run with the same content as one
    here (apart from name and label) keeps that one's id, deleted or not; other content under a known id gets a new id.
    """
    status = "interrupted" if run.status == "running" else run.status
    run = _recorded(run).model_copy(update={"status": status})
    if (kept := kept_as(db, run)) is not None:
        return put_back(db, kept)
    if read_row(db, run.id) is not None:
        run = run.model_copy(update={"id": new_id()})
    insert_run(db, run)
    put_description(db, run.id, kind_of(SWEEP), run)
    return Imported(run.id, new=True)


def put_study(db: Connection, kind: str, record: Any) -> Imported:
    """Store a study of another kind than a sweep.

    One with the same content as a study here (apart from the label) keeps that one's id, deleted or not.
    """
    recorded, created_at = _recorded(record), record.created_at[:40] or now()
    alike = (RUNS.c.kind == kind) & (RUNS.c.title == plain(record.title))
    for row in db.execute(select(RUNS.c.id, RUNS.c.head, RUNS.c.deleted_at).where(alike)).mappings().all():
        with suppress(UserError):
            if _recorded(type(record).from_json(row["head"])) == recorded:
                return put_back(db, row)
    study_id = new_id()
    insert_study(db, kind, study_id, recorded, recorded.to_json(), run_id_of(record), created_at)
    return Imported(study_id, new=True)


def put_back(db: Connection, row: RowMapping) -> Imported:
    """Return the study as already here, restoring it and the runs deleted with it if it was deleted."""
    study_id, deleted_at = str(row["id"]), row["deleted_at"]
    if deleted_at is not None:
        went = (RUNS.c.part_of == study_id) & (RUNS.c.deleted_at == deleted_at)
        db.execute(update(RUNS).where((RUNS.c.id == study_id) | went).values(deleted_at=None))
    return Imported(study_id, new=False, restored=deleted_at is not None)


def make_parts(db: Connection, study_id: str, run_ids: Sequence[str]) -> None:
    """List these runs only with that study from now on; a run that is part of another study stays there."""
    for start in range(0, len(run_ids), AT_ONCE):
        free = RUNS.c.id.in_(run_ids[start : start + AT_ONCE]) & RUNS.c.part_of.is_(None)
        db.execute(update(RUNS).where(free).values(part_of=study_id))


def _recorded(record: Any) -> Any:
    """Return the record marked as not measured here. A diagnosis takes its label from its experiment."""
    if "label" in type(record).model_fields:
        return record.model_copy(update={"label": "recorded"}) if record.label == "measured" else record
    experiment = record.experiment.model_copy(update={"label": "recorded"})
    return record.model_copy(update={"experiment": experiment})
