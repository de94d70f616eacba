"""Old studies make room. What is tagged stays, and whatever a tagged study rests on or belongs to it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, delete, select

from core.store.tables import CURVES, RECORDS, ROUNDS, RUNS, TAGS

AT_ONCE = 500  # ids in one statement


def prunable(db: Connection, before: str) -> list[str]:
    """Ids of what was measured or recorded before that time (ISO 8601, UTC) and is in nobody's way: not deleted, not
    running, without a tag, and neither it nor the run it belongs to has younger or tagged studies. The runs of a fleet
    run's machines go with it, and it stays with them where one has a tag.
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
    """The runs of the machines of those that are fleet runs."""
    found: list[str] = []
    for start in range(0, len(ids), AT_ONCE):
        found += db.execute(select(RUNS.c.id).where(RUNS.c.part_of.in_(ids[start : start + AT_ONCE]))).scalars()
    return found


def remove(db: Connection, ids: Sequence[str]) -> None:
    """For good, with what belongs to them and has no tag."""
    tagged = select(TAGS.c.run_id)
    for start in range(0, len(ids), AT_ONCE):
        some = ids[start : start + AT_ONCE]
        for table in (ROUNDS, RECORDS, TAGS, CURVES):
            db.execute(delete(table).where(table.c.run_id.in_(some)))
        db.execute(delete(RUNS).where(RUNS.c.id.in_(some)))
        db.execute(delete(RUNS).where(RUNS.c.run_id.in_(some), RUNS.c.id.notin_(tagged)))
