"""Interface between a fleet run and its cluster, and the choice of the machines that a plan asks for. Independent of
Ray.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from core.base.evidence import Status
from core.base.numbers import counted
from core.base.schema import UserError
from core.base.text import shown
from core.rounds.run import Run, RunRecord
from core.studies.fleet.record import MAX_MACHINES, FleetPlan, Labels

NODE_ID_LABEL = "ray.io/node-id"
"""Label of Ray's that is new whenever Ray is started on a machine."""


@dataclass(frozen=True)
class Node:
    """Machine of a cluster: the cluster's key, the name for people, and its labels."""

    key: str
    name: str
    labels: Labels = field(default_factory=dict)

    def has(self, labels: Labels) -> bool:
        return labels.items() <= self.labels.items()

    def is_restart_of(self, earlier: Node) -> bool:
        """Tell whether this is an earlier node after a restart, which gave it another key."""
        return (self.name, self._own_labels) == (earlier.name, earlier._own_labels)

    @property
    def _own_labels(self) -> Labels:
        return {label: value for label, value in self.labels.items() if label != NODE_ID_LABEL}


class NodeLost(UserError):
    """A node, or the process that measured on it, is gone; the sentence says how that was detected."""


@dataclass(frozen=True)
class RunEnd:
    """End of a machine's run. ``refused``: it never began, since the machine cannot measure the plan as it is."""

    status: Status
    elapsed_s: float = 0.0
    reason: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Update:
    """Progress of a machine's run, and its records after the first ``last_seq``.

    ``begun`` is the run without records, once it has begun; ``waiting`` says who held the machine before that.
    """

    last_seq: int = 0
    records: tuple[RunRecord, ...] = ()
    begun: Run | None = None
    waiting: str = ""
    left_s: float = 0.0
    end: RunEnd | None = None


@dataclass(frozen=True)
class Answer:
    """Answer of a machine to a poll. None: the connection broke, and the same may be asked again."""

    key: str
    result: Update | NodeLost | None


class Cluster(Protocol):
    """Machines, each of which measures at most one run for us at a time. No method blocks but :meth:`answers`."""

    remedy: str
    """Remedy for workers that run with a niceness or thread limits, as a sentence."""

    def nodes(self) -> tuple[Node, ...]:
        """Return the machines present now. Raises UserError if the cluster cannot be asked."""

    def begin(self, key: str, run: Run) -> None:
        """Measure a run without rounds as soon as the machine is free for it alone. Raises NodeLost."""

    def poll(self, key: str, last_seq: int) -> None:
        """Ask for the records after the first ``last_seq``; :meth:`answers` returns the answer. A machine answers at
        once, the first time when its run has been placed on it.
        """

    def answers(self, wait_s: float) -> Sequence[Answer]:
        """Return the answers that arrived, none from before a :meth:`drop`; wait up to ``wait_s`` if there are none."""

    def pending(self, key: str) -> str:
        """Explain in a sentence why a run that was begun has not been placed yet."""

    def cancel(self, key: str) -> None:
        """Stop in order; what was measured can still be polled."""

    def drop(self, key: str) -> None:
        """End at once whatever we run there, and return the machine."""

    def close(self) -> None:
        """Drop all machines and disconnect from the cluster."""


@dataclass(frozen=True)
class Choice:
    """Machine chosen for a fleet. ``labels`` are those that a replacement must have; None allows none."""

    node: Node
    labels: Labels | None = None

    def replacement(self, free: Iterable[Node]) -> Node | None:
        """Return the machine itself if it is back, else another one with the labels asked for."""
        nodes = tuple(free)
        same = [node for node in nodes if node.key == self.node.key]
        same += [node for node in nodes if node.is_restart_of(self.node)]
        others = [node for node in nodes if self.labels is not None and node.has(self.labels)]
        return next(iter(same + others), None)


def choose(nodes: Sequence[Node], plan: FleetPlan) -> tuple[Choice, ...]:
    """Return the machines that a plan asks for. Raises UserError if one of them is not present."""
    if plan.machines:
        return tuple(_by_labels(nodes, plan.machines))
    if plan.each is not None:
        return _by_kind(nodes, plan.each)
    if not nodes:
        raise UserError("The cluster has no machine to measure on.")
    if len(nodes) > MAX_MACHINES:
        raise UserError(f"The cluster has {len(nodes):,} machines; a fleet run takes up to {MAX_MACHINES:,}.")
    return tuple(map(Choice, nodes))


def _by_labels(nodes: Sequence[Node], entries: Iterable[Labels]) -> Iterable[Choice]:
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
    return (Choice(taken[number], entry) for number, entry in sorted(numbered, key=lambda each: each[0]))


def _by_kind(nodes: Sequence[Node], label: str) -> tuple[Choice, ...]:
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
    return tuple(Choice(node, {label: value}) for value, node in first.items())
