"""Database behind the store: its location, version and transactions, with errors as sentences."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    Table,
    create_engine,
    event,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.schema import CreateColumn, DropTable

from core.base.files import READ_ONLY
from core.base.schema import UserError
from core.store.rows import insert_study
from core.store.tables import (
    MAX_BYTES,
    META,
    RUNS,
    VERSION,
    Damaged,
    ReadOnly,
    StoreError,
    StoreUnavailable,
    make_indices,
)
from core.studies.registry import kind_of

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be renamed
    fcntl = None  # type: ignore[assignment]

SHARED_FIRST, SHARED_SIZE = 0x40000002, 510  # bytes that SQLite locks for reading (its file format, “os.h”)
CHECKED_BYTES = 300_000_000
BESIDE = ("-wal", "-shm", "-journal", "")  # the database last: a new one must never find the old one's log


def is_damaged(db: Connection) -> bool:
    """Return True if SQLite finds its own structure broken.

    The check reads the whole file, 0.2 s per 100 MB, so above :data:`CHECKED_BYTES` it is skipped, and damage is
    reported when it is read. Values of a wrong type cost only their row, so they do not count.
    """
    size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    if (db.exec_driver_sql(size).scalar() or 0) > CHECKED_BYTES:
        return False
    problems = db.exec_driver_sql("PRAGMA quick_check(50)").scalars().all()
    return any(line != "ok" and " value in " not in str(line) for line in problems)


def set_aside(path: Path, inode: int) -> Path | None:
    """Rename the file and its companions, and return its new path.

    None if another process has it open, or has replaced the file meanwhile. Raises OSError.
    """
    fd = os.open(path, os.O_RDWR)
    try:
        if fcntl is not None:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, SHARED_SIZE, SHARED_FIRST)
            except OSError:
                return None
        if os.fstat(fd).st_ino != inode or path.stat().st_ino != inode:
            return None
        names = (f"{path.name}.damaged-{datetime.now(UTC):%Y-%m-%d}{'' if n == 1 else f'-{n}'}" for n in count(1))
        aside = next(path.with_name(name) for name in names if not path.with_name(name).exists())
        for end in BESIDE:
            with suppress(FileNotFoundError):
                path.with_name(path.name + end).rename(aside.with_name(aside.name + end))
        return aside
    finally:
        os.close(fd)


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


STORE_VERSION = 5  # an older store is upgraded when it is opened (core.store.database)
BUSY_TIMEOUT_S = 20.0
ASKED_AGAIN_S = 0.01
OPENING_LOCK = 724_011  # any number, the same in every Breakeven that opens this PostgreSQL database
ONLY_READ = "Nothing can be measured, imported, changed or deleted here: this server is read-only."
DAMAGED = "is no Breakeven database or is damaged"
SHOWN_OPTIONS = ("host", "port", "dbname", "user")  # of a URL; other options may hold a password
LASTING = (IntegrityError, DataError, ProgrammingError, NotSupportedError, OverflowError, UnicodeEncodeError)
"""Errors that recur however often the operation is retried."""


def data_dir() -> Path:
    """Return the folder for Breakeven's data: BREAKEVEN_DATA_DIR, or the user's data folder."""
    if chosen := os.environ.get("BREAKEVEN_DATA_DIR"):
        return Path(chosen)
    from platformdirs import user_data_dir

    return Path(user_data_dir("breakeven", appauthor=False))


class Database:
    """An open database in a version that this program knows. Every method raises StoreError.

    A damaged SQLite file of ours is set aside on opening, and a new one begins; ``notice`` reports it.
    """

    def __init__(self, url: str | None, read_only: bool = False) -> None:
        self.url, self.read_only = database_url(url), read_only
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.where = (self.url.database or "") if self.is_sqlite else _shown(self.url)
        self.notice: str | None = None
        self._ours = self.is_sqlite and self.url == _usual_place()
        inode = None
        with self._errors_as_sentences():
            if self.is_sqlite and not read_only:
                inode = _made_private(Path(self.where), self._ours)
            elif self.is_sqlite and not Path(self.where).exists():
                raise ReadOnly(self._nothing_to_read)
            self._engine = _engine(self.url, read_only)
        try:
            try:
                self._open()
            except Damaged as damaged:
                self._set_aside(damaged, inode)
                self._open()
        except StoreError:
            self.close()
            raise

    def _set_aside(self, damaged: Damaged, inode: int | None) -> None:
        """Set the damaged file aside. Raises the given error if the file may not be ours, or is in use."""
        self._engine.dispose()
        with self._errors_as_sentences():
            aside = set_aside(Path(self.where), inode) if self._ours and inode is not None else None
            if aside is None:
                raise damaged
            _made_private(Path(self.where), self._ours)
        self.notice = f"The history in {self.where} was damaged. It was set aside as {aside}, and a new one begins."

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._errors_as_sentences(), self._engine.connect() as db:
            yield db

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that is committed at the end of the block. Raises ReadOnly."""
        if self.read_only:
            raise ReadOnly(ONLY_READ)
        with self._errors_as_sentences(), self._engine.connect() as db:
            db = db.execution_options(breakeven_write=True)
            with db.begin():
                yield db

    def _open(self) -> None:
        """Create the tables in an empty database; refuse one from a newer version and leave it untouched."""
        with self.read() as db:
            version = _stored_version(db)
        if version is None and self.read_only:
            raise ReadOnly(self._nothing_to_read)
        if version is None:
            self._create()
            return
        if not isinstance(version, int):
            raise StoreError(f"{self.where} belongs to another program and was left alone; {self._elsewhere}.")
        if version <= STORE_VERSION and self.is_sqlite:
            self._ours = True
            with self.read() as db:
                if is_damaged(db):
                    raise Damaged(self._sentence(sqlite3.DatabaseError("malformed")))
        if version < STORE_VERSION and self.read_only:
            raise ReadOnly(
                f"{self.where} was written by an older version of Breakeven; open it once without {READ_ONLY}."
            )
        if version < STORE_VERSION:
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
            self._execute_alone("PRAGMA journal_mode=WAL")  # allows reading during a write; persistent in the file
        with self.write() as db:
            self._wait_for_others(db)
            if _stored_version(db) is not None:
                return  # another process was faster
            if inspect(db).get_table_names() if self.is_sqlite else inspect(db).has_table("runs"):
                raise StoreError(f"{self.where} belongs to another program and was left alone; {self._elsewhere}.")
            META.create_all(db)
            make_indices(db)
            db.execute(insert(VERSION).values(version=STORE_VERSION))

    def _wait_for_others(self, db: Connection) -> None:
        """Wait until no other process is making tables; SQLite's own transaction ensures that anyway."""
        if not self.is_sqlite:
            db.execute(text(f"SELECT pg_advisory_xact_lock({OPENING_LOCK})"))

    def compact(self) -> None:
        """Return the space of removed data to the disk; PostgreSQL does so by itself."""
        if self.is_sqlite and not self.read_only:
            self._execute_alone("VACUUM")

    def _execute_alone(self, statement: str) -> None:
        """Execute an SQLite statement outside a transaction, retrying while the file is busy.

        SQLite itself does not wait if another connection holds a lock it needs next (one in eighty, for eight processes
        that open a new file at once).
        """
        end_s = time.monotonic() + BUSY_TIMEOUT_S
        with self._errors_as_sentences(), closing(self._engine.raw_connection()) as raw:
            while True:
                try:
                    raw.cursor().execute(statement)
                    return
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end_s:
                        raise
                time.sleep(ASKED_AGAIN_S)

    @property
    def _nothing_to_read(self) -> str:
        return (
            f"Nothing is kept in {self.where} yet, and this server only reads ({READ_ONLY}); measure something first."
        )

    @property
    def _elsewhere(self) -> str:
        if self.is_sqlite:
            return "set BREAKEVEN_DATA_DIR to a folder that can be written"
        return "check BREAKEVEN_DATABASE_URL and the rights of its user"

    @contextmanager
    def _errors_as_sentences(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError, OverflowError, UnicodeError) as error:
            kind = StoreError if isinstance(error, LASTING) else StoreUnavailable
            sentence = self._sentence(error)
            raise (Damaged if DAMAGED in sentence else kind)(sentence) from error

    def _sentence(self, error: Exception) -> str:
        """Return a sentence on what the user can do about a failure, judged by the database's own message."""
        message = str(getattr(error, "orig", None) or error).lower()
        if any(words in message for words in ("readonly", "read-only", "permission denied")):
            return f"{self.where} is read-only for this user, and what it holds is untouched; {self._elsewhere}."
        if any(words in message for words in ("disk is full", "disk full", "no space left")):
            return f"The disk that holds {self.where} is full; what was stored before is safe. Free space, then go on."
        if "locked" in message or "lock timeout" in message:
            return f"{self.where} stayed locked by another process for {BUSY_TIMEOUT_S:g} s; close that one and retry."
        if "too big" in message:
            return f"A record of more than {MAX_BYTES // 2**20} MiB is neither kept in {self.where} nor read from it."
        if any(words in message for words in ("not a database", "malformed", "unsupported file format", "codec can't")):
            return f"{self.where} {DAMAGED}; move it away, or {self._elsewhere}."
        if "unable to open" in message or "connect" in message or isinstance(error, OSError):
            return f"{self.where} cannot be opened; {self._elsewhere}."
        return f"The database {self.where} failed: {' '.join(message.split())[:200]}."


