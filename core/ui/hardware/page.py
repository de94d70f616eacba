"""The inputs of the Hardware page: cards, host overhead, recordings, and the comparison that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import streamlit as st

from core.base.evidence import same_machine
from core.base.schema import UserError
from core.hardware.catalogue import FILE_NAME, CardPrice, GpuSpec, OwnCards, catalogue, read_own
from core.hardware.compare import CardReading, batches_between, compare, cpu_index
from core.hardware.crossing import if_named, named_sentence
from core.hardware.curve import Recording, recordings_of
from core.hardware.decision import Decision, decide
from core.hardware.host import KIND_WORDS, USUAL_KIND, HostCosts, HostKind, Modelling, costs_of_kind
from core.hardware.host_record import HostStudy
from core.hardware.host_study import host_of_study, with_loop_of
from core.rounds.answer.answer import Answer
from core.rounds.answer.best_cpu import cpu_targets
from core.rounds.run import Run
from core.store import StoreError
from core.store.database import data_dir
from core.studies.host.kind import HOST
from core.studies.registry import example_id, load_example
from core.ui import frame, machine, money, registry
from core.ui.hardware import draft, look
from core.ui.hardware.draft import Options
from core.ui.navigation import link
from core.ui.study_page import StudyPage
from core.ui.words import plain
from core.workload.execution import expected

PAGE = StudyPage(HOST, "Measure the host overhead", ":material/developer_board:")
QUESTION = "From which batch would a GPU be faster?"
NOT_THIS_HOST = (
    "The host overhead was measured on another machine than the CPU of this run; what a GPU would be driven by there "
    "may differ."
)


@dataclass(frozen=True)
class Host:
    """The host's costs with their source: a stored study with its id, or None if a kind of host is assumed.

    ``problem``: the reason why no study is used although one was requested or exists; else empty.
    """

    costs: HostCosts
    study: tuple[str, HostStudy] | None
    problem: str = ""

    @property
    def key(self) -> str:
        """Identifier of the host in addresses and caches."""
        return str(self.costs.kind) if self.study is None else self.study[0]


@dataclass(frozen=True)
class Compared:
    """Everything that the page shows: a run's CPU target against every card, under the options.

    ``named``: for each chosen card, how much naming the build would change.
    """

    run: Run
    answer: Answer
    options: Options
    how: Modelling
    cards: Mapping[str, GpuSpec]
    host: Host
    readings: tuple[CardReading, ...]
    decision: Decision
    named: tuple[tuple[str, str], ...]
    key: tuple[object, ...]

    @property
    def cpu(self) -> str:
        """The name of the CPU target."""
        return self.run.names[self.options.index]

    @property
    def chosen(self) -> tuple[CardReading, ...]:
        """The user's cards, in the order in which they were chosen, so that each keeps its colour."""
        return tuple(self.reading(name) for name in self.options.gpus)

    def reading(self, name: str) -> CardReading:
        """Return the reading of the card with this name."""
        return next(reading for reading in self.readings if reading.spec.name == name)


def subject(run: Run) -> tuple[Answer, Options, tuple[int, ...]]:
    """Return a run's answer, default options and CPU targets, or give the reason why not and stop the page."""
    answer = registry.answer_of(run)
    if answer is None:
        _top()
        st.info("No round was measured in this run, so there is nothing to compare with.", icon=":material/info:")
        st.stop()
    index = cpu_index(run, answer)
    if (why := draft.refusal(run, index)) is not None or index is None:
        _top()
        st.info(plain(why or draft.NO_CPU), icon=":material/info:")
        if run.plan is not None and run.status != "running":
            look.offer(run.plan.workload)
        link("sweep")
        link("history")
        st.stop()
    usual = draft.usual_options(run, answer, index, cards())
    return answer, usual, cpu_targets(run, answer)


def _top() -> None:
    if not st.context.is_embedded:
        frame.top(QUESTION)


def own_cards() -> tuple[OwnCards, str]:
    """Return the user's cards, or none and the reason if their file cannot be read."""
    try:
        own = read_own(data_dir() / FILE_NAME)
        own.specs()
    except ValueError as error:
        return OwnCards(), str(error)
    return own, ""


def cards() -> dict[str, GpuSpec]:
    """Return every card by name, the user's own last, with prices in the money unit if an exchange rate leads there."""
    unit = money.chosen()
    return {name: spec.priced_in(unit) for name, spec in catalogue(own_cards()[0].specs()).items()}


