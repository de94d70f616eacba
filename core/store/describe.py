"""Descriptions of studies for lists: verdict, network, targets and machine, computed once from the record."""

from __future__ import annotations

from typing import Any, NamedTuple

from core.families import families
from core.figures.style import machine_parts, short
from core.numbers import counted
from core.schema import UserError
from core.store.rows import plain
from core.studies.kind import Context, Kind

MAX_VERDICT, MAX_WORDS = 240, 160


class Description(NamedTuple):
    verdict: str
    network: str
    machine: str
    targets: tuple[str, ...] = ()
    """In target notation; empty for a sweep, whose row has them already."""


def describe(kind: Kind[Any, Any, Any], record: Any, context: Context) -> Description:
    """Describe a record of that kind; ``context`` is the data its answer needs. Unknown parts are empty."""
    environment = getattr(getattr(record, "experiment", record), "environment", None)
    machine = ", ".join(machine_parts(environment)) if environment is not None else ""
    if machines := getattr(record, "machines", ()):
        machine = counted(len(machines), "machine")
    return Description(
        _verdict(kind, record, context),
        short(plain(_network(record)), MAX_WORDS),
        short(plain(machine), MAX_WORDS),
        () if kind.streams else _targets(record),
    )


def _verdict(kind: Kind[Any, Any, Any], record: Any, context: Context) -> str:
    """Return the first sentence of the study's text, shortened if it is long."""
    try:
        text = kind.text(record, kind.answer(record, context), context)
    except UserError:
        return ""
    line = plain(text.partition("\n")[0])
    first, dot, _ = line.partition(". ")
    return short(first + dot.strip(), MAX_VERDICT)


def _network(record: Any) -> str:
    """Return the workload of a sweep, an experiment, a study that holds one, or a fleet run; a map's family."""
    inside = getattr(record, "experiment", record)
    plan = getattr(inside, "plan", None)
    plan = getattr(plan, "sweep", plan)
    if (family := getattr(plan, "family", None)) is not None:
        return families()[family].title if family in families() else str(family)
    workload = getattr(inside, "workload", None) or getattr(plan, "workload", None)
    return workload.title if workload is not None else ""


def _targets(record: Any) -> tuple[str, ...]:
    inside = getattr(record, "experiment", record)
    plan = getattr(inside, "plan", inside)
    plan = getattr(plan, "sweep", plan)
    found = getattr(plan, "targets", None) or [arm.target for arm in getattr(inside, "arms", ())[:1]]
    return tuple(map(str, found or filter(None, [getattr(plan, "target", None)])))