def database_url(url: str | None) -> URL:
    """Return ``url``, else BREAKEVEN_DATABASE_URL, else SQLite in :func:`data_dir`. Raises StoreError."""
    chosen = url or os.environ.get("BREAKEVEN_DATABASE_URL")
    if not chosen:
        return _usual_place()
    try:
        parsed = make_url(chosen)
    except (ArgumentError, ValueError):
        parsed = URL.create("unknown")
    if parsed.get_backend_name() != "sqlite" and "@" in f"{parsed.host}{parsed.database}":
        raise StoreError("The password in the database URL holds an @; write it as %40 (and a / as %2F).")
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "sqlite" and parsed.database:
        return parsed
    raise StoreError(
        "The database URL (BREAKEVEN_DATABASE_URL) is not understood; accepted is postgresql://user:password@host/name."
    )


def _usual_place() -> URL:
    return URL.create("sqlite", database=str(data_dir() / "runs.sqlite3"))


def _shown(url: URL) -> str:
    """Return a URL without secrets."""
    options = {name: value for name, value in url.query.items() if name in SHOWN_OPTIONS}
    return url.set(query=options).render_as_string(hide_password=True)


def _made_private(path: Path, ours: bool) -> int | None:
    """Make a new file, its folder, and a file in our own folder readable by this user only; return the file's inode."""
    if path.name.startswith(":"):
        return None  # in memory
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # files that SQLite puts beside it get the same mode
    elif ours:
        for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            with suppress(OSError):
                file.chmod(0o600)
    return path.stat().st_ino


