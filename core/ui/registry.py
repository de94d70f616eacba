"""The one engine of this process, shared by every session, and bounded caches over it.

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

from core import files
from core.hardware.published import published_run
from core.schema import UserError
from core.store import RunNotFound, Store, StoreError, Summary, Wanted, only_readable
from core.studies.kind import Kind
from core.studies.registry import example_id, kind_of, load_example
from core.studies.study import run_id_of
from core.studies.sweep.analyse import analyse
from core.studies.sweep.answer import Answer
from core.studies.sweep.kind import SWEEP
from core.studies.sweep.record import Run
from core.ui import describing
from core.ui.words import plain

if TYPE_CHECKING:
    from core.studies.jobs import Jobs

T = TypeVar("T")
Revision = tuple[str, str, str, int, int, tuple[tuple[int, int, float], ...], int]


RECENT = 100
"""Studies of a kind that a page offers to choose from or compares with; the history lists them all."""
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
    """The store and the job queue of this process, from the first page that is opened.

    Raises StoreError (a failure is tried again on the next run).
    """
    from core.studies.jobs import Jobs

    store = Store()
    store.mark_interrupted()
    opened = Engine(store, Jobs(store))
    if not store.read_only:
        opened.jobs.warm_up()  # while the page is looked at
        describing.begin(store, opened.jobs, opened.stop)
    return opened


def read_only() -> bool:
    """Whether pages only show; nothing that measures, keeps, changes or deletes is then offered."""
    return files.read_only()


def require() -> Engine:
    """The engine; where the store cannot be opened, say why and stop the page. A history set aside is said, too, and
    that a server is read-only.
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
    """Call before a measurement: take all that is loaded by now out of the garbage collector's way.

    Streamlit collects garbage after every run of a script, also of a fragment. With every module loaded that takes
    60 ms (measured on two cores), at every poll, from a target that uses all cores; afterwards under 1 ms.
    """
    gc.unfreeze()  # what the last measurement set aside may be garbage by now
    gc.collect()
    gc.freeze()


def revision(run: Run) -> Revision:
    """Changes whenever anything that an answer or a picture shows has changed."""
    traces = tuple((cell.target, cell.batch, cell.profiled_step_ms) for cell in run.traces)
    return (run.id, run.name, run.status, len(run.rounds), len(run.cells), traces, len(run.loops))


@st.cache_resource(max_entries=200, show_spinner=False)
def once(key: tuple[Hashable, ...], _make: Callable[[], T]) -> T:  # noqa: ARG001
    """What ``_make`` makes, kept for the same ``key``; its first part says what it is."""
    return _make()


def answer_of(run: Run) -> Answer | None:
    """The answer for a run, or None where nothing was measured."""
    return once(("answer", *revision(run)), partial(analyse, run)) if run.rounds else None


@st.cache_resource(max_entries=8, show_spinner=False)
def _stored(key: Summary, _store: Store) -> Run:
    return _store.load(key.id)


def forget_runs() -> None:
    """After a trace was added to a stored run: a list of runs does not show it, so runs held here are read again."""
    _stored.clear()


def find_run(run_id: str) -> Run:
    """A run by id: the shipped example, a published one, the sweep that is running here, or a stored one.

    Raises RunNotFound.
    """
    shipped = example()
    if shipped is not None and shipped.id == run_id:
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
    raise RunNotFound(f"There is no run {run_id[:64]} here; it was deleted, or measured on another machine.")


def mark_interrupted() -> None:
    """Before runs are offered to be resumed or deleted: none of them is running that nobody measures."""
    jobs = engine().jobs
    last = jobs.snapshot(SWEEP.name)
    engine().store.mark_interrupted("" if last is None or jobs.writing else last.id)


def studies(kind: Kind[Any, Any, Any], run_id: str | None = None, asked: str | None = None) -> tuple[Summary, ...]:
    """The newest stored studies of a kind, newest first, of one run where given, and the one that is ``asked`` for.

    The shipped one comes after those of its run. Of a kind without runs it stands in while there is no other, and
    comes last where ``asked`` names it.
    """
    stored = engine().store.summaries(kind.name, run_id, RECENT)
    if asked is not None and all(summary.id != asked for summary in stored):
        older = engine().store.summary(asked)
        if older is not None and older.kind == kind.name and run_id in (None, older.run_id):
            stored = (*stored, older)
    try:
        shipped = load_example(kind.name)
    except (OSError, UserError):
        return stored
    if shipped is None or run_id_of(shipped) != run_id:
        return stored
    if stored and run_id is None and asked != example_id(kind):
        return stored
    example = Summary(
        id=example_id(kind), name=shipped.title, created_at=shipped.created_at, label=shipped.label,
        status=shipped.status, title=shipped.title, target_names=("", ""), cells=0, rounds=0, kind=kind.name,
        run_id=run_id,
    )  # fmt: skip
    return (*stored, example)


@st.cache_resource(max_entries=128, show_spinner=False)
def load(kind: str, study_id: str) -> Any:
    """A study by id, the shipped example too. Raises UserError or OSError."""
    known = kind_of(kind)
    if study_id == example_id(known):
        return load_example(kind)
    return engine().store.study(known, study_id)


def summaries(kind: str = SWEEP.name) -> tuple[Summary, ...]:
    """The newest stored studies of a kind, newest first."""
    return engine().store.summaries(kind, newest=RECENT)


def readable(kind: str) -> dict[str, Any]:
    """Those :func:`summaries` that can be read; one that cannot says so where it is shown."""
    return only_readable(summaries(kind), lambda summary: load(kind, summary.id))


def newest_own(fits: Callable[[Run], bool] = lambda _: True) -> Run | None:
    """The newest run measured here that has rounds, can be read and ``fits``, or None."""
    for summary in engine().store.find(Wanted(kind=SWEEP.name, label="measured"), RECENT).summaries:
        if summary.rounds and summary.status != "running":
            with suppress(UserError):  # a damaged one says so where it is opened
                if fits(run := find_run(summary.id)):
                    return run
    return None


def example() -> Run | None:
    """The shipped example of a sweep; None where it cannot be read."""
    try:
        run: Run = load_example(SWEEP.name)
    except (OSError, UserError):
        return None
    return run


def shown_by_default() -> Run | None:
    """What opens without a run id: the newest own run, else the shipped example; None only if both are missing."""
    return newest_own() or example()
