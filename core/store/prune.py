"""Removal of old studies. Tagged studies stay, with everything they rest on or belong to."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, delete, select

from core.store.tables import CURVES, RECORDS, ROUNDS, RUNS, TAGS

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
