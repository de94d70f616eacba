"""Fleet run on the Ray cluster that its plan names: one thread for any number of machines.

Each machine is polled for what is new of its run; the records are stored at once, in batches, and forgotten. A machine
that is lost, hangs or is too slow costs only what it has not measured: it is started once more, and all others go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from core.base.evidence import Process, Status
from core.base.numbers import counted, duration
from core.base.schema import UserError
from core.base.text import sentence_case
from core.networks.families.code import Code
from core.rounds.answer.reliability import hindrance
from core.rounds.plan import SweepPlan
from core.rounds.run import MAX_NAME, Round, Run, RunRecord
from core.rounds.study import new_id
from core.studies.fleet.cluster import Answer, Choice, Cluster, Node, NodeLost, RunEnd, Update, choose
from core.studies.fleet.collect import ENDED_AS, unique_name
from core.studies.fleet.record import ENDED, FleetMachine, FleetPlan, FleetStudy, MachineState
from core.studies.progress import Phase, Progress
from core.studies.runner import OVERDRAWN, Cancelled, StudyFailed, StudyTools, now
from core.worker.interpreters import refuse_python

RAY_ADDRESS = "BREAKEVEN_RAY_ADDRESS"
"""Environment variable with the default address of a fleet."""
MAX_STARTS = 2
SLICE_S = 0.25  # longest wait for answers before a request to stop is checked
REPORT_EVERY_S = 1.0
FLUSH_S = 1.0
"""Time between two polls of a machine; longer with many machines."""
FLUSH_STOPPING_S = 0.2
COMMITS_PER_S = 100.0
"""Batches per second that a store handles well, over all machines."""
SILENT_S = 45.0  # a node answers a poll at once
SLOW_S = 600.0
"""Allowance over the budget for starting workers, compiling and closing; a run that takes longer is given up."""
REPORT_AFTER_S = 2.0  # wait before its reason is reported
RETURN_S = 120.0
"""Time that a lost machine may stay away before it is given up."""
STOP_S = 2.5  # grace period for an orderly end before it is forced


def check_fleet(plan: FleetPlan) -> None:
    """Raise UserError for a plan that no fleet can run."""
    if plan.address is None:
        raise UserError(f"A fleet run needs the address of a Ray cluster: --address, or {RAY_ADDRESS}.")
    if isinstance(plan.sweep.workload.network, Code):
        raise UserError(
            "Code of your own is not sent to other machines; measure it on each with “sweep --plan --model”, and put "
            "the files together with “fleet --collect”."
        )
    refuse_python(plan.sweep.targets)


@contextmanager
def connected(plan: FleetPlan) -> Iterator[Cluster]:
    """Connect to the cluster of a plan; everything that it runs there has ended afterwards. Raises UserError."""
    check_fleet(plan)
    from core.studies.fleet.ray_cluster import RayCluster  # without Ray all else of a fleet still works

    assert plan.address is not None
    cluster = RayCluster(plan.address)
    try:
        yield cluster
    finally:
        cluster.close()


def measure_fleet(tools: StudyTools, plan: FleetPlan) -> FleetStudy:
    """Measure the fleet run of a plan; its runs go to ``tools.recorder`` as they arrive. Raises UserError."""
    with connected(plan) as cluster:
        return run_fleet(tools, plan, cluster)


def run_fleet(tools: StudyTools, plan: FleetPlan, cluster: Cluster) -> FleetStudy:
    """Measure a plan on the machines of a cluster; each run goes to ``tools.recorder`` as it arrives.

    The returned study contains no runs. Raises UserError if a machine is missing, Cancelled if stopped before anything
    was measured, StudyFailed if no machine could be measured.
    """
    return _Fleet(tools, plan, cluster).execute()


@dataclass(eq=False)
class _Machine:
    """State of one machine. ``key`` and ``run`` are its node and its run, while it has them.

    ``last_seq`` counts the records received of the run. ``placed``: its node has answered; ``begun``: the run is with
    the recorder; ``polling``: an answer is due. ``rounds_received`` has the rounds of each of its runs.
    """

    name: str
    choice: Choice
    state: MachineState = "starting"
    reason: str = ""
    key: str | None = None
    run: Run | None = None
    last_seq: int = 0
    placed: bool = False
    begun: bool = False
    polling: bool = False
    starts: int = 0
    waited_s: float = 0.0
    waiting_since_s: float = 0.0
    polled_s: float = 0.0
    answered_s: float = 0.0
    begun_s: float = 0.0
    left_s: float = 0.0
    rounds_received: Counter[str] = field(default_factory=Counter)
    finished_id: str | None = None
    lost_by: str = ""

    @property
    def is_open(self) -> bool:
        return self.state not in ENDED

    @property
    def run_id(self) -> str | None:
        """The run that represents the machine: the one that finished, else the one with the most rounds."""
        return self.finished_id or max(self.rounds_received, key=self.rounds_received.__getitem__, default=None)

    def to_record(self) -> FleetMachine:
        return FleetMachine(
            name=self.name,
            labels=self.choice.node.labels,
            state=self.state,
            reason=self.reason,
            run_id=self.run_id,
            rounds=self.rounds_received[self.run_id] if self.run_id else 0,
            starts=self.starts,
            waited_s=self.waited_s,
        )

    def start(self, key: str, run: Run, now_s: float) -> None:
        """Mark as started on a node, which may not be free yet."""
        self.key, self.run = key, run
        self.last_seq, self.left_s = 0, 0.0
        self.placed = self.begun = self.polling = False
        self.polled_s = float("-inf")
        self.starts += 1
        self.wait("", now_s)

    def wait(self, reason: str, now_s: float) -> None:
        """Mark as waiting for its machine to be free, or to return."""
        if self.state != "waiting":
            self.waiting_since_s = now_s
        self.state, self.reason = "waiting", reason

    def resume(self, state: MachineState, now_s: float) -> None:
        """Set a state other than waiting, and add up the time waited."""
        if self.state == "waiting":
            self.waited_s += now_s - self.waiting_since_s
        self.state, self.reason = state, ""

    def end(self, state: MachineState, reason: str) -> None:
        """Set the final state, and say in the reason what is kept of a run that did not finish."""
        if state == "finished" and self.run is not None:
            self.finished_id = self.run.id
            reason = f"It was started once more: {self.lost_by}" if self.lost_by else ""
        elif self.run_id is not None:
            reason = f"{reason} {counted(self.rounds_received[self.run_id], 'round')} came home and stand.".lstrip()
        self.state, self.reason, self.run, self.left_s = state, reason, None, 0.0


class _Fleet:
    """Course of one fleet run."""

    def __init__(self, tools: StudyTools, plan: FleetPlan, cluster: Cluster) -> None:
        self._tools, self._plan, self._cluster, self._clock = tools, plan, cluster, tools.clock
        self._start_s, self._created_at = self._clock.now_s(), now()
        choices, names = choose(cluster.nodes(), plan), set[str]()
        self._machines = tuple(_Machine(unique_name(choice.node.name, names), choice) for choice in choices)
        self._by_key: dict[str, _Machine] = {}
        self._run_ids: set[str] = set()
        self._flush_s = max(FLUSH_S, len(choices) / COMMITS_PER_S)
        self._limit_s = plan.sweep.budget_s * (1 + OVERDRAWN) + SLOW_S
        self._stopped_s: float | None = None

    def execute(self) -> FleetStudy:
        reported_s = float("-inf")
        with ExitStack() as cleanup:
            for machine in self._machines:
                cleanup.callback(self._abandon, machine)
                self._start(machine, machine.choice.node.key)
            while any(machine.is_open for machine in self._machines):
                self._check_stop()
                self._poll()
                for answer in self._cluster.answers(SLICE_S):
                    self._on_answer(answer)
                if self._clock.now_s() - reported_s >= REPORT_EVERY_S:
                    reported_s = self._clock.now_s()
                    self._restart_lost()
                    self._check_deadlines()
                    self._report("measuring")
        study = self._study("finished" if self._stopped_s is None else self._tools.stopped_as)
        self._report("done")
        if not any(machine.run_id for machine in study.machines):
            if self._stopped_s is not None:
                raise Cancelled
            reasons = (f"{machine.name}: {machine.reason}" for machine in self._machines if machine.reason)
            raise StudyFailed(f"No machine could be measured. {next(reasons, '')}".rstrip())
        return study

    # -- asking ----------------------------------------------------------------------------------------------------

    def _start(self, machine: _Machine, key: str) -> None:
        """Ask a node to measure as soon as it is free."""
        while (run := _new_run(self._plan.sweep, machine.name)).id in self._run_ids:
            continue
        self._run_ids.add(run.id)
        machine.start(key, run, self._clock.now_s())
        self._by_key[key] = machine
        try:
            self._cluster.begin(key, run)
        except UserError as error:  # the node is gone, or the cluster does not answer now
            self._on_lost(machine, str(error))

    def _poll(self) -> None:
        now_s = self._clock.now_s()
        flush_s = self._flush_s if self._stopped_s is None else FLUSH_STOPPING_S
        for key, machine in self._by_key.items():
            if not machine.polling and now_s - machine.polled_s >= flush_s:
                machine.polling, machine.polled_s = True, now_s
                self._cluster.poll(key, machine.last_seq)

    def _check_stop(self) -> None:
        """Pass on a request to stop, and soon after end whatever has not ended by itself."""
        if not self._tools.cancel.is_set():
            return
        if self._stopped_s is None:
            self._stopped_s = self._clock.now_s()
            for key in self._by_key:
                self._cluster.cancel(key)
        for machine in self._machines:
            if not machine.placed or self._clock.now_s() - self._stopped_s > STOP_S:
                self._abandon(machine)

    # -- receiving -------------------------------------------------------------------------------------------------

    def _on_answer(self, answer: Answer) -> None:
        machine = self._by_key.get(answer.key)
        if machine is None:
            return
        machine.polling = False
        if isinstance(answer.result, NodeLost):
            self._on_lost(machine, str(answer.result))
        elif answer.result is not None:
            self._on_update(machine, answer.result)

    def _on_update(self, machine: _Machine, update: Update) -> None:
        now_s = self._clock.now_s()
        machine.answered_s, machine.left_s = now_s, update.left_s
        if not machine.placed:
            machine.placed = True
            machine.resume("starting", now_s)
        if update.begun is not None and not machine.begun:
            machine.begun, machine.begun_s = True, now_s
            machine.resume("measuring", now_s)
            self._tools.recorder.begin(update.begun)
        elif update.waiting and not machine.begun:
            machine.wait(update.waiting, now_s)
        if records := update.records[machine.last_seq - update.last_seq :]:
            machine.last_seq += len(records)
            self._record(machine, records)
        if update.end is not None and machine.is_open:
            self._on_end(machine, update.end)

    def _record(self, machine: _Machine, records: tuple[RunRecord, ...]) -> None:
        """Store new records; if workers are held back, refuse the machine, and keep nothing of the run."""
        assert machine.run is not None
        if why := hindrance(record for record in records if isinstance(record, Process)):
            del machine.rounds_received[machine.run.id]
            self._close(machine, "refused", "failed", f"{sentence_case(why)}. {self._cluster.remedy}")
            return
        self._tools.recorder.record(machine.run.id, records)
        if rounds := sum(isinstance(record, Round) for record in records):
            machine.rounds_received[machine.run.id] += rounds

    # -- ending ----------------------------------------------------------------------------------------------------

    def _on_end(self, machine: _Machine, end: RunEnd) -> None:
        """Handle the end of a machine's run."""
        state = "refused" if end.refused else ENDED_AS.get(end.status)
        if state is None:
            self._on_lost(machine, end.reason or "Its run was ended from outside.")
            return
        if state == "finished" and not (machine.run and machine.run.id in machine.rounds_received):
            state = "failed"
        status = self._tools.stopped_as if state == "cancelled" else end.status
        self._close(machine, state, status, end.reason, end.elapsed_s)

    def _on_lost(self, machine: _Machine, why: str) -> None:
        """Handle a machine that is gone or unusable; the first time it is started again."""
        if self._stopped_s is not None:
            self._abandon(machine)
        elif machine.starts >= MAX_STARTS:
            self._close(machine, "lost", "interrupted", why)
        else:
            self._leave(machine, "interrupted")
            machine.run, machine.lost_by = None, why
            machine.wait(f"{why} It is started once more.", self._clock.now_s())

    def _abandon(self, machine: _Machine) -> None:
        """Cancel a machine that is still open: the user stops, or there was an error here."""
        if machine.is_open:
            self._close(machine, "cancelled", self._tools.stopped_as)

    def _close(
        self, machine: _Machine, state: MachineState, status: Status, reason: str = "", elapsed_s: float | None = None
    ) -> None:
        self._leave(machine, status, elapsed_s)
        machine.end(state, reason)

    def _leave(self, machine: _Machine, status: Status, elapsed_s: float | None = None) -> None:
        """Return the machine to its cluster, and finish its run in the recorder; one without a round is deleted."""
        if machine.key is not None:
            self._cluster.drop(machine.key)
            del self._by_key[machine.key]
            machine.key, machine.placed = None, False
        if machine.run is None or not machine.begun:
            return
        machine.begun = False
        if machine.run.id in machine.rounds_received:
            if elapsed_s is None:
                elapsed_s = self._clock.now_s() - machine.begun_s
            self._tools.recorder.finish(machine.run.id, status, elapsed_s)
        else:
            self._tools.recorder.delete(machine.run.id)

    def _restart_lost(self) -> None:
        """Start lost machines again that are back, or that others with the labels asked for can replace."""
        away = [machine for machine in self._machines if machine.is_open and machine.key is None]
        nodes: tuple[Node, ...] = ()
        with suppress(UserError):  # a cluster that does not answer now may later
            nodes = self._cluster.nodes() if away else ()
        for machine in away:
            self._restart(machine, nodes)

    def _restart(self, machine: _Machine, nodes: Sequence[Node]) -> None:
        chosen = {other.choice.node.key for other in self._machines if other is not machine}
        node = machine.choice.replacement(node for node in nodes if node.key not in chosen)
        if node is not None:
            machine.choice = Choice(node, machine.choice.labels)
            self._start(machine, node.key)
        elif self._clock.now_s() - machine.waiting_since_s > RETURN_S:
            why = f"{machine.lost_by} It did not come back within {duration(RETURN_S)}."
            self._close(machine, "lost", "interrupted", why)

    def _check_deadlines(self) -> None:
        """End what has waited too long, and lose what is silent or too slow."""
        now_s = self._clock.now_s()
        for key, machine in tuple(self._by_key.items()):
            waited_s = now_s - machine.waiting_since_s
            if machine.state == "waiting" and not machine.placed and waited_s > REPORT_AFTER_S:
                machine.reason = self._cluster.pending(key)
            if machine.state == "waiting" and waited_s > self._plan.wait_s:
                why = f"It was not free within {duration(self._plan.wait_s)}. {machine.reason}".rstrip()
                self._close(machine, "refused", "interrupted", why)
            elif machine.placed and now_s - machine.answered_s > SILENT_S:
                self._on_lost(machine, f"It has not answered for {duration(SILENT_S)}.")
            elif machine.begun and now_s - machine.begun_s > self._limit_s:
                self._on_lost(machine, f"Its run took longer than {duration(self._limit_s)}.")

    def _report(self, phase: Phase) -> None:
        states = Counter(machine.state for machine in self._machines)
        counts = [f"{states[state]:,} {state}" for state in ("measuring", "starting", "waiting") if states[state]]
        activity = f"Machines: {', '.join(counts)}" if counts else "All machines have ended"
        ended = sum(not machine.is_open for machine in self._machines)
        left_s = _left_s(self._machines, self._plan.sweep.budget_s)
        record = self._study("running")
        self._tools.report(
            Progress(phase, activity, ended, len(self._machines), record.elapsed_s, left_s, record=record)
        )

    def _study(self, status: Status) -> FleetStudy:
        return FleetStudy(
            label="recorded",
            status=status,
            created_at=self._created_at,
            elapsed_s=self._clock.now_s() - self._start_s,
            plan=self._plan,
            machines=tuple(machine.to_record() for machine in self._machines),
        )


def _new_run(sweep: SweepPlan, machine: str) -> Run:
    """Return the run of a machine, without rounds."""
    return Run(
        id=new_id(),
        name=f"{sweep.title} on {machine}"[:MAX_NAME],
        created_at=now(),
        label="recorded",
        status="running",
        target_names=sweep.target_names,
        plan=sweep,
    )


def _left_s(machines: Sequence[_Machine], budget_s: float) -> float:
    """Return the longest time left of the measuring machines; 0 while one waits, as that is unknown."""
    if any(machine.state == "waiting" for machine in machines):
        return 0.0
    return max((machine.left_s or budget_s for machine in machines if machine.is_open), default=0.0)
