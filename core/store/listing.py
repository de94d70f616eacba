"""Lists of studies: pages of them, filtered by search, kind, label or tag, and the tags themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator
from sqlalchemy import ColumnElement, Connection, RowMapping, Select, case, delete, func, insert, select, update
from sqlalchemy.exc import DataError

from core.base.evidence import Label, Status
from core.base.schema import Frozen, UserError
from core.store.rows import SEARCHED, SWEEP, naming, plain, searched
from core.store.tables import AT_ONCE, MAX_TAG, MAX_TAGS, RUNS, TAGS, StoreError

R = TypeVar("R")
COLUMNS = (
    "id", "name", "created_at", "label", "status", "title", "cells", "rounds", "kind", "run_id", "verdict", "network",
    "machine", "seen_at",
)  # fmt: skip
NEWEST = RUNS.c.created_at.desc(), RUNS.c.id.desc()


def _words(value: str) -> str:
    value.encode()  # raises UnicodeEncodeError, a ValueError, if the database held invalid UTF-8
    return value


Words = Annotated[str, AfterValidator(_words)]


class Summary(Frozen):
    """Entry of a list of studies; ``cells`` and ``rounds`` are counts, of sweeps only.

    ``kind`` names the kind of study, ``run_id`` the sweep that it belongs to. ``verdict``, ``network`` and ``machine``
    are in words, empty if the study has none or is not described yet. ``seen_at`` is the time of its last new record,
    which tells when a loaded one is out of date.
    """

    id: Words
    name: Words
    created_at: Words
    label: Label
    status: Status
    title: Words
    target_names: tuple[Words, ...]
    cells: int
    rounds: int
    kind: Words = SWEEP
    run_id: Words | None = None
    verdict: Words = ""
    network: Words = ""
    machine: Words = ""
    seen_at: str = ""
    tags: tuple[Words, ...] = ()


def only_readable(
    summaries: Iterable[Summary], load: Callable[[Summary], R], unreadable: Callable[[str], None] = lambda _: None
) -> dict[str, R]:
    """Load each study and return the records by id; the error of one that fails goes to ``unreadable``."""
    records: dict[str, R] = {}
    for summary in summaries:
        try:
            records[summary.id] = load(summary)
        except (UserError, OSError) as error:
            unreadable(str(error))
    return records


class Wanted(Frozen):
    """Filter of a list.

    Every word of ``words`` must occur in name, network, targets, machine, verdict, kind or tags; ``kind``, ``label``
    and ``tag`` must match if given. ``part_of``: the runs of one fleet run's machines, which are in no other list.
    """

    words: str = ""
    kind: str | None = None
    label: str | None = None
    tag: str | None = None
    part_of: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        conditions: list[ColumnElement[bool]] = [RUNS.c.deleted_at.is_(None)]
        conditions.append(RUNS.c.part_of.is_(None) if self.part_of is None else RUNS.c.part_of == self.part_of)
        conditions += [RUNS.c.words.contains(word, autoescape=True) for word in self.words.casefold().split()]
        for column, value in ((RUNS.c.kind, self.kind), (RUNS.c.label, self.label)):
            if value is not None:
                conditions.append(column == value)
        if self.tag is not None:
            conditions.append(RUNS.c.id.in_(select(TAGS.c.run_id).where(TAGS.c.tag == self.tag)))
        return conditions


class Found(NamedTuple):
    """One page of a list: ``total`` counts all pages; ``damaged`` has a sentence per row that cannot be shown."""

    summaries: tuple[Summary, ...]
    total: int
    damaged: tuple[str, ...]


def read_page(db: Connection, wanted: Wanted, limit: int, offset: int) -> Found:
    conditions = wanted.conditions()
    page = select(RUNS.c.id).where(*conditions).order_by(*NEWEST).limit(limit).offset(offset)
    ids = db.execute(page).scalars().all()  # answered by an index alone
    sound = [study_id for study_id in ids if _is_text(study_id)]
    summaries, damaged = read_summaries(db, [RUNS.c.id.in_(sound)]) if sound else ([], [])
    damaged += ["A stored study cannot be read: its id is no text."] * (len(ids) - len(sound))
    ended = len(ids) < limit and (ids or not offset)
    total = offset + len(ids) if ended else _count(db, conditions)
    return Found(tuple(summaries), total, tuple(damaged))


def _count(db: Connection, conditions: Sequence[ColumnElement[bool]]) -> int:
    """Count matching studies; without a filter, as the difference of two counts that need no row."""

    def count(*those: ColumnElement[bool]) -> int:
        return db.execute(select(func.count()).select_from(RUNS).where(*those)).scalar() or 0

    return count(*conditions) if len(conditions) > 1 else count() - count(RUNS.c.deleted_at.isnot(None))


def read_summaries(
    db: Connection, conditions: Iterable[ColumnElement[bool]], limit: int | None = None
) -> tuple[list[Summary], list[str]]:
    """Return summaries, newest first, and the errors of rows that cannot be read."""
    query = select(*(RUNS.c[name] for name in (*COLUMNS, "target_a", "target_b"))).order_by(*NEWEST).where(*conditions)
    rows = list(_each(db, query if limit is None else query.limit(limit)))
    tags = _tags_of(db, [row["id"] for row in rows if not isinstance(row, str) and _is_text(row["id"])])
    summaries: list[Summary] = []
    damaged: list[str] = []
    for row in rows:
        if isinstance(row, str):
            damaged.append(row)
            continue
        try:
            with naming(row["kind"], row["id"], row["name"]):
                fields = {name: row[name] for name in COLUMNS}
                fields["target_names"] = (row["target_a"], *filter(None, row["target_b"].split("\n")))
                fields["seen_at"] = plain(str(row["seen_at"]))
                fields["tags"] = tags.get(row["id"], ())
                summaries.append(Summary.model_validate(fields, strict=True))
        except StoreError as error:
            damaged.append(str(error))
    return summaries, damaged


def _each(db: Connection, query: Select[Any]) -> Iterator[RowMapping | str]:
    """Yield the rows, with a sentence in place of one that is too large for SQLite to return."""
    try:
        yield from db.execute(query).mappings().all()
        return
    except DataError:
        ids = db.execute(query.with_only_columns(RUNS.c.id)).scalars().all()
    for study_id in ids:
        try:
            yield from db.execute(query.where(RUNS.c.id == study_id)).mappings().all()
        except DataError:
            yield f"The stored study {plain(str(study_id))[:64]} cannot be read. It is too large."


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def _tags_of(db: Connection, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the tags of each study."""
    query = select(TAGS.c.run_id, TAGS.c.tag).order_by(TAGS.c.tag)
    if len(ids) <= AT_ONCE:
        query = query.where(TAGS.c.run_id.in_(ids))
    tags: dict[str, tuple[str, ...]] = {}
    for study_id, tag in db.execute(query):
        tags[study_id] = (*tags.get(study_id, ()), tag)
    return tags


