"""Measurement of an experiment's arms side by side: several starts of fresh processes, every arm in every round.

Arms on the same device with the same threads share a worker process, so that differences between processes cancel in
their ratio; other threads or another device get a worker of their own. All workers live side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from core.analysis.statistics import round_time_s
from core.base.evidence import Ended, Outcome, Warning
from core.base.numbers import counted
from core.studies.experiment.effects import effects
from core.studies.experiment.record import Arm, ArmBlock, ArmOutcome, ArmRound, ArmSetup, Experiment
from core.studies.runner import Cancelled, StudyRunner, StudyTools, cut_short, start_words
from core.worker.protocol import CellFailed, Prepare, RunBlock, Worker, WorkerError
from core.workload.names import full_name
from core.workload.spec import Target, Workload

MIN_STARTS, MAX_STARTS = 3, 5  # below three, no interval over starts; above five, starts cost more than they gain
USUAL_STARTS = 4  # if the budget allows it
SETUP_SHARE = 0.5  # share of the budget for starting and preparing; more expensive variants get fewer starts
MIN_ROUNDS = 4  # per start: its median must resist a stalled round
PRECISE = 0.015  # half width of the log speed-up at which an arm is precise enough to stop early
WARMUP_MS = 600.0
BLOCK_MS = 20.0  # blocks of arms differ in steps, so each must outweigh the cost of waking
MOST_OF_BUDGET = 0.1  # share of the budget above which an arm's single block excludes it


@dataclass(frozen=True)
class ExperimentPlan:
    workload: Workload
    arms: tuple[Arm, ...]
    budget_s: float


def measure_arms(tools: StudyTools, plan: ExperimentPlan) -> Experiment:
    """Measure all arms within the budget. Failures become outcomes of their arms.

    Raises StudyFailed if there is nothing to compare with: no first arm, or no round.
    """
    return _Runner(tools, plan).run()


class _NoFirstArm(Exception):
    """No reference is left to compare with."""


@dataclass
class _Start:
    """One start of the workers: the worker of each arm, and the steps of its block."""

    index: int
    workers: tuple[Worker, ...]
    hosts: tuple[Target, ...]
    steps: dict[int, int] = field(default_factory=dict)

    def worker(self, arm: Arm) -> Worker:
        return self.workers[self.hosts.index(arm.target.host)]


class _Runner(StudyRunner):
    def __init__(self, tools: StudyTools, plan: ExperimentPlan) -> None:
        super().__init__(tools, plan.budget_s)
        self._plan = plan
        self._rounds: list[ArmRound] = []
        self._measured: set[int] = set()
        self._outcomes: dict[int, ArmOutcome] = {}
        self._setups: list[ArmSetup] = []
        self._crashes: dict[int, ArmOutcome] = {}  # of arms to be retried if time allows
        self._block_s: dict[int, float] = {}
        self._calibrated: dict[int, int] = {}
        self._wanted = USUAL_STARTS

    def run(self) -> Experiment:
        status: Ended = "finished"
        starts = whole = 0  # starts cut short by a lost worker do not count
        try:
            while whole < MAX_STARTS and not self._is_enough(starts, whole):
                whole += self._one_start(starts, whole)
                starts += 1
                if self._rounds:
                    self._tell("Starting again", self._experiment("finished"))
        except Cancelled:
            status = self.tools.stopped_as
        except _NoFirstArm:
            pass  # rounds before the loss still count
        known = self._measured | set(self._outcomes)
        self._outcomes |= {arm: crash for arm, crash in self._crashes.items() if arm not in known}
        if not self._rounds:
            raise self.nothing(status, self._outcomes[min(self._outcomes)].reason if self._outcomes else "")
        self._tell(status.capitalize())
        return self._experiment(status)

    def _is_enough(self, starts: int, whole: int) -> bool:
        """Tell whether another start would be useless: no time for it, or every arm is known precisely."""
        if starts == 0:
            return False
        if self.remaining_s <= 0.6 * self.elapsed_s / starts:
            return True
        if whole < MIN_STARTS:
            return False
        others = [effect for effect in effects(self._experiment("finished")) if effect.arm]
        return all(e.speed_up_high is not None and e.speed_up_high / e.speed_up - 1 <= PRECISE for e in others)

    def _until(self, whole: int, begin_s: float, setup_s: float, round_s: float) -> float:
        """Return when the start that just began ends: the remaining time, divided among the starts wanted.

        Their number follows from the durations of setting up and of a round in the first start. With too few for an
        interval over starts, their differences are allowed for (:mod:`core.studies.experiment.effects`), which shows
        more than three starts of hardly a round.
        """
        if whole == 0:
            by_setup = SETUP_SHARE * self.budget_s / max(setup_s, 1e-3)
            by_rounds = self.budget_s / max(setup_s + MIN_ROUNDS * round_s, 1e-3)
            self._wanted = max(1, int(min(USUAL_STARTS, by_setup, by_rounds)))
        return begin_s + (self.end_s - begin_s) / max(1, self._wanted - whole)

    def _one_start(self, index: int, whole: int) -> bool:
        """Launch, prepare every arm, and run rounds for this start's share of the time, at least ``MIN_ROUNDS``.

        ``whole`` starts came before; return False if a lost worker cut this one short.
        """
        self.check()
        begin_s = self.clock.now_s()
        active = [i for i in range(len(self._plan.arms)) if i not in self._outcomes]
        hosts = tuple(dict.fromkeys(self._plan.arms[i].target.host for i in active))
        start = _Start(index, self._launch(hosts, active), hosts)
        try:
            for arm in active:
                self._prepare(start, arm)
            self.asking.restart_interference(start.workers)
            ready_s, done, end_s = self.clock.now_s(), 0, self.end_s
            while start.steps and (done < MIN_ROUNDS or self.clock.now_s() < end_s):
                self.check()
                if self.clock.now_s() >= self.end_s and done:
                    break
                self._round(start)
                done += 1
                if done == 1:
                    end_s = self._until(whole, begin_s, ready_s - begin_s, self.clock.now_s() - ready_s)
            return True
        except WorkerError:
            return False  # recorded as the arm's outcome: the next start drops or retries it
        finally:
            for worker in start.workers:
                worker.close()

    def _launch(self, hosts: tuple[Target, ...], active: list[int]) -> tuple[Worker, ...]:
        self._tell(start_words(len(hosts)))
        try:
            return self.asking.start(hosts)
        except WorkerError as error:
            for arm in active:
                self._outcomes[arm] = ArmOutcome(arm=arm, outcome=error.outcome, reason=error.reason)
            raise _NoFirstArm from error

    def _prepare(self, start: _Start, arm: int) -> None:
        """Prepare one arm; a failed cell is dropped, a lost worker ends this start."""
        self.check()
        what = self._plan.arms[arm]
        self._tell(f"Preparing: {what.title}")
        request = Prepare(
            workload=self._plan.workload,
            pipeline=what.pipeline,
            batch=what.batch,
            slot=arm,
            variant=what.target,
            block_ms=BLOCK_MS,
            warmup_ms=WARMUP_MS,
            latency_samples=3,
            steps_per_block=self._calibrated.get(arm),
        )
        try:
            done = self.asking.prepare(start.worker(what), request, what.target)
        except WorkerError as error:
            self._lost(arm, error)
            if isinstance(error, CellFailed):
                return
            raise
        if self._plan.workload.lengths:
            self._setups.append(ArmSetup(arm=arm, **done.model_dump(exclude={"kind", "slot"})))
        self._calibrated[arm] = done.steps_per_block
        step_ms = sorted(done.latency_ms)[len(done.latency_ms) // 2] if done.latency_ms else 0.0
        block_s = self._block_s.setdefault(arm, done.steps_per_block * step_ms / 1000)
        if block_s > MOST_OF_BUDGET * self.budget_s and arm:
            self._fail(arm, "skipped", f"One block takes about {block_s:.0f} s, too much of the budget.")
            return
        start.steps[arm] = done.steps_per_block

    def _round(self, start: _Start) -> None:
        """Run one block of every arm, in an order that reverses each round and shifts by one every second round."""
        number = len(self._rounds)
        order = sorted(start.steps)
        turn = number // 2 % len(order)
        order = order[turn:] + order[:turn]
        self._tell("Measuring all variants in turn")
        blocks = []
        for arm in order if number % 2 == 0 else reversed(order):
            self.check()
            if self._rounds and self.overdue:
                return  # slower than anything before; only complete rounds count
            blocks.append(self._block(start, arm))
        interference = self.interference(start.workers)
        self._measured.update(block.arm for block in blocks)
        self._rounds.append(ArmRound(index=number, blocks=tuple(blocks), interference=interference))

    def _block(self, start: _Start, arm: int) -> ArmBlock:
        what, steps = self._plan.arms[arm], start.steps[arm]
        at_s = self.clock.now_s() - self.begin_s
        try:
            request = RunBlock(batch=what.batch, steps=steps, slot=arm)
            done = self.asking.block(start.worker(what), request, self._block_s[arm])
        except WorkerError as error:
            self._lost(arm, error)
            raise
        self._block_s[arm] = done.block_ms / 1000
        step_ms = done.block_ms / steps
        return ArmBlock(arm=arm, process=start.index, steps=steps, step_ms=step_ms, at_s=at_s, wake_ms=done.wake_ms)

    def _lost(self, arm: int, error: WorkerError) -> None:
        """Record a failure; after a first crash the next start retries the arm instead."""
        if self.asking.forgives(arm, error):
            at = self._plan.arms[arm]
            self.asking.losses.add(full_name(at.target), f"batch {at.batch:,}", error.reason)
            self._crashes[arm] = ArmOutcome(arm=arm, outcome=error.outcome, reason=error.reason)
        else:
            self._fail(arm, error.outcome, error.reason)

    def _fail(self, arm: int, outcome: Outcome, reason: str) -> None:
        self._outcomes[arm] = ArmOutcome(arm=arm, outcome=outcome, reason=reason)
        if arm == 0:
            raise _NoFirstArm

    def _tell(self, activity: str, so_far: Experiment | None = None) -> None:
        self.tell("measuring", activity, len(self._measured | set(self._outcomes)), len(self._plan.arms), so_far)

    def _warnings(self) -> tuple[Warning, ...]:
        """Return the warnings, including one if the reference failed after some rounds."""
        cut = self._outcomes.get(0)
        if cut is None or not self._rounds:
            return self.asking.warnings
        return (*self.asking.warnings, cut_short(counted(len(self._rounds), "round"), cut.reason))

    def _experiment(self, status: Ended) -> Experiment:
        return Experiment(
            workload=self._plan.workload,
            arms=self._plan.arms,
            rounds=tuple(self._rounds),
            outcomes=tuple(self._outcomes[arm] for arm in sorted(self._outcomes)),
            setups=tuple(self._setups),
            warnings=self._warnings(),
            budget_s=self.budget_s,
            **self.envelope(status),
        )


SAFETY = 1.2  # factor on the time extrapolated from this experiment
LEAST_GROWTH = 1.5  # a budget hardly longer would hardly show more


def longer_budget_s(
    experiment: Experiment, halves: Sequence[tuple[float, float]] = (), share: float = 1.0
) -> float | None:
    """Return the budget after which the experiment should have three starts and intervals as narrow as wanted; None
    above an hour.

    ``halves`` are half widths of intervals as they are and as wanted, in log; an unknown one is left out. Widths fall
    with the square root of the time, between starts and rounds alike. ``share`` of a budget goes to the arms.
    """
    setup_s, round_s = _costs_s(experiment)
    starts_s = max(MIN_STARTS * setup_s / SETUP_SHARE, MIN_STARTS * (setup_s + MIN_ROUNDS * round_s))
    grown = max([LEAST_GROWTH, *((now / wanted) ** 2 for now, wanted in halves if wanted > 0)])
    needed_s = SAFETY * max(starts_s, grown * share * max(experiment.elapsed_s, setup_s)) / share
    return round_time_s(lambda step: step >= needed_s)


def _costs_s(experiment: Experiment) -> tuple[float, float]:
    """Return the seconds of a start with its preparations (the longest), and of a round of all arms (the median)."""
    at: dict[int, list[float]] = defaultdict(list)
    for item in experiment.rounds:
        at[item.blocks[0].process].append(min(block.at_s for block in item.blocks))
    if not at:
        return 0.0, 0.0
    begins = [times[0] for _, times in sorted(at.items())]
    ends = [0.0, *(max(times) for _, times in sorted(at.items()))]
    setup_s = max(max(0.0, begin - end) for begin, end in zip(begins, ends, strict=False))
    apart = [after - before for times in at.values() for before, after in pairwise(times)]
    left_s = max(0.0, experiment.elapsed_s - setup_s * len(at)) / max(1, len(experiment.rounds))
    return setup_s, median(apart) if apart else left_s
