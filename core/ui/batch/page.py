"""The Batch page around its result: the studies shown for a run, their answers, the running study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.base.numbers import byte_size
from core.base.text import clean, sentence_case
from core.rounds.answer.answer import Answer
from core.rounds.plan import target_of_plan
from core.rounds.run import Run
from core.studies.batch.answer import batch_answer, limit_of
from core.studies.batch.shapes import BatchAnswer, MemoryLimit, Price
from core.studies.compiled.kind import COMPILED
from core.studies.memory.answer import MemoryAnswer, MemoryPrediction, memory_answer, predict_memory
from core.studies.memory.forecast import same_machine
from core.studies.memory.kind import MEMORY
from core.studies.memory.record import MemoryStudy, default_limit_bytes
from core.studies.noise.kind import GRADIENT_NOISE
from core.studies.noise.record import NoiseStudy
from core.ui import machine, navigation, registry
from core.ui.study_page import StudyPage
from core.workload.names import are

NOISE_PAGE = StudyPage(GRADIENT_NOISE, "Measure the noise scale", ":material/grain:")
MEMORY_PAGE = StudyPage(MEMORY, "Confirm the largest batch", ":material/memory:")
PAGES: tuple[StudyPage[Any, Any], ...] = (NOISE_PAGE, MEMORY_PAGE)
BETWEEN = "~"  # ids in an address; needs no escape there


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


def evidence(run: Run) -> Evidence:
    """Return the studies of a run in the address, else its newest ones; draw a choice among several noise studies.

    Their ids are put into the address, so that it reopens exactly this evidence; but not while a study runs, since the
    page then turns to that one's result.
    """
    noise = NOISE_PAGE.readable(run.id)
    chosen = _chosen_noise(run, noise)
    memory = _memory_by_target(run)
    if running() is None:
        navigation.put(noise=chosen, memory=BETWEEN.join(study_id for study_id, _ in memory.values()))
    return Evidence(None if chosen is None else (chosen, noise[chosen]), memory)


def _chosen_noise(run: Run, studies: Mapping[str, NoiseStudy]) -> str | None:
    ids, requested = list(studies), st.query_params.get("noise")
    if requested is not None and requested not in studies:
        _gone(NOISE_PAGE)
    if not ids:
        return None
    chosen = ids[0] if requested is None or requested not in studies else requested
    if len(ids) == 1 or st.context.is_embedded:
        return chosen
    picked: str = st.selectbox(
        "Noise study", ids, index=ids.index(chosen), key=f"batch_noise-{run.id}-{ids[0]}", width=560,
        format_func=lambda key: clean(_title(studies[key])),
    )  # fmt: skip
    return picked


def _title(study: NoiseStudy) -> str:
    return f"{study.created_at.replace('T', ' ')[:19]} UTC: {study.plan.task}"


def _gone(study_page: StudyPage[Any, Any]) -> None:
    st.info(f"There is no such {study_page.kind.noun} of this run; its newest one counts.", icon=":material/info:")


def _memory_by_target(run: Run) -> dict[str, tuple[str, MemoryStudy]]:
    """Return for each target of the run the memory study in the address, else the newest."""
    if run.plan is None:
        return {}
    requested = [study_id for study_id in st.query_params.get("memory", "").split(BETWEEN) if study_id]
    known = MEMORY_PAGE.readable(run.id) | _unattached(run)
    if not known.keys() >= set(requested):
        _gone(MEMORY_PAGE)
    named = sorted(known, key=lambda study_id: study_id not in requested)  # stable sort: otherwise newest first
    shown: dict[str, tuple[str, MemoryStudy]] = {}
    of = {key: target_of_plan(run.plan, known[key].plan.workload, known[key].plan.target) for key in named}
    for index, name in enumerate(run.target_names):
        mine = [key for key in named if of[key] == index]
        if mine:
            shown[name] = (mine[0], known[mine[0]])
    return shown


def _unattached(run: Run) -> dict[str, MemoryStudy]:
    """Return searches of the run's workload on its machine that belong to no run, such as those of the command line."""
    assert run.plan is not None
    return {
        study_id: study
        for study_id, study in registry.readable(MEMORY.name).items()
        if study.run_id is None
        and study.plan.workload == run.plan.workload
        and study in same_machine((study,), run.environment)
    }


def memory_studies() -> tuple[MemoryStudy, ...]:
    """Return all readable memory studies here, of any run or none, from which predictions learn."""
    return tuple(registry.readable(MEMORY.name).values())


def memory_key() -> tuple[str, ...]:
    """Return a value that changes whenever :func:`memory_studies` would."""
    return _ids(MEMORY.name)


