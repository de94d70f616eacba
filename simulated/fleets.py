"""A cluster on a virtual clock, with planted faults and known truth, for the coordinator of a fleet.

Its machines report runs that were made, not measured: each the same rounds, which must all arrive exactly once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Literal

from core.rounds.run import Round, Run, RunRecord
from core.studies.fleet import messages
from core.studies.fleet.cluster import Heard, Node, NodeLost
from core.studies.fleet.messages import Ended, Item, Waits
from core.studies.fleet.record import FleetPlan
from core.studies.runner import StudyTools
from simulated.runs import make_environment, make_run
from simulated.simulation import VirtualClock

ANSWER_S = 5.0
Fault = Literal[
    "lost", "hangs", "slow", "garbage", "alien", "wrong_run", "begin_lost", "interrupted",  # these cost unmeasured work
    "duplicates", "swallows", "stale",  # cost nothing
    "refuses", "nice", "nice_late", "threads", "fails", "empty", "never_free",  # these end it
]  # fmt: skip
RETRIED: tuple[Fault, ...] = (
    "lost", "hangs", "slow", "garbage", "alien", "wrong_run", "begin_lost", "interrupted",
)  # fmt: skip
HARMLESS: tuple[Fault, ...] = ("duplicates", "swallows", "stale")
GARBAGE = (b"", b"\xff\x00", b"[]", b'{"run_id": 1}', b"x" * 100, None, b'{"a":' * 1000)


@dataclass
class Planned:
    """A machine and its faults by start (the first is 1); ``at`` counts the items before one strikes.

    ``free_s``: how long other work occupies it. ``away_s``: how long it stays away after it was lost.
    """

    node: Node
    faults: dict[int, Fault] = field(default_factory=dict)
    at: int = 50
    free_s: float = 0.0
    waits_s: float = 0.0
    away_s: float = 0.0
    item_s: float = 0.1


@dataclass
class _Session:
    run: Run
    start: int
    start_s: float
    items: list[bytes]
    item_s: float
    fault: Fault | None
    at: int
    cancelled: bool = False

    def there(self, now_s: float) -> int:
        """Return how many items exist at that time."""
        if self.cancelled:
            return len(self.items)
        return min(len(self.items), max(0, 1 + int((now_s - self.start_s) / self.item_s)))


class SimulatedCluster:
    """A :class:`core.studies.fleet.cluster.Cluster`; ``clock`` advances to the next answer during a wait."""

    remedy = "Start it without."

    def __init__(self, machines: Sequence[Planned], template: Run) -> None:
        self.clock = VirtualClock()
        self.planned = {one.node.key: one for one in machines}
        self.template = template
        self.started: dict[str, int] = {}
        self.cancelled: list[str] = []
        self.most_asked = 0
        self.closed = False
        self._records = [messages.encode(item) for item in records_of(template)]
        self._rounds_begin = next(n for n, item in enumerate(records_of(template)) if isinstance(item, Round))
        self._sessions: dict[str, _Session] = {}
        self._away: dict[str, float] = {}
        self._due: list[tuple[float, int, str, str, Any]] = []
        self._serial = count()
        self._swallowed: set[tuple[str, int]] = set()

    def nodes(self) -> tuple[Node, ...]:
        now_s = self.clock.now_s()
        return tuple(one.node for key, one in self.planned.items() if self._away.get(key, -1.0) <= now_s)

    @property
    def running(self) -> set[str]:
        """Machines on which this program's work runs."""
        return set(self._sessions)

    def begin(self, key: str, run: bytes) -> None:
        assert key not in self._sessions, "a machine measures one run at a time"
        start = self.started[key] = self.started.get(key, 0) + 1
        planned, asked = self.planned[key], Run.from_json(run)
        fault = planned.faults.get(start)
        if fault == "begin_lost":
            raise NodeLost("Its node has left the cluster.")
        free_s = self.clock.now_s() + (1e9 if fault == "never_free" else planned.free_s)
        item_s = 1e4 if fault == "slow" else planned.item_s
        items = self._items(asked, fault, planned)
        self._sessions[key] = _Session(asked, start, free_s, items, item_s, fault, planned.at)
        heapq.heappush(self._due, (free_s, next(self._serial), key, asked.id, None))

    def ask(self, key: str, question: int, known: int, hold_s: float) -> None:
        session = self._sessions[key]
        now_s = self.clock.now_s()
        self.most_asked = max(self.most_asked, len(self._due))
        if session.there(now_s) > known:
            due_s = now_s if session.cancelled else now_s + hold_s
        else:
            due_s = min(now_s + ANSWER_S, session.start_s + known * session.item_s + hold_s)
        due_s = max(due_s, now_s + 0.001)
        heapq.heappush(self._due, (due_s, next(self._serial), key, session.run.id, (question, known)))

    def heard(self, wait_s: float) -> Sequence[Heard]:
        end_s = self.clock.now_s() + wait_s
        self.clock.time_s = min(end_s, self._due[0][0]) if self._due else end_s
        found = []
        while self._due and self._due[0][0] <= self.clock.now_s():
            _, _, key, run_id, asked = heapq.heappop(self._due)
            session = self._sessions.get(key)
            if session is None or session.run.id != run_id:
                continue
            said = [None] if asked is None else self._said(key, session, *asked)
            found += [Heard(key, one) for one in said]
        return found

    def busy(self, key: str) -> str:  # noqa: ARG002
        return "Other work holds it."

    def cancel(self, key: str) -> None:
        self.cancelled.append(key)
        session = self._sessions[key]
        if session.fault == "hangs" or session.start_s > self.clock.now_s():
            return
        session.items = session.items[: session.there(self.clock.now_s())]
        session.items.append(messages.encode(Ended(status="cancelled", elapsed_s=1.0)))
        session.cancelled = True
        for place, (_, serial, other, run_id, asked) in enumerate(self._due):
            if other == key:
                self._due[place] = (self.clock.now_s() + 0.2, serial, other, run_id, asked)
        heapq.heapify(self._due)

    def drop(self, key: str) -> None:
        self._sessions.pop(key, None)

    def close(self) -> None:
        self._sessions.clear()
        self.closed = True

    # -- a machine's messages ----------------------------------------------------------------------------------------

    def _items(self, run: Run, fault: Fault | None, planned: Planned) -> list[bytes]:
        if fault == "refuses":
            return [messages.encode(Ended(status="failed", reason="It has no GPU.", refused=True))]
        begun = run.model_copy(update={"environment": make_environment()})
        if fault == "wrong_run":
            begun = begun.model_copy(update={"id": "20260101-other1"})
        waits = [messages.encode(Waits(reason="Another measures."))] * int(planned.waits_s / planned.item_s)
        records = self._records
        if fault in ("nice", "threads"):
            records = [messages.encode(_held_back(item, fault)) for item in records_of(self.template)]
        if fault == "nice_late":
            records = [*records, messages.encode(_held_back(self.template.processes[0], "nice"))]
        if fault == "alien":
            far = self.template.cells[0].model_copy(update={"target": 5})
            records = [*records[: planned.at], messages.encode(far), *records[planned.at :]]
        if fault == "empty":
            records = records[: self._rounds_begin]
        status = "failed" if fault in ("fails", "empty") else "interrupted" if fault == "interrupted" else "finished"
        ended = Ended(status=status, elapsed_s=60.0, reason="" if status == "finished" else "It broke.")
        return [*waits, messages.encode(begun), *records, messages.encode(ended)]

    def _said(self, key: str, session: _Session, question: int, known: int) -> list[object]:
        struck = session.there(self.clock.now_s()) > session.at
        if struck and session.fault == "lost":
            self._sessions.pop(key)
            self._away[key] = self.clock.now_s() + self.planned[key].away_s
            return [NodeLost("Its measuring process is gone.")]
        if struck and session.fault == "hangs":
            return []
        if struck and session.fault == "garbage":
            return [GARBAGE[hash(key) % len(GARBAGE)]]
        there = session.items[known : session.there(self.clock.now_s())]
        said: list[object] = [self._answer(session, question, known + 1, messages.fitting(there))]
        if session.fault == "duplicates":
            everything = messages.fitting(session.items[: session.there(self.clock.now_s())])
            return [said[0], self._answer(session, question, 1, everything)]
        if session.fault == "swallows" and there and known % 3 == 0 and (key, known) not in self._swallowed:
            self._swallowed.add((key, known))
            return [self._answer(session, question, known + 2, messages.fitting(there[1:]))]
        if session.fault == "stale":
            old = session.run.model_copy(update={"id": "20260101-stale1"})
            over = messages.encode(Ended(status="finished"))
            return [messages.answer(old.id, question, known + 1, [over]), *said]
        return said

    def _answer(self, session: _Session, question: int, first: int, items: Sequence[bytes]) -> bytes:
        return messages.answer(session.run.id, question, first, items, "Measuring", 10.0)


