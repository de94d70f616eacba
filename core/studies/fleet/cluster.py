"""Interface between a coordinator and a cluster, and the choice of the machines that a plan asks for. Independent of
Ray.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from core.base.numbers import counted
from core.base.schema import UserError
from core.base.text import shown
from core.studies.fleet.record import MAX_MACHINES, FleetPlan, Labels


@dataclass(frozen=True)
class Node:
    """Machine of a cluster: the cluster's key, the name for people, and its labels."""

    key: str
    name: str
    labels: Labels = field(default_factory=dict)

    def has(self, labels: Labels) -> bool:
        return labels.items() <= self.labels.items()


class NodeLost(UserError):
    """A node, or the process that measured on it, is gone; the sentence says how that was detected."""


@dataclass(frozen=True)
class Heard:
    """Message from a node: None first, when it has begun; then bytes, its answers; or the error that it is lost."""

    key: str
    said: object


class Cluster(Protocol):
    """Machines, each of which measures at most one run for us at a time. No method blocks but :meth:`heard`."""

    remedy: str
    """Remedy for workers that run with a niceness or thread limits, as a sentence."""

    def nodes(self) -> tuple[Node, ...]:
        """Return the machines present now. Raises UserError if the cluster cannot be asked."""

    def begin(self, key: str, run: bytes) -> None:
        """Measure a run (JSON of one without rounds) as soon as the machine is free for it alone. Raises NodeLost."""

    def ask(self, key: str, question: int, known: int, hold_s: float) -> None:
        """Ask for the items after number ``known``. The answer, sometimes an empty one, comes from :meth:`heard` and
        carries the number of the question; items are collected for ``hold_s`` before they are sent.
        """

    def heard(self, wait_s: float) -> Sequence[Heard]:
        """Return the messages that arrived; wait up to ``wait_s`` if there are none."""

    def busy(self, key: str) -> str:
        """Explain in a sentence why a run that was begun has not started yet."""

    def cancel(self, key: str) -> None:
        """Stop in order; what was measured is still sent."""

    def drop(self, key: str) -> None:
        """End at once whatever we run there, and return the machine."""

    def close(self) -> None:
        """Drop all machines and disconnect from the cluster."""


@dataclass(frozen=True)
class Wanted:
    """Machine of a fleet before it is measured. ``labels`` are those that a replacement must have; None allows none."""

    node: Node
    labels: Labels | None = None


def choose(nodes: Sequence[Node], plan: FleetPlan) -> tuple[Wanted, ...]:
    """Return the machines that a plan asks for. Raises UserError if one of them is not present."""
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
    """Return one free machine per entry; entries that fewer machines fit choose first."""
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
    """Return the first machine for each value of a label."""
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