def _ids(kind: str) -> tuple[str, ...]:
    return tuple(summary.id for summary in registry.summaries(kind))


def prediction_of(run: Run, target: int, limit_bytes: int) -> MemoryPrediction:
    """Return the prediction for a target of a run with a plan, from all studies of its machine."""
    assert run.plan is not None
    workload, chosen = run.plan.workload, run.plan.targets[target]
    return registry.once(
        ("prediction", memory_key(), _ids(COMPILED.name), run.id, target, limit_bytes),
        lambda: predict_memory(
            workload, chosen, limit_bytes, memory_studies(), run.environment, registry.readable(COMPILED.name).values()
        ),
    )


def answer_of_memory(study_id: str, study: MemoryStudy) -> MemoryAnswer:
    """Return a memory study's answer, given all others of its machine."""
    return registry.once(("memory", memory_key(), study_id), lambda: memory_answer(study, memory_studies()))


def usual_limit_bytes(run: Run, target: int) -> int | None:
    """Return the default limit for a target on the run's own machine; None if it is unknown."""
    if run.plan is None or run.environment is None:
        return None
    free = run.environment.memory_available_bytes or run.environment.memory_bytes
    chosen = run.plan.targets[target]
    if free is None and not chosen.is_gpu:
        return None
    return default_limit_bytes(chosen, free or 0, run.environment.gpus)


def limits(run: Run, studies: Evidence) -> dict[str, MemoryLimit]:
    """Return the memory limit of each target: confirmed if a study bracketed it, else predicted.

    All CPU targets get the same bytes, as they share the machine's: the newest search's limit, else the default.
    """
    shown: dict[str, MemoryLimit] = {}
    searched = searched_on_cpu(run, studies)
    for index, name in enumerate(run.target_names):
        searched_bytes = None if searched is None or not _on_cpu(run, name) else searched[1].plan.limit_bytes
        study = studies.memory[name][1] if name in studies.memory else None
        if study is not None and searched_bytes in (None, study.plan.limit_bytes):
            shown[name] = limit_of(study, memory_studies())
        elif (limit_bytes := searched_bytes or usual_limit_bytes(run, index)) is not None:
            largest = prediction_of(run, index, limit_bytes).largest
            shown[name] = MemoryLimit(largest.batch, largest.low, largest.high, limit_bytes=limit_bytes)
    return shown


def searched_on_cpu(run: Run, studies: Evidence) -> tuple[str, MemoryStudy] | None:
    """Return the newest memory study of a CPU target of the run, with that target's name; None without any."""
    searches = [(name, study) for name, (_, study) in studies.memory.items() if _on_cpu(run, name)]
    return max(searches, key=lambda search: search[1].created_at, default=None)


def _on_cpu(run: Run, name: str) -> bool:
    return run.plan is not None and run.plan.targets[run.target_names.index(name)].on_cpu


def limit_words(run: Run, studies: Evidence) -> str:
    """Return the memory limit of CPU targets and its reason in words; empty if unknown or without CPU targets."""
    cpus = [index for index, name in enumerate(run.target_names) if _on_cpu(run, name)]
    if not cpus:
        return ""
    who = "Both targets are" if len(cpus) == len(run.names) == 2 else "All CPU targets are"
    alone = run.names[cpus[0]]
    who = f"{sentence_case(alone)} {are(alone)}" if len(cpus) == 1 else who
    if (searched := searched_on_cpu(run, studies)) is not None:
        name, study = searched
        size = byte_size(study.plan.limit_bytes)
        return f"{who} held to {size} of memory, the limit of the last search, on {run.name_of(name)}."
    if (usual := usual_limit_bytes(run, cpus[0])) is None:
        return ""
    return f"{who} held to {byte_size(usual)} of memory: 90 % of what was free on the machine of the sweep."


def answer_of(
    run: Run, answer: Answer, studies: Evidence, prices: tuple[Price, ...] = (), epoch_samples: int | None = None
) -> BatchAnswer:
    """Return which batch to train with. Raises UserError."""
    noise, memory = None if studies.noise is None else studies.noise[1], limits(run, studies)
    return registry.once(
        ("batch", registry.revision(run), studies.ids, repr(memory), repr(prices), epoch_samples),
        lambda: batch_answer(run, answer, noise, memory, prices, epoch_samples),
    )


def searches_here() -> tuple[MemoryStudy, ...]:
    """Return the memory studies of this machine."""
    return same_machine(memory_studies(), machine.now())


def running() -> StudyPage[Any, Any] | None:
    """Return the page of this page's kinds whose study runs in this process, or None."""
    return next((study_page for study_page in PAGES if study_page.running() is not None), None)
