"""Conversion of studies to rows and back. JSON is that of the records' own classes, validated on reading."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Connection, RowMapping, case, func, insert, select, update

from core.base.evidence import Process, Setup, Warning
from core.base.schema import UserError, explain
from core.rounds.run import Cell, EnergyWindow, LoopCost, Round, Run, RunRecord
from core.store.tables import MAX_BYTES, MAX_NAME, RECORDS, ROUNDS, RUNS, StoreError
from core.studies.kind import Kind
from core.traces.record import TracedCell

KINDS: dict[type, str] = {
    Process: "processes",
    Setup: "setups",
    Cell: "cells",
    Warning: "warnings",
    TracedCell: "traces",
    EnergyWindow: "energy",
    LoopCost: "loops",
}
SWEEP = "sweep"
R = TypeVar("R")
SEARCHED = ("name", "title", "target_a", "target_b", "kind", "verdict", "network", "machine")
RECORD_FIELDS = {"rounds", *KINDS.values()}


def read_row(db: Connection, run_id: str) -> RowMapping | None:
    """Return the row, without its ``head`` if that is too large."""
    head = case((func.length(RUNS.c.head) <= MAX_BYTES, RUNS.c.head), else_=None).label("head")
    columns = (column for column in RUNS.c if column is not RUNS.c.head)
    return db.execute(select(*columns, head).where(RUNS.c.id == run_id)).mappings().first()


@contextmanager
def naming(kind: object, study_id: object, name: object = "") -> Iterator[None]:
    """Re-raise any failure on a damaged row as a StoreError that names the row."""
    try:
        yield
    except ValidationError as error:
        why = explain(error)
    except UserError as error:
        why = str(error)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"[:200]
    else:
        return
    noun = "run" if kind == SWEEP else "study"
    called = f" (“{plain(str(name))[:80]}”)" if name else ""
    raise StoreError(f"The stored {noun} {plain(str(study_id))[:64]}{called} cannot be read. {plain(why)}")


def read_study(kind: Kind[Any, R, Any], row: RowMapping) -> R:
    """Return the record of a row of another kind than a sweep. Raises StoreError if it is damaged."""
    with naming(row["kind"], row["id"], row["name"]):
        record: R = kind.record.from_json(_head(row))
    return record


def read_run(db: Connection, row: RowMapping) -> Run:
    """Return the run of a row, assembled from its parts as JSON and validated once. Raises StoreError if damaged."""
    with naming(row["kind"], row["id"], row["name"]):
        sizes = (select(func.sum(func.length(t.c.json))).where(t.c.run_id == row["id"]) for t in (ROUNDS, RECORDS))
        _check_size(sum(db.execute(size).scalar() or 0 for size in sizes))
        parts: dict[str, list[str]] = {field: [] for field in sorted(RECORD_FIELDS)}
        in_order = select(ROUNDS.c.json).where(ROUNDS.c.run_id == row["id"]).order_by(ROUNDS.c.index)
        parts["rounds"] += db.execute(in_order).scalars()
        placed = select(RECORDS.c.kind, RECORDS.c.json).where(RECORDS.c.run_id == row["id"])
        for kind, body in db.execute(placed.order_by(RECORDS.c.position)):
            parts[kind].append(body)
        fields = {name: row[name] for name in ("id", "name", "label", "status", "elapsed_s")}
        head = json.dumps(json.loads(_head(row)) | fields)
        body = ", ".join(f'"{field}": [{", ".join(items)}]' for field, items in parts.items())
        return Run.from_json(f"{head[:-1]}, {body}}}")


def _head(row: RowMapping) -> str:
    if row["head"] is None:
        _check_size(MAX_BYTES + 1)
    if not isinstance(row["head"], str):
        raise UserError("Its record is no text.")
    return row["head"]


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise UserError(f"It holds more than {MAX_BYTES // 2**20} MiB.")


def head_of(run: Run) -> str:
    """Return the part of a run stored in its own row: all but its records."""
    return run.model_dump_json(exclude=RECORD_FIELDS)


def insert_run(db: Connection, run: Run) -> None:
    row = {
        **run.model_dump(include={"id", "created_at", "label", "status", "elapsed_s"}),
        "kind": SWEEP,
        "name": plain(run.name)[:MAX_NAME] or run.id,
        "title": plain(run.title),
        "target_a": plain(run.target_names[0]),
        "target_b": "\n".join(map(plain, run.target_names[1:])),
        "seen_at": now(),
        "head": head_of(run),
    }
    db.execute(insert(RUNS).values(row | {"words": searched(row)}))
    records: tuple[tuple[RunRecord, ...], ...] = (
        run.rounds, run.processes, run.setups, run.cells, run.warnings, run.traces, run.loops, run.energy
    )  # fmt: skip
    put_records(db, run.id, tuple(chain.from_iterable(records)))


def insert_study(
    db: Connection, kind: str, study_id: str, record: Any, body: str, run_id: str | None, created_at: str
) -> None:
    """Store the JSON of a study other than a sweep; ``record`` is the parsed record, None if it is damaged."""
    title = plain(kind if record is None else record.title)
    row = {
        "id": study_id,
        "kind": kind,
        "run_id": run_id,
        "name": title[:MAX_NAME],
        "title": title,
        "created_at": created_at,
        "label": "measured" if record is None else record.label,
        "status": "failed" if record is None else record.status,
        "elapsed_s": 0.0 if record is None else record.elapsed_s,
        "target_a": "",
        "target_b": "",
        "seen_at": now(),
        "head": body,
    }
    db.execute(insert(RUNS).values(row | {"words": searched(row)}))


def put_records(db: Connection, run_id: str, records: Sequence[RunRecord]) -> None:
    """Add records to a run; a Cell, TracedCell, LoopCost, EnergyWindow or Warning replaces one with the same key."""
    rounds = [record for record in records if isinstance(record, Round)]
    _put_rounds(db, run_id, rounds)
    of_run = RECORDS.c.run_id == run_id
    places: dict[tuple[str, str], int] = {
        (kind, key): position
        for kind, key, position in db.execute(select(RECORDS.c.kind, RECORDS.c.key, RECORDS.c.position).where(of_run))
    }
    stored = set(places)
    changed: dict[tuple[str, str], str] = {}
    for record in records:
        if not isinstance(record, Round):
            place = KINDS[type(record)], _key(record) or f"#{len(places)}"
            places.setdefault(place, len(places))
            changed[place] = record.model_dump_json()
    for (kind, key), body in changed.items():
        if (kind, key) in stored:
            same = of_run & (RECORDS.c.kind == kind) & (RECORDS.c.key == key)
            db.execute(update(RECORDS).where(same).values(json=body))
    new: list[dict[str, Any]] = [
        {"run_id": run_id, "kind": kind, "key": key, "position": places[kind, key], "json": body}
        for (kind, key), body in changed.items()
        if (kind, key) not in stored
    ]
    if new:
        db.execute(insert(RECORDS), new)
    _update_counts(db, run_id)


def content(run: Run) -> str:
    """Return the content that makes two runs the same evidence: all but id, name, label, order of cells and import
    time.
    """
    cells = tuple(sorted(run.cells, key=lambda c: (c.target, c.batch)))
    warnings = tuple(sorted(run.warnings, key=lambda w: w.code))
    ordered = run.model_copy(update={"cells": cells, "warnings": warnings})
    return ordered.model_dump_json(exclude={"id", "name", "label", "created_at"})


def kept_as(db: Connection, run: Run) -> RowMapping | None:
    """Return the row of a stored run with the same :func:`content`, under any id; None, also if this id is unused."""
    if read_row(db, run.id) is None:
        return None
    alike = (RUNS.c.title == plain(run.title)) & (RUNS.c.rounds == len(run.rounds))
    alike &= (RUNS.c.kind == SWEEP) & (RUNS.c.elapsed_s == run.elapsed_s)
    own_first = select(RUNS.c.id).where(alike | (RUNS.c.id == run.id)).order_by(RUNS.c.id != run.id)
    for study_id in db.execute(own_first).scalars().all():
        row = read_row(db, study_id)
        with suppress(UserError):  # a damaged one equals no other
            if row is not None and row["kind"] == SWEEP and content(read_run(db, row)) == content(run):
                return row
    return None


def plain(value: str) -> str:
    """Return the text as one line of printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in value).split())


