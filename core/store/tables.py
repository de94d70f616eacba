"""The tables of the store.

``runs`` (one row a study of any kind with what a list shows, and ``head``, its JSON: of a sweep without its
records), ``rounds`` (run, index, JSON), ``records`` (processes, setups, cells, traces, loops, energy windows and
warnings: run, kind, key, JSON) and ``schema_version``. Until version 2 other studies than sweeps had a table of their
own, ``studies``.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, String, Table, Text

from core.schema import UserError
from core.studies.runner import StudyFailed, Unavailable

MAX_NAME = 200
MAX_BYTES = 40 * 2**20  # of the JSON of one record, and of all of a run: some 130,000 rounds, read in 1 GB

META = MetaData()
VERSION = Table("schema_version", META, Column("version", Integer, primary_key=True, autoincrement=False))
RUNS = Table(
    "runs",
    META,
    Column("id", String(64), primary_key=True),
    Column("kind", String(32), nullable=False, server_default="sweep"),
    Column("run_id", String(64)),  # of the sweep that a study belongs to
    Column("name", String(MAX_NAME), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("label", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("title", Text, nullable=False),
    Column("target_a", Text, nullable=False),
    Column("target_b", Text, nullable=False),  # the others, one a line
    Column("cells", Integer, nullable=False, default=0),
    Column("rounds", Integer, nullable=False, default=0),
    Column("elapsed_s", Float, nullable=False, default=0.0),
    Column("owner", Text, nullable=False, default=""),
    Column("seen_at", String(40), nullable=False),
    Column("deleted_at", String(40)),
    Column("head", Text, nullable=False),
    Index("runs_by_time", "created_at"),
)
ROUNDS = Table(
    "rounds",
    META,
    Column("run_id", String(64), primary_key=True),
    Column("index", BigInteger, primary_key=True, autoincrement=False),
    Column("json", Text, nullable=False),
)
RECORDS = Table(
    "records",
    META,
    Column("run_id", String(64), primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("json", Text, nullable=False),
)


class StoreError(UserError):
    """The store could not do what it was asked."""


class StoreUnavailable(StoreError, Unavailable):
    """The database is locked, away, or cannot be written at present."""


class Damaged(StoreUnavailable):
    """The file is no database, or SQLite finds it broken."""


class NotResumed(StoreError, StudyFailed):
    """The run must not be measured on here and now."""


class RunNotFound(StoreError):
    """No such run or study, or it was deleted."""
