"""Studies whose runs are stored separately: the data behind their answers, and their export as one file."""

from __future__ import annotations

from typing import Any

from core.store import RunNotFound
from core.studies.kind import Context, Kind
from core.studies.study import part_ids_of
from core.ui import registry

MADE_AT_ONCE = 24
"""Condensed runs computed while a page waits; the others are computed in the background."""
MAX_ROUNDS = 60_000
"""Maximum for a study's file: some 20 MB, the limit of an import."""


def context(kind: Kind[Any, Any, Any], record: Any, run: Any = None) -> Context:
    """Return the context for the answer to a record."""
    ids = part_ids_of(record)
    curves = registry.engine().store.curves(ids, MADE_AT_ONCE) if ids else {}
    return Context(run, tuple(registry.readable(kind.name).values()) if not ids else (), curves)


def whole(record: Any) -> Any:
    """Return the record with its runs in it, so that its file can be compared elsewhere.

    The runs are left out if they have too many rounds for one file.
    """
    runs, rounds = [], 0
    for run_id in part_ids_of(record):
        try:
            runs.append(registry.engine().store.load(run_id))
        except RunNotFound:  # deleted on its own
            continue
        rounds += len(runs[-1].rounds)
        if rounds > MAX_ROUNDS:
            return record
    return record.model_copy(update={"runs": tuple(runs)}) if runs else record
