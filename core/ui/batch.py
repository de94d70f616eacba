"""The Batch page around its result: which studies of a run are shown, what follows from them, what is running."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import streamlit as st

from core.analysis.answer import Answer
from core.analysis.batch import batch_answer, limit_of
from core.analysis.batch_answer import BatchAnswer, MemoryLimit
from core.analysis.memory_answer import MemoryAnswer, MemoryPrediction, memory_answer, predict_memory
from core.analysis.memory_fit import same_machine
from core.examples import MEMORY_ID, NOISE_ID, load_example_memory, load_example_noise
from core.memory_study import MemoryStudy, default_limit_bytes
from core.noise_study import NoiseStudy
from core.prices import Price
from core.results import Run
from core.spec import Target
from core.store import RunNotFound
from core.store.studies import StudyKind
from core.ui import live, machine, registry, study_progress
from core.ui.verdict import plain

KINDS: tuple[StudyKind, ...] = ("noise", "memory")
SHIPPED: dict[StudyKind, str] = {"noise": NOISE_ID, "memory": MEMORY_ID}
BETWEEN = "~"  # ids in an address; needs no escape there
T = TypeVar("T")


@dataclass(frozen=True)
class Evidence:
    """The studies that a page shows, with their ids: the noise study, and a memory study by target name."""

    noise: tuple[str, NoiseStudy] | None
    memory: Mapping[str, tuple[str, MemoryStudy]]

    @property
    def ids(self) -> tuple[str, ...]:
        """All ids, for the keys of caches."""
        noise = () if self.noise is None else (self.noise[0],)
        return (*noise, *(f"{name}:{study_id}" for name, (study_id, _) in sorted(self.memory.items())))


def link(run: Run) -> None:
    """The way from a run to its batch."""
    st.page_link("pages/batch.py", label="Which batch to train with: noise scale, memory and cost",
                 icon=":material/stacks:", query_params={"run": run.id})  # fmt: skip


@st.cache_resource(max_entries=16, show_spinner=False)
def load_noise(study_id: str) -> NoiseStudy:
    """A noise study by id. Raises StoreError, OSError or ValueError."""
    if study_id == NOISE_ID:
        return load_example_noise()
    return NoiseStudy.from_json(registry.engine().store.load_study(study_id))


@st.cache_resource(max_entries=256, show_spinner=False)
def load_memory(study_id: str) -> MemoryStudy:
    """A memory study by id. Raises StoreError, OSError or ValueError."""
    if study_id == MEMORY_ID:
        return load_example_memory()
    return MemoryStudy.from_json(registry.engine().store.load_study(study_id))


def _readable(kind: StudyKind, run_id: str | None, load: Callable[[str], T], *, quiet: bool = False) -> dict[str, T]:
    """Stored studies that can be read, newest first, after them the shipped one where it is of that run; those that
    cannot be read are said, unless ``quiet``.
    """
    found: dict[str, T] = {}
    for summary in registry.engine().store.studies(kind, run_id):
        try:
            found[summary.id] = load(summary.id)
        except (RunNotFound, ValueError) as error:
            if not quiet:
                st.warning(plain(str(error)), icon=":material/search_off:")
    with contextlib.suppress(OSError, ValueError):
        shipped = load(SHIPPED[kind])
        if run_id is not None and getattr(shipped, "run_id", None) == run_id:
            found[SHIPPED[kind]] = shipped
    return found


def evidence(run: Run) -> Evidence:
    """The studies of a run in the address, else its newest ones; a choice among several noise studies.

    Their ids are put into the address, so that it reopens exactly this evidence; not while one runs, whose result is
    what the page then turns to.
    """
    noise = _readable("noise", run.id, load_noise)
    chosen = _chosen_noise(run, noise)
    memory = _memory_by_target(run)
    if running() is None:
        _put("noise", "" if chosen is None else chosen)
        _put("memory", BETWEEN.join(study_id for study_id, _ in memory.values()))
    return Evidence(None if chosen is None else (chosen, noise[chosen]), memory)


def _put(name: str, value: str) -> None:
    if value:
        st.query_params[name] = value
    else:
        st.query_params.pop(name, None)


def _chosen_noise(run: Run, found: Mapping[str, NoiseStudy]) -> str | None:
    ids, asked = list(found), st.query_params.get("noise")
    if asked is not None and asked not in found:
        st.info("There is no such noise study of this run; its newest one counts.", icon=":material/info:")
    if not ids:
        return None
    chosen = ids[0] if asked is None or asked not in found else asked
    if len(ids) == 1 or st.context.is_embedded:
        return chosen
    picked: str = st.selectbox(
        "Noise study", ids, index=ids.index(chosen), key=f"batch_noise-{run.id}-{ids[0]}", width=560,
        format_func=lambda key: f"{found[key].created_at.replace('T', ' ')[:19]} UTC: {found[key].plan.task}",
    )  # fmt: skip
    return picked


def _memory_by_target(run: Run) -> dict[str, tuple[str, MemoryStudy]]:
    """For each target of the run the memory study that the address names, else the newest."""
    if run.plan is None:
        return {}
    asked = st.query_params.get("memory", "").split(BETWEEN)
    found = _readable("memory", run.id, load_memory)
    named = sorted(found, key=lambda study_id: study_id not in asked)  # stable: else newest first
    shown: dict[str, tuple[str, MemoryStudy]] = {}
    for name, target in zip(run.target_names, run.plan.targets, strict=True):
        mine = [key for key in named if found[key].plan.target == target]
        if mine:
            shown[name] = (mine[0], found[mine[0]])
    return shown


def memory_studies() -> tuple[MemoryStudy, ...]:
    """All memory studies here that can be read, of any run or none: what predictions learn from."""
    return tuple(_readable("memory", None, load_memory, quiet=True).values())


def memory_key() -> tuple[str, ...]:
    """Changes whenever :func:`memory_studies` would."""
    return tuple(summary.id for summary in registry.engine().store.studies("memory"))


@st.cache_resource(max_entries=64, show_spinner=False)
def _prediction(
    key: tuple[str, ...],  # noqa: ARG001  # of the cache
    run_id: str,  # noqa: ARG001
    target: str,
    limit_bytes: int,
    _run: Run,
) -> MemoryPrediction:
    assert _run.plan is not None
    return predict_memory(
        _run.plan.workload, Target.parse(target), limit_bytes, memory_studies(), _run.environment
    )  # fmt: skip


def prediction_of(run: Run, target: int, limit_bytes: int) -> MemoryPrediction:
    """What is predicted for a target of a run with a plan, from all studies of its machine."""
    assert run.plan is not None
    return _prediction(memory_key(), run.id, str(run.plan.targets[target]), limit_bytes, run)


@st.cache_resource(max_entries=32, show_spinner=False)
def _memory_answer(key: tuple[str, ...], study_id: str, _study: MemoryStudy) -> MemoryAnswer:  # noqa: ARG001
    return memory_answer(_study, memory_studies())


def answer_of_memory(study_id: str, study: MemoryStudy) -> MemoryAnswer:
    """What a memory study says, beside all others of its machine."""
    return _memory_answer(memory_key(), study_id, study)


def usual_limit_bytes(run: Run, target: int) -> int | None:
    """What a target of the run may use on the run's own machine; None where that is not known."""
    if run.plan is None or run.environment is None:
        return None
    free = run.environment.memory_available_bytes or run.environment.memory_bytes
    chosen = run.plan.targets[target]
    if free is None and not chosen.is_gpu:
        return None
    return default_limit_bytes(chosen, free or 0, run.environment.gpus)