def read_tags(db: Connection) -> dict[str, int]:
    """Return every tag of studies that are not deleted, with its number of studies, in alphabetical order."""
    joined = TAGS.join(RUNS, RUNS.c.id == TAGS.c.run_id)
    query = select(TAGS.c.tag, func.count()).select_from(joined).where(RUNS.c.deleted_at.is_(None))
    return dict(sorted((tag, count) for tag, count in db.execute(query.group_by(TAGS.c.tag))))


class Deletion(NamedTuple):
    """A deletion: its time, the number of studies, and the name of one of them."""

    at: str
    studies: int
    name: str


def read_deletions(db: Connection, limit: int) -> list[Deletion]:
    """Return deletions, newest first. Runs deleted with their fleet run are not counted beside it."""
    at, alone = RUNS.c.deleted_at, case((RUNS.c.part_of.is_(None), RUNS.c.name))
    name = func.coalesce(func.min(alone), func.min(RUNS.c.name))
    query = select(at, func.count(alone), func.count(), name).where(at.isnot(None)).group_by(at)
    return [
        Deletion(at, own or every, plain(str(name)))
        for at, own, every, name in db.execute(query.order_by(at.desc()).limit(limit))
    ]


def put_tags(db: Connection, study_id: str, tags: Iterable[str]) -> None:
    """Replace a study's tags. Raises StoreError for too many tags or one that is too long."""
    clean = sorted({plain(tag) for tag in tags} - {""})
    if len(clean) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in clean):
        raise StoreError(f"A study takes up to {MAX_TAGS} tags of up to {MAX_TAG} characters.")
    db.execute(delete(TAGS).where(TAGS.c.run_id == study_id))
    if clean:
        db.execute(insert(TAGS), [{"run_id": study_id, "tag": tag} for tag in clean])
    put_words(db, study_id)


def put_words(db: Connection, study_id: str) -> None:
    """Update the searchable text, after any part of it has changed."""
    row = db.execute(select(*(RUNS.c[name] for name in SEARCHED)).where(RUNS.c.id == study_id)).mappings().first()
    if row is not None:
        words = searched(dict(row), _tags_of(db, [study_id]).get(study_id, ()))
        db.execute(update(RUNS).where(RUNS.c.id == study_id).values(words=words))
