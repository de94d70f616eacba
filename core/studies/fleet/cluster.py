"""What a coordinator needs of a cluster, and which of its machines a plan asks for. Nothing here knows Ray."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from core.numbers import counted
from core.schema import UserError
from core.studies.fleet.record import MAX_MACHINES, FleetPlan, Labels
from core.text import shown


@dataclass(frozen=True)
class Node:
    """A machine of a cluster: what the cluster calls it, what people do, and its labels."""

    key: str
    name: str
    labels: Labels = field(default_factory=dict)

    def has(self, labels: Labels) -> bool:
        return labels.items() <= self.labels.items()


class NodeLost(UserError):
    """A node, or the process that measured on it, is gone; the sentence says how that was seen."""


@dataclass(frozen=True)
class Heard:
    """What came from a node: None first, when it has begun; then bytes, its answers; or that it is lost."""

    key: str
    said: object


class Cluster(Protocol):
    """Machines, each of which measures at most one run for us at a time. No method waits but :meth:`heard`."""

    remedy: str
    """What is to be done where workers run with a niceness or limits of threads, a sentence."""

    def nodes(self) -> tuple[Node, ...]:
        """Those that are there now. Raises UserError where the cluster cannot be asked."""

    def begin(self, key: str, run: bytes) -> None:
        """Measure a run, the JSON of one without rounds, as soon as the machine can be had for it alone. Raises
        NodeLost.
        """

    def ask(self, key: str, question: int, known: int, hold_s: float) -> None:
        """Ask for what comes after item ``known``. The answer, an empty one at times, comes from :meth:`heard` and has
        the number of the question; items are collected for ``hold_s`` before they are sent.
        """

    def heard(self, wait_s: float) -> Sequence[Heard]:
        """What came meanwhile; waits for up to ``wait_s`` where nothing did."""

    def busy(self, key: str) -> str:
        """Why a run that was begun has not started yet, a sentence."""

    def cancel(self, key: str) -> None:
        """Stop in order; what was measured is still told."""

    def drop(self, key: str) -> None:
        """End at once whatever we run there, and give the machine back."""

    def close(self) -> None:
        """Drop all, and let go of the cluster."""


@dataclass(frozen=True)
class Wanted:
    """A machine of a fleet before it is measured. ``labels`` are what another one must have to take its place; None
    where none may.
    """

    node: Node
    labels: Labels | None = None


def choose(nodes: Sequence[Node], plan: FleetPlan) -> tuple[Wanted, ...]:
    """The machines that a plan asks for. Raises UserError where one of them is not there."""
    if plan.machines:
        return tuple(_by_labels(nodes, plan.machines))
    if plan.each is not None:
        return _by_kind(nodes, plan.each)
    if not nodes:
        raise UserError("The cluster has no machine to measure on.")
    if len(nodes) > MAX_MACHINES:
        raise UserError(f"The cluster has {len(nodes):,} machines; a fleet run takes up to {MAX_MACHINES:,}.")
    return tuple(map(Wanted, nodes))


def _by_labels(nodes: Sequence[Node], entries: Iterable[Labels]) -> Iterable[Wanted]:
    """One machine an entry, the first that no other entry has; entries that fewer machines fit choose first."""
    taken: dict[int, Node] = {}
    numbered = sorted(enumerate(entries), key=lambda each: sum(node.has(each[1]) for node in nodes))
    for number, entry in numbered:
        free = [node for node in nodes if node not in taken.values() and node.has(entry)]
        if not free:
            words = ",".join(f"{label}={value}" for label, value in entry.items()) or "any"
            there = sum(node.has(entry) for node in nodes)
            but = f"; {counted(there, 'machine has', 'machines have')} them, for more entries" if there else ""
            raise UserError(f"No machine of the cluster is left for the labels {shown(words)}{but}.")
        taken[number] = free[0]
    return (Wanted(taken[number], entry) for number, entry in sorted(numbered, key=lambda each: each[0]))


def _by_kind(nodes: Sequence[Node], label: str) -> tuple[Wanted, ...]:
    """The first machine of each value of a label."""
    first: dict[str, Node] = {}
    for node in nodes:
        if (value := node.labels.get(label)) is not None:
            first.setdefault(value, node)
    if not first:
        known = sorted({name for node in nodes for name in node.labels if not name.startswith("ray.io/node")})
        raise UserError(
            f"No machine of the cluster has the label {shown(label)}; there are {shown(', '.join(known)) or 'none'}."
        )
    return tuple(Wanted(node, {label: value}) for value, node in first.items())
