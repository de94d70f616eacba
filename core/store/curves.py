"""Storage of the condensed run of each sweep, so that comparing many machines reads no rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select

from core.base.schema import UserError
from core.store.tables import AT_ONCE, CURVES, RUNS
from core.studies.kind import Kind

if TYPE_CHECKING:
    from core.rounds.answer.condensed import CondensedRun
    from core.rounds.run import Run


def put_curve(db: Connection, kind: Kind[Any, Any, Any], record: Any) -> None:
    """Store the condensed run of a sweep that has rounds, replacing an older one."""
    if not kind.streams or not record.rounds:
        return
    from core.rounds.answer.condensed import condense  # loads what analyses

    condensed = []
    with suppress(Exception):  # a failure to condense is no reason to lose the run
        condensed.append(condense(record))
    keep_curves(db, condensed)


def keep_curves(db: Connection, curves: Iterable[CondensedRun]) -> None:
    """Store condensed runs, replacing older ones."""
    for curve in curves:
        db.execute(delete(CURVES).where(CURVES.c.run_id == curve.run_id))
        db.execute(insert(CURVES).values(run_id=curve.run_id, version=curve.version, json=curve.model_dump_json()))


def read_curves(db: Connection, ids: Sequence[str]) -> dict[str, CondensedRun]:
    """Return the stored condensed runs by run, without deleted runs and runs condensed by another version."""
    from core.rounds.answer.condensed import CONDENSED, CondensedRun

    curves: dict[str, CondensedRun] = {}
    joined = CURVES.join(RUNS, RUNS.c.id == CURVES.c.run_id)
    kept = select(CURVES.c.run_id, CURVES.c.json).select_from(joined)
    kept = kept.where(CURVES.c.version == CONDENSED, RUNS.c.deleted_at.is_(None))
    for start in range(0, len(ids), AT_ONCE):
        for run_id, body in db.execute(kept.where(CURVES.c.run_id.in_(ids[start : start + AT_ONCE]))):
            with suppress(ValueError):  # a damaged one is made again
                curves[run_id] = CondensedRun.model_validate_json(body)
    return curves


def uncondensed(db: Connection, limit: int) -> list[str]:
    """Return fleet runs that lack a condensed run of this version; runs being measured get theirs at their end."""
    from core.rounds.answer.condensed import CONDENSED

    kept = select(CURVES.c.run_id).where(CURVES.c.version == CONDENSED)
    there = RUNS.c.part_of.isnot(None), RUNS.c.deleted_at.is_(None), RUNS.c.status != "running", RUNS.c.rounds > 0
    return list(db.execute(select(RUNS.c.id).where(*there, RUNS.c.id.notin_(kept)).limit(limit)).scalars())


def made(ids: Iterable[str], load: Callable[[str], Run]) -> dict[str, CondensedRun]:
    """Condense runs from their rounds; runs that cannot be read are left out."""
    from core.rounds.answer.condensed import condense

    runs: dict[str, CondensedRun] = {}
    for run_id in ids:
        with suppress(UserError):
            runs[run_id] = condense(load(run_id))
    return runs
