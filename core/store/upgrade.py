"""Stores of earlier versions become this one's. Nothing stored is lost."""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, Table, inspect, select, text
from sqlalchemy.schema import CreateColumn, DropTable

from core.schema import UserError
from core.store.rows import insert_study
from core.store.tables import META, RUNS
from core.studies.registry import kind_of


def upgrade(db: Connection) -> None:
    """Version 1 knew sweeps only; version 2 kept the other kinds in a table of their own."""
    here = {column["name"] for column in inspect(db).get_columns(RUNS.name)}
    for column in RUNS.columns:
        if column.name not in here:
            _add(db, column)
    META.create_all(db)  # only what is missing
    if inspect(db).has_table("studies"):
        _move_studies(db, Table("studies", MetaData(), autoload_with=db))


def _add(db: Connection, column: Column[str]) -> None:
    described = CreateColumn(column).compile(dialect=db.dialect)
    db.execute(text(f"ALTER TABLE {RUNS.name} ADD COLUMN {described}"))


def _move_studies(db: Connection, studies: Table) -> None:
    for row in db.execute(select(studies)).mappings().all():
        try:
            record = kind_of(row["kind"]).record.from_json(row["json"])
        except UserError:
            record = None  # damaged: it is kept as it is, and says so when it is opened
        insert_study(db, row["kind"], row["id"], record, row["json"], row["run_id"], row["created_at"])
    db.execute(DropTable(studies))
