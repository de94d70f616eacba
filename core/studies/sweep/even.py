"""Rounds spread evenly: many short starts of fresh workers, every batch in each of them, targets in turn.

Variation from process to process does not shrink with more rounds of the same process, so the budget goes to as many
starts as it allows. Their number follows from times alone, never from which target is faster, and nothing ends the
measurement early: an interval that is inspected until it excludes zero does so too often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.base.evidence import Ended
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.progress import Phase, Progress
from core.studies.runner import Cancelled, StudyFailed, StudyTools, cut_short, start_words, unheard
from core.studies.sweep import schedule
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.rotation import Rotation
from core.studies.sweep.workers import Workers

MIN_ROUNDS = 3
"""Rounds of a batch in one start: the fewest whose median resists one stalled round."""
TELL_EVERY_S = 0.25


class Even:
    """One evenly spread measurement of a plan, into a run without rounds.

    ``targets_at`` returns the targets that have a batch, by default all. With ``whole`` a batch is dropped once one
    target failed there; otherwise the others continue. ``reserve_s`` of the budget are kept for ``closing``, which gets
    the workers of the last start. ``so_far`` derives the record shown with the progress from the run.
    """

    def __init__(
        self,
        tools: StudyTools,
        plan: SweepPlan,
        run: Run,
        *,
        targets_at: Callable[[int], tuple[int, ...]] | None = None,
        whole: bool = True,
        reserve_s: float = 0.0,
        closing: Callable[[Even], None] | None = None,
        so_far: Callable[[Run], Any] | None = None,
    ) -> None:
        self._plan, self._tools, self.clock, self.ledger = plan, tools, tools.clock, Ledger(run, tools.recorder)
        self._all = tuple(range(len(plan.targets)))
        self._targets_at, self._whole = targets_at or (lambda _: self._all), whole
        self._reserve_s, self._closing, self._so_far = reserve_s, closing, so_far
        self.workers = Workers(plan, self.ledger, tools, deadline_s=lambda: self._until_s)
        self._rotation = Rotation(tools, self.ledger, self._visit)
        self._begin_s = self.clock.now_s()
        self._until_s = self._end_s
        self._done = 0
        self._wanted = 0
        self._next_told_s = float("-inf")

    def execute(self) -> Run:
        """Measure within the budget and return the run. Failures become outcomes of their cells.

        Raises Cancelled if nothing was measured yet, StudyFailed if nothing could be compared.
        """
        status: Ended = "finished"
        failure = ""
        try:
            while self._open_batches() and self._has_time():
                self._one_start()
            if self._closing is not None and self.rounds:
                self._until_s = self.final_s
                self._closing(self)
        except Cancelled:
            status = self._tools.stopped_as
        except StudyFailed as error:
            status, failure = "failed", str(error)
        finally:
            self.workers.close()
        if not self.rounds:
            self.tell("finishing", "Nothing was compared")  # the last report stays on screen
            if status in ("cancelled", "interrupted"):
                raise Cancelled
            raise StudyFailed(failure or self.ledger.first_reason or "Nothing could be measured within the budget.")
        if failure:
            self.ledger.add(cut_short(f"{self.rounds} rounds", failure))
        return self.ledger.finish(status, self._elapsed_s)

    @property
    def run(self) -> Run:
        """The run so far."""
        return self.ledger.run(self._elapsed_s)

    @property
    def rounds(self) -> int:
        """Number of rounds that compare at least two targets, or measure the only one."""
        return sum(len(item.blocks) >= self._fewest for item in self.run.rounds)

    @property
    def _fewest(self) -> int:
        """Fewest targets with which a round compares something."""
        return min(2, len(self._all))

    @property
    def final_s(self) -> float:
        """Time at which the budget ends, by the clock."""
        return self._begin_s + self._plan.budget_s + self.workers.asking.lost_s

    def tell(self, phase: Phase, activity: str) -> None:
        """Report the activity and the result so far; while measuring at intervals only, since deriving the result takes
        time.
        """
        now_s = self.clock.now_s()
        if self._tools.report is unheard or (phase == "measuring" and now_s < self._next_told_s):
            return
        left_s = max(0.0, self.final_s - now_s)
        record = None if self._so_far is None else self._so_far(self.run)
        if record is not None:
            self._next_told_s = now_s + TELL_EVERY_S
        self._tools.report(Progress(phase, activity, self._done, self._wanted, self._elapsed_s, left_s, record))

    def _one_start(self) -> None:
        """Start fresh workers, visit every batch once, then make passes until the start's share of the time is used."""
        self._until_s = self._end_s
        self.tell("restarting" if self._done else "starting", start_words(len(self._all)))
        self.workers.start()
        self._rotation.begin()
        self._rotation.one_pass(self._open_batches(), self._end_s)
        costs = self._costs()
        extra_s, follow = schedule.extra_s(self._left_s, costs, 0, 0.0, costs, self._done + 1)
        self._done += 1
        self._wanted = self._done + follow
        self._until_s = min(self._end_s, self.clock.now_s() + extra_s) if follow else self._end_s
        self._rotation.go_on(self._open_batches, self._until_s)

    def _visit(self, batch: int, pass_index: int, _: bool) -> bool:
        self.tell("measuring", f"Measuring batch {batch:,}")
        return self.workers.visit(batch, pass_index, self._targets_at(batch))

    def _costs(self) -> schedule.Costs:
        """Return the costs of a start with every batch."""
        costs = [self.workers.costs(batch, self._targets_at(batch)) for batch in self._open_batches()]
        return schedule.together(costs, self.workers.costs(self._plan.batches[0], ()).startup_s)

    def _has_time(self) -> bool:
        """Tell whether there is time for one more start with enough rounds."""
        if self._done == 0:
            return True
        return self._left_s >= self._costs().start_s

    def _open_batches(self) -> tuple[int, ...]:
        """Return the batches at which no target failed, or some continue; none if nothing can be compared any more."""
        still = {batch: len(self._open_at(batch)) for batch in self._plan.batches}
        if all(count < self._fewest for count in still.values()) and not self.rounds:
            return ()
        return tuple(
            batch
            for batch, count in still.items()
            if count == len(self._targets_at(batch)) or (count and not self._whole)
        )

    def _open_at(self, batch: int) -> tuple[int, ...]:
        return tuple(target for target in self._targets_at(batch) if self.workers.attempts.is_open(target, batch))

    @property
    def _elapsed_s(self) -> float:
        return self.clock.now_s() - self._begin_s

    @property
    def _left_s(self) -> float:
        """Return the seconds for further starts and for measuring in them."""
        return self._end_s - self.clock.now_s() - self.workers.experience.imports_s[1]

    @property
    def _end_s(self) -> float:
        """Time at which measuring ends, by the clock."""
        return self.final_s - self._reserve_s
