"""Checks of entered values, shared by several forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from core.base.fields import About, PlanField, fields_of
from core.base.schema import UserError, explain
from core.networks.families import Choice, Network, families
from core.userdata.arrays import DataError
from core.userdata.source import Source
from core.workload.execution import same
from core.workload.lengths import parse_lengths
from core.workload.names import full_name
from core.workload.spec import (
    MAX_BATCH,
    MIN_BATCH,
    Pipeline,
    Target,
    Workload,
    geometric_grid,
    refuse_mode,
)

OWN_ARCHITECTURE = "own"
"""The family whose networks come from a file instead of sizes."""
P = TypeVar("P")
T = TypeVar("T")


class Checks:
    """Collected results of checks: ``errors`` has a sentence for each invalid field."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}

    def attempt(self, field: str, make: Callable[[], T]) -> T | None:
        """Return the value of ``make``; None, with a sentence in ``errors``, if it refuses."""
        try:
            return make()
        except ValidationError as error:
            self.errors[field] = explain(error)
        except ValueError as error:
            self.errors[field] = str(error)
        return None

    def fields(self, plan: type, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plan's values of its described fields among ``inputs``; wrong ones as None."""
        known = {name: field for name, field in fields_of(plan).items() if name in inputs}
        return {name: self.field(field, inputs[name]) for name, field in known.items()}

    def field(self, field: PlanField, value: Any) -> Any:
        """Return the plan's value of one field; None, with a sentence in ``errors``, outside its limits."""
        if field.type not in (int, float) or isinstance(value, str):
            return value
        return self.attempt(field.name, lambda: field.of_plan(value))

    def grid(self, ends: Sequence[PlanField], *values: int | None) -> tuple[int, ...] | None:
        """Return the batch sizes of a range whose fields are ``ends``; where it is impossible, that is of batches."""
        low, high = (self.field(field, value) for field, value in zip(ends, values, strict=True))
        return None if low is None or high is None else self.attempt("batches", lambda: geometric_grid(low, high))

    def outcome(self, field: str, make: Callable[[], P], source: Source | None = None) -> Outcome[P]:
        """Return the outcome: the plan that ``make`` returns if nothing was refused; its own refusal is ``field``'s."""
        plan = None if self.errors else self.attempt(field, make)
        return Outcome(plan, self.errors, source)


@dataclass(frozen=True)
class Outcome(Generic[P]):
    """Result of checking a form: ``plan`` is None while ``errors`` (field: sentence) is not empty.

    ``source`` describes user data that fit.
    """

    plan: P | None
    errors: dict[str, str]
    source: Source | None = None


def checked_workload(
    checks: Checks,
    family: str,
    preset: str | None,
    sizes: Mapping[str, int | None],
    mode: str,
    optimizer: str,
    architecture: Network | str | None = None,
    lengths: str = "",
) -> Workload | None:
    """Return the workload of a form; ``sizes`` count without a ``preset``, ``architecture`` for a network from a file.

    Fields: workload, lengths, and those of :func:`checked_sizes`.
    """
    kind, chosen = families()[family], {"mode": mode, "optimizer": optimizer}

    def made(network: Callable[[], Network]) -> Workload | None:
        work = checks.attempt("workload", lambda: Workload.model_validate({"network": network(), **chosen}))
        if work is None or not lengths.strip():
            return work
        several = lambda: Workload.model_validate(dict(work) | {"lengths": parse_lengths(lengths)})  # noqa: E731
        return checks.attempt("lengths", several)

    if family == OWN_ARCHITECTURE:
        return made(lambda: _read_network(architecture))
    if preset is not None:
        return made(lambda: kind.from_name(preset))
    values = checked_sizes(checks, kind.choices, sizes)
    return None if values is None else made(lambda: kind.from_choices(values))


def _read_network(architecture: Network | str | None) -> Network:
    if isinstance(architecture, Network):
        return architecture
    raise UserError(architecture or "Choose a file with your architecture: Keras JSON, a .keras file or an .h5 file.")


def range_fields(low: int, high: int, help: str = "") -> tuple[PlanField, PlanField]:
    """Return the fields of the smallest and the largest batch of a range, with these defaults."""
    doubling = "Doublings from the smallest to the largest."
    return (
        PlanField("low", About("Smallest batch", doubling), int, low, MIN_BATCH, high=MAX_BATCH),
        PlanField("high", About("Largest batch", help or doubling), int, high, MIN_BATCH, high=MAX_BATCH),
    )


def size_field(choice: Choice) -> str:
    """Return the name of a size's field in :class:`Checks`."""
    return f"size {choice.name}"


def checked_sizes(
    checks: Checks, choices: tuple[Choice, ...], sizes: Mapping[str, int | None]
) -> dict[str, int] | None:
    """Return the value of every choice; None if one is refused. Fields: those of :func:`size_field`."""
    values = {
        choice.name: checks.attempt(size_field(choice), partial(_checked_size, choice, sizes.get(choice.name)))
        for choice in choices
    }
    known = {name: value for name, value in values.items() if value is not None}
    return known if len(known) == len(values) else None


def _checked_size(choice: Choice, value: int | None) -> int:
    if value is None or not choice.low <= value <= choice.high:
        state = "is empty" if value is None else f"is {value:,}"
        raise UserError(f"{choice.label} {state}; accepted are {choice.low:,} to {choice.high:,}.")
    return value


def checked_targets(
    checks: Checks,
    targets: Sequence[Mapping[str, Any]],
    workload: Workload | None = None,
    missing: Mapping[str, str] = MappingProxyType({}),
    pipeline: Pipeline | None = None,
) -> list[Target | None]:
    """Return the targets of a form, each None if it is refused. Fields: target 0, target 1, …, targets.

    With a ``workload``, targets that cannot compute it, or take no batch from the ``pipeline``, are refused, and two
    that are equivalent for it. ``missing`` has a sentence for each framework that is not installed.
    """
    made = [checks.attempt(f"target {i}", partial(Target, **values)) for i, values in enumerate(targets)]
    for index, target in enumerate(made):
        if target is not None and target.framework in missing:
            checks.errors[f"target {index}"] = missing[target.framework]
        elif target is not None and workload is not None:
            checks.attempt(f"target {index}", partial(refuse_mode, workload, target, pipeline))
    known = [target for target in made if target is not None]
    checks.attempt("targets", lambda: _refuse_alike(known, workload))
    return made


def _refuse_alike(targets: Sequence[Target], workload: Workload | None) -> None:
    """Raise UserError if two targets are the same, or certainly equivalent."""
    for first, second in combinations(targets, 2):
        if first == second:
            raise UserError(f"Two targets are “{full_name(first)}”; choose targets that differ.")
        if workload is not None and same(workload, first, second):
            raise UserError(
                f"“{full_name(first)}” and “{full_name(second)}” come to the same for this network; choose targets "
                "that differ."
            )


def checked_path(text: str) -> str:
    """Return a path to user data as entered; may be empty. Raises DataError."""
    path = text.strip()
    if not path.isprintable():
        raise DataError("The path holds characters that cannot be shown; type it again.")
    return path