def records_of(run: Run) -> Iterator[RunRecord]:
    """Yield a run's records in the order of measurement."""
    return chain(run.processes, run.setups, run.rounds, run.cells)


def _held_back(item: Item, fault: Fault) -> Item:
    if type(item).__name__ != "Process":
        return item
    held = {"niceness": 15} if fault == "nice" else {"inherited_threads": {"OMP_NUM_THREADS": "1"}}
    return item.model_copy(update=held)


def template(rounds: int = 36) -> Run:
    """Return a made-up run of about that many rounds."""
    return make_run(3, batches=(1, 8, 64, 512), processes=3, passes=1, rounds_per_pass=max(1, rounds // 12))


def fleet_plan(run: Run, **changes: Any) -> FleetPlan:
    assert run.plan is not None
    return FleetPlan(sweep=run.plan, address="auto", **changes)


def machines(number: int, faults: Sequence[Fault | None] = (), **changes: Any) -> list[Planned]:
    """Return that many machines, of four kinds; fault n is that of machine n, in its first start."""
    found = []
    for n in range(number):
        node = Node(f"key-{n}", f"node{n}", {"kind": f"kind{n % 4}", "zone": "a" if n % 2 else "b"})
        fault = faults[n] if n < len(faults) else None
        found.append(Planned(node, {1: fault} if fault else {}, **changes))
    return found


class FleetRecorder:
    """Keeps runs in lists, as the store would."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.records: dict[str, list[RunRecord]] = {}
        self.finished: dict[str, str] = {}
        self.deleted: list[str] = []
        self.commits = 0

    def begin(self, run: Run) -> None:
        assert run.id not in self.runs
        self.runs[run.id], self.records[run.id] = run, []

    def record(self, run_id: str, records: tuple[RunRecord, ...]) -> None:
        assert run_id not in self.finished
        self.commits += 1
        self.records[run_id] += records

    def finish(self, run_id: str, status: Any, elapsed_s: float) -> None:  # noqa: ARG002
        assert run_id not in self.finished
        self.finished[run_id] = status

    def delete(self, run_id: str) -> None:
        self.deleted.append(run_id)
        self.records.pop(run_id, None)

    def rounds(self, run_id: str) -> list[Round]:
        return [item for item in self.records[run_id] if isinstance(item, Round)]


def tools_on(cluster: SimulatedCluster, recorder: Any, **options: Any) -> StudyTools:
    from simulated.tools import tools_for

    return tools_for(cluster, recorder=recorder, launch=_no_worker_here, **options)


def _no_worker_here(*_: object, **__: object) -> Any:
    raise AssertionError("a coordinator starts no worker")
