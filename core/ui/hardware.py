"""The Hardware page around its result: cards, host overhead, recordings, what follows from them, what is running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import streamlit as st

from core.analysis.answer import Answer
from core.hardware.catalogue import GpuSpec, Price, UnknownGpu, catalogue, find_gpu
from core.hardware.compare import CardReading, compare, cpu_index
from core.hardware.host import HostCosts, assumed_costs, host_of_study
from core.hardware.own_cards import FILE_NAME, OwnCards, read_own
from core.hardware.recorded import Recording, recordings_of
from core.host_study import HostStudy
from core.results import Run
from core.store import RunNotFound, StoreError
from core.store.database import data_dir
from core.ui import hardware_choices, live, machine, registry, study_progress
from core.ui.hardware_choices import ASSUMED, Options
from core.ui.verdict import plain

KIND: Literal["host"] = "host"
NOT_THIS_HOST = (
    "The host overhead was measured on another machine than the CPU of this run; what a GPU would be driven by there "
    "may differ."
)


@dataclass(frozen=True)
class Host:
    """The host's costs with where they are from: a stored study with its id, or None where they are assumed.

    ``problem``: why no study is used although one was asked for or is there; else empty.
    """

    costs: HostCosts
    study: tuple[str, HostStudy] | None
    problem: str = ""

    @property
    def key(self) -> str:
        """For addresses and caches."""
        return ASSUMED if self.study is None else self.study[0]


@dataclass(frozen=True)
class Compared:
    """All that the page shows: a run's CPU target against every card, as the options say."""

    run: Run
    answer: Answer
    options: Options
    cards: Mapping[str, GpuSpec]
    host: Host
    readings: tuple[CardReading, ...]
    key: tuple[object, ...]

    @property
    def cpu(self) -> str:
        return self.run.target_names[self.options.index]

    @property
    def chosen(self) -> tuple[CardReading, ...]:
        """The person's cards, in the order in which they were chosen, so that each keeps its colour."""
        return tuple(self.reading(name) for name in self.options.gpus)

    def reading(self, name: str) -> CardReading:
        return next(one for one in self.readings if one.spec.name == name)


def link(run: Run) -> None:
    """The way from a run to modelled GPUs."""
    st.page_link("pages/hardware.py", label="Against GPUs that are not here, modelled",
                 icon=":material/memory:", query_params={"run": run.id})  # fmt: skip


def subject(run: Run) -> tuple[Answer, Options, tuple[int, ...]]:
    """The answer of a run, the usual options and its CPU targets; says why and stops the page where there are none."""
    answer = registry.answer_of(run)
    if answer is None:
        st.info("No round was measured in this run, so there is nothing to compare with.", icon=":material/info:")
        st.stop()
    index = cpu_index(run, answer)
    if (why := hardware_choices.refusal(run, index)) is not None or index is None:
        st.info(plain(why or hardware_choices.NO_CPU), icon=":material/info:")
        st.page_link("pages/sweep.py", label="Measure this machine", icon=":material/speed:")
        st.page_link("pages/history.py", label="See the runs that are here", icon=":material/history:")
        st.stop()
    usual = hardware_choices.usual_options(run, answer, index, cards())
    return answer, usual, hardware_choices.cpu_targets(run, answer)


def own_cards() -> tuple[OwnCards, str]:
    """The person's cards; none and the reason where their file cannot be read."""
    try:
        found = read_own(data_dir() / FILE_NAME)
        found.specs()
    except ValueError as error:
        return OwnCards(), str(error)
    return found, ""


def cards() -> dict[str, GpuSpec]:
    """Every card by name, the person's own last."""
    return catalogue(own_cards()[0].specs())


def host(run: Run, options: Options) -> Host:
    """The host's costs for the options' steps: of the study they name, else of the newest one here, else assumed."""
    assert run.plan is not None
    assumed = assumed_costs(options.execution)
    if options.host == ASSUMED:
        return Host(assumed, None)
    found = studies()
    named = options.host if options.host in found else next(iter(found), None)
    problem = ""
    if options.host and options.host not in found:
        problem = "There is no such host study here; " + ("the newest one counts." if named else "costs are assumed.")
    if named is None:
        return Host(assumed, None, problem)
    try:
        costs = host_of_study(found[named], run.plan.workload.mode, options.execution)
    except ValueError as error:
        return Host(assumed, None, f"{error} Until then they are assumed.")
    return Host(costs, (named, found[named]), problem)


