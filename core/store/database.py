"""The database under the store: where it is, its version, transactions, and errors as sentences."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, insert, inspect, select, text, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from core.store.tables import META, VERSION, StoreError
from core.store.upgrade import upgrade

STORE_VERSION = 3  # an older store is upgraded when it is opened (core.store.upgrade)
BUSY_TIMEOUT_S = 20.0
OPENING_LOCK = 724_011  # any number, known to every Breakeven that opens the same PostgreSQL database


def data_dir() -> Path:
    """Folder for what Breakeven keeps: BREAKEVEN_DATA_DIR, or the user's data folder."""
    if chosen := os.environ.get("BREAKEVEN_DATA_DIR"):
        return Path(chosen)
    from platformdirs import user_data_dir

    return Path(user_data_dir("breakeven", appauthor=False))


class Database:
    """One database, open and of a version that this program knows. Every method raises StoreError."""

    def __init__(self, url: str | None) -> None:
        self.url = database_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.where = (self.url.database or "") if self.is_sqlite else self.url.render_as_string(hide_password=True)
        with self._errors_as_sentences():
            if self.is_sqlite:
                Path(self.where).parent.mkdir(parents=True, exist_ok=True)
            self._engine = _engine(self.url)
        try:
            self._open()
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._errors_as_sentences(), self._engine.connect() as db:
            yield db

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction, committed at the end of the block."""
        with self._errors_as_sentences(), self._engine.connect() as db:
            db = db.execution_options(breakeven_write=True)
            with db.begin():
                yield db

    def _open(self) -> None:
        """Create the tables in an empty database; refuse one from a newer version, untouched."""
        with self.read() as db:
            version = _stored_version(db)
        if version is None:
            self._create()
        elif version < STORE_VERSION:
            with self.write() as db:
                self._wait_for_others(db)
                if _stored_version(db) == version:  # else another process was faster
                    upgrade(db)
                    db.execute(update(VERSION).values(version=STORE_VERSION))
        elif version > STORE_VERSION:
            raise StoreError(
                f"The runs in {self.where} were written by a newer version of Breakeven (store version {version}, "
                f"this one reads {STORE_VERSION}) and were left alone; update Breakeven, or {self._elsewhere}."
            )

    def _create(self) -> None:
        if self.is_sqlite:
            with self._errors_as_sentences():
                raw = self._engine.raw_connection()
                raw.cursor().execute("PRAGMA journal_mode=WAL")  # readers and a writer side by side; kept in the file
                raw.close()
        with self.write() as db:
            self._wait_for_others(db)
            if _stored_version(db) is not None:
                return  # another process was faster
            if inspect(db).has_table("runs"):
                raise StoreError(f"{self.where} belongs to another program and was left alone; {self._elsewhere}.")
            META.create_all(db)
            db.execute(insert(VERSION).values(version=STORE_VERSION))

    def _wait_for_others(self, db: Connection) -> None:
        """One process at a time makes tables; SQLite's own transaction sees to it."""
        if not self.is_sqlite:
            db.execute(text(f"SELECT pg_advisory_xact_lock({OPENING_LOCK})"))

    @property
    def _elsewhere(self) -> str:
        if self.is_sqlite:
            return "set BREAKEVEN_DATA_DIR to a folder that can be written"
        return "check BREAKEVEN_DATABASE_URL and the rights of its user"

    @contextmanager
    def _errors_as_sentences(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError, OverflowError) as error:
            raise StoreError(self._sentence(error)) from error

    def _sentence(self, error: Exception) -> str:
        """What the user can do about a failure, judged by the database's own message."""
        said = str(getattr(error, "orig", None) or error).lower()
        if any(words in said for words in ("readonly", "read-only", "permission denied")):
            return f"{self.where} is read-only for this user, and what it holds is untouched; {self._elsewhere}."
        if any(words in said for words in ("disk is full", "disk full", "no space left")):
            return f"The disk that holds {self.where} is full; what was stored before is safe. Free space, then go on."
        if "locked" in said:
            return f"{self.where} stayed locked by another process for {BUSY_TIMEOUT_S:g} s; close that one and retry."
        if "not a database" in said or "malformed" in said:
            return f"{self.where} is no Breakeven database or is damaged; move it away, or {self._elsewhere}."
        if "unable to open" in said or "connect" in said or isinstance(error, OSError):
            return f"{self.where} cannot be opened; {self._elsewhere}."
        return f"The database {self.where} failed: {' '.join(said.split())[:200]}."


def database_url(url: str | None) -> URL:
    """``url``, else BREAKEVEN_DATABASE_URL, else SQLite in :func:`data_dir`. Raises StoreError for another kind."""
    chosen = url or os.environ.get("BREAKEVEN_DATABASE_URL")
    if not chosen:
        return URL.create("sqlite", database=str(data_dir() / "runs.sqlite3"))
    try:
        parsed = make_url(chosen)
    except (ArgumentError, ValueError):
        parsed = URL.create("unknown")
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "sqlite" and parsed.database:
        return parsed
    raise StoreError(
        "The database URL (BREAKEVEN_DATABASE_URL) is not understood; accepted is postgresql://user:password@host/name."
    )


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
        except ImportError as error:  # an extra, because most people keep their runs in SQLite
            raise StoreError(
                "PostgreSQL needs the package psycopg, which is missing here; run “pip install 'psycopg[binary]'”."
            ) from error
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _prepare(dbapi: Any, _: Any) -> None:
        dbapi.isolation_level = None  # transactions are begun below, so that a writer takes its lock at once
        dbapi.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(engine, "begin")
    def _begin(db: Connection) -> None:
        writing = db.get_execution_options().get("breakeven_write")
        db.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _stored_version(db: Connection) -> int | None:
    if not inspect(db).has_table("schema_version"):
        return None
    return db.execute(select(func.max(VERSION.c.version))).scalar()
