"""Kind of study: everything that the store, the commands, the pages and the history need to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from core.rounds.study import new_id
from core.studies.runner import StudyTools
from core.workload.spec import Target

P = TypeVar("P")
R = TypeVar("R")
A = TypeVar("A")


@dataclass(frozen=True)
class Context:
    """Inputs of an answer beside its record: the run it belongs to, and earlier records of the same kind.

    ``curves`` holds the runs that are parts of the record, by id, each condensed
    (:class:`core.rounds.answer.condensed.CondensedRun`).
    """

    run: Any = None
    earlier: tuple[Any, ...] = ()
    curves: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class About:
    """What the store and its lists know of a record, beside its title, verdict and environment.

    Args:
        network: Network in words.
        targets: Targets, empty for a sweep, whose row has them anyway.
        machine: Where it was measured, in words; by default derived from the record's environment.
        run_id: Id of the run that it belongs to.
        part_ids: Ids of the runs that are parts of it, which the store keeps separately.
        runs: Those of them that the record holds itself, in a file; the store takes them out by ``kept_apart``.
    """

    network: str = ""
    targets: tuple[Target, ...] = ()
    machine: str = ""
    run_id: str | None = None
    part_ids: tuple[str, ...] = ()
    runs: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Task(Generic[P, R]):
    """Measurement that is not kept as a record by itself.

    ``describe`` says what is measured ("Input pipeline of …"), for everybody who has to wait. ``targets``: those that
    may use a GPU here. ``check`` raises UserError if a plan must not start. ``id_of`` returns the id of the result. A
    task that measures on other machines is not ``here``: it needs neither this machine's lock nor its silence.
    """

    name: str
    describe: Callable[[P], str]
    run: Callable[[StudyTools, P], R]
    targets: Callable[[P], tuple[Target, ...]] = lambda _: ()
    check: Callable[[P], None] = lambda _: None
    id_of: Callable[[P], str] = lambda _: new_id()
    here: bool = True


@dataclass(frozen=True, kw_only=True)
class Kind(Task[P, R], Generic[P, R, A]):
    """Study whose record is kept. ``title`` names the kind for people.

    ``answer`` derives the conclusions of a record (raises UserError if there are none), ``text`` formats them as lines
    and ``export`` as one JSON object that holds the record under ``record``, or is the record; ``about`` is for lists.
    ``example`` is a shipped record, a file in ``core/data``. With ``streams`` the plan is the record itself, without
    rounds or stopped, and its rounds are kept as they are measured. With ``of_a_run`` a page shows a study only
    with the run that it belongs to. ``parts`` labels the button that lists the runs which are parts of a study.
    """

    title: str
    record: Any
    answer: Callable[[R, Context], A]
    text: Callable[[R, A, Context], str]
    export: Callable[[R, A, Context], dict[str, Any]]
    about: Callable[[R], About] = lambda _: About()
    example: str | None = None
    streams: bool = False
    of_a_run: bool = False
    parts: str = ""

    @property
    def noun(self) -> str:
        """The title as it appears inside a sentence."""
        return self.title[0].lower() + self.title[1:]
