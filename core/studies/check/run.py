"""Measure a check: many short starts of fresh workers, a worker each side, their blocks in turn.

What differs from process to process does not get less with more rounds of the same process, so the budget goes to as
many starts as it allows. How many there are follows from times alone, never from which side is ahead, and nothing ends
a check early: an interval that is looked at until it says something says it too often.
"""

from __future__ import annotations

import math
from typing import Self

from pydantic import model_validator

from core.evidence import Ended
from core.machine.environment import capture_environment
from core.spec import Workload
from core.studies.check.plan import MIN_ROUNDS, CheckPlan
from core.studies.check.record import CheckRecord
from core.studies.kind import Task
from core.studies.progress import Phase, Progress
from core.studies.runner import Cancelled, StudyFailed, StudyTools, cut_short, now, start_words
from core.studies.study import new_id
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.plan import SweepPlan
from core.studies.sweep.record import MAX_NAME, Run
from core.studies.sweep.schedule import VISIT_ROUNDS
from core.studies.sweep.workers import Workers

FEWEST_ROUNDS, MOST_ROUNDS = 4, 40  # of a batch in one start
SCATTER_RATIO = 1.4  # of rounds' log-ratios over processes', as both were seen to scatter (docs/validation.md)
SIDES = ("baseline", "checked")


class _Sides(SweepPlan):
    """As workers take it: the same target twice, a workload each."""

    workloads: tuple[Workload, ...]
    called: tuple[str, ...]

    @model_validator(mode="after")
    def _different_targets(self) -> Self:
        return self  # what differs is the code

    @property
    def names(self) -> tuple[str, ...]:
        return self.called

    def workload_of(self, target: int) -> Workload:
        return self.workloads[target]


def run_check(tools: StudyTools, plan: CheckPlan) -> CheckRecord:
    """Measure within the budget. What fails becomes an outcome of its cell.

    Raises Cancelled where nothing was measured yet, StudyFailed where no batch could be on every side.
    """
    return _Check(tools, plan).execute()


class _Check:
    def __init__(self, tools: StudyTools, plan: CheckPlan) -> None:
        self._plan, self._tools, self._clock = plan, tools, tools.clock
        self._sides = tuple(range(len(plan.sides)))
        run = Run(
            id=new_id(),
            name=plan.title[:MAX_NAME],
            created_at=now(),
            label="measured",
            status="running",
            target_names=SIDES[-len(plan.sides) :],
            environment=capture_environment(),
        )
        self._ledger = Ledger(run, tools.recorder)
        sides = _Sides(
            workload=plan.sides[-1].workload,
            workloads=tuple(side.workload for side in plan.sides),
            called=tuple(side.title for side in plan.sides),
            targets=(plan.target,) * len(plan.sides),
            batches=plan.batches,
            pipeline=plan.pipeline,
            budget_s=plan.budget_s,
        )
        self._workers = Workers(sides, self._ledger, tools, deadline_s=lambda: self._until_s)
        self._begin_s = self._clock.now_s()
        self._until_s = self._end_s
        self._done = 0
        self._wanted = 0

    def execute(self) -> CheckRecord:
        status: Ended = "finished"
        failure = ""
        try:
            while self._open_batches() and self._has_time():
                self._one_start()
        except Cancelled:
            status = self._tools.stopped_as
        except StudyFailed as error:
            status, failure = "failed", str(error)
        finally:
            self._workers.close()
        run = self._ledger.run(self._elapsed_s)
        rounds = sum(len(item.blocks) == len(self._sides) for item in run.rounds)
        if not rounds:
            if status in ("cancelled", "interrupted"):
                raise Cancelled
            raise StudyFailed(failure or self._ledger.first_reason or "Nothing could be measured within the budget.")
        if failure:
            self._ledger.add(cut_short(f"{rounds} rounds", failure))
        return CheckRecord(plan=self._plan, run=self._ledger.finish(status, self._elapsed_s))

    def _one_start(self) -> None:
        """Fresh workers, and passes over the batches until this start's share of the time is used."""
        begin_s = self._clock.now_s()
        self._until_s = self._end_s
        self._tell("restarting" if self._done else "starting", start_words(len(self._sides)))
        self._workers.start()
        passes = 0
        while passes == 0 or self._clock.now_s() < self._until_s:
            before_s, batches, pass_index = self._clock.now_s(), self._open_batches(), self._ledger.next_pass
            for batch in batches if passes % 2 == 0 else reversed(batches):
                if self._clock.now_s() >= self._until_s:
                    break
                self._tell("measuring", f"Measuring batch {batch:,}")
                self._workers.visit(batch, VISIT_ROUNDS, pass_index, self._sides)
            if self._clock.now_s() <= before_s:
                break  # nothing could run
            if passes == 0:
                self._until_s = min(self._end_s, begin_s + (self._end_s - begin_s) / self._starts_from(begin_s))
            passes += 1
        self._done += 1

    def _starts_from(self, begin_s: float) -> int:
        """How many starts, the one that began then among them, the time from then on is best divided into.

        Two-stage sampling (Cochran 1977, §10.6), as for a sweep's epochs: with c₁ the cost of a start and c₂ of a round
        of every batch, √(c₁ / c₂) · σ₂ / σ₁ rounds in each start are best.
        """
        setup_s, round_s = self._costs()
        best = SCATTER_RATIO * math.sqrt(setup_s / round_s)
        rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, best))
        left_s = self._end_s - begin_s
        count = max(1, int(left_s / (setup_s + rounds * round_s)))
        self._wanted = self._done + count
        return count

    def _costs(self) -> tuple[float, float]:
        """Seconds that starting and preparing take, and a round of every batch."""
        costs, batches = self._workers.costs(len(self._sides)), len(self._open_batches())
        return costs.startup_s + batches * costs.prepare_s, max(1, batches) * costs.round_s

    def _has_time(self) -> bool:
        """For one more start with enough rounds."""
        if self._done == 0:
            return True
        setup_s, round_s = self._costs()
        return self._done < self._wanted and self._end_s - self._clock.now_s() >= setup_s + MIN_ROUNDS * round_s

    def _open_batches(self) -> tuple[int, ...]:
        """Those that no side has failed at."""
        return tuple(b for b in self._plan.batches if all(self._workers.is_open(side, b) for side in self._sides))

    @property
    def _elapsed_s(self) -> float:
        return self._clock.now_s() - self._begin_s

    @property
    def _end_s(self) -> float:
        return self._begin_s + self._plan.budget_s + self._workers.lost_s

    def _tell(self, phase: Phase, activity: str) -> None:
        left_s = max(0.0, self._end_s - self._clock.now_s())
        self._tools.report(Progress(phase, activity, self._done, self._wanted, self._elapsed_s, left_s))


CHECK: Task[CheckPlan, CheckRecord] = Task(
    name="check",
    describe=lambda plan: f"Check of {plan.title}",
    run=run_check,
    targets=lambda plan: (plan.target,),
)
