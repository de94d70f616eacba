"""Studies from files and from a damaged store, as handled by pages and the history."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from benchmarks.faults import mutate
from benchmarks.faults.cases import Findings
from benchmarks.faults.good import (
    good_record,
    good_run,
    record_data,
)
from core.base.schema import UserError
from core.rounds.show.imports import read_run
from core.store import Store
from core.studies.kind import Context
from core.studies.registry import kind_of, read_any
from core.studies.sweep.kind import SWEEP
from simulated.hosts import make_host_study
from simulated.runs import make_run


def imported(data: bytes, findings: Findings, same_as: str | None = None) -> None:
    """Import a file as the History page does, list it and open it; refusals are one printable sentence."""
    with findings.watching(), closing(Store()) as store:
        try:
            kind, study_id = _import(store, data)
        except UserError as error:
            _check_sentence(str(error), findings)
            findings.require(same_as is None, "wrong numbers", f"refused, though nothing that counts changed: {error}")
            return
        with suppress(UserError):
            shown(store, kind, study_id, findings, same_as)


def _import(store: Store, data: bytes) -> tuple[Any, str]:
    try:
        return SWEEP, store.add(read_run(data, "upload.json"))
    except UserError as error:
        try:
            kind, record = read_any(data)
        except UserError:
            raise error from None
        if kind is SWEEP:
            return kind, store.add(record)
        return kind, store.import_study(kind.name, record)


def shown(
    store: Store, kind: Any, study_id: str, findings: Findings, same_as: str | None = None, listed: bool = True
) -> None:
    """Derive what pages and commands show of a stored study."""
    for summary in store.summaries() if listed else ():
        for text in (summary.name, summary.title, *summary.target_names):
            findings.require(text.isprintable(), "else", f"a list shows {text[:60]!r}")
    record = store.study(kind, study_id)
    context = Context(run=good_run() if kind.name == "diagnosis" else None)
    answer = kind.answer(record, context)
    texts = kind.text(record, answer, context)
    raw = {char for char in texts if char not in "\n\t" and not char.isprintable()}
    findings.require(not raw, "else", f"its text holds raw {sorted(map(ascii, raw))[:5]}")
    json.dumps(kind.export(record, answer, context), allow_nan=False)
    if same_as is not None:
        good = good_record(same_as)
        whole = kind.text(good, kind.answer(good, context), context)
        skipped = ("recorded", "measured")
        words = [" ".join(w for w in t.split() if w.strip(":,.;") not in skipped) for t in (texts, whole)]
        findings.require(words[0] == words[1], "wrong numbers", f"the text differs: {texts[:150]}")


def _check_sentence(text: str, findings: Findings) -> None:
    findings.require(bool(text) and text.isprintable(), "else", f"no printable sentence: {text[:120]!r}")
    findings.require(len(text) < 2_000, "else", f"a sentence of {len(text)} characters")


def _filled() -> Path:
    with closing(Store()) as store:
        run_id = store.add(good_run())
        for kind in ("noise", "memory", "host", "pipeline"):
            record = good_record(kind)
            update = {"run_id": run_id} if "run_id" in type(record).model_fields else {}
            store.import_study(kind, record.model_copy(update=update))
        return Path(store.where)


def _opened(findings: Findings) -> None:
    """Open the store like the app, then every page with every study; a damaged row costs only itself."""
    with findings.watching(UserError), closing(Store()) as store:
        with findings.watching(UserError):
            store.mark_interrupted()
        with findings.watching(UserError):
            summaries = store.summaries()
            for summary in summaries:
                with findings.watching(UserError):
                    shown(store, kind_of(summary.kind), summary.id, findings, listed=False)
        with findings.watching(UserError):
            store.add(make_run(seed=7, batches=(1, 8)))
        with findings.watching(UserError):
            store.import_study("host", make_host_study(rounds=1))
        with findings.watching(UserError):
            store.purge()


def store_file(random_: random.Random, _: int, findings: Findings) -> None:
    """Truncate the database's file, or change bits, bytes and pages of it."""
    path = _filled()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    way = random_.choice(("bytes", "page", "truncate", "many"))
    if way == "bytes":
        data = bytearray(mutate.bytes_of(bytes(data), random_))
    elif way == "truncate":
        del data[random_.randrange(len(data)) :]
    else:
        for _ in range(1 if way == "page" else 30):
            at = random_.randrange(len(data) // 4096) * 4096
            data[at : at + 4096] = random_.choice((random_.randbytes(4096), bytes(4096), data[:4096]))
    path.write_bytes(bytes(data))
    findings.about(way)
    _opened(findings)
    findings.require(path.exists(), "rounds lost", "the damaged file is gone")


COLUMNS = {
    "runs": "id kind run_id name created_at label status title target_a target_b cells rounds elapsed_s owner seen_at "
    "deleted_at head",
    "rounds": "run_id index json",
    "records": "run_id kind key position json",
    "schema_version": "version",
}


def store_rows(random_: random.Random, index: int, findings: Findings) -> None:
    """Put values that another program wrote into a row: the others are shown as before."""
    path = _filled()
    places = [(table, column) for table, columns in COLUMNS.items() for column in columns.split()]
    table, column = places[index % len(places)]
    value: Any = random_.choice(
        (*mutate.TEXTS, *mutate.NUMBERS, b"\xff\xfe\x00", b"", None, "[]", "{}", "[[1]]", '"x"', "running", "{" * 50)
    )
    if isinstance(value, int) and abs(value) >= 2**63:
        value = float(value)
    if column in ("head", "json") and random_.random() < 0.6:
        value = mutate.json_of(record_data(random_.choice(("sweep", "noise"))), random_)
        value = value.encode("utf-8", "replace").decode()
    findings.about(f"{table}.{column} = {str(value)[:60]!r}")
    with closing(sqlite3.connect(path, isolation_level=None)) as db, suppress(sqlite3.Error):
        row = random_.choice(db.execute(f"SELECT rowid FROM {table}").fetchall())[0]
        db.execute(f'UPDATE {table} SET "{column}" = ? WHERE rowid = ?', (value, row))
    _opened(findings)
    if table != "schema_version":
        _check_others(row if table == "runs" else None, path, findings)


def _check_others(row: int | None, path: Path, findings: Findings) -> None:
    """Check that every study except that of the row, or the sweep if the row is part of it, is listed and opens."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT rowid, id, kind FROM runs WHERE deleted_at IS NULL").fetchall()
    with findings.watching(), closing(Store()) as store:
        listed = {summary.id for summary in store.summaries()}
        for place, study_id, kind in rows:
            if place == row or (row is None and kind == SWEEP.name):
                continue
            findings.require(study_id in listed, "rounds lost", "a study that is whole is not in the list")
            with findings.watching():
                store.study(kind_of(kind), study_id)
