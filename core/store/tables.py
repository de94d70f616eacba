"""Tables of the store.

``runs`` (one row per study of any kind with the columns of a list, and ``head``, its JSON, of a sweep without its
records), ``rounds`` (run, index, JSON), ``records`` (processes, setups, cells, traces, loops, energy windows and
warnings: run, kind, key, JSON), ``tags`` (study, tag) and ``schema_version``. Until version 2 studies other than sweeps
had their own table, ``studies``; version 4 added the descriptions for lists, and tags; version 5 ``curves`` (run,
version, JSON: :mod:`core.rounds.answer.condensed`) and ``part_of``.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Connection, Float, Integer, MetaData, String, Table, Text, text

from core.base.schema import UserError
from core.studies.runner import StudyFailed, Unavailable

MAX_NAME = 200
AT_ONCE = 500  # ids per statement
MAX_TAG, MAX_TAGS = 40, 20  # characters per tag; tags per study
MAX_BYTES = 40 * 2**20  # of a record's JSON, and of all JSON of a run: some 130,000 rounds, read in 1 GB of memory

META = MetaData()
VERSION = Table("schema_version", META, Column("version", Integer, primary_key=True, autoincrement=False))
RUNS = Table(
    "runs",
    META,
    Column("id", String(64), primary_key=True),
    Column("kind", String(32), nullable=False, server_default="sweep"),
    Column("run_id", String(64)),  # the sweep that a study belongs to
    Column("part_of", String(64)),  # the fleet run that a machine's run belongs to; only the fleet run is listed
    Column("name", String(MAX_NAME), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("label", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("title", Text, nullable=False),
    Column("target_a", Text, nullable=False),
    Column("target_b", Text, nullable=False),  # the other targets, one per line
    Column("cells", Integer, nullable=False, default=0),
    Column("rounds", Integer, nullable=False, default=0),
    Column("elapsed_s", Float, nullable=False, default=0.0),
    Column("owner", Text, nullable=False, default=""),
    Column("seen_at", String(40), nullable=False),
    Column("deleted_at", String(40)),
    Column("head", Text, nullable=False),
    Column("verdict", Text, nullable=False, server_default=""),
    Column("network", Text, nullable=False, server_default=""),
    Column("machine", Text, nullable=False, server_default=""),
    Column("words", Text, nullable=False, server_default=""),  # searchable text, in lower case
    Column("described", Integer, nullable=False, server_default="0"),  # version of core.store.catalogue that did so
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
TAGS = Table(
    "tags",
    META,
    Column("run_id", String(64), primary_key=True),
    Column("tag", String(MAX_TAG), primary_key=True),
)
CURVES = Table(
    "curves",
    META,
    Column("run_id", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("json", Text, nullable=False),
)
LISTED = {"sqlite": "created_at, id, deleted_at, part_of, kind, label, words", "postgresql": "created_at, id"}
"""Columns of the index for lists. SQLite lists and searches in this index alone: rows hold their whole JSON and are ten
times as long. PostgreSQL stores that JSON outside the rows, and its indices must not hold so much."""


def make_indices(db: Connection) -> None:
    """Create the indices that are missing."""
    for index, on in (
        ("runs_listed", f"runs ({LISTED[db.dialect.name]})"),
        ("runs_by_kind", "runs (kind, deleted_at, created_at, id)"),
        ("runs_by_run", "runs (run_id)"),
        ("runs_by_part", "runs (part_of) WHERE part_of IS NOT NULL"),
        ("runs_by_status", "runs (status)"),
        ("runs_by_description", "runs (described)"),
        ("runs_deleted", "runs (deleted_at) WHERE deleted_at IS NOT NULL"),
        ("tags_by_tag", "tags (tag, run_id)"),
    ):
        db.execute(text(f"CREATE INDEX IF NOT EXISTS {index} ON {on}"))
    if db.dialect.name == "postgresql":
        db.execute(text("ALTER TABLE runs ALTER COLUMN head SET STORAGE EXTERNAL"))


class StoreError(UserError):
    """The store could not do what was asked."""


class StoreUnavailable(StoreError, Unavailable):
    """The database is locked, unreachable, or cannot be written at present."""


class ReadOnly(StoreError):
    """Nothing may be written (BREAKEVEN_READ_ONLY)."""


class Damaged(StoreUnavailable):
    """The file is not a database, or SQLite finds it broken."""


class NotResumed(StoreError, StudyFailed):
    """The run cannot be continued here and now."""


class RunNotFound(StoreError):
    """The run or study does not exist or was deleted."""
