"""Coordinator of a fleet run from the first machine to the last: one thread for any number of machines.

Each machine is asked for what is new of its run; the items are recorded at once, in batches, and forgotten. A machine
that is lost, hangs, is too slow or violates the protocol costs only what it has not measured: it is started once more,
and all others continue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from core.base.evidence import Process, Status, Warning
from core.base.numbers import counted, duration
from core.base.schema import UserError
from core.base.text import sentence_case
from core.rounds.answer.reliability import hindrance
from core.rounds.run import Round, Run, RunRecord
from core.rounds.study import new_id
from core.studies.fleet.cluster import Cluster, Heard, Node, NodeLost, Wanted, choose
from core.studies.fleet.collect import unique_name
from core.studies.fleet.messages import Answer, Ended, Garbled, Item, Waits, decode
from core.studies.fleet.record import ENDED, FleetMachine, FleetPlan, FleetStudy, MachineState
from core.studies.progress import Progress
from core.studies.runner import OVERDRAWN, Cancelled, StudyFailed, StudyTools, now

MOST_STARTS = 2


@dataclass(eq=False)
class Seat:
    """State of one machine. Times are those of the coordinator's clock. ``run`` is the one requested of its node, until
    it ends.

    ``known`` counts the items received of it, ``heard`` says whether its node ever answered, ``begun`` whether it is
    recorded here; ``question`` is the number of the last question. ``came`` counts the rounds received, by run.
    """

    name: str
    wanted: Wanted
    state: MachineState = "starting"
    reason: str = ""
    key: str | None = None
    run: Run | None = None
    known: int = 0
    question: int = 0
    begun: bool = False
    heard: bool = False
    starts: int = 0
    waited_s: float = 0.0
    since_s: float = 0.0
    heard_s: float = 0.0
    begun_s: float = 0.0
    left_s: float = 0.0
    activity: str = ""
    came: dict[str, int] = field(default_factory=dict)
    finished: str | None = None
    lost_by: str = ""

    @property
    def is_open(self) -> bool:
        return self.state not in ENDED

    @property
    def may_start_again(self) -> bool:
        return self.starts < MOST_STARTS

    @property
    def run_id(self) -> str | None:
        """The run that represents the machine: the one that finished, else the one with the most rounds."""
        return self.finished or max(self.came, key=lambda run_id: self.came[run_id], default=None)

    def to_machine(self) -> FleetMachine:
        run_id = self.run_id
        return FleetMachine(
            name=self.name,
            labels=self.wanted.node.labels,
            state=self.state,
            reason=self.reason,
            run_id=run_id,
            rounds=self.came.get(run_id or "", 0),
            starts=self.starts,
            waited_s=self.waited_s,
        )

    def is_sent(self, key: str, run: Run, now_s: float) -> None:
        """Record that the node was asked to measure a run."""
        self.key, self.run = key, run
        self.known = 0
        self.begun = self.heard = False
        self.activity, self.left_s = "", 0.0
        self.starts += 1
        self.heard_s = now_s
        self.waits("", now_s)

    def is_there(self, now_s: float) -> None:
        """Record that its machine is free and has begun."""
        self.heard, self.heard_s = True, now_s
        self.goes("starting", now_s)

    def waits(self, reason: str, now_s: float) -> None:
        """Mark it as waiting for its machine to be free, or to return."""
        if self.state != "waiting":
            self.since_s = now_s
        self.state, self.reason = "waiting", reason

    def goes(self, state: MachineState, now_s: float) -> None:
        """Set a state other than waiting, and add up the time waited."""
        if self.state == "waiting":
            self.waited_s += now_s - self.since_s
        self.state, self.reason = state, ""

    def counts(self, rounds: int) -> None:
        """Add rounds that were received."""
        assert self.run is not None
        if rounds:
            self.came[self.run.id] = self.came.get(self.run.id, 0) + rounds

    def ends(self, state: MachineState, reason: str = "") -> None:
        if state == "finished" and self.run is not None:
            self.finished = self.run.id
            reason = f"It was started once more: {self.lost_by}" if self.lost_by else ""
        elif (run_id := self.run_id) is not None:
            reason = f"{reason} {counted(self.came[run_id], 'round')} came home and stand.".lstrip()
        self.state, self.reason, self.run, self.key = state, reason, None, None
        self.activity, self.left_s = "", 0.0


SLICE_S = 0.25  # longest wait for answers before a request to stop is checked
TELL_EVERY_S = 1.0
HOLD_S = 1.0
"""Time that a machine collects new items before it sends them; longer with many machines."""
COMMITS_A_S = 100.0
"""Batches per second that a store handles well, over all machines."""
SILENT_S = 45.0  # a node answers every few seconds, even with nothing new
SLOW_S = 600.0
"""Allowance over the budget for starting workers, compiling and closing; a run that takes longer is given up."""
SAYS_SO_S = 2.0  # wait before its reason is reported
RETURN_S = 120.0
"""Time that a lost machine may stay away before it is given up."""
STOP_S = 2.5  # grace period for an orderly end before it is forced
UNDER_WAY: tuple[MachineState, ...] = ("measuring", "starting", "waiting")
ENDS: dict[Status, MachineState] = {"finished": "finished", "failed": "failed", "cancelled": "cancelled"}


def run_fleet(tools: StudyTools, plan: FleetPlan, cluster: Cluster) -> FleetStudy:
    """Measure a plan on the machines of a cluster; each run goes to ``tools.recorder`` as it arrives.

    The returned study contains no runs. Raises UserError if a machine is missing, Cancelled if stopped before anything
    was measured, StudyFailed if no machine could be measured.
    """
    return _Fleet(tools, plan, cluster).execute()


class _Fleet:
    def __init__(self, tools: StudyTools, plan: FleetPlan, cluster: Cluster) -> None:
        self._tools, self._plan, self._cluster, self._clock = tools, plan, cluster, tools.clock
        self._start_s, self._created_at = self._clock.now_s(), now()
        wanted, names = choose(cluster.nodes(), plan), set[str]()
        self._seats = tuple(Seat(unique_name(one.node.name, names), one) for one in wanted)
        self._at: dict[str, Seat] = {}
        self._ids: set[str] = set()
        self._hold_s = max(HOLD_S, len(self._seats) / COMMITS_A_S)
        self._looked_s = float("-inf")
        self._stopped_s: float | None = None

    def execute(self) -> FleetStudy:
        try:
            for seat in self._seats:
                self._send(seat, seat.wanted.node.key)
            while any(seat.is_open for seat in self._seats):
                self._see_stop()
                for heard in self._cluster.heard(SLICE_S):
                    self._hear(heard)
                if self._clock.now_s() - self._looked_s >= TELL_EVERY_S:
                    self._looked_s = self._clock.now_s()
                    self._look()
                    self._tell("measuring")
        finally:
            for seat in self._seats:
                if seat.is_open:  # after an error here, or a second Ctrl-C
                    self._give_up(seat, "cancelled", self._tools.stopped_as)
        status: Status = "finished" if self._stopped_s is None else self._tools.stopped_as
        study = self._study(status)
        self._tell("done")
        if not any(machine.run_id for machine in study.machines):
            if self._stopped_s is not None:
                raise Cancelled
            raise StudyFailed(f"No machine could be measured. {self._first_reason()}".rstrip())
        return study

    # -- asking ----------------------------------------------------------------------------------------------------

    def _send(self, seat: Seat, key: str) -> None:
        """Ask a node to begin as soon as it is free."""
        run = self._new_run(seat.name)
        seat.is_sent(key, run, self._clock.now_s())
        self._at[key] = seat
        try:
            self._cluster.begin(key, run.model_dump_json().encode())
        except NodeLost as lost:
            self._lose(seat, str(lost))

    def _new_run(self, machine: str) -> Run:
        sweep = self._plan.sweep
        while (run_id := new_id()) in self._ids:
            continue
        self._ids.add(run_id)
        return Run(
            id=run_id,
            name=f"{sweep.title} on {machine}"[:200],
            created_at=now(),
            label="recorded",
            status="running",
            target_names=sweep.target_names,
            plan=sweep,
        )

    def _see_stop(self) -> None:
        """Pass on a request to stop, and soon after end whatever has not ended by itself."""
        if not self._tools.cancel.is_set():
            return
        if self._stopped_s is None:
            self._stopped_s = self._clock.now_s()
            for key in tuple(self._at):
                self._cluster.cancel(key)
        for seat in self._seats:
            if seat.is_open and (not seat.heard or self._clock.now_s() - self._stopped_s > STOP_S):
                self._give_up(seat, "cancelled", self._tools.stopped_as)

    # -- receiving -------------------------------------------------------------------------------------------------

    def _hear(self, heard: Heard) -> None:
        seat = self._at.get(heard.key)
        if seat is None or seat.run is None:
            return
        if isinstance(heard.said, NodeLost):
            self._lose(seat, str(heard.said))
            return
        if heard.said is None and not seat.heard:
            seat.is_there(self._clock.now_s())
            self._ask(seat, 0.0)
            return
        try:
            answer = decode(heard.said)
            if answer.run_id != seat.run.id:  # it is from a run that was given up
                return
            self._take(seat, answer)
        except Garbled as error:
            self._lose(seat, str(error))
            return
        if answer.question == seat.question:  # an answer to an earlier question is a duplicate
            self._ask(seat, self._hold_s)

    def _ask(self, seat: Seat, hold_s: float) -> None:
        """Ask a machine that is still measuring for what is new."""
        if seat.key is not None:
            seat.question += 1
            self._cluster.ask(seat.key, seat.question, seat.known, hold_s)

    def _take(self, seat: Seat, answer: Answer) -> None:
        """Record the new items. After a gap, ask again for what follows the last known item. Raises Garbled."""
        now_s = self._clock.now_s()
        seat.heard_s, seat.activity, seat.left_s = now_s, answer.activity, answer.left_s
        if answer.first > seat.known + 1:
            return
        records: list[RunRecord] = []
        ended: Ended | None = None
        for item in answer.after(seat.known):
            seat.known += 1
            if isinstance(item, Run):
                self._begin(seat, item)
            elif isinstance(item, Waits):
                seat.waits(item.reason, now_s)
            elif isinstance(item, Ended):
                ended = item
            else:
                records.append(self._checked(seat, item))
        self._record(seat, records)
        if ended is not None and seat.is_open:
            self._end(seat, ended)

    def _begin(self, seat: Seat, run: Run) -> None:
        asked = seat.run
        assert asked is not None
        if seat.begun or (run.id, run.plan, run.rounds) != (asked.id, asked.plan, ()):
            raise Garbled("It began another run than it was asked for.")
        seat.begun, seat.begun_s = True, self._clock.now_s()
        seat.goes("measuring", seat.begun_s)
        self._tools.recorder.begin(run.model_copy(update={"label": "recorded", "status": "running"}))

    def _checked(self, seat: Seat, record: Item) -> RunRecord:
        """Check that a record belongs to the run that was begun. Raises Garbled."""
        assert not isinstance(record, Run | Waits | Ended)
        targets = len(self._plan.sweep.targets)
        parts = record.blocks if isinstance(record, Round) else () if isinstance(record, Warning) else (record,)
        if not seat.begun or any(part.target >= targets for part in parts):
            raise Garbled("It told of what the plan does not have.")
        return record

    def _record(self, seat: Seat, records: list[RunRecord]) -> None:
        """Record a batch; if workers are held back, end the run instead, before it has a round."""
        if not records:
            return
        assert seat.run is not None
        if why := hindrance(record for record in records if isinstance(record, Process)):
            self._refuse(seat, f"{sentence_case(why)}. {self._cluster.remedy}")
            return
        self._tools.recorder.record(seat.run.id, tuple(records))
        seat.counts(sum(isinstance(record, Round) for record in records))

    # -- ending ----------------------------------------------------------------------------------------------------

    def _end(self, seat: Seat, ended: Ended) -> None:
        """Handle the end of a node's run."""
        if ended.refused and not seat.begun:
            self._leave(seat)
            seat.ends("refused", ended.reason)
            return
        state = ENDS.get(ended.status)
        if state is None or (state == "cancelled" and self._stopped_s is None):
            self._lose(seat, ended.reason or "Its run was ended from outside.")
            return
        stopped = state == "cancelled"  # by the user here, or because this program must end
        self._finish(seat, self._tools.stopped_as if stopped else ended.status, ended.elapsed_s)
        self._leave(seat)
        if state == "finished" and seat.run is not None and not seat.came.get(seat.run.id):
            state = "failed"
        seat.ends(state, ended.reason)

    def _refuse(self, seat: Seat, reason: str) -> None:
        """Refuse a machine that cannot be measured on as it is: nothing of the run is kept."""
        assert seat.run is not None
        self._tools.recorder.delete(seat.run.id)
        seat.came.pop(seat.run.id, None)
        self._leave(seat)
        seat.ends("refused", reason)

    def _give_up(self, seat: Seat, state: MachineState, status: Status, reason: str = "") -> None:
        self._finish(seat, status, self._clock.now_s() - seat.begun_s)
        self._leave(seat)
        seat.ends(state, reason)

    def _lose(self, seat: Seat, why: str) -> None:
        """Handle a machine that is gone or unusable; the first time it is started again."""
        if self._stopped_s is not None:
            self._give_up(seat, "cancelled", self._tools.stopped_as)
        elif not seat.may_start_again:
            self._give_up(seat, "lost", "interrupted", why)
        else:
            self._finish(seat, "interrupted", self._clock.now_s() - seat.begun_s)
            self._leave(seat)
            seat.run, seat.key, seat.lost_by = None, None, why
            seat.waits(f"{why} It is started once more.", self._clock.now_s())

    def _finish(self, seat: Seat, status: Status, elapsed_s: float) -> None:
        """Finish its run in the recorder; one without a round is deleted."""
        if seat.run is None or not seat.begun:
            return
        if seat.came.get(seat.run.id):
            self._tools.recorder.finish(seat.run.id, status, elapsed_s)
        else:
            self._tools.recorder.delete(seat.run.id)
        seat.begun = False

    def _leave(self, seat: Seat) -> None:
        if seat.key is not None:
            self._at.pop(seat.key, None)
            self._cluster.drop(seat.key)

    # -- the clock -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Check what depends on time alone: machines that wait, return, are silent or too slow."""
        away = [seat for seat in self._seats if seat.is_open and seat.key is None]
        nodes: tuple[Node, ...] = ()
        with suppress(UserError):  # a cluster that does not answer now may later
            nodes = self._cluster.nodes() if away else ()
        for seat in away:
            self._replace(seat, nodes)
        for seat in self._seats:
            if seat.is_open and seat.key is not None:
                self._watch(seat, self._clock.now_s())

    def _replace(self, seat: Seat, nodes: Iterable[Node]) -> None:
        """Start a lost machine again: itself, or another with the labels asked for."""
        free = {node.key: node for node in nodes if node.key not in self._at}
        others = {other.wanted.node.key for other in self._seats if other is not seat}
        key, labels = seat.wanted.node.key, seat.wanted.labels
        if key not in free and labels is not None:
            key = next((node.key for node in free.values() if node.has(labels) and node.key not in others), key)
        if key in free:
            seat.wanted = Wanted(free[key], labels)
            self._send(seat, key)
        elif self._clock.now_s() - seat.since_s > RETURN_S:
            why = seat.reason.removesuffix(" It is started once more.")
            seat.ends("lost", f"{why} It did not come back within {duration(RETURN_S)}.")

    def _watch(self, seat: Seat, now_s: float) -> None:
        if seat.state == "waiting":
            waited_s = now_s - seat.since_s
            if not seat.heard and waited_s > SAYS_SO_S:
                seat.reason = self._cluster.busy(seat.key or "")
            if waited_s > self._plan.wait_s:
                why = f"It was not free within {duration(self._plan.wait_s)}. {seat.reason}".rstrip()
                self._give_up(seat, "refused", "interrupted", why)
                return
        if seat.heard and now_s - seat.heard_s > SILENT_S:
            self._lose(seat, f"It has not answered for {duration(SILENT_S)}.")
        elif seat.begun and now_s - seat.begun_s > self._limit_s:
            self._lose(seat, f"Its run took longer than {duration(self._limit_s)}.")

    @property
    def _limit_s(self) -> float:
        return self._plan.sweep.budget_s * (1 + OVERDRAWN) + SLOW_S

    # -- reporting -------------------------------------------------------------------------------------------------

    def _tell(self, phase: str) -> None:
        states = Counter(seat.state for seat in self._seats)
        ended = sum(not seat.is_open for seat in self._seats)
        words = ", ".join(
            f"{states[state]:,} {state}" for state in ("measuring", "starting", "waiting") if states[state]
        )
        activity = f"Machines: {words}" if words else "All machines have ended"
        record = self._study("running")
        self._tools.report(
            Progress("done" if phase == "done" else "measuring", activity, ended, len(self._seats), self._elapsed_s,
                     self._left_s(), record=record)
        )  # fmt: skip

    def _left_s(self) -> float:
        """Return the longest time left of the measuring machines; 0 while one waits for other work to end, as that is
        unknown.
        """
        if any(seat.state == "waiting" for seat in self._seats):
            return 0.0
        budget_s = self._plan.sweep.budget_s
        return max((seat.left_s or budget_s for seat in self._seats if seat.is_open), default=0.0)

    @property
    def _elapsed_s(self) -> float:
        return self._clock.now_s() - self._start_s

    def _study(self, status: Status) -> FleetStudy:
        return FleetStudy(
            label="recorded",
            status=status,
            created_at=self._created_at,
            elapsed_s=self._elapsed_s,
            plan=self._plan,
            machines=tuple(seat.to_machine() for seat in self._seats),
        )

    def _first_reason(self) -> str:
        return next((f"{seat.name}: {seat.reason}" for seat in self._seats if seat.reason), "")
