"""Decisions of a sweep: the batches and the length of each start, the targets that stay, and when the answer stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from core.base.numbers import counted
from core.rounds.plan import SweepPlan
from core.studies.sweep import schedule
from core.studies.sweep.focus import Focus, focus_of
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.schedule import Costs
from core.studies.sweep.timetable import Timetable
from core.studies.sweep.workers import Workers

NUMBERS = {2: "two", 3: "three"}


class Choice:
    """Decisions on the batches of a sweep, from its record and the costs seen so far."""

    def __init__(self, plan: SweepPlan, ledger: Ledger, workers: Workers, times: Timetable) -> None:
        self._plan, self._ledger, self._workers, self._times = plan, ledger, workers, times
        self._attempts = workers.attempts
        self.tried: set[int] = set(ledger.run(0.0).batches)
        self._settled: int | None = None
        self._focus = Focus(tuple(range(len(plan.targets))))
        self._focus_revision = self._focus_starts = -1

    def focus(self, fresh: bool = False) -> Focus:
        """Return what decides the answer so far.

        It is derived again when a start begins, since claims change only there, and if it must be ``fresh`` and
        something was recorded since.
        """
        starts, revision = self._ledger.next_process, self._ledger.revision
        if self._focus_starts != starts or (fresh and self._focus_revision != revision):
            self._focus, self._focus_revision, self._focus_starts = focus_of(self._ledger.run(0.0)), revision, starts
        return self._focus

    def is_answered(self) -> bool:
        """Tell whether an answer as narrow as asked stands, also over the batches for which there is still time."""
        if self._ledger.next_process < schedule.MIN_PROCESSES or self.due() or not self._ledger.next_round:
            return False
        settled = not any(map(self.wants_rounds, self.tried))
        whole = not self.to_fill_in(self._times.left_s)
        return whole and self.focus(fresh=True).is_answered(self._plan.crossover_width, settled)

    def contenders(self) -> set[int]:
        """Return the targets of the next start: all, until each planned batch has its replicates; then those that are
        the fastest somewhere, and the first, since all others are compared with it.
        """
        if self.due().keys() & set(self._plan.batches):
            return set(self._workers.running)
        return {0, *self.focus(fresh=True).contenders}

    def telling_batches(self) -> tuple[int, ...]:
        """Return the batch nearest the crossover, the smallest and the largest."""
        established = tuple(change.batch for change in self.focus().changes if change.established)
        return schedule.batches_to_trace(self._ledger.run(0.0).batches, established)

    def _total_s(self) -> float:
        """Return the total seconds for measuring, without the time lost to failed starts and to imports."""
        return self._times.rounds_s - sum(self._workers.experience.imports_s)

    @property
    def _typical(self) -> Costs:
        """Return the mean costs of a batch on all targets that run."""
        costs = [self.costs(batch) for batch in self.tried] or [self.costs(self._plan.batches[0])]
        whole = schedule.together(costs, costs[0].startup_s)
        return Costs(whole.startup_s, whole.prepare_s / len(costs), whole.visit_s / len(costs))

    @property
    def wanted(self) -> int:
        """Number of replicates that each batch gets."""
        if self._settled is not None:
            return self._settled
        typical = self._typical
        return schedule.replicates(self._total_s(), typical.startup_s, typical.batch_s, len(self._plan.batches))

    def settle(self) -> None:
        """Fix the number of replicates, now that the first start has shown the costs."""
        self._settled = self.wanted

    def costs(self, batch: int) -> Costs:
        """Return the costs of one batch on all targets that run."""
        return self._workers.costs(batch, self._workers.running)

    def costs_of(self, batches: Collection[int]) -> Costs:
        """Return the costs of a start with these batches."""
        return schedule.together([self.costs(batch) for batch in batches], self._typical.startup_s)

    def due(self) -> dict[int, int]:
        """Return the number of replicates that each tried batch still lacks."""
        wanted = self.wanted
        missing = {batch: wanted - self._replicates(batch) for batch in sorted(self.tried)}
        return {batch: count for batch, count in missing.items() if count > 0}

    def due_s(self, due: Mapping[int, int]) -> float:
        """Return the seconds that those replicates take."""
        costs = self.costs_of(())
        return max(due.values(), default=0) * costs.startup_s + sum(n * self.costs(b).batch_s for b, n in due.items())

    def _replicates(self, batch: int) -> int:
        """Return the replicates of the cell that has the fewest, or ``wanted`` if nothing runs."""
        running = [
            target
            for target in self._workers.running
            if self._attempts.is_open(target, batch) and not self._plan.why_uneven(target, batch)
        ]
        return min(self._ledger.replicates_of(target, batch) for target in running) if running else self.wanted

    # -- a start ---------------------------------------------------------------------------------------------------

    def of_next_start(self, left_s: float) -> tuple[int, ...]:
        """Return the batches of the next start: those that lack replicates, those that decide, and the one with the
        fewest replicates beside them.

        Empty if the time does not suffice for the fewest that are informative.
        """
        deciding = self.deciding(left_s)
        beside = sorted(self.tried.difference(deciding), key=lambda b: (self._replicates(b), self._ledger.rounds_at(b)))
        due = schedule.evenly_spread(self.due(), ())
        wanted = dict.fromkeys((*sorted(due, key=self._replicates), *deciding, *beside[:1]))
        chosen: list[int] = []
        time_s = self._after_imports(left_s) - self.costs_of(()).startup_s
        for batch in wanted:
            if (needed_s := self.costs(batch).batch_s) <= time_s:
                time_s -= needed_s
                chosen.append(batch)
        return tuple(sorted(chosen)) if len(chosen) >= min(len(wanted), schedule.FEWEST_ACTIVE) else ()

    def deciding(self, left_s: float) -> tuple[int, ...]:
        """Return the batches that decide the answer, at most as many as each of the affordable starts can hold."""
        typical, done = self._typical, self._ledger.next_process
        enough = done >= schedule.MIN_PROCESSES
        most = schedule.batches_of_a_start(left_s, typical, done) if typical.batch_s else len(self.tried)
        width = self._plan.crossover_width if enough else None
        running = self._workers.running
        tried = tuple(b for b in sorted(self.tried) if any(self._attempts.is_open(target, b) for target in running))
        if len(self._plan.targets) == 1:
            tried = tuple(filter(self.wants_rounds, tried)) or tried
        return self.focus().deciding(tried, most, width)

    def wants_rounds(self, batch: int) -> bool:
        """Tell whether the step time of a target in question is not settled yet at this batch."""
        run = self._ledger.run(0.0)
        return any(
            cell.outcome == "measured" and schedule.cell_state(run, target, batch, self._plan.step_width) is None
            for target in self.focus().targets_at(batch)
            if (cell := self._ledger.cell(target, batch)) is not None
        )

    def extra_s(self, left_s: float, visited: Collection[int], done: int) -> tuple[float, int]:
        """Return how long a start that visited these batches goes on, and the starts after it; to the end if none
        follows.
        """
        due, deciding, left_s = self.due(), self.deciding(left_s), self._after_imports(left_s)
        starts = max(due.values(), default=0)
        due_s = starts * self.costs_of({*due, *deciding}).start_s
        return schedule.extra_s(left_s, self.costs_of(visited), starts, due_s, self.costs_of(deciding), done)

    def _after_imports(self, left_s: float) -> float:
        """Return the time left after the imports of the next start."""
        return left_s - self._workers.experience.imports_s[1]

    # -- batches that join -----------------------------------------------------------------------------------------

    def fits(self, new: Collection[int], left_s: float) -> bool:
        """Tell whether there is time for every replicate of these batches, whose first visits come now, and of all
        tried ones.

        Once those have theirs, there must also be time for as many starts of the deciding batches.
        """
        if left_s <= 0 or self.wanted == 1:
            return left_s > 0
        if len(self.tried.union(new)) <= schedule.FEWEST_BATCHES:
            return True
        left_s = self._after_imports(left_s)
        if not self.due():
            return self._needed_s({*new, *self.deciding(left_s)}) <= (1 - schedule.SPARE_SHARE) * left_s
        usable_s = left_s - schedule.SPARE_SHARE * self._total_s()
        planned = set(new) <= set(self._plan.batches)
        if self._needed_s(self._plan.batches) > usable_s or not planned:
            usable_s = left_s - schedule.kept_s(self._total_s(), self._typical)
        return self._needed_s(new, schedule.LEAST_VISITS if planned else schedule.GOOD_VISITS) <= usable_s

    def _needed_s(self, batches: Collection[int], visits: int = schedule.LEAST_VISITS) -> float:
        """Return the seconds for what is due and for the replicates of these batches, each with so many visits; the
        first replicates come in this start.
        """
        wanted = self.wanted
        whole = {**{batch: wanted - (batch in self.tried) for batch in batches}, **self.due()}
        starts_s = (max(whole.values(), default=0) - 1) * self.costs_of(()).startup_s
        return starts_s + sum(count * self.costs(batch).replicate_s(visits) for batch, count in whole.items())

    def to_scan(self, left_s: float) -> int | None:
        """Return the batch that the scan visits next to find where the fastest target changes.

        None if that is known, if something failed, or if the largest batch would not fit beside it.
        """
        top, targets = self._plan.batches[-1], range(len(self._plan.targets))
        if not all(self._attempts.is_open(target, top) for target in targets):
            return None
        changes = self.focus(fresh=True).changes
        climb = len(targets) > 2 or not all(change.established for change in changes)
        seen = self.tried.intersection(self._plan.batches)
        batch = schedule.deciding_batch(self._plan.batches, seen, [c.batch for c in changes], climb)
        return batch if batch is not None and self.fits({batch, top} - self.tried, left_s) else None

    def between(self, left_s: float) -> tuple[int, ...]:
        """Return new batch sizes inside the bracket of every change of lead, until the gaps are fine."""
        new = self.focus(fresh=True).new_batches(sorted(self.tried), self._plan.batch_multiple)
        return tuple(batch for place, batch in enumerate(new) if self.fits(new[: place + 1], left_s))

    def is_short(self, left_s: float) -> bool:
        """Tell whether the plan's largest batch is untried and not all others can join beside it."""
        left = set(self._plan.batches) - self.tried
        return self._plan.batches[-1] in left and self.wanted > 1 and not self.fits(left, left_s)

    def to_fill_in(self, left_s: float) -> list[int]:
        """Return the batches of the plan that join, evenly spread if not all can.

        They rise, so that failures are met from below; batches between one that ran and one that failed come last.
        """
        new: list[int] = []
        for batch in schedule.evenly_spread(self._plan.batches, self.tried):
            if not self.fits([*new, batch], left_s):
                break
            new.append(batch)
        return sorted(new, key=lambda batch: (self._attempts.is_doubtful(batch), batch))

    def left_out(self) -> tuple[list[int], str]:
        """Return the batches of the plan that did not join, and the reason as a sentence."""
        left = [batch for batch in self._plan.batches if batch not in self.tried]
        sizes = counted(len(self.tried), "batch size")
        return left, f"The budget allows {NUMBERS.get(self.wanted, 'one')} starts of {sizes} only."
