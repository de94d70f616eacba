"""Descriptions of studies for lists, stored beside each study so that no list ever reads a record."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sqlalchemy import ColumnElement, Connection, update

from core.store.curves import put_curve, read_curves
from core.store.listing import put_words
from core.store.rows import plain, read_row, read_run
from core.store.tables import RUNS
from core.studies.kind import Context, Kind
from core.studies.study import part_ids_of, run_id_of

DESCRIBED = 1
"""Incremented when :mod:`core.store.describe` changes: studies described by a lower version are described again."""


def undescribed() -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for studies without a current description."""
    return RUNS.c.described < DESCRIBED, RUNS.c.status != "running"


def put_description(db: Connection, study_id: str, kind: Kind[Any, Any, Any] | None, record: Any) -> None:
    """Store the description of a record, left empty if it cannot be read (None)."""
    from core.store.describe import Description, describe  # loads what draws figures

    found = Description("", "", "")
    if kind is not None and record is not None:
        with suppress(Exception):  # a failing description is no reason to lose the record
            run_id = run_id_of(record)
            row = read_row(db, run_id) if run_id is not None else None
            context = Context(None if row is None else read_run(db, row), curves=read_curves(db, part_ids_of(record)))
            found = describe(kind, record, context)
        put_curve(db, kind, record)
    values = {
        "verdict": found.verdict, "network": found.network, "machine": found.machine, "described": DESCRIBED,
    }  # fmt: skip
    if found.targets:
        values |= {"target_a": plain(found.targets[0]), "target_b": "\n".join(map(plain, found.targets[1:]))}
    db.execute(update(RUNS).where(RUNS.c.id == study_id).values(values))
    put_words(db, study_id)
