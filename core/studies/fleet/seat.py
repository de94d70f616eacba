"""State of one machine of a fleet while it is measured, including its first attempt if there were two."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.numbers import counted
from core.studies.fleet.cluster import Wanted
from core.studies.fleet.record import ENDED, FleetMachine, MachineState
from core.studies.sweep.record import Run

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
