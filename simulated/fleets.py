"""A cluster on a virtual clock, with planted faults and known truth, for fleet runs.

Its machines report runs that were made, not measured: each the same rounds, which must all arrive exactly once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Literal

from core.base.evidence import Process
from core.rounds.run import Round, Run, RunRecord
from core.studies.fleet.cluster import NODE_ID_LABEL, Answer, Node, NodeLost, RunEnd, Update
from core.studies.fleet.record import FleetPlan
from core.studies.runner import StudyTools
from simulated.runs import make_environment, make_run
from simulated.simulation import VirtualClock

LATENCY_S = 0.001
Fault = Literal[
    "lost", "hangs", "slow", "begin_lost", "interrupted",  # these cost unmeasured work
    "disconnects", "repeats",  # cost nothing
    "refuses", "nice", "nice_late", "threads", "fails", "empty", "never_free",  # these end it
]  # fmt: skip
RETRIED: tuple[Fault, ...] = ("lost", "hangs", "slow", "begin_lost", "interrupted")
HARMLESS: tuple[Fault, ...] = ("disconnects", "repeats")
"""Every third answer is lost with its connection; every answer comes again, from the first record on."""


@dataclass
class Planned:
    """A machine and its faults by start (the first is 1); ``at`` counts the records before one strikes.

    ``free_s``: how long other work occupies it; ``waits_s``: how long another measurement then does. ``away_s``: how
    long it stays away after it was lost; it returns as a restarted node if ``restarts``.
    """

    node: Node
    faults: dict[int, Fault] = field(default_factory=dict)
    at: int = 50
    free_s: float = 0.0
    waits_s: float = 0.0
    away_s: float = 0.0
    restarts: bool = False
    record_s: float = 0.1


@dataclass
class _Session:
    """One start of a machine: its records and end, and when it begins."""

    run: Run
    fault: Fault | None
    at: int
    placed_s: float
    begin_s: float
    record_s: float
    records: list[RunRecord]
    end: RunEnd
    polls: int = 0

    def present(self, now_s: float) -> int:
        """Return how many records exist at that time."""
        return min(len(self.records), max(0, int((now_s - self.begin_s) / self.record_s)))

    def update(self, last_seq: int, now_s: float) -> Update:
        begins = now_s >= self.begin_s
        present = self.present(now_s)
        end = self.end if begins and present == len(self.records) else None
        return Update(
            last_seq,
            tuple(self.records[last_seq:present]),
            begun=self.run if begins and last_seq == 0 and not self.end.refused else None,
            waiting="" if begins else "Another measures.",
            left_s=10.0,
            end=end,
        )


class SimulatedCluster:
    """A :class:`core.studies.fleet.cluster.Cluster`; ``clock`` advances to the next answer during a wait."""

    remedy = "Start it without."

    def __init__(self, machines: Sequence[Planned], template: Run) -> None:
        self.clock = VirtualClock()
        self.planned = {machine.node.key: machine for machine in machines}
        self.template = template
        self.started: dict[str, int] = {}
        self.cancelled: list[str] = []
        self.most_polls = 0
        self.closed = False
        self._sessions: dict[str, _Session] = {}
        self._away: dict[str, float] = {}
        self._due: list[tuple[float, int, str, str, int]] = []
        self._serial = count()

    def nodes(self) -> tuple[Node, ...]:
        now_s = self.clock.now_s()
        return tuple(machine.node for key, machine in self.planned.items() if self._away.get(key, -1.0) <= now_s)

    @property
    def running(self) -> set[str]:
        """Machines on which this program's work runs."""
        return set(self._sessions)

    def begin(self, key: str, run: Run) -> None:
        assert key not in self._sessions, "a machine measures one run at a time"
        planned = self.planned[key]
        start = self.started[planned.node.name] = self.started.get(planned.node.name, 0) + 1
        fault = planned.faults.get(start)
        if fault == "begin_lost":
            raise NodeLost("Its node has left the cluster.")
        placed_s = self.clock.now_s() + (1e9 if fault == "never_free" else planned.free_s)
        self._sessions[key] = _Session(
            run.model_copy(update={"environment": make_environment()}), fault, planned.at, placed_s,
            placed_s + planned.waits_s, 1e4 if fault == "slow" else planned.record_s, self._records(fault), _end(fault),
        )  # fmt: skip

    def poll(self, key: str, last_seq: int) -> None:
        session = self._sessions[key]
        due_s = max(self.clock.now_s(), session.placed_s) + LATENCY_S
        heapq.heappush(self._due, (due_s, next(self._serial), key, session.run.id, last_seq))
        self.most_polls = max(self.most_polls, len(self._due))

    def answers(self, wait_s: float) -> Sequence[Answer]:
        end_s = self.clock.now_s() + wait_s
        self.clock.time_s = min(end_s, self._due[0][0]) if self._due else end_s
        answers: list[Answer] = []
        while self._due and self._due[0][0] <= self.clock.now_s():
            _, _, key, run_id, last_seq = heapq.heappop(self._due)
            session = self._sessions.get(key)
            if session is not None and session.run.id == run_id:
                answers += self._answers(key, session, last_seq)
        return answers

    def pending(self, key: str) -> str:  # noqa: ARG002
        return "Other work holds it."

    def cancel(self, key: str) -> None:
        self.cancelled.append(key)
        session = self._sessions[key]
        now_s = self.clock.now_s()
        if session.fault != "hangs" and session.placed_s <= now_s:
            session.records = session.records[: session.present(now_s)]
            session.begin_s, session.end = min(session.begin_s, now_s), RunEnd("cancelled", 1.0)

    def drop(self, key: str) -> None:
        self._sessions.pop(key, None)

    def close(self) -> None:
        self._sessions.clear()
        self.closed = True

    def _records(self, fault: Fault | None) -> list[RunRecord]:
        records = list(records_of(self.template))
        if fault in ("nice", "threads"):
            return [_held_back(record, fault) for record in records]
        if fault == "nice_late":
            return [*records, _held_back(self.template.processes[0], "nice")]
        if fault == "empty":
            return [record for record in records if not isinstance(record, Round)]
        return [] if fault == "refuses" else records

    def _answers(self, key: str, session: _Session, last_seq: int) -> list[Answer]:
        now_s = self.clock.now_s()
        session.polls += 1
        struck = session.present(now_s) >= session.at
        if struck and session.fault == "lost":
            self._sessions.pop(key)
            self._lose(key)
            return [Answer(key, NodeLost("Its measuring process is gone."))]
        if struck and session.fault == "hangs":
            return []
        if session.fault == "disconnects" and session.polls % 3 == 0:
            return [Answer(key, None)]
        answers = [Answer(key, session.update(last_seq, now_s))]
        return answers + [Answer(key, session.update(0, now_s))] * (session.fault == "repeats")

    def _lose(self, key: str) -> None:
        planned = self.planned[key]
        if planned.restarts:
            del self.planned[key]
            labels = planned.node.labels | {NODE_ID_LABEL: f"{key}-again"}
            planned.node = Node(f"{key}-again", planned.node.name, labels)
            self.planned[planned.node.key] = planned
        self._away[planned.node.key] = self.clock.now_s() + planned.away_s


