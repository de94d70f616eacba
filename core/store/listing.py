"""Lists of studies: a page of them, those that a search, a kind, a label or a tag asks for, and the tags themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator
from sqlalchemy import ColumnElement, Connection, RowMapping, Select, delete, func, insert, select, update
from sqlalchemy.exc import DataError

from core.evidence import Label, Status
from core.schema import Frozen
from core.store.rows import SEARCHED, SWEEP, naming, plain, searched
from core.store.tables import MAX_TAG, MAX_TAGS, RUNS, TAGS, StoreError

COLUMNS = (
    "id", "name", "created_at", "label", "status", "title", "cells", "rounds", "kind", "run_id", "verdict", "network",
    "machine", "deleted_at",
)  # fmt: skip


def _words(value: str) -> str:
    value.encode()  # UnicodeEncodeError, a ValueError, where the database held no UTF-8
    return value


Words = Annotated[str, AfterValidator(_words)]


class Summary(Frozen):
    """What a list of studies shows; ``cells`` and ``rounds`` are counts, of sweeps only.

    ``kind`` names the kind of study, ``run_id`` the sweep that it belongs to. ``verdict``, ``network`` and ``machine``
    are in words, empty where the study says nothing of them, or nobody has worked them out yet.
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
    tags: tuple[Words, ...] = ()
    deleted_at: Words | None = None


class Wanted(Frozen):
    """What a list is asked for: every word of ``words`` somewhere in name, network, targets, machine, verdict, kind or
    tags; of one ``kind``, ``label`` and ``tag`` where given. ``deleted``: those that can be brought back.
    """

    words: str = ""
    kind: str | None = None
    label: str | None = None
    tag: str | None = None
    deleted: bool = False

    def conditions(self) -> list[ColumnElement[bool]]:
        found = [RUNS.c.deleted_at.isnot(None) if self.deleted else RUNS.c.deleted_at.is_(None)]
        found += [RUNS.c.words.contains(word, autoescape=True) for word in self.words.casefold().split()]
        for column, value in ((RUNS.c.kind, self.kind), (RUNS.c.label, self.label)):
            if value is not None:
                found.append(column == value)
        if self.tag is not None:
            found.append(RUNS.c.id.in_(select(TAGS.c.run_id).where(TAGS.c.tag == self.tag)))
        return found


class Found(NamedTuple):
    """One page of a list: ``total`` counts all pages; ``damaged`` has a sentence for each row that cannot be shown."""

    summaries: tuple[Summary, ...]
    total: int
    damaged: tuple[str, ...]


def read_page(db: Connection, wanted: Wanted, limit: int, offset: int) -> Found:
    conditions = wanted.conditions()
    total = db.execute(select(func.count()).select_from(RUNS).where(*conditions)).scalar() or 0
    summaries, damaged = read_summaries(db, conditions, limit, offset)
    return Found(tuple(summaries), total, tuple(damaged))


def read_summaries(
    db: Connection, conditions: Iterable[ColumnElement[bool]], limit: int | None = None, offset: int = 0
) -> tuple[list[Summary], list[str]]:
    """Newest first; and why others cannot be read."""
    order = RUNS.c.created_at.desc(), RUNS.c.id.desc()
    query = select(*(RUNS.c[name] for name in (*COLUMNS, "target_a", "target_b"))).order_by(*order)
    if limit is None:
        query = query.where(*conditions)
    else:  # first in the index alone, then these rows
        page = select(RUNS.c.id).where(*conditions).order_by(*order).limit(limit).offset(offset)
        query = query.where(RUNS.c.id.in_(db.execute(page).scalars().all()))
    rows = list(_each(db, query))
    tags = _tags_of(db, [row["id"] for row in rows if not isinstance(row, str)] if limit is not None else None)
    found: list[Summary] = []
    damaged: list[str] = []
    for row in rows:
        if isinstance(row, str):
            damaged.append(row)
            continue
        try:
            with naming(row["kind"], row["id"], row["name"]):
                fields = {name: row[name] for name in COLUMNS}
                fields["target_names"] = (row["target_a"], *filter(None, row["target_b"].split("\n")))
                fields["tags"] = tags.get(row["id"], ())
                found.append(Summary.model_validate(fields, strict=True))
        except StoreError as error:
            damaged.append(str(error))
    return found, damaged


def _each(db: Connection, query: Select[Any]) -> Iterator[RowMapping | str]:
    """The rows; where SQLite will not hand one over, since it is too large, a sentence in its place."""
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


def _tags_of(db: Connection, ids: list[str] | None) -> dict[str, tuple[str, ...]]:
    """By study, of all where no ids are given."""
    query = select(TAGS.c.run_id, TAGS.c.tag).order_by(TAGS.c.tag)
    if ids is not None:
        query = query.where(TAGS.c.run_id.in_(ids))
    found: dict[str, tuple[str, ...]] = {}
    for study_id, tag in db.execute(query):
        found[study_id] = (*found.get(study_id, ()), tag)
    return found


def read_tags(db: Connection) -> dict[str, int]:
    """Every tag of a study that was not deleted, and how many have it, in the order of the alphabet."""
    there = select(RUNS.c.id).where(RUNS.c.deleted_at.is_(None))
    query = select(TAGS.c.tag, func.count()).where(TAGS.c.run_id.in_(there)).group_by(TAGS.c.tag)
    return dict(sorted((tag, count) for tag, count in db.execute(query)))


def put_tags(db: Connection, study_id: str, tags: Iterable[str]) -> None:
    """These and no others. Raises StoreError for too many or one that is too long."""
    clean = sorted({plain(tag) for tag in tags} - {""})
    if len(clean) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in clean):
        raise StoreError(f"A study takes up to {MAX_TAGS} tags of up to {MAX_TAG} characters.")
    db.execute(delete(TAGS).where(TAGS.c.run_id == study_id))
    if clean:
        db.execute(insert(TAGS), [{"run_id": study_id, "tag": tag} for tag in clean])
    put_words(db, study_id)


def put_words(db: Connection, study_id: str) -> None:
    """After anything that a search looks through has changed."""
    row = db.execute(select(*(RUNS.c[name] for name in SEARCHED)).where(RUNS.c.id == study_id)).mappings().first()
    if row is not None:
        words = searched(row, _tags_of(db, [study_id]).get(study_id, ()))
        db.execute(update(RUNS).where(RUNS.c.id == study_id).values(words=words))
