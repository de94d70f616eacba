"""The course of a sweep from first start to verdict: starts of the workers, their batches, and the closing work."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product

from core.base.evidence import Status
from core.rounds.answer import loop
from core.rounds.answer.analyse import analyse
from core.rounds.plan import SweepPlan
from core.rounds.run import Run, StopReason
from core.studies.progress import Phase, Progress
from core.studies.runner import Cancelled, StudyFailed, StudyTools, unheard
from core.studies.sweep import schedule
from core.studies.sweep.choice import Choice
from core.studies.sweep.closing import NOT_REACHED, Closing
from core.studies.sweep.focus import Focus, focus_of
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.rotation import Rotation
from core.studies.sweep.workers import Workers
from core.workload.names import shown_names

TELL_EVERY_S = 0.25
TELL_SHARE = 0.1  # largest share of the time for deriving the answer so far, which takes longer for more targets
RESUME_SHARE = 0.3  # least share of the budget for a resumed sweep


def run_sweep(tools: StudyTools, run: Run) -> Run:
    """Measure what ``run.plan`` asks for and return the run with its rounds, whatever happened on the way.

    ``run`` is new (no rounds) or was stopped and continues where it ended. Every record goes to ``tools.recorder`` at
    once; progress holds the run and the answer so far. Raises StudyFailed if no worker can be started or no cell
    measured; the run is then recorded as failed. Raises Cancelled if there is no round yet; only an interrupted run is
    then kept, so that it can be resumed.
    """
    return _Sweep(tools, run).execute()


class _Sweep:
    def __init__(self, tools: StudyTools, run: Run) -> None:
        if run.plan is None:
            raise StudyFailed("This run has no plan, so it cannot be measured; only its points were imported.")
        self._plan: SweepPlan = run.plan
        self._tools, self._clock = tools, tools.clock
        self._start_s, self._before_s = self._clock.now_s(), run.elapsed_s
        budget_s = max(self._plan.budget_s - run.elapsed_s, RESUME_SHARE * self._plan.budget_s)
        self._budget_s = budget_s
        self._ledger = Ledger(run.model_copy(update={"status": "running"}), tools.recorder)
        self._targets, self._names = tuple(range(len(self._plan.targets))), shown_names(self._plan.targets)
        self._workers = Workers(self._plan, self._ledger, tools, deadline_s=lambda: self._late_end_s or self._end_s)
        self._late_end_s = 0.0  # end of the work after the rounds
        self._closing = Closing(self._plan, self._workers, self._ledger, tools, self._tell)
        self._choice = Choice(self._plan, self._ledger, self._workers, self._focus, self._total_s)
        self._choice.tried.update(run.batches)
        self._rotation = Rotation(tools, self._ledger, self._visit)
        self._asked = {(block.target, item.batch) for item in run.rounds for block in item.blocks}
        self._asked.update((target, batch) for target in self._targets for batch in self._plan.batches)
        self._found = Focus(self._targets)
        self._found_at = self._found_start = -1
        self._ran_out = False  # no time to measure; Keras's own loop and traces come after it
        self._next_told_s = float("-inf")

    def execute(self) -> Run:
        status: Status = "finished"
        error: StudyFailed | None = None
        try:
            self._tell("starting", "Starting one worker process for each target")
            self._measure()
            self._ran_out = self._remaining_s() <= 0 or not self._answered()
            self._late_end_s = self._final_s - loop.reserve_s(self._plan) - schedule.trace_reserve_s(self._plan)
            self._closing.measure_energy(self._run, self._telling_batches(), self._late_end_s)
            self._late_end_s = self._final_s
            self._finish(self._workers.running)
        except Cancelled:
            status = self._tools.stopped_as
        except StudyFailed as failure:
            status, error = "failed", failure
        except BaseException:
            self._workers.close()
            stopped = self._tools.cancel.is_set()  # stopped at once by a second Ctrl-C
            self._ledger.finish(self._tools.stopped_as if stopped else "failed", self._elapsed_s())
            raise
        self._workers.close()
        ended: StopReason = "budget" if self._ran_out else "answered"
        self._closing.settle(self._run(), status if status in NOT_REACHED else ended, self._asked)
        if status == "finished" and not self._ledger.next_round:
            status, error = "failed", StudyFailed(f"Nothing could be measured. {self._ledger.first_reason}".rstrip())
        run = self._ledger.finish(status, self._elapsed_s())
        self._tell("done", status.capitalize(), run)
        if error is not None:
            raise error
        if not run.rounds:
            if status == "cancelled":
                self._tools.recorder.delete(run.id)
            raise Cancelled
        return run

    # -- the course of a sweep -------------------------------------------------------------------------------------

    def _measure(self) -> None:
        """Start the workers repeatedly until the question is answered or no other start fits."""
        batches = self._choice.of_next_start(self._remaining_s())
        self._workers.start()
        self._closing.watch_idle()
        self._one_start(batches)
        while not self._answered() and (batches := self._choice.of_next_start(self._remaining_s())):
            self._restart()
            self._one_start(batches)

    def _one_start(self, batches: Collection[int]) -> None:
        """Visit these batches, then those that join them, and then all in turn for as long as is planned."""
        begin_s = self._clock.now_s()
        self._rotation.begin()
        self._rotation.one_pass(batches, self._end_s)
        self._join()
        visited = self._rotation.visited
        extra_s, follow = self._choice.extra_s(self._remaining_s(), visited, self._starts)
        end_s = min(self._end_s, self._clock.now_s() + extra_s) if follow else self._end_s
        self._rotation.go_on(self._in_turn, end_s)
        self._repeat(begin_s)

    def _repeat(self, begin_s: float) -> None:
        """Repeat disturbed visits, within as much time again as the start took and no other start needs."""
        now_s, due = self._clock.now_s(), self._choice.due()
        self._rotation.repeat(self._in_turn(), min(2 * now_s - begin_s, self._end_s - self._choice.due_s(due)))

    def _in_turn(self) -> Collection[int]:
        """Return the batches of this start that still want rounds; with several targets all do."""
        visited = self._rotation.visited
        return tuple(filter(self._choice.wants_rounds, visited)) if len(self._targets) == 1 else visited

    def _join(self) -> None:
        """Add new batches while there is time for replicates of them: first where the lead changes, then the rest of
        the plan, then sizes between them.
        """
        self._scan()
        if self._choice.is_short(self._remaining_s()):  # no time for all: the largest first, then what decides
            self._rotation.one_pass(self._plan.batches[-1:], self._end_s)
            self._scan()
        for batch in self._choice.to_fill_in(self._remaining_s()):
            if self._choice.fits({batch}, self._remaining_s()):
                self._rotation.one_pass((batch,), self._end_s)
        while self._plan.refine and (new := self._choice.between(self._remaining_s())):
            self._rotation.one_pass(new, self._end_s)
        self._choice.settle()
        left, why = self._choice.left_out()
        if self._remaining_s() > 0:
            for batch, target in product(left, self._targets):
                if self._workers.is_runnable(target, batch):
                    self._ledger.set_cell(target, batch, "skipped", why, "budget")

    def _scan(self) -> None:
        """Scan for the changes of the fastest target, the deciding question; the largest batch must still fit."""
        while (batch := self._choice.to_scan(self._remaining_s())) is not None:
            self._rotation.one_pass((batch,), self._end_s)

    def _finish(self, targets: Collection[int], share: float = 1.0) -> None:
        """Do the closing work for these targets, in that share of the time reserved for it; a share of 1 lasts to the
        end.
        """
        loops_s, traces_s = share * loop.reserve_s(self._plan), share * schedule.trace_reserve_s(self._plan)
        end_s = self._final_s if share == 1 else min(self._final_s, self._clock.now_s() + loops_s + traces_s)
        self._closing.finish(self._run(), self._telling_batches(), targets, loops_s, traces_s, end_s)

    def _telling_batches(self) -> tuple[int, ...]:
        """Return the batch nearest the crossover, the smallest and the largest."""
        established = tuple(change.batch for change in self._focus().changes if change.established)
        return schedule.batches_to_trace(self._run().batches, established)

    def _restart(self) -> None:
        """Start fresh workers, dropping targets that are nowhere the fastest once each planned batch has its
        replicates.

        The first stays, since all others are compared with it.
        """
        running, due = self._workers.running, self._choice.due().keys() & set(self._plan.batches)
        kept = set(running) if due else {0, *self._focus(fresh=True).contenders}
        if left := [target for target in running if target not in kept]:
            self._finish(left, len(left) / len(self._targets))
        self._tell("restarting", "Restarting the workers, so that one process's luck is not the answer")
        self._workers.start(kept)

    def _visit(self, batch: int, pass_index: int, first: bool) -> bool:
        """Visit a batch on all running targets if it is the first visit in this start, else on those in question."""
        every = first or len(self._targets) < 3  # then the focus need not be derived
        targets = self._workers.running if every else self._focus().targets_at(batch)
        who = " and ".join(self._names[t] for t in targets) if len(targets) < 4 else f"{len(targets)} targets"
        self._tell("measuring", f"Measuring batch {batch:,} on {who}")
        self._choice.tried.add(batch)
        self._asked.update((target, batch) for target in targets)
        disturbed = self._workers.visit(batch, pass_index, targets)
        self._tell("measuring", f"Measuring batch {batch:,} on {who}")
        return disturbed

    # -- decisions -------------------------------------------------------------------------------------------------

    def _focus(self, fresh: bool = False) -> Focus:
        """Return what decides the answer so far. It is derived again when a start begins, since claims change only
        there, and if it must be ``fresh`` and something was recorded since.
        """
        if self._found_start != self._starts or (fresh and self._found_at != self._ledger.revision):
            self._found, self._found_at, self._found_start = focus_of(self._run()), self._ledger.revision, self._starts
        return self._found

    @property
    def _starts(self) -> int:
        """Number of starts so far, including those before the run was resumed."""
        return self._ledger.next_process

    def _answered(self) -> bool:
        """Tell whether an answer as narrow as asked stands, also over the batches for which there is still time."""
        if self._starts < schedule.MIN_PROCESSES or self._choice.due() or not self._run().rounds:
            return False
        settled = not any(map(self._choice.wants_rounds, self._choice.tried))
        whole = not self._choice.to_fill_in(self._remaining_s())
        return whole and self._focus(fresh=True).is_answered(self._plan.crossover_width, settled)

    # -- reporting -------------------------------------------------------------------------------------------------

    def _run(self) -> Run:
        return self._ledger.run(self._elapsed_s())

    def _elapsed_s(self) -> float:
        return self._before_s + self._clock.now_s() - self._start_s

    @property
    def _final_s(self) -> float:
        return self._start_s + self._budget_s + self._workers.lost_s

    @property
    def _end_s(self) -> float:
        """Time at which measuring ends; the rest is for energy windows, Keras's own loop and traces."""
        later_s = max(0.0, self._closing.energy_s) + schedule.trace_reserve_s(self._plan) + loop.reserve_s(self._plan)
        return self._final_s - later_s

    def _total_s(self) -> float:
        """Return the total seconds for measuring, without the time lost to failed starts and to imports."""
        return self._end_s - self._start_s - self._workers.lost_s - sum(self._workers.imports_s)

    def _remaining_s(self) -> float:
        return self._end_s - self._clock.now_s()

    def _tell(self, phase: Phase, activity: str, run: Run | None = None) -> None:
        now = self._clock.now_s()
        if self._tools.report is unheard or (phase == "measuring" and now < self._next_told_s):
            return
        run = run or self._run()
        answer = analyse(run) if run.rounds else None
        took_s = self._clock.now_s() - now
        self._next_told_s = now + max(TELL_EVERY_S, took_s / TELL_SHARE)
        total = len(self._asked)
        done = sum(1 for c in run.cells if c.outcome != "measured" or self._ledger.rounds_of(c.target, c.batch) >= 2)
        left_s = max(0.0, self._final_s - now)
        self._tools.report(Progress(phase, activity, done, total, self._elapsed_s(), left_s, run, answer))