def _end(fault: Fault | None) -> RunEnd:
    if fault == "refuses":
        return RunEnd("failed", reason="It has no GPU.", refused=True)
    if fault in ("fails", "empty"):
        return RunEnd("failed", 60.0, "It broke.")
    return RunEnd("interrupted", 60.0, "It broke.") if fault == "interrupted" else RunEnd("finished", 60.0)


def records_of(run: Run) -> Iterator[RunRecord]:
    """Yield a run's records in the order of measurement."""
    return chain(run.processes, run.setups, run.rounds, run.cells)


def _held_back(record: RunRecord, fault: Fault) -> RunRecord:
    if not isinstance(record, Process):
        return record
    held = {"niceness": 15} if fault == "nice" else {"inherited_threads": {"OMP_NUM_THREADS": "1"}}
    return record.model_copy(update=held)


def template(rounds: int = 36) -> Run:
    """Return a made-up run of about that many rounds."""
    return make_run(3, batches=(1, 8, 64, 512), processes=3, passes=1, rounds_per_pass=max(1, rounds // 12))


def fleet_plan(run: Run, **changes: Any) -> FleetPlan:
    assert run.plan is not None
    return FleetPlan(sweep=run.plan, address="auto", **changes)


def machines(number: int, faults: Sequence[Fault | None] = (), **changes: Any) -> list[Planned]:
    """Return that many machines, of four kinds; fault n is that of machine n, in its first start."""
    planned = []
    for n in range(number):
        labels = {"kind": f"kind{n % 4}", "zone": "a" if n % 2 else "b", NODE_ID_LABEL: f"key-{n}"}
        node = Node(f"key-{n}", f"node{n}", labels)
        fault = faults[n] if n < len(faults) else None
        planned.append(Planned(node, {1: fault} if fault else {}, **changes))
    return planned


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
    raise AssertionError("the collecting program starts no worker")
