"""The sweep from first start to verdict: scan, refinement, epochs in fresh processes, the rest of the curves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from core.evidence import Status
from core.names import shown_names
from core.spec import MAX_BATCHES
from core.studies.progress import Phase, Progress
from core.studies.runner import Cancelled, StudyFailed, StudyTools, unheard
from core.studies.sweep import loop, schedule, windows
from core.studies.sweep.analyse import analyse
from core.studies.sweep.closing import NOT_REACHED, Closing
from core.studies.sweep.energy import leads
from core.studies.sweep.focus import Focus, focus_of
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.plan import SweepPlan
from core.studies.sweep.record import EnergyWindow, Run, StopReason
from core.studies.sweep.workers import Workers

TELL_EVERY_S = 0.25
TELL_SHARE = 0.1  # of the time that working out the answer so far may take; of six targets that is more than of two
RESUME_SHARE = 0.3  # of the budget that a resumed sweep gets at least


def run_sweep(tools: StudyTools, run: Run) -> Run:
    """Measure what ``run.plan`` asks for and return the run with its rounds, whatever happened on the way.

    ``run`` is new (no rounds) or one that was stopped, which goes on where it ended. Every record goes to
    ``tools.recorder`` at once; progress holds the run and the answer so far. Raises StudyFailed when no worker can be
    started or no cell measured; the run is then recorded as failed. Raises Cancelled where there is no round yet; only
    an interrupted run is then kept, so that it can be resumed.
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
        self._energy_s = 0.0  # kept for energy windows
        self._no_energy: dict[int, str] = {}
        self._targets, self._names = tuple(range(len(self._plan.targets))), shown_names(self._plan.targets)
        self._workers = Workers(self._plan, self._ledger, tools, deadline_s=lambda: self._epoch_end_s)
        self._epoch_end_s = self._end_s
        self._closing = Closing(self._plan, self._workers, self._ledger, self._clock, self._tell)
        self._tried: set[int] = set(run.batches)
        self._asked = {(block.target, item.batch) for item in run.rounds for block in item.blocks}
        self._asked.update((target, batch) for target in self._targets for batch in self._plan.batches)
        self._scanned: set[int] = set()
        self._most_active = MAX_BATCHES
        self._found = Focus(self._targets)
        self._found_at = -1
        self._starts = 1
        self._ran_out = False  # of the time for measuring; Keras's own loop and traces come after it
        self._next_told_s = self._next_found_s = float("-inf")

    def execute(self) -> Run:
        status: Status = "finished"
        error: StudyFailed | None = None
        try:
            self._tell("starting", "Starting one worker process for each target")
            self._measure()
            self._ran_out = self._remaining_s() <= 0
            self._measure_energy()
            self._epoch_end_s = self._final_s
            self._finish(self._workers.running)
        except Cancelled:
            status = self._tools.stopped_as
        except StudyFailed as failure:
            status, error = "failed", failure
        except BaseException:
            self._workers.close()
            stopped = self._tools.cancel.is_set()  # and then ended at once, by a second Ctrl-C
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
        self._workers.start()
        self._watch_idle()
        self._epoch_end_s = self._end_s
        self._scan()
        undecided = not self._focus(fresh=True).changes or not self._nothing_failed()
        if undecided or self._epoch_length_s() is None:
            self._fill_in()
        self._refine()
        self._most_active = schedule.affordable_batches(self._remaining_s(), self._costs())
        if (length_s := self._epoch_length_s()) is None:
            self._fill_in()
            self._passes_until(self._end_s, None, schedule.MIN_PASSES)
            return
        self._passes_until(self._clock.now_s() + length_s / 4, 0)
        while not self._settled() and self._has_time_for_an_epoch():
            length_s = self._epoch_length_s() or length_s
            self._epoch(length_s)
            if self._remaining_s() < self._fill_in_s() + length_s:
                self._fill_in()
            elif self._starts >= schedule.MIN_PROCESSES:
                self._fill_in(schedule.FILL_IN_SHARE * length_s)
        self._fill_in()
        if not self._settled():
            self._passes_until(self._end_s, None)

    def _settled(self) -> bool:
        """Whether an answer as narrow as asked stands, also once the curves are whole."""
        if self._answered(self._starts >= schedule.MIN_PROCESSES):
            self._fill_in()
        return self._answered(self._starts >= schedule.MIN_PROCESSES)

    def _has_time_for_an_epoch(self) -> bool:
        return self._remaining_s() >= schedule.shortest_epoch_s(self._costs(), len(self._active()))

    def _epoch(self, length_s: float) -> None:
        """Fresh processes, new batch sizes where they are wanted, and passes for so long, a few at the least."""
        self._restart()
        begin_s = self._clock.now_s()
        self._epoch_end_s = min(self._end_s, begin_s + 2 * length_s)
        self._starts += 1
        self._refine()
        self._passes_until(begin_s + length_s, schedule.BACKGROUND * (self._starts >= schedule.MIN_PROCESSES))
        self._epoch_end_s = self._end_s

    def _epoch_length_s(self) -> float | None:
        """Of the next epoch; None where the budget allows no two."""
        active, costs = len(self._active()), self._costs()
        passes = schedule.good_passes(costs, active, schedule.round_scatter(self._run()))
        return schedule.epoch_length_s(self._remaining_s() - self._fill_in_s(), costs, active, passes, self._starts)

    def _watch_idle(self) -> None:
        """Of which targets the energy can be known, and what they take while nothing runs."""
        self._no_energy = windows.refusals(self._plan, self._tools)
        if self._no_energy:
            self._ledger.add(*(EnergyWindow(target=t, skipped=why) for t, why in self._no_energy.items()))
        refused = len(self._no_energy) == len(self._targets)
        if self._tools.meter is None or refused or not any(t.is_gpu for t in self._plan.targets):
            return
        self._tell("starting", "Watching what the idle machine takes")
        begin_s = self._clock.now_s()
        self._workers.idle(self._no_energy)
        self._energy_s = windows.reserve_s(self._plan, self._no_energy) - (self._clock.now_s() - begin_s)

    def _measure_energy(self) -> None:
        """Energy windows: of the batches that tell most as far as the budget goes, of others within their share."""
        if self._energy_s <= 0:
            return
        later_s = schedule.trace_reserve_s(self._plan) + loop.reserve_s(self._plan)
        self._epoch_end_s = self._final_s - later_s
        share_end_s = min(self._clock.now_s() + self._energy_s, self._epoch_end_s)
        measured, targets = self._run().batches, sorted(set(self._workers.running) - self._no_energy.keys())
        first, done = self._telling_batches(), dict[int, int | None]()
        while (batch := windows.next_batch(measured, first, done | leads(self._run()))) is not None:
            end_s = self._epoch_end_s if batch in first else share_end_s
            if self._clock.now_s() + self._workers.energy_s(targets, batch) > end_s:
                break
            done[batch] = None
            for target in targets:
                self._tell("tracing", f"Measuring the energy of batch {batch:,} on {self._names[target]}")
                self._workers.energy(target, batch)
        if not done and batch is not None:
            why = f"Energy was not measured: too little of the budget was left for batch {batch:,}."
            self._ledger.add(*(EnergyWindow(target=t, index=windows.WINDOWS, skipped=why) for t in targets))

    def _finish(self, targets: Collection[int], share: float = 1.0) -> None:
        """What comes after the rounds of these targets, in that share of the time kept for it; of all, to the end."""
        loops_s, traces_s = share * loop.reserve_s(self._plan), share * schedule.trace_reserve_s(self._plan)
        end_s = self._final_s if share == 1 else min(self._final_s, self._clock.now_s() + loops_s + traces_s)
        self._closing.finish(self._run(), self._telling_batches(), targets, loops_s, traces_s, end_s)

    def _telling_batches(self) -> tuple[int, ...]:
        """The batch nearest the crossover, the smallest and the largest."""
        established = tuple(change.batch for change in self._focus().changes if change.established)
        return schedule.batches_to_trace(self._run().batches, established)

    def _restart(self) -> None:
        """Fresh workers, but of targets that are the fastest nowhere and have been seen in enough processes. The first
        stays, for all others are held against it.
        """
        processes = Counter(process.target for process in self._run().processes)
        thin = (target for target in self._targets if processes[target] < schedule.MIN_PROCESSES)
        kept = {0, *self._focus(fresh=True).contenders, *thin}
        if left := [target for target in self._workers.running if target not in kept]:
            self._epoch_end_s = self._end_s
            self._finish(left, len(left) / len(self._targets))
        self._tell("restarting", "Restarting the workers, so that one process's luck is not the answer")
        self._workers.start(kept)

    def _scan(self) -> None:
        """The deciding question first: where the fastest target changes."""
        pass_index = self._ledger.next_pass
        while (batch := self._deciding_batch()) is not None and self._remaining_s() > 0:
            self._visit(batch, schedule.DECIDING_ROUNDS, pass_index, self._targets)

    def _fill_in(self, most_s: float = math.inf) -> None:
        """The rest of the plan's batches, for the curves; none is begun after so many seconds."""
        self._epoch_end_s, pass_index = self._end_s, self._ledger.next_pass
        begin_s = self._clock.now_s()
        for batch in self._unscanned():
            if self._remaining_s() <= 0 or self._clock.now_s() - begin_s >= most_s:
                return
            self._visit(batch, schedule.SCAN_ROUNDS, pass_index, self._targets)

    def _fill_in_s(self) -> float:
        """What that should take: large batches are slower to prepare than those seen so far."""
        costs = self._workers.costs(len(self._targets))
        return 2 * len(self._unscanned()) * (costs.prepare_s + schedule.SCAN_ROUNDS * costs.round_s)

    def _unscanned(self) -> list[int]:
        """Rising, so that what fails is met from below; last what lies between a batch that ran and one that failed."""
        left = [batch for batch in self._plan.batches if batch not in self._scanned]
        return sorted(left, key=lambda batch: (self._workers.is_doubtful(batch), batch))

    def _nothing_failed(self) -> bool:
        return all(self._workers.is_open(target, self._plan.batches[-1]) for target in self._targets)

    def _deciding_batch(self) -> int | None:
        """What the scan visits next to find where the fastest target changes; None where that is found, or something
        failed.
        """
        if not self._nothing_failed():
            return None
        changes = self._focus(fresh=True).changes
        climb = len(self._targets) > 2 or not all(change.established for change in changes)
        return schedule.deciding_batch(self._plan.batches, self._scanned, [c.batch for c in changes], climb)

    def _refine(self) -> None:
        """New batch sizes inside the bracket of every sign change, until the gaps are fine."""
        end_s = min(self._end_s, self._clock.now_s() + schedule.REFINE_SHARE * self._plan.budget_s)
        while self._plan.refine and self._clock.now_s() < end_s:
            focus = self._focus(fresh=True)
            new = focus.new_batches(sorted(self._tried), self._plan.batch_multiple)
            if not new:
                return
            for batch in new:
                if self._clock.now_s() >= end_s:
                    return
                self._visit(batch, schedule.SCAN_ROUNDS, self._ledger.next_pass, focus.targets_at(batch))

    def _passes_until(
        self, end_s: float, background: int | None, enough_passes: int = schedule.MIN_EPOCH_PASSES
    ) -> None:
        """Passes over the deciding batches, up and down; now and then over the most under-sampled others, too.

        At most ``background`` of those; they stay the same, since each must be prepared. After ``enough_passes`` an
        answer as narrow as asked ends them.
        """
        done, end_s = 0, min(end_s, self._end_s)
        extra = set(self._under_sampled()[:background])
        while self._clock.now_s() < (end_s if done >= enough_passes else self._epoch_end_s):
            along = extra if done % schedule.BACKGROUND_EVERY == 0 else set()
            before, batches = self._clock.now_s(), sorted(along.union(self._active()), reverse=done % 2 == 1)
            whole = self._epoch_end_s if done < enough_passes else end_s  # a process's median needs a few passes
            self._pass(batches, batches if done == 0 else along, whole)  # every target that runs is seen once
            done += 1
            if self._clock.now_s() <= before:
                return  # nothing could run
            if self._answered(done >= enough_passes):
                return

    def _pass(self, batches: Sequence[int], along: Collection[int] = (), end_s: float = math.inf) -> None:
        """A visit of each batch: by all that have a worker where it is ``along``, else by those in question."""
        pass_index, focus = self._ledger.next_pass, self._focus()
        for batch in batches:
            if self._clock.now_s() >= min(end_s, self._end_s):
                return
            whom = self._workers.running if batch in along else focus.targets_at(batch)
            self._visit(batch, schedule.VISIT_ROUNDS, pass_index, whom)

    def _under_sampled(self) -> list[int]:
        """Batches that do not decide the answer, those seen in the fewest processes and rounds first."""
        seen: dict[int, set[int]] = {batch: set() for batch in self._tried.difference(self._active())}
        rounds = dict.fromkeys(seen, 0)
        for item in self._run().rounds:
            if item.batch in seen:
                seen[item.batch] |= {block.process for block in item.blocks}
                rounds[item.batch] += 1
        return sorted(seen, key=lambda batch: (len(seen[batch]), rounds[batch], batch))

    def _visit(self, batch: int, rounds: int, pass_index: int, targets: Collection[int]) -> None:
        who = " and ".join(self._names[t] for t in targets) if len(targets) < 4 else f"{len(targets)} targets"
        self._tell("measuring", f"Measuring batch {batch:,} on {who}")
        self._tried.add(batch)
        self._scanned.add(batch)
        self._asked.update((target, batch) for target in targets)
        self._workers.visit(batch, rounds, pass_index, targets)
        self._tell("measuring", f"Measuring batch {batch:,} on {who}")
        self._tools.pause()

    # -- decisions -------------------------------------------------------------------------------------------------

    def _focus(self, fresh: bool = False) -> Focus:
        """What decides the answer so far, derived again only when something was recorded since; unless it must be
        ``fresh``, no more often than within a share of the time, for of six targets it takes some 0.2 s.
        """
        begin_s = self._clock.now_s()
        if self._found_at != self._ledger.revision and (fresh or begin_s >= self._next_found_s):
            self._found, self._found_at = focus_of(self._run()), self._ledger.revision
            took_s = self._clock.now_s() - begin_s
            self._next_found_s = begin_s + took_s / TELL_SHARE
        return self._found

    def _active(self) -> tuple[int, ...]:
        tried = tuple(sorted(self._tried))
        if len(self._targets) == 1:
            tried = tuple(filter(self._wants_rounds, tried)) or tried
        enough = self._starts >= schedule.MIN_PROCESSES
        return self._focus().deciding(tried, self._most_active, self._plan.crossover_width if enough else None)

    def _costs(self) -> schedule.Costs:
        """Of a deciding batch, on the targets that are compared there."""
        compared = [
            sum(self._workers.is_open(t, batch) for t in self._focus().targets_at(batch)) for batch in self._active()
        ]
        return self._workers.costs(max(1.0, sum(compared) / max(1, len(compared))))

    def _answered(self, enough_units: bool) -> bool:
        if not enough_units:
            return False
        settled = not any(self._wants_rounds(batch) for batch in self._tried)
        return bool(self._run().rounds) and self._focus().is_answered(self._plan.crossover_width, settled)

    def _wants_rounds(self, batch: int) -> bool:
        run = self._run()
        return any(
            cell.outcome == "measured" and schedule.cell_state(run, target, batch, self._plan.step_width) is None
            for target in self._focus().targets_at(batch)
            if (cell := self._ledger.cell(target, batch)) is not None
        )

    # -- telling ---------------------------------------------------------------------------------------------------

    def _run(self) -> Run:
        return self._ledger.run(self._elapsed_s())

    def _elapsed_s(self) -> float:
        return self._before_s + self._clock.now_s() - self._start_s

    @property
    def _final_s(self) -> float:
        return self._start_s + self._budget_s + self._workers.lost_s

    @property
    def _end_s(self) -> float:
        """When measuring ends, and what is left is for energy windows, Keras's own loop and traces."""
        later_s = max(0.0, self._energy_s) + schedule.trace_reserve_s(self._plan) + loop.reserve_s(self._plan)
        return self._final_s - later_s

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
