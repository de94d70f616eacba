"""Studies of every kind in the store: whole JSON documents, found by kind and, where they have one, by run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, delete, insert, select

from core.store.database import STUDIES, RunNotFound
from core.store.rows import now

StudyKind = Literal["pipeline", "diagnosis", "frontier", "memory", "noise", "host"]


@dataclass(frozen=True)
class StudySummary:
    id: str
    kind: str
    run_id: str | None
    created_at: str


def add_study(db: Connection, kind: StudyKind, study_id: str, run_id: str | None, body: str) -> None:
    row = {"id": study_id, "kind": kind, "run_id": run_id, "created_at": now(), "json": body}
    db.execute(insert(STUDIES).values(row))


def read_studies(db: Connection, kind: StudyKind, run_id: str | None) -> tuple[StudySummary, ...]:
    """Newest first; of one run where ``run_id`` is given."""
    shown = (STUDIES.c.id, STUDIES.c.kind, STUDIES.c.run_id, STUDIES.c.created_at)
    query = select(*shown).where(STUDIES.c.kind == kind)
    if run_id is not None:
        query = query.where(STUDIES.c.run_id == run_id)
    rows = db.execute(query.order_by(STUDIES.c.created_at.desc(), STUDIES.c.id.desc())).mappings()
    return tuple(StudySummary(**row) for row in rows)


def read_study(db: Connection, study_id: str) -> str:
    """The study's JSON. Raises RunNotFound."""
    body = db.execute(select(STUDIES.c.json).where(STUDIES.c.id == study_id)).scalar()
    if body is None:
        raise RunNotFound(f"There is no study {study_id[:64]} here.")
    return str(body)


def drop_studies(db: Connection, run_id: str) -> None:
    db.execute(delete(STUDIES).where(STUDIES.c.run_id == run_id))
