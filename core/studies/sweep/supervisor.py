"""The course of a sweep from first start to verdict: starts of the workers, their batches, and the closing work."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product

from core.base.evidence import Status
from core.rounds.answer.analyse import analyse
from core.rounds.run import Run, StopReason
from core.studies.progress import Phase, Progress
from core.studies.runner import Cancelled, StudyFailed, StudyTools, unheard
from core.studies.sweep.choice import Choice
from core.studies.sweep.closing import NOT_REACHED, Closing
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.rotation import Rotation
from core.studies.sweep.timetable import Timetable
from core.studies.sweep.workers import Workers
from core.workload.names import shown_names

TELL_EVERY_S = 0.25
TELL_SHARE = 0.1  # largest share of the time for deriving the answer so far, which takes longer for more targets


def run_sweep(tools: StudyTools, run: Run) -> Run:
    """Measure what ``run.plan`` asks for and return the run with its rounds, whatever happened on the way.

    ``run`` is new (no rounds) or was stopped and continues where it ended. Every record goes to ``tools.recorder`` at
    once; progress holds the run and the answer so far. Raises StudyFailed if no worker can be started or no cell
    measured; the run is then recorded as failed. Raises Cancelled if there is no round yet; only an interrupted run is
    then kept, so that it can be resumed.
    """
    return _Sweep(tools, run).execute()


class _Sweep:
    """One sweep: carries out and reports what its :class:`Choice` decides, in the times of its :class:`Timetable`."""

    def __init__(self, tools: StudyTools, run: Run) -> None:
        if run.plan is None:
            raise StudyFailed("This run has no plan, so it cannot be measured; only its points were imported.")
        self._plan, self._tools, self._clock = run.plan, tools, tools.clock
        self._targets, self._names = tuple(range(len(run.plan.targets))), shown_names(run.plan.targets)
        self._times = times = Timetable(run.plan, self._clock, run.elapsed_s, lambda: self._workers.asking.lost_s)
        self._ledger = ledger = Ledger(run.model_copy(update={"status": "running"}), tools.recorder)
        self._workers = workers = Workers(run.plan, ledger, tools, times.deadline_s)
        self._closing = Closing(run.plan, workers, ledger, tools, times, self._tell)
        self._choice = Choice(run.plan, ledger, workers, times)
        self._rotation = Rotation(tools, ledger, self._visit)
        self._cells = {(block.target, item.batch) for item in run.rounds for block in item.blocks}
        """Cells (target, batch) that were planned or visited."""
        self._cells.update(product(self._targets, run.plan.batches))
        self._next_told_s = float("-inf")

    def execute(self) -> Run:
        status: Status = "finished"
        ended: StopReason = "budget"
        error: StudyFailed | None = None
        try:
            self._tell("starting", "Starting one worker process for each target")
            self._measure()
            if self._times.left_s > 0 and self._choice.is_answered():
                ended = "answered"
            times = self._times
            times.closing_end_s = times.final_s - times.traces_and_loops_s
            self._closing.measure_energy(self._run, self._choice.telling_batches(), times.closing_end_s)
            times.closing_end_s = times.final_s
            self._closing.finish(self._run(), self._choice.telling_batches(), self._workers.running)
        except Cancelled:
            status = self._tools.stopped_as
        except StudyFailed as failure:
            status, error = "failed", failure
        except BaseException:
            self._workers.close()
            stopped = self._tools.cancel.is_set()  # stopped at once by a second Ctrl-C
            self._ledger.finish(self._tools.stopped_as if stopped else "failed", self._times.elapsed_s)
            raise
        self._workers.close()
        self._closing.settle(self._run(), status if status in NOT_REACHED else ended, self._cells)
        if status == "finished" and not self._ledger.next_round:
            status, error = "failed", StudyFailed(f"Nothing could be measured. {self._ledger.first_reason}".rstrip())
        run = self._ledger.finish(status, self._times.elapsed_s)
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
        batches = self._choice.of_next_start(self._times.left_s)
        self._workers.start()
        self._closing.watch_idle()
        self._one_start(batches)
        while not self._choice.is_answered() and (batches := self._choice.of_next_start(self._times.left_s)):
            self._restart()
            self._one_start(batches)

    def _one_start(self, batches: Collection[int]) -> None:
        """Visit these batches, then those that join them, and then all in turn for as long as is planned."""
        begin_s = self._clock.now_s()
        self._rotation.begin()
        self._rotation.one_pass(batches, self._times.end_s)
        self._join()
        visited = self._rotation.visited
        extra_s, follow = self._choice.extra_s(self._times.left_s, visited, self._ledger.next_process)
        end_s = min(self._times.end_s, self._clock.now_s() + extra_s) if follow else self._times.end_s
        self._rotation.go_on(self._in_turn, end_s)
        self._repeat(begin_s)

    def _repeat(self, begin_s: float) -> None:
        """Repeat disturbed visits, within as much time again as the start took and no other start needs."""
        now_s, due = self._clock.now_s(), self._choice.due()
        self._rotation.repeat(self._in_turn(), min(2 * now_s - begin_s, self._times.end_s - self._choice.due_s(due)))

    def _in_turn(self) -> Collection[int]:
        """Return the batches of this start that still want rounds; with several targets all do."""
        visited = self._rotation.visited
        return tuple(filter(self._choice.wants_rounds, visited)) if len(self._targets) == 1 else visited

    def _join(self) -> None:
        """Add new batches while there is time for replicates of them: first where the lead changes, then the rest of
        the plan, then sizes between them.
        """
        self._scan()
        if self._choice.is_short(self._times.left_s):  # no time for all: the largest first, then what decides
            self._rotation.one_pass(self._plan.batches[-1:], self._times.end_s)
            self._scan()
        for batch in self._choice.to_fill_in(self._times.left_s):
            if self._choice.fits({batch}, self._times.left_s):
                self._rotation.one_pass((batch,), self._times.end_s)
        while self._plan.refine and (new := self._choice.between(self._times.left_s)):
            self._rotation.one_pass(new, self._times.end_s)
        self._choice.settle()
        left, why = self._choice.left_out()
        if self._times.left_s > 0:
            for batch, target in product(left, self._targets):
                if self._workers.attempts.is_runnable(target, batch):
                    self._ledger.set_cell(target, batch, "skipped", why, "budget")

    def _scan(self) -> None:
        """Scan for the changes of the fastest target, the deciding question; the largest batch must still fit."""
        while (batch := self._choice.to_scan(self._times.left_s)) is not None:
            self._rotation.one_pass((batch,), self._times.end_s)

    def _restart(self) -> None:
        """Start fresh workers; do the closing work of targets that are dropped first."""
        kept = self._choice.contenders()
        if left := [target for target in self._workers.running if target not in kept]:
            share = len(left) / len(self._targets)
            self._closing.finish(self._run(), self._choice.telling_batches(), left, share)
        self._tell("restarting", "Restarting the workers, so that one process's luck is not the answer")
        self._workers.start(kept)

    def _visit(self, batch: int, pass_index: int, first: bool) -> bool:
        """Visit a batch on all running targets if it is the first visit in this start, else on those in question."""
        every = first or len(self._targets) < 3  # then the focus need not be derived
        targets = self._workers.running if every else self._choice.focus().targets_at(batch)
        who = " and ".join(self._names[t] for t in targets) if len(targets) < 4 else f"{len(targets)} targets"
        self._tell("measuring", f"Measuring batch {batch:,} on {who}")
        self._choice.tried.add(batch)
        self._cells.update((target, batch) for target in targets)
        disturbed = self._workers.visit(batch, pass_index, targets)
        self._tell("measuring", f"Measuring batch {batch:,} on {who}")
        return disturbed

    # -- reporting -------------------------------------------------------------------------------------------------

    def _run(self) -> Run:
        return self._ledger.run(self._times.elapsed_s)

    def _tell(self, phase: Phase, activity: str, run: Run | None = None) -> None:
        now = self._clock.now_s()
        if self._tools.report is unheard or (phase == "measuring" and now < self._next_told_s):
            return
        run = run or self._run()
        answer = analyse(run) if run.rounds else None
        took_s = self._clock.now_s() - now
        self._next_told_s = now + max(TELL_EVERY_S, took_s / TELL_SHARE)
        total = len(self._cells)
        done = sum(1 for c in run.cells if c.outcome != "measured" or self._ledger.rounds_of(c.target, c.batch) >= 2)
        left_s = max(0.0, self._times.final_s - now)
        self._tools.report(Progress(phase, activity, done, total, self._times.elapsed_s, left_s, run, answer))