def searched(row: Mapping[str, Any], tags: Sequence[str] = ()) -> str:
    """Return the text that a search looks through."""
    return "\n".join([*(str(row.get(name) or "") for name in SEARCHED), *tags]).casefold()


def now() -> str:
    return datetime.now(UTC).isoformat()


def _put_rounds(db: Connection, run_id: str, rounds: list[Round]) -> None:
    if len({r.index for r in rounds}) < len(rounds):
        raise StoreError(f"Run {run_id} has two rounds with the same index and was not stored.")
    if rounds:
        rows = [{"run_id": run_id, "index": r.index, "json": r.model_dump_json()} for r in rounds]
        db.execute(insert(ROUNDS), rows)


def _update_counts(db: Connection, run_id: str) -> None:
    rounds = select(func.count()).select_from(ROUNDS).where(ROUNDS.c.run_id == run_id).scalar_subquery()
    of_run = (RECORDS.c.run_id == run_id) & (RECORDS.c.kind == "cells")
    cells = select(func.count()).select_from(RECORDS).where(of_run).scalar_subquery()
    db.execute(update(RUNS).where(RUNS.c.id == run_id).values(rounds=rounds, cells=cells, seen_at=now()))


def _key(record: RunRecord) -> str | None:
    """Return the key by which a later record replaces this one; None for records that are only added."""
    if isinstance(record, Warning):
        return record.code
    if isinstance(record, EnergyWindow):
        return f"{record.target}:{record.batch or 0}:{record.index}"
    if isinstance(record, LoopCost):
        return str(record.target)
    return f"{record.target}:{record.batch}" if isinstance(record, Cell | TracedCell) else None
