"""Upgrade of stores from earlier versions. Nothing stored is lost."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, func, inspect, select, text, update
from sqlalchemy.schema import CreateColumn, DropTable

from core.schema import UserError
from core.store.rows import insert_study
from core.store.tables import META, RUNS, make_indices
from core.studies.registry import kind_of


def upgrade(db: Connection) -> None:
    """Upgrade a store from an earlier version.

    Version 1 knew sweeps only, version 2 kept the other kinds in their own table, version 3 had neither tags nor
    descriptions. Descriptions are computed later, study by study (:meth:`core.store.Store.describe`); until then a
    search finds names, titles and targets. Version 4 listed every run separately.
    """
    here = {column["name"] for column in inspect(db).get_columns(RUNS.name)}
    for column in RUNS.columns:
        if column.name not in here:
            _add(db, column)
    META.create_all(db)  # creates only missing tables
    words = func.lower(RUNS.c.name + "\n" + RUNS.c.title + "\n" + RUNS.c.target_a + "\n" + RUNS.c.target_b)
    db.execute(update(RUNS).where(RUNS.c.words == "").values(words=words))
    if inspect(db).has_table("studies"):
        _move_studies(db, Table("studies", MetaData(), autoload_with=db))
    for replaced in ("runs_by_time", "runs_listed"):
        db.execute(text(f"DROP INDEX IF EXISTS {replaced}"))
    make_indices(db)


def _add(db: Connection, column: Column[Any]) -> None:
    described = CreateColumn(column).compile(dialect=db.dialect)
    db.execute(text(f"ALTER TABLE {RUNS.name} ADD COLUMN {described}"))


def _move_studies(db: Connection, studies: Table) -> None:
    for row in db.execute(select(studies)).mappings().all():
        try:
            record = kind_of(row["kind"]).record.from_json(row["json"])
        except UserError:
            record = None  # damaged: it is stored unchanged, and opening it reports the damage
        insert_study(db, row["kind"], row["id"], record, row["json"], row["run_id"], row["created_at"])
    db.execute(DropTable(studies))