def host(run: Run, options: Options) -> Host:
    """Return the host's costs for the options' steps.

    They are those of the kind or study that the options name, else of the newest study here, else of the default kind.
    """
    assert run.plan is not None
    execution = expected(run.plan.workload.network, options.target).execution
    known = studies(run)
    counts = counting(options.host, known)
    problem = "" if options.host in ("", counts) else f"There is no such host study here; {_COUNTS[counts in known]}."
    if counts not in known:
        return Host(costs_of_kind(_kind(counts), execution), None, problem)
    try:
        costs = host_of_study(known[counts], run.plan.workload.mode, execution)
    except ValueError as error:
        problem = f"{error} Until then no host is named."
        return Host(costs_of_kind(USUAL_KIND, execution), None, problem)
    costs = with_loop_of(costs, known[counts].environment, run, options.index)
    return Host(costs, (counts, known[counts]), problem)


_COUNTS = {True: "the newest one counts", False: "none is named"}


def counting(requested: str, known: Mapping[str, HostStudy]) -> str:
    """Return the host that counts, a study's id or a kind, if the address asks for a study, a kind or nothing."""
    return requested if requested in known or requested in KIND_WORDS else next(iter(known), USUAL_KIND)


def _kind(name: str) -> HostKind:
    return next(kind for kind in KIND_WORDS if kind == name)


def studies(run: Run) -> dict[str, HostStudy]:
    """Return the readable host studies, those of this machine first, newest first; others are labelled recorded.

    The shipped study is of the example's machine; it is used only with the example, and then comes first.
    """
    shipped = example_id(HOST)
    known = {study_id: _labelled(study) for study_id, study in PAGE.readable().items() if study_id != shipped}
    known = dict(sorted(known.items(), key=lambda item: item[1].label != "measured"))
    example = registry.example()
    if example is None or run.id != example.id:
        return known
    with suppress(OSError, UserError):
        known = {shipped: load_example(HOST.name), **known}
    return known


def _labelled(study: HostStudy) -> HostStudy:
    here = same_machine(study.environment, machine.now())
    return study if here else study.model_copy(update={"label": "recorded"})


def other_machine(run: Run, host: Host) -> bool:
    """Check that a measured host is not the machine of the run."""
    return host.study is not None and not same_machine(host.study[1].environment, run.environment)


def recordings(run: Run, known: Mapping[str, GpuSpec]) -> tuple[Recording, ...]:
    """Return the recordings of any card in the stored runs, including this one."""
    names = [s for s in registry.summaries() if s.rounds and s.status != "running" and "gpu" in "".join(s.target_names)]
    runs = tuple((s.id, s.rounds) for s in names)
    if not runs and not any("gpu" in name for name in run.target_names):
        return ()
    return _recordings((runs, registry.revision(run), tuple(known)), run, known)


@st.cache_resource(max_entries=4, show_spinner="Looking through recorded runs")
def _recordings(key: tuple[object, ...], _run: Run, _cards: Mapping[str, GpuSpec]) -> tuple[Recording, ...]:
    runs = {_run.id: _run}
    for run_id, _ in key[0]:  # type: ignore[attr-defined]
        try:
            runs.setdefault(run_id, registry.find_run(run_id))
        except (StoreError, ValueError):
            continue  # an unreadable run reports it on its own page
    return recordings_of(runs.values(), _cards)


@st.cache_resource(max_entries=16, show_spinner="Modelling every card")
def _readings(key: tuple[object, ...], _make: partial[tuple[CardReading, ...]]) -> tuple[CardReading, ...]:  # noqa: ARG001
    return _make()


def compared(run: Run, answer: Answer, options: Options, prices: Mapping[str, CardPrice]) -> Compared:
    """Compare every card with the run's CPU, sorted by crossover."""
    assert run.plan is not None
    known, driver = cards(), host(run, options)
    recorded = recordings(run, known)
    unit = money.chosen()
    settings = (options.index, options.batch, str(options.target), options.conditions, driver.key, unit.text)
    own = tuple(repr(spec) for spec in known.values() if spec.own)
    key = (registry.revision(run), settings, own, repr(prices), tuple((item.run_id, item.gpu) for item in recorded))
    how = Modelling(run.plan.workload, options.target, driver.costs, options.conditions)
    make = partial(
        compare, run, answer, options.index, tuple(known.values()), how, options.batch, prices, recordings=recorded,
        currency=unit.currency,
    )  # fmt: skip
    readings = _readings(key, make)
    decision = registry.once(("decision", *key), lambda: decide(readings, options.batch, how))
    specs = [spec for name in options.gpus if (spec := known.get(name)) is not None]
    batches = batches_between(answer, options.index, options.batch)

    def named() -> tuple[tuple[str, str], ...]:
        each = ((spec, if_named(run, answer, options.index, spec, how, batches, recorded)) for spec in specs)
        return tuple((spec.name, sentence) for spec, named in each if (sentence := named_sentence(named)))

    sentences = registry.once(("named", *key, options.gpus), named)
    return Compared(run, answer, options, how, known, driver, readings, decision, sentences, key)