def _engine(url: URL, read_only: bool) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            patience = {"connect_timeout": 10, "tcp_user_timeout": int(BUSY_TIMEOUT_S * 1000)}
            engine = create_engine(url, pool_pre_ping=True, connect_args=patience)
        except ImportError as error:  # optional, because most users keep their runs in SQLite
            raise StoreError(
                "PostgreSQL needs the package psycopg, which is missing here; run “pip install 'psycopg[binary]'”."
            ) from error
        event.listen(engine, "connect", _bound_waiting)
        if read_only:
            event.listen(engine, "connect", _only_read)
        return engine
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _prepare(dbapi: Any, _: Any) -> None:
        dbapi.isolation_level = None  # transactions begin below, so that a writer takes its lock at once
        dbapi.execute("PRAGMA synchronous=NORMAL")
        dbapi.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
        dbapi.text_factory = _decoded
        if read_only:
            dbapi.execute("PRAGMA query_only=ON")

    @event.listens_for(engine, "begin")
    def _begin(db: Connection) -> None:
        writing = db.get_execution_options().get("breakeven_write")
        db.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _bound_waiting(dbapi: Any, _: Any) -> None:
    """Limit the wait for a locked PostgreSQL table to that for a SQLite file, and switch off JIT compilation.

    Our queries are short, so compiling them takes longer than it saves.
    """
    dbapi.execute(f"SET lock_timeout = {int(BUSY_TIMEOUT_S * 1000)}")
    dbapi.execute("SET jit = off")
    dbapi.commit()


def _only_read(dbapi: Any, _: Any) -> None:
    """Make PostgreSQL itself refuse writes by this program."""
    dbapi.execute("SET default_transaction_read_only = on")
    dbapi.commit()


def _decoded(raw: bytes) -> str:
    """Decode text, keeping invalid UTF-8: its row is refused later, without costing the others in the list."""
    return raw.decode("utf-8", "surrogateescape")


def _stored_version(db: Connection) -> int | None:
    if not inspect(db).has_table("schema_version"):
        return None
    return db.execute(select(func.max(VERSION.c.version))).scalar()
