"""The single engine of this process, shared by every session, and bounded caches over it.

Sessions, reloads and second tabs all reach the same store and the same job through :func:`engine`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from core.base import files
from core.base.schema import UserError
from core.hardware.published import published_run
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Answer
from core.rounds.run import Run
from core.store import RunNotFound, Store, StoreError, Summary, Wanted, only_readable
from core.studies.kind import Context, Kind
from core.studies.registry import SWEEPS, example_id, kind_of, load_example, sweep_example
from core.studies.sweep.kind import SWEEP
from core.ui.words import plain

if TYPE_CHECKING:
    from core.studies.jobs import Jobs

PAUSE_S, BUSY_S = 0.05, 5.0


def begin(store: Store, jobs: Jobs, stop: threading.Event) -> None:
    """Describe studies in a separate thread until ``stop`` is set; pause during any measurement on this machine."""
    threading.Thread(target=_work, args=(store, jobs, stop), name="breakeven-history", daemon=True).start()


def _work(store: Store, jobs: Jobs, stop: threading.Event) -> None:
    with suppress(StoreError):  # the next server continues
        pause_s = PAUSE_S
        while not stop.wait(pause_s):
            busy = jobs.writing or jobs.busy_elsewhere() is not None
            if not busy and not store.describe():
                return
            pause_s = BUSY_S if busy else PAUSE_S


T = TypeVar("T")
Revision = tuple[str, str, str, int, int, tuple[tuple[int, int, float], ...], int]


RECENT = 100
"""Maximum number of studies of a kind that a page offers or compares with; the history lists all."""
READ_ONLY_NOTE = "This server is read-only: results and history can be looked at; nothing is measured, kept or deleted."


@dataclass(frozen=True)
class Engine:
    store: Store
    jobs: Jobs
    stop: threading.Event = field(default_factory=threading.Event)


def _close(engine: Engine) -> None:
    engine.stop.set()
    engine.jobs.close()
    engine.store.close()


@st.cache_resource(show_spinner=False, on_release=_close)
def engine() -> Engine:
    """Return the store and the job queue of this process, created by the first page.

    Raises StoreError (a failure is retried on the next run).
    """
    from core.studies.jobs import Jobs

    store = Store()
    store.mark_interrupted()
    opened = Engine(store, Jobs(store))
    if not store.read_only:
        opened.jobs.warm_up()  # while the user reads the page
        begin(store, opened.jobs, opened.stop)
    return opened


def read_only() -> bool:
    """Return whether pages are read-only; nothing that measures, keeps, changes or deletes is then offered."""
    return files.read_only()


def require() -> Engine:
    """Return the engine; if the store cannot be opened, say why and stop the page.

    A history that was set aside, and a read-only server, are reported, too.
    """
    try:
        opened = engine()
    except StoreError as error:
        st.error(plain(str(error)), icon=":material/database_off:")
        st.stop()
    if opened.store.notice is not None:
        st.warning(plain(opened.store.notice), icon=":material/database_off:")
    if opened.store.read_only and not st.context.is_embedded:
        st.caption(f":material/lock: {READ_ONLY_NOTE}")
    return opened


def quieten() -> None:
    """Freeze all loaded objects for the garbage collector before a measurement.

    Streamlit collects garbage after every script run, also of a fragment. With every module loaded that takes 60 ms
    (measured on two cores), at every poll, from a target that uses all cores; afterwards under 1 ms.
    """
    gc.unfreeze()  # what the last measurement froze may be garbage by now
    gc.collect()
    gc.freeze()


def revision(run: Run) -> Revision:
    """Return a value that changes whenever anything shown in an answer or a picture changes."""
    traces = tuple((cell.target, cell.batch, cell.profiled_step_ms) for cell in run.traces)
    return (run.id, run.name, run.status, len(run.rounds), len(run.cells), traces, len(run.loops))


@st.cache_resource(max_entries=200, show_spinner=False)
def once(key: tuple[Hashable, ...], _make: Callable[[], T]) -> T:  # noqa: ARG001
    """Return the value of ``_make``, cached by ``key``, whose first part names the value."""
    return _make()


def answer_of(run: Run) -> Answer | None:
    """Return the answer for a run, or None if nothing was measured."""
    return once(("answer", *revision(run)), partial(analyse, run)) if run.rounds else None


@st.cache_resource(max_entries=8, show_spinner=False)
def _stored(key: Summary, _store: Store) -> Run:
    return _store.load(key.id)


def find_run(run_id: str) -> Run:
    """Return a run by id: the shipped example, a published one, the sweep that runs here, or a stored one.

    Raises RunNotFound.
    """
    if (shipped := example()) is not None and shipped.id == run_id:
        return shipped
    if (printed := published_run(run_id)) is not None:
        return printed
    snapshot = engine().jobs.snapshot(SWEEP.name)
    if snapshot is not None and snapshot.active and snapshot.id == run_id:
        running: Run = snapshot.record
        return running
    summary = engine().store.summary(run_id)
    if summary is not None and summary.kind == SWEEP.name:
        return _stored(summary, engine().store)
    for which in SWEEPS:
        if run_id.startswith(f"example-{which}") and (shipped := example(which)) is not None and shipped.id == run_id:
            return shipped
    raise RunNotFound(f"There is no run {run_id[:64]} here; it was deleted, or measured on another machine.")


def mark_interrupted() -> None:
    """Mark runs as interrupted that nothing measures any more, before they are offered to be resumed or deleted."""
    jobs = engine().jobs
    last = jobs.snapshot(SWEEP.name)
    engine().store.mark_interrupted("" if last is None or jobs.writing else last.id)


def studies(kind: Kind[Any, Any, Any], run_id: str | None = None, requested: str | None = None) -> tuple[Summary, ...]:
    """Return the newest stored studies of a kind, newest first, of one run if given, and the one ``requested`` for.

    The shipped one comes after those of its run. For a kind without runs it is listed only if there is no other, or
    last if ``requested`` names it.
    """
    stored = engine().store.summaries(kind.name, run_id, RECENT)
    if requested is not None and all(summary.id != requested for summary in stored):
        older = engine().store.summary(requested)
        if older is not None and older.kind == kind.name and run_id in (None, older.run_id):
            stored = (*stored, older)
    try:
        shipped = load_example(kind.name)
    except (OSError, UserError):
        return stored
    if shipped is None or kind.about(shipped).run_id != run_id:
        return stored
    if stored and run_id is None and requested != example_id(kind):
        return stored
    example = Summary(
        id=example_id(kind), name=shipped.title, created_at=shipped.created_at, label=shipped.label,
        status=shipped.status, title=shipped.title, target_names=("", ""), cells=0, rounds=0, kind=kind.name,
        run_id=run_id,
    )  # fmt: skip
    return (*stored, example)


@st.cache_resource(max_entries=128, show_spinner=False)
def load(kind: str, study_id: str) -> Any:
    """Return a study by id, the shipped example too. Raises UserError or OSError."""
    known = kind_of(kind)
    if study_id == example_id(known):
        return load_example(kind)
    return engine().store.study(known, study_id)


def summaries(kind: str = SWEEP.name) -> tuple[Summary, ...]:
    """Return the newest stored studies of a kind, newest first."""
    return engine().store.summaries(kind, newest=RECENT)


def readable(kind: str) -> dict[str, Any]:
    """Return those of :func:`summaries` that can be read; the others report an error where they are shown."""
    return only_readable(summaries(kind), lambda summary: load(kind, summary.id))


def newest_own(fits: Callable[[Run], bool] = lambda _: True) -> Run | None:
    """Return the newest run measured here that has rounds, can be read and ``fits``, or None."""
    for summary in engine().store.find(Wanted(kind=SWEEP.name, label="measured"), RECENT).summaries:
        if summary.rounds and summary.status != "running":
            with suppress(UserError):  # a damaged one reports it where it is opened
                if fits(run := find_run(summary.id)):
                    return run
    return None


def example(which: str = "") -> Run | None:
    """Return the shipped example of a sweep, or a further one; None if it cannot be read."""
    try:
        run: Run = sweep_example(which) if which else load_example(SWEEP.name)
    except (OSError, UserError):
        return None
    return run


def shown_by_default() -> Run | None:
    """Return the run to open without an id: the newest own run, else the shipped example; None if both are missing."""
    return newest_own() or example()


MADE_AT_ONCE = 24
"""Condensed runs computed while a page waits; the others are computed in the background."""
MAX_ROUNDS = 60_000
"""Maximum for a study's file: some 20 MB, the limit of an import."""


def context(kind: Kind[Any, Any, Any], record: Any, run: Any = None) -> Context:
    """Return the context for the answer to a record."""
    ids = kind.about(record).part_ids
    curves = engine().store.curves(ids, MADE_AT_ONCE) if ids else {}
    return Context(run, tuple(readable(kind.name).values()) if not ids else (), curves)


def whole(kind: Kind[Any, Any, Any], record: Any) -> Any:
    """Return the record with its runs in it, so that its file can be compared elsewhere.

    The runs are left out if they have too many rounds for one file.
    """
    runs, rounds = [], 0
    for run_id in kind.about(record).part_ids:
        try:
            runs.append(engine().store.load(run_id))
        except RunNotFound:  # deleted on its own
            continue
        rounds += len(runs[-1].rounds)
        if rounds > MAX_ROUNDS:
            return record
    return record.model_copy(update={"runs": tuple(runs)}) if runs else record
