"""Measurement of a frontier study: both targets side by side, one setting after the other, chosen adaptively.

A *visit* prepares one setting on both targets, runs a few rounds in alternating order and releases the cells. Starts of
the workers share the budget; in each, settings near a tie are visited again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from core.analysis.gaussian_process import Parameters
from core.analysis.statistics import Array
from core.base.evidence import Block, Ended, Environment, Outcome, Warning
from core.base.numbers import byte_size
from core.studies.frontier.record import FrontierOutcome, FrontierPlan, FrontierRound, FrontierStudy, Setting
from core.studies.frontier.surface import choose_parameters, enough_units, fit_map, next_seed, next_setting, units_of
from core.studies.runner import Cancelled, StudyFailed, StudyRunner, StudyTools, start_words
from core.studies.turns import uneven, up_and_down
from core.worker.protocol import CellFailed, Prepare, Release, RunBlock, Worker, WorkerError, WorkerLost
from core.worker.timing import CORES_AWAKE_MS
from core.workload.memory import CONTEXT_BYTES, estimate_bytes
from core.workload.spec import Pipeline

ROUNDS = 6  # per visit; a median of fewer has no interval
BLOCK_S = 0.02  # least length of a block (docs/design.md, Blocks)
STEPS_TO_PREPARE = 8  # least: first call, warm-up, latency
FIRST_SETUP_S = 0.8  # assumed to prepare a cell, without steps, until one was prepared
FIRST_FLOPS_PER_S = 10e9  # assumed until something is measured; a little less than one core reaches
RESERVE = 0.9  # largest share of the free memory that a plan may use
LASTING: tuple[Outcome, ...] = ("out_of_memory", "crashed", "hung")  # a larger setting would fail likewise


class VisitCosts:
    """Seconds of a visit: setting up, and steps of floor + FLOPs / rate on each target."""

    def __init__(self, plan: FrontierPlan) -> None:
        self._plan = plan
        self.flops = np.array([plan.workload(s).flops_per_sample * s.batch for s in plan.settings], dtype=float)
        self._floor_s: list[float | None] = [None, None]
        self._rate = [FIRST_FLOPS_PER_S, FIRST_FLOPS_PER_S]
        self._seen = [0.0, 0.0]
        self._setup_s: list[float] = []
        self._waking_s = CORES_AWAKE_MS / 1000 / 2 if uneven(plan.targets) else 0.0  # once in two rounds

    def prepared(self, took_s: float) -> None:
        """Record the time of preparing both targets of a setting."""
        self._setup_s.append(took_s)

    def stepped(self, setting: int, target: int, step_s: float) -> None:
        """Record the time of one step. The rate is that of the largest setting seen."""
        floor_s = self._floor_s[target]
        self._floor_s[target] = step_s if floor_s is None else min(step_s, floor_s)
        if self.flops[setting] >= self._seen[target]:
            self._seen[target] = self.flops[setting]
            self._rate[target] = max(self.flops[setting] / step_s, FIRST_FLOPS_PER_S / 100)

    def step_s(self, target: int) -> Array:
        """Return the seconds per step, for each setting."""
        rate = max(self._rate[target], FIRST_FLOPS_PER_S) if self._seen[target] < 1e9 else self._rate[target]
        return np.asarray((self._floor_s[target] or 1e-3) + self.flops / rate)

    def visit_s(self) -> Array:
        """Return the seconds per visit, for each setting."""
        setup_s = float(np.median(self._setup_s[-20:])) if self._setup_s else FIRST_SETUP_S
        steps = [self.step_s(target) for target in (0, 1)]
        blocks_s = np.maximum(steps, BLOCK_S).sum(axis=0)
        return np.asarray(setup_s + STEPS_TO_PREPARE * np.sum(steps, axis=0) + ROUNDS * (self._waking_s + blocks_s))

    def allowed_s(self, budget_s: float, remaining_s: float) -> Array:
        """Return the seconds per visit, for each setting; infinite where it would take too much of the time."""
        cost_s = self.visit_s()
        most_s = np.full(len(cost_s), max(MOST_OF_BUDGET * budget_s, MOST_OF_CHEAPEST * cost_s.min()))
        if self._plan.point is not None:
            most_s[self._plan.settings.index(self._plan.point)] = MOST_FOR_POINT * budget_s
        cost_s[cost_s > np.minimum(most_s, max(remaining_s, 0.0))] = np.inf
        return cost_s


class Limits:
    """Settings that cannot be measured, and why: they failed, are larger than one that did, or cannot fit."""

    def __init__(self, plan: FrontierPlan, environment: Environment) -> None:
        self._plan = plan
        self.outcomes: dict[int, FrontierOutcome] = {}
        self._skip_too_large(environment)

    def fail(self, setting: int, target: int, outcome: Outcome, reason: str) -> None:
        """Record a failed target; if it lacked memory or died, skip all settings at least as large on every axis."""
        plan = self._plan
        self.outcomes[setting] = FrontierOutcome(setting=setting, target=target, outcome=outcome, reason=reason)
        if outcome not in LASTING:
            return
        failed = plan.settings[setting]
        why = f"Skipped, because {plan.names[target]} {_WORDS[outcome]} at {failed.words}."
        for index, other in enumerate(plan.settings):
            if index not in self.outcomes and _is_larger(other, failed):
                self.outcomes[index] = FrontierOutcome(setting=index, target=target, outcome="skipped", reason=why)

    def _skip_too_large(self, environment: Environment) -> None:
        """Skip settings that exceed the memory for CPU targets; a GPU's memory is known to its worker, where running
        out is an outcome.
        """
        on_host = [target for target in self._plan.targets if not target.is_gpu]
        available_bytes = environment.memory_available_bytes
        if available_bytes is None:
            return
        for index, setting in enumerate(self._plan.settings):
            workload = self._plan.workload(setting)
            needed = CONTEXT_BYTES * len(self._plan.targets)
            needed += sum(estimate_bytes(workload, target, setting.batch).total_bytes for target in on_host)
            if needed > RESERVE * available_bytes:
                free = f"{byte_size(available_bytes)} free{environment.limited_words}"
                reason = f"Needs about {byte_size(needed)}; this machine has {free}."
                self.outcomes[index] = FrontierOutcome(setting=index, outcome="skipped", reason=reason)


_WORDS: dict[Outcome, str] = {"out_of_memory": "ran out of memory", "crashed": "crashed", "hung": "hung"}


def _is_larger(setting: Setting, than: Setting) -> bool:
    return all(mine >= other for mine, other in zip(setting, than, strict=True))


MIN_STARTS, USUAL_STARTS = 3, 4  # below three, no interval over starts
MIN_VISITS = 8  # per start; if time allows fewer, there are fewer starts
MAX_VISITS = 1_000  # beyond that, choosing takes longer than measuring
MAX_LOSSES = 4  # workers lost before the study ends with what it has
MAX_FIRST_FAILURES = 3  # settings that fail before a single round
WARMUP_MS = 300.0
MOST_OF_BUDGET = 0.05  # share of the budget above which a visit is left to interpolation
MOST_OF_CHEAPEST = 3.0  # with a short budget, this factor on the cheapest visit is allowed all the same
MOST_FOR_POINT = 0.3  # share of the budget for the operating point, the subject of the question
REFIT = 1.15  # growth of the units after which parameters are chosen again


def run_frontier(tools: StudyTools, plan: FrontierPlan) -> FrontierStudy:
    """Measure within the budget; progress holds the study so far. Raises StudyFailed if there is no round."""
    return _Runner(tools, plan).run()


@dataclass
class _Start:
    """One start of the workers: the worker of each target, its end, and the settings it visited."""

    index: int
    workers: tuple[Worker, ...]
    serves: tuple[int, int]
    begin_s: float
    ready_s: float
    end_s: float
    visited: set[int] = field(default_factory=set)

    def worker(self, target: int) -> Worker:
        return self.workers[self.serves[target]]


class _Runner(StudyRunner):
    def __init__(self, tools: StudyTools, plan: FrontierPlan) -> None:
        super().__init__(tools, plan.budget_s)
        self._plan, self._settings = plan, plan.settings
        self._costs = VisitCosts(plan)
        self._limits = Limits(plan, self.environment)
        self._rounds: list[FrontierRound] = []
        self._warnings: list[Warning] = []
        self._steps: dict[tuple[int, int], int] = {}
        self._tried: set[int] = set()
        self._visits = self._losses = 0
        self._crash = ""  # why the last cell that may be tried again was lost
        self._wanted = USUAL_STARTS
        self._parameters: Parameters | None = None
        self._fitted = 0
        self._so_far: FrontierStudy | None = None

    def run(self) -> FrontierStudy:
        status: Ended = "finished"
        starts = whole = 0  # starts cut short by a lost worker do not count
        try:
            while self._goes_on(starts, whole):
                whole += self._one_start(starts, whole)
                starts += 1
        except Cancelled:
            status = self.tools.stopped_as
        if not self._rounds:
            outcomes = self._limits.outcomes.values()
            raise self.nothing(
                status, next((outcome.reason for outcome in outcomes if outcome.outcome != "skipped"), self._crash)
            )
        self._tell(status.capitalize())
        return self._study(status)

    def _goes_on(self, starts: int, whole: int) -> bool:
        """Tell whether another start has time for some visits and is useful."""
        if starts == 0:
            return True
        if whole >= self._wanted or self._losses >= MAX_LOSSES or self._visits >= MAX_VISITS or self._is_hopeless():
            return False
        typical_s = self.elapsed_s / max(1, self._visits + starts)
        return self.remaining_s > 3 * typical_s

    def _is_hopeless(self) -> bool:
        return not self._rounds and len(self._tried) >= MAX_FIRST_FAILURES

    def _one_start(self, index: int, whole: int) -> bool:
        """Launch and visit settings for this start's share of the time; return False if a lost worker cut it short."""
        start = self._launch(index)
        if start is None:
            return True
        try:
            while self.clock.now_s() < self._until(start, whole) and self._visits < MAX_VISITS:
                setting = self._choose(start, anyhow=whole < MIN_STARTS and len(start.visited) < MIN_VISITS)
                if setting is None or self._is_hopeless():
                    break
                self._visit(start, setting)
            return True
        except WorkerLost:
            self._losses += 1
            return False  # recorded as the setting's outcome, or to be retried
        finally:
            for worker in start.workers:
                worker.close()

    def _launch(self, index: int) -> _Start | None:
        """Start fresh workers; targets that need no process of their own share one, and so its offset."""
        self.check()
        hosts = tuple(dict.fromkeys(target.host for target in self._plan.targets))
        self._tell(start_words(len(hosts)))
        begin_s = self.clock.now_s()
        try:
            workers = self.asking.start(hosts)
        except WorkerError as error:
            if not self._rounds:
                raise StudyFailed(error.reason) from error
            self._warnings.append(Warning(code="no_restart", text=f"The workers did not start again: {error.reason}"))
            self._losses = MAX_LOSSES
            return None
        first, second = (hosts.index(target.host) for target in self._plan.targets)
        return _Start(index, workers, (first, second), begin_s, self.clock.now_s(), self.end_s)

    def _until(self, start: _Start, whole: int) -> float:
        """Return when this start ends: the time left at its beginning, divided among the starts wanted.

        Their number follows from the durations of starting and of a visit in the first start.
        """
        if whole == 0 and not start.visited:
            return self.end_s
        if whole == 0:
            startup_s = start.ready_s - start.begin_s
            visit_s = (self.clock.now_s() - start.ready_s) / len(start.visited)
            affordable = self.budget_s / max(startup_s + MIN_VISITS * visit_s, 1e-3)
            self._wanted = max(1, min(USUAL_STARTS, int(affordable)))
        return start.begin_s + (self.end_s - start.begin_s) / max(1, self._wanted - whole)

    def _choose(self, start: _Start, anyhow: bool) -> int | None:
        """Return the setting to visit next, or None if nothing measurable is left in doubt.

        The operating point is visited in every start. ``anyhow``: settings that are clear already are measured too.
        """
        self.check()
        cost_s = self._costs.allowed_s(self.budget_s, self.remaining_s)
        cost_s[list(self._limits.outcomes)] = np.inf
        seed = next_seed(self._plan, self._tried, cost_s)
        if seed is None and self._plan.point is not None:
            point = self._settings.index(self._plan.point)
            if point not in start.visited and np.isfinite(cost_s[point]):
                return point
        units = units_of(self._rounds)
        if seed is not None or not enough_units(self._plan, units):
            return seed
        if self._parameters is None or len(units) >= REFIT * self._fitted:
            self._parameters = choose_parameters(self._plan, units, self._parameters)
            self._fitted = len(units)
        return next_setting(fit_map(self._plan, units, self._parameters), start.visited, cost_s, anyhow)

    def _visit(self, start: _Start, setting: int) -> None:
        """Prepare a setting, run rounds and release it. A failure becomes an outcome; a lost worker is raised."""
        self._tried.add(setting)
        start.visited.add(setting)
        self._visits += 1
        self._tell(f"{self._settings[setting].words}: preparing".capitalize())
        prepared: list[int] = []
        try:
            begin_s = self.clock.now_s()
            for target in (0, 1):
                self._prepare(start, setting, target)
                prepared.append(target)
            self._costs.prepared(self.clock.now_s() - begin_s)
            self.interference(start.workers)  # resets the sampling: preparing is not interference
            self._tell(f"{self._settings[setting].words}: measuring both targets in turn".capitalize())
            for _ in range(ROUNDS):
                self._round(start, setting)
        except CellFailed:
            pass  # recorded as the setting's outcome
        finally:
            self._so_far = self._study("finished") if self._rounds else None
        for target in prepared:
            self._release(start, setting, target)

    def _release(self, start: _Start, setting: int, target: int) -> None:
        """Release a cell. A worker that cannot is useless from then on: WorkerLost is raised."""
        try:
            self.asking.release(start.worker(target), Release(batch=self._settings[setting].batch, slot=target))
        except CellFailed as error:
            raise WorkerLost(error.outcome, error.reason) from error

    def _prepare(self, start: _Start, setting: int, target: int) -> None:
        self.check()
        place = self._settings[setting]
        request = Prepare(
            workload=self._plan.workload(place),
            pipeline=Pipeline(),
            batch=place.batch,
            slot=target,
            variant=self._plan.targets[target],
            block_ms=1000 * BLOCK_S,
            warmup_ms=WARMUP_MS,
            latency_samples=3,
            steps_per_block=self._steps.get((setting, target)),
        )
        try:
            expected_s = float(self._costs.visit_s()[setting])
            done = self.asking.prepare(start.worker(target), request, target, expected_s)
        except WorkerError as error:
            self._fail(setting, target, error)
            raise
        self._steps[setting, target] = done.steps_per_block
        if done.latency_ms:
            self._costs.stepped(setting, target, float(np.median(done.latency_ms)) / 1000)

    def _round(self, start: _Start, setting: int) -> None:
        """Run one block of each target, in every other round in the opposite order."""
        number = len(self._rounds)
        order = up_and_down((0, 1) if number % 2 == 0 else (1, 0), self._plan.targets, number)
        blocks = tuple(self._block(start, setting, target) for target in order)
        interference = self.interference(start.workers)
        self._rounds.append(FrontierRound(index=number, setting=setting, blocks=blocks, interference=interference))

    def _block(self, start: _Start, setting: int, target: int) -> Block:
        self.check()
        steps = self._steps[setting, target]
        expected_s = steps * float(self._costs.step_s(target)[setting])
        at_s = self.clock.now_s() - self.begin_s
        try:
            request = RunBlock(batch=self._settings[setting].batch, steps=steps, slot=target)
            done = self.asking.block(start.worker(target), request, expected_s)
        except WorkerError as error:
            self._fail(setting, target, error)
            raise
        step_ms = done.block_ms / steps
        self._costs.stepped(setting, target, step_ms / 1000)
        wake_ms = done.wake_ms
        return Block(target=target, process=start.index, steps=steps, step_ms=step_ms, at_s=at_s, wake_ms=wake_ms)

    def _fail(self, setting: int, target: int, error: WorkerError) -> None:
        """Record a failure as the setting's outcome; after a first crash the setting may be chosen again instead."""
        if self.asking.forgives((setting, target), error):
            self.asking.losses.add(self._plan.names[target], self._settings[setting].words, error.reason)
            self._tried.discard(setting)
            self._crash = error.reason
        else:
            self._limits.fail(setting, target, error.outcome, error.reason)

    def _tell(self, activity: str) -> None:
        done = len({item.setting for item in self._rounds})
        self.tell("measuring", activity, done, len(self._settings), self._so_far)

    def _study(self, status: Ended) -> FrontierStudy:
        outcomes = self._limits.outcomes
        return FrontierStudy(
            plan=self._plan,
            rounds=tuple(self._rounds),
            outcomes=tuple(outcomes[setting] for setting in sorted(outcomes)),
            warnings=(*self.asking.warnings, *self._warnings),
            **self.envelope(status),
        )
