"""The one engine of this process, shared by every session, and bounded caches over it.

Sessions, reloads and second tabs all reach the same store and the same job through :func:`engine`.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import plotly.graph_objects as go
import streamlit as st

from core import figures
from core.analysis.analyse import analyse
from core.analysis.answer import Answer
from core.examples import DIAGNOSIS_ID, PIPELINE_ID, load_example, load_example_diagnosis, load_example_pipeline
from core.experiment import Diagnosis, Experiment
from core.results import Run
from core.store import RunNotFound, RunSummary, Store, StoreError
from core.store.studies import StudySummary
from core.traced import TracedCell

if TYPE_CHECKING:
    from core.measure.jobs import Jobs

Revision = tuple[str, str, str, int, int, tuple[tuple[int, int, float], ...]]


@dataclass(frozen=True)
class Engine:
    store: Store
    jobs: Jobs


def _close(engine: Engine) -> None:
    engine.jobs.close()
    engine.store.close()


@st.cache_resource(show_spinner=False, on_release=_close)
def engine() -> Engine:
    """The store and the job queue of this process. Raises StoreError (a failure is tried again on the next run)."""
    from core.measure.jobs import Jobs

    store = Store()
    store.mark_interrupted()
    return Engine(store, Jobs(store))


def require() -> Engine:
    """The engine; where the store cannot be opened, say why and stop the page."""
    try:
        return engine()
    except StoreError as error:
        st.error(str(error), icon=":material/database_off:")
        st.stop()


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
    return (run.id, run.name, run.status, len(run.rounds), len(run.cells), traces)


@st.cache_resource(max_entries=24, show_spinner=False)
def _answer(key: Revision, _run: Run) -> Answer | None:  # noqa: ARG001  # the key of the cache
    return analyse(_run) if _run.rounds else None


def answer_of(run: Run) -> Answer | None:
    """The answer for a run, or None where nothing was measured."""
    return _answer(revision(run), run)


DRAW = {
    "step time": figures.step_time_figure,
    "speed-up": figures.speed_up_figure,
    "throughput": figures.throughput_figure,
    "overhead": figures.overhead_figure,
    "noise": figures.noise_figure,
}


@st.cache_resource(max_entries=48, show_spinner=False)
def _figure(kind: str, dark: bool, key: Revision, _run: Run, _answer: Answer) -> go.Figure:  # noqa: ARG001
    figure = DRAW[kind](_run, _answer)
    return figures.on_dark(figure) if dark else figure


def figure_of(kind: str, run: Run, answer: Answer, dark: bool = False) -> go.Figure:
    """One of the charts in :data:`DRAW`, drawn once for each revision of a run; not to be changed by the caller."""
    return _figure(kind, dark, revision(run), run, answer)


@st.cache_resource(max_entries=8, show_spinner=False)
def _stored(key: RunSummary, _store: Store) -> Run:
    return _store.load(key.id)


def keep_trace(store: Store, run_id: str, cell: TracedCell) -> None:
    """Add a traced cell to a stored run, from any thread. Raises StoreError.

    A list of runs does not show traces, so the runs held here are forgotten and read again.
    """
    store.record(run_id, (cell,))
    _stored.clear()


def find_run(run_id: str) -> Run:
    """A run by id: the shipped example, the sweep that is running here, or a stored one. Raises RunNotFound."""
    try:
        example = load_example()
    except (OSError, ValueError):
        example = None
    if example is not None and example.id == run_id:
        return example
    snapshot = engine().jobs.snapshot()
    if snapshot is not None and snapshot.active and snapshot.run.id == run_id:
        return snapshot.run
    for summary in summaries():
        if summary.id == run_id:
            return _stored(summary, engine().store)
    raise RunNotFound(f"There is no run {run_id[:64]} here; it was deleted, or measured on another machine.")


def summaries() -> tuple[RunSummary, ...]:
    """Every stored run, newest first."""
    return engine().store.summaries()


def diagnoses(run: Run) -> tuple[StudySummary, ...]:
    """The stored diagnoses of a run, newest first; the shipped one after them where it is the example's."""
    found = engine().store.studies("diagnosis", run.id)
    try:
        shipped = load_example_diagnosis()
    except (OSError, ValueError):
        return found
    if shipped.run_id != run.id:
        return found
    return (*found, StudySummary(DIAGNOSIS_ID, "diagnosis", run.id, shipped.experiment.created_at))


def pipeline_studies() -> tuple[StudySummary, ...]:
    """The stored pipeline studies, newest first; while there is none, the shipped one."""
    found = engine().store.studies("pipeline")
    if found:
        return found
    try:
        return (StudySummary(PIPELINE_ID, "pipeline", None, load_example_pipeline().created_at),)
    except (OSError, ValueError):
        return ()


@st.cache_resource(max_entries=16, show_spinner=False)
def load_diagnosis(study_id: str) -> Diagnosis:
    """A diagnosis by id. Raises StoreError or ValueError."""
    if study_id == DIAGNOSIS_ID:
        return load_example_diagnosis()
    return Diagnosis.from_json(engine().store.load_study(study_id))


@st.cache_resource(max_entries=8, show_spinner=False)
def load_pipeline(study_id: str) -> Experiment:
    """A pipeline study by id. Raises StoreError or ValueError."""
    if study_id == PIPELINE_ID:
        return load_example_pipeline()
    return Experiment.from_json(engine().store.load_study(study_id))


def newest_own() -> Run | None:
    """The newest run measured here that has rounds, or None."""
    for summary in summaries():
        if summary.label == "measured" and summary.rounds and summary.status != "running":
            return find_run(summary.id)
    return None


def shown_by_default() -> Run | None:
    """What opens without a run id: the newest own run, else the shipped example; None only if both are missing."""
    own = newest_own()
    if own is not None:
        return own
    try:
        return load_example()
    except (OSError, ValueError):
        return None