@st.cache_resource(max_entries=16, show_spinner=False)
def load_host(study_id: str) -> HostStudy:
    """A host study by id, recorded where it is of another machine. Raises StoreError or ValueError."""
    study = HostStudy.from_json(registry.engine().store.load_study(study_id))
    here, there = machine.now(), study.environment
    if there is None or (there.hostname_hash, there.cpu) != (here.hostname_hash, here.cpu):
        return study.model_copy(update={"label": "recorded"})
    return study


def studies() -> dict[str, HostStudy]:
    """Host studies that can be read: those of this machine first, newest first."""
    found: dict[str, HostStudy] = {}
    for summary in registry.engine().store.studies(KIND):
        try:
            found[summary.id] = load_host(summary.id)
        except (RunNotFound, ValueError) as error:
            st.warning(plain(str(error)), icon=":material/search_off:")
    return dict(sorted(found.items(), key=lambda item: item[1].label != "measured"))


def other_machine(run: Run, found: Host) -> bool:
    """Whether a measured host is not that of the run."""
    if found.study is None:
        return False
    there, mine = found.study[1].environment, run.environment
    return mine is None or there is None or (mine.hostname_hash, mine.cpu) != (there.hostname_hash, there.cpu)


def recordings(run: Run, found: Mapping[str, GpuSpec]) -> tuple[Recording, ...]:
    """What was recorded of any card in runs that are here, this one included."""
    names = [s for s in registry.summaries() if s.rounds and s.status != "running" and "gpu" in "".join(s.target_names)]
    runs = tuple((s.id, s.rounds) for s in names)
    if not runs and not any("gpu" in name for name in run.target_names):
        return ()
    return _recordings((runs, registry.revision(run), tuple(found)), run, found)


@st.cache_resource(max_entries=4, show_spinner="Looking through recorded runs")
def _recordings(key: tuple[object, ...], _run: Run, _cards: Mapping[str, GpuSpec]) -> tuple[Recording, ...]:
    runs = {_run.id: _run}
    for run_id, _ in key[0]:  # type: ignore[attr-defined]
        try:
            runs.setdefault(run_id, registry.find_run(run_id))
        except (StoreError, ValueError):
            continue  # an unreadable run says so on its own page
    seen = {gpu.name for run in runs.values() if run.environment is not None for gpu in run.environment.gpus}
    there = {spec.name: spec for name in sorted(seen) if (spec := _card(name, _cards)) is not None}
    return tuple(one for spec in there.values() for one in recordings_of(tuple(runs.values()), spec, _cards))


def _card(name: str, found: Mapping[str, GpuSpec]) -> GpuSpec | None:
    try:
        return find_gpu(name, found)
    except UnknownGpu:
        return None


@st.cache_resource(max_entries=16, show_spinner="Modelling every card")
def _readings(key: tuple[object, ...], _make: partial[tuple[CardReading, ...]]) -> tuple[CardReading, ...]:  # noqa: ARG001
    return _make()


def compared(run: Run, answer: Answer, options: Options, prices: Mapping[str, Price]) -> Compared:
    """Every card against the run's CPU, sorted by crossover."""
    found, known = cards(), host(run, options)
    seen = recordings(run, found)
    asked = (options.index, options.batch, str(options.target), options.fed, known.key)
    own = tuple(repr(spec) for spec in found.values() if spec.own)
    key = (registry.revision(run), asked, own, repr(prices), tuple((one.run_id, one.gpu) for one in seen))
    make = partial(
        compare, run, answer, tuple(found.values()), known.costs, options.batch, prices, index=options.index,
        target=options.target, fed=options.fed, recordings=seen,
    )  # fmt: skip
    return Compared(run, answer, options, found, known, _readings(key, make), key)


def running() -> bool:
    """Whether the host is being measured in this process."""
    return study_progress.running(KIND) is not None


@st.fragment(run_every=live.POLL_S)
def progress() -> None:
    """The running study in numbers; when it has ended the page runs once more, without this timer."""
    study_progress.progress(KIND, "Measuring the host overhead of this machine")


def failed() -> None:
    """Why the last host study of this process has no result."""
    if (last := study_progress.error_of(KIND)) is not None:
        st.error(plain(f"{last.description} failed: {last.error}"), icon=":material/error:")


@st.fragment(run_every=live.WATCH_S)
def watch() -> None:
    """While idle: notice a study that another tab has started."""
    if running():
        st.rerun()
