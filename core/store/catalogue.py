"""Descriptions of studies for lists, stored beside each study so that no list ever reads a record."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, RowMapping, select, update

from core.base.schema import UserError
from core.figures.style import machine_parts, short
from core.rounds.run import Run
from core.rounds.study import new_id
from core.store.curves import put_curve, read_curves
from core.store.listing import put_words
from core.store.rows import SWEEP, insert_run, insert_study, kept_as, now, plain, read_row, read_run
from core.store.tables import AT_ONCE, RUNS
from core.studies.kind import Context, Kind
from core.studies.registry import kind_of

MAX_VERDICT, MAX_WORDS = 240, 160


class Description(NamedTuple):
    verdict: str
    network: str
    machine: str
    targets: tuple[str, ...] = ()
    """In target notation; empty for a sweep, whose row has them already."""


def describe(kind: Kind[Any, Any, Any], record: Any, context: Context) -> Description:
    """Describe a record of that kind; ``context`` is the data its answer needs. Unknown parts are empty."""
    about, environment = kind.about(record), record.environment
    machine = about.machine or (", ".join(machine_parts(environment)) if environment is not None else "")
    return Description(
        _verdict(kind, record, context),
        short(plain(about.network), MAX_WORDS),
        short(plain(machine), MAX_WORDS),
        tuple(map(str, about.targets)),
    )


def _verdict(kind: Kind[Any, Any, Any], record: Any, context: Context) -> str:
    """Return the first sentence of the study's text, shortened if it is long."""
    try:
        text = kind.text(record, kind.answer(record, context), context)
    except UserError:
        return ""
    line = plain(text.partition("\n")[0])
    first, dot, _ = line.partition(". ")
    return short(first + dot.strip(), MAX_VERDICT)


DESCRIBED = 1
"""Incremented when :mod:`core.store.catalogue` changes: studies described by a lower version are described again."""


def undescribed() -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for studies without a current description."""
    return RUNS.c.described < DESCRIBED, RUNS.c.status != "running"


def put_description(db: Connection, study_id: str, kind: Kind[Any, Any, Any] | None, record: Any) -> None:
    """Store the description of a record, left empty if it cannot be read (None)."""

    description = Description("", "", "")
    if kind is not None and record is not None:
        with suppress(Exception):  # a failing description is no reason to lose the record
            about = kind.about(record)
            row = read_row(db, about.run_id) if about.run_id is not None else None
            context = Context(None if row is None else read_run(db, row), curves=read_curves(db, about.part_ids))
            description = describe(kind, record, context)
        put_curve(db, kind, record)
    values = {
        "verdict": description.verdict,
        "network": description.network,
        "machine": description.machine,
        "described": DESCRIBED,
    }
    if description.targets:
        values |= {
            "target_a": plain(description.targets[0]),
            "target_b": "\n".join(map(plain, description.targets[1:])),
        }
    db.execute(update(RUNS).where(RUNS.c.id == study_id).values(values))
    put_words(db, study_id)


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
    run = run.as_recorded().model_copy(update={"status": status})
    if (kept := kept_as(db, run)) is not None:
        return put_back(db, kept)
    if read_row(db, run.id) is not None:
        run = run.model_copy(update={"id": new_id()})
    insert_run(db, run)
    put_description(db, run.id, kind_of(SWEEP), run)
    return Imported(run.id, new=True)


def put_study(db: Connection, kind: Kind[Any, Any, Any], record: Any) -> Imported:
    """Store a study of another kind than a sweep.

    One with the same content as a study here (apart from the label) keeps that one's id, deleted or not.
    """
    recorded, created_at = record.as_recorded(), record.created_at[:40] or now()
    alike = (RUNS.c.kind == kind.name) & (RUNS.c.title == plain(record.title))
    for row in db.execute(select(RUNS.c.id, RUNS.c.head, RUNS.c.deleted_at).where(alike)).mappings().all():
        with suppress(UserError):
            if type(record).from_json(row["head"]).as_recorded() == recorded:
                return put_back(db, row)
    study_id = new_id()
    insert_study(db, kind.name, study_id, recorded, recorded.to_json(), kind.about(record).run_id, created_at)
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