def limits(run: Run, found: Evidence) -> dict[str, MemoryLimit]:
    """The memory limit of each target: confirmed where a study bracketed it, else predicted."""
    shown: dict[str, MemoryLimit] = {}
    for index, name in enumerate(run.target_names):
        if name in found.memory:
            shown[name] = limit_of(found.memory[name][1], memory_studies())
        elif (limit_bytes := usual_limit_bytes(run, index)) is not None:
            largest = prediction_of(run, index, limit_bytes).largest
            shown[name] = MemoryLimit(largest.batch, largest.low, largest.high, limit_bytes=limit_bytes)
    return shown


@st.cache_resource(max_entries=16, show_spinner=False)
def _answer(
    key: registry.Revision,  # noqa: ARG001  # of the cache
    ids: tuple[str, ...],  # noqa: ARG001
    limits_key: str,  # noqa: ARG001
    prices_key: str,  # noqa: ARG001
    epoch_samples: int | None,
    _parts: tuple[Run, Answer, NoiseStudy | None, Mapping[str, MemoryLimit], tuple[Price, ...]],
) -> BatchAnswer:
    run, answer, noise, memory, prices = _parts
    return batch_answer(run, answer, noise, memory, prices, epoch_samples)


def answer_of(
    run: Run, answer: Answer, found: Evidence, prices: tuple[Price, ...] = (), epoch_samples: int | None = None
) -> BatchAnswer:
    """Which batch to train with. Raises ValueError with a sentence."""
    noise, memory = None if found.noise is None else found.noise[1], limits(run, found)
    return _answer(registry.revision(run), found.ids, repr(memory), repr(prices), epoch_samples,
                   (run, answer, noise, memory, prices))  # fmt: skip


def searches_here() -> tuple[MemoryStudy, ...]:
    """The memory studies of this machine."""
    return same_machine(memory_studies(), machine.now())


def running() -> StudyKind | None:
    """The kind of this page's study that runs in this process, or None."""
    return next((kind for kind in KINDS if study_progress.running(kind) is not None), None)


@st.fragment(run_every=live.POLL_S)
def progress() -> None:
    """The running study in numbers; when it has ended the page runs once more, without this timer."""
    study_progress.progress(running() or KINDS[0], "")


def failed() -> None:
    """Why the last study of this process has no result."""
    for kind in KINDS:
        if (last := study_progress.error_of(kind)) is not None:
            st.error(plain(f"{last.description} failed: {last.error}"), icon=":material/error:")


@st.fragment(run_every=live.WATCH_S)
def watch() -> None:
    """While idle: notice a study that another tab has started."""
    if running() is not None:
        st.rerun()
