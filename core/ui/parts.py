"""Studies whose runs the store keeps each by itself: what their answers rest on, and all of them as one file."""

from __future__ import annotations

from typing import Any

from core.store import RunNotFound
from core.studies.kind import Context, Kind
from core.studies.study import part_ids_of
from core.ui import registry

MADE_AT_ONCE = 24
"""Condensed runs that a page makes while somebody waits; the others are made in the background."""
MAX_ROUNDS = 60_000
"""That a file of a study holds with it: some 20 MB, what an import takes."""


def context(kind: Kind[Any, Any, Any], record: Any, run: Any = None) -> Context:
    """What the answer to a record may rest on."""
    ids = part_ids_of(record)
    curves = registry.engine().store.curves(ids, MADE_AT_ONCE) if ids else {}
    return Context(run, tuple(registry.readable(kind.name).values()) if not ids else (), curves)


def whole(record: Any) -> Any:
    """The record with its runs in it, so that a file of it can be compared elsewhere; without them where they have too
    many rounds for one file.
    """
    runs, rounds = [], 0
    for run_id in part_ids_of(record):
        try:
            runs.append(registry.engine().store.load(run_id))
        except RunNotFound:  # deleted by itself
            continue
        rounds += len(runs[-1].rounds)
        if rounds > MAX_ROUNDS:
            return record
    return record.model_copy(update={"runs": tuple(runs)}) if runs else record
