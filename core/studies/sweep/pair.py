"""The two workers of a sweep: started together, prepared cell by cell, timed in alternating order, replaced when lost.

What goes wrong becomes the outcome of a cell; larger batches of that target are then skipped (docs/design.md,
Failures). A cell that already has rounds keeps them, and the loss becomes a warning.

Two workers on one GPU share its memory, and neither gives back what it took for other cells. A cell that does not fit
there is tried once more with fresh workers, which hold nothing but that batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from core.evidence import Block, Process, Warning
from core.studies.runner import Asking, StudyFailed, StudyTools
from core.studies.sweep import windows
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.loop import why_not
from core.studies.sweep.plan import SweepPlan
from core.studies.sweep.record import EnergyWindow, LoopCost, Round
from core.studies.sweep.schedule import Costs
from core.studies.sweep.tracing import trace_prepared
from core.worker.protocol import Prepare, RunBlock, TimeLoop, Worker, WorkerError, WorkerLost

PROBE_STEPS = 30  # steps that preparing and scanning a cell takes at the least; decides whether the budget allows it
FEWEST_STEPS = 10  # the same however slow they are: what a warm-up that its cap ends at once still runs
LEAST_LOOP_S = 0.3  # for Keras's own loop, however long preparing took
MAX_LOSSES = 3  # workers of one target lost before it is given up


@dataclass
class _TargetState:
    """``blocked_from``: the smallest batch that failed; it and larger ones are not tried again. ``untraced``: the
    batches that could not be traced, by the reason.
    """

    blocked_from: int | None = None
    blocked_by: str = ""
    losses: int = 0
    step_ms: dict[int, float] = field(default_factory=dict)
    untraced: dict[str, list[int]] = field(default_factory=dict)


class WorkerPair:
    """Runs rounds for a sweep's ledger. Not thread-safe: one engine thread owns it."""

    def __init__(self, plan: SweepPlan, ledger: Ledger, tools: StudyTools, deadline_s: Callable[[], float]) -> None:
        self._plan, self._ledger, self._tools, self._clock = plan, ledger, tools, tools.clock
        self._asking = Asking(tools, plan.budget_s)
        self._forgiven = False
        self._made_room: set[tuple[int, int]] = set()
        self._end_s = deadline_s
        self._start_s = self._clock.now_s()
        self._workers: tuple[Worker, ...] = ()
        self._process = 0
        self._prepared: dict[int, set[int]] = {0: set(), 1: set()}
        self._targets = (_TargetState(), _TargetState())
        self._startups: list[float] = []
        self._prepares: list[float] = []
        self._rounds: list[float] = []
        self._resume_failures()

    @property
    def costs(self) -> Costs:
        return Costs(_mean(self._startups, 5.0), _mean(self._prepares, 1.0), _mean(self._rounds[-50:], 0.05))

    @property
    def lost_s(self) -> float:
        """Seconds that starts took which came to nothing."""
        return self._asking.lost_s

    def elapsed_s(self) -> float:
        return self._clock.now_s() - self._start_s

    def start(self) -> None:
        """Fresh processes for both targets. Raises StudyFailed when they cannot be started."""
        self.close()
        self._tools.check()
        begin, lost_s, told = self._clock.now_s(), self._asking.lost_s, len(self._asking.restarts)
        try:
            self._workers = self._asking.start(self._plan.targets)
        except WorkerError as error:
            raise StudyFailed(error.reason) from error
        if warnings := self._asking.restarts[told:]:
            self._ledger.add(*warnings)
        self._startups.append(self._clock.now_s() - begin - self._asking.lost_s + lost_s)
        self._process = self._ledger.next_process
        self._ledger.add(
            *(
                Process(index=self._process, target=target, **worker.ready.model_dump(exclude={"kind", "memory_bytes"}))
                for target, worker in enumerate(self._workers)
            )
        )

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = ()
        self._prepared = {0: set(), 1: set()}

    def visit(self, batch: int, rounds: int, pass_index: int) -> None:
        """Prepare the batch where needed and run rounds. Failures are recorded, not raised; Cancelled is.

        Where a worker failed that may just as well not have, all over again with new ones.
        """
        self._forgiven = True
        while self._forgiven:
            self._forgiven = False
            self._visit(batch, rounds, pass_index)

    def _visit(self, batch: int, rounds: int, pass_index: int) -> None:
        if not any(self._runnable(target, batch) for target in (0, 1)):
            return
        if not self._workers:
            self.start()
        begin = self._clock.now_s()
        prepared = [target for target in (0, 1) if self._prepare(target, batch)]
        if self._clock.now_s() > begin:
            self._prepares.append(self._clock.now_s() - begin)
        self._asking.interference(self._workers)  # what starting and preparing took is nobody's interference
        for _ in range(rounds):
            self._tools.check()
            prepared = [t for t in prepared if batch in self._prepared[t]]  # both may have failed in the last round
            if not prepared or not self._workers or self._clock.now_s() >= self._end_s():
                return
            self._round(batch, pass_index, prepared)

    def is_given_up(self, target: int) -> bool:
        """Whether so many of its workers were lost that it is not tried again."""
        return self._targets[target].losses >= MAX_LOSSES

    def trace(self, target: int, batch: int) -> None:
        """Trace a cell and record it; a failure becomes a warning. Cancelled is raised."""
        self._tools.check()
        if not self._workers or not self._prepare(target, batch):
            return
        step_ms = self._targets[target].step_ms.get(batch, 1.0)
        try:
            self._ledger.add(trace_prepared(self._asking, self._workers[target], target, batch, step_ms))
        except WorkerError as error:
            alike = self._targets[target].untraced.setdefault(error.reason, [])
            alike.append(batch)  # one sentence for one cause, such as a profiler that is not permitted
            name, (*rest, last) = self._plan.target_names[target], (f"{size:,}" for size in sorted(alike))
            batches = f"batches {', '.join(rest)} and {last}" if rest else f"batch {last}"
            text = f"{name} at {batches} could not be traced: {error.reason}"
            self._ledger.add(Warning(code=f"trace_{target}_{alike[0]}", text=text))
            if isinstance(error, WorkerLost):
                self.close()

    def time_loop(self, target: int, batch: int, until_s: float) -> None:
        """Time Keras's own loop around a cell's step and record it, or why not. Cancelled is raised."""
        self._tools.check()
        reason = why_not(self._plan, self._targets[target].step_ms.get(batch, 0.0), until_s - self._clock.now_s())
        if not reason and not (self._workers and self._prepare(target, batch)):
            reason = "No worker could prepare that batch again."
        if reason:
            self._ledger.add(LoopCost(target=target, batch=batch, reason=reason))
            return
        limit_s = max(LEAST_LOOP_S, until_s - self._clock.now_s())
        request = TimeLoop(batch=batch, limit_ms=1000 * limit_s)
        try:
            times = self._asking.ask(self._workers[target], request, target, limit_s).to_times()
            self._ledger.add(LoopCost(target=target, batch=batch, times=times))
        except WorkerError as error:
            self._ledger.add(LoopCost(target=target, batch=batch, reason=error.reason))
            if isinstance(error, WorkerLost):
                self._note_loss(target, batch, error)
                self.close()

    def idle(self, refused: Mapping[int, str]) -> None:
        """Record what the devices take with the workers ready and idle. Cancelled is raised."""
        for window in windows.idle(self._tools, self._plan, self._process, refused):
            self._ledger.add(window)

    def energy_s(self, targets: Collection[int], batch: int) -> float:
        """How long energy windows of these cells take, in seconds."""
        steps_ms = [self._targets[target].step_ms.get(batch, 1.0) for target in targets]
        prepare_s = 0.0 if all(batch in self._prepared[target] for target in targets) else self.costs.prepare_s
        return prepare_s + sum(map(windows.cell_s, steps_ms))

    def energy(self, target: int, batch: int) -> None:
        """Record energy windows of a cell; a failure becomes one that was skipped. Cancelled is raised."""
        self._tools.check()
        if not self._workers or not self._prepare(target, batch):
            return
        step_ms = self._targets[target].step_ms.get(batch, 1.0)
        window = EnergyWindow(target=target, batch=batch, process=self._process)
        try:
            for taken in windows.of_cell(self._asking, self._tools, self._workers[target], window, step_ms):
                self._ledger.add(taken)
        except WorkerError as error:
            name = f"{self._plan.target_names[target]} at batch {batch:,}"
            why = f"The energy of {name} could not be measured: {error.reason}"
            self._ledger.add(window.model_copy(update={"index": windows.WINDOWS, "skipped": why}))
            self._prepared[target].discard(batch)
            if isinstance(error, WorkerLost):
                self._note_loss(target, batch, error)
                self.close()

    def _runnable(self, target: int, batch: int) -> bool:
        state = self._targets[target]
        if state.blocked_from is None or batch < state.blocked_from:
            return True
        if self._ledger.cell(target, batch) is None:
            self._ledger.set_cell(target, batch, "skipped", f"Skipped, because {state.blocked_by}", "failed")
        return False

    def _prepare(self, target: int, batch: int) -> bool:
        """True when the cell is ready for rounds."""
        if batch in self._prepared[target]:
            return True
        if not self._workers or not self._runnable(target, batch) or not self._affordable(target, batch):
            return False
        self._tools.check()
        request = Prepare(
            workload=self._plan.workload,
            pipeline=self._plan.pipeline,
            batch=batch,
            warmup_ms=min(2000.0, max(200.0, 10.0 * self._plan.budget_s)),
            steps_per_block=self._ledger.steps_per_block(target, batch),
        )
        try:
            done = self._asking.prepare(self._workers[target], request, target, self._first_steps_s(target, batch))
        except WorkerError as error:
            self._fail(target, batch, error)
            return False
        self._ledger.add(done.to_setup(target, self._process))
        self._prepared[target].add(batch)
        if done.latency_ms:
            self._targets[target].step_ms.setdefault(batch, min(done.latency_ms))
        return True

    def _affordable(self, target: int, batch: int) -> bool:
        """False, and the cell skipped, when its first steps alone would outlast the budget."""
        expected_s = self._first_steps_s(target, batch)
        if batch in self._targets[target].step_ms or not expected_s:
            return True
        remaining_s = self._end_s() - self._clock.now_s()
        if expected_s <= remaining_s:
            return True
        reason = f"batch {batch:,} would take about {expected_s:.0f} s, more than the {remaining_s:.0f} s left."
        self._block(target, batch, reason)
        self._ledger.set_cell(target, batch, "skipped", f"Skipped, because {reason}", "budget")
        return False

    def _first_steps_s(self, target: int, batch: int) -> float:
        """What the first steps of a cell should take by the batches below it, in seconds; 0 where none is known.

        By the last two's slope. One alone may be all floor and only bounds it, in proportion to the batch: then the
        cell is tried unless even its fewest steps could take too long.
        """
        known = self._targets[target].step_ms
        *before, last = sorted(b for b in known if b <= batch) or (0,)
        if not last:
            return 0.0
        most_ms = known[last] * batch / last
        if not before:
            return FEWEST_STEPS * most_ms / 1000.0
        slope_ms = max(0.0, (known[last] - known[before[-1]]) / (last - before[-1]))
        return PROBE_STEPS * min(most_ms, known[last] + slope_ms * (batch - last)) / 1000.0

    def _round(self, batch: int, pass_index: int, targets: list[int]) -> None:
        index = self._ledger.next_round
        begin = self._clock.now_s()
        blocks = []
        for target in targets if index % 2 == 0 else reversed(targets):
            steps = self._ledger.steps_per_block(target, batch) or 1
            expected_s = steps * self._targets[target].step_ms.get(batch, 0.0) / 1000.0
            at_s = self.elapsed_s()
            try:
                request = RunBlock(batch=batch, steps=steps)
                done = self._asking.block(self._workers[target], request, expected_s)
            except WorkerError as error:
                self._fail(target, batch, error)
                return
            step_ms = done.block_ms / done.steps
            self._targets[target].step_ms[batch] = step_ms
            measured = {"steps": done.steps, "step_ms": step_ms, "wake_ms": done.wake_ms, "cpu_ms": done.cpu_ms}
            blocks.append(Block(target=target, process=self._process, at_s=at_s, card=self._asking.card, **measured))
        interference = self._asking.interference(self._workers)
        self._ledger.add(
            Round(index=index, pass_index=pass_index, batch=batch, blocks=tuple(blocks), interference=interference)
        )
        for target in targets:
            self._ledger.set_cell(target, batch, "measured")
        self._rounds.append(self._clock.now_s() - begin)

    def _fail(self, target: int, batch: int, error: WorkerError) -> None:
        state = self._targets[target]
        self._prepared[target].discard(batch)
        name = self._plan.target_names[target]
        if isinstance(error, WorkerLost):
            self._note_loss(target, batch, error)
        if self._ledger.rounds_of(target, batch):
            if not isinstance(error, WorkerLost):
                text = f"{name} at batch {batch} was cut short: {error.reason}"
                self._ledger.add(Warning(code=f"lost_{target}_{batch}", text=text))
        else:
            crowded = error.outcome == "out_of_memory" and self._share_a_card
            again = self._makes_room(target, batch) if crowded else self._asking.forgives((target, batch), error)
            reason = error.reason
            if crowded and not again:
                other = self._plan.target_names[1 - target]
                reason += f" The worker of {other} held memory of the same GPU; in a sweep against the CPU it may fit."
            self._ledger.set_cell(target, batch, error.outcome, reason, "failed")
            if again:
                self._forgiven = True
            else:
                self._block(target, batch, f"batch {batch:,} failed ({error.outcome.replace('_', ' ')}).")
        if isinstance(error, WorkerLost):
            state.losses += 1
            if self.is_given_up(target):
                self._block(target, 1, f"{state.losses} worker processes of {name} were lost.")
            self.close()

    def _note_loss(self, target: int, batch: int, error: WorkerLost) -> None:
        """A warning, since the cell may be measured by another worker and then says nothing of it."""
        name = self._plan.target_names[target]
        self._ledger.add(self._asking.losses.add(name, f"batch {batch:,}", error.reason, f"{target}_{batch}"))

    @property
    def _share_a_card(self) -> bool:
        first, second = self._plan.targets
        return first.is_gpu and first.device == second.device

    def _makes_room(self, target: int, batch: int) -> bool:
        """End both workers, so that the cell is tried again with all of the card free; once, and then False."""
        if (target, batch) in self._made_room:
            return False
        self._made_room.add((target, batch))
        self.close()
        return True

    def _block(self, target: int, batch: int, reason: str) -> None:
        state = self._targets[target]
        if state.blocked_from is None or batch < state.blocked_from:
            state.blocked_from, state.blocked_by = batch, reason

    def _resume_failures(self) -> None:
        """A resumed sweep does not try again what failed before."""
        for target in (0, 1):
            for batch in self._plan.batches:
                cell = self._ledger.cell(target, batch)
                if cell is not None and cell.outcome not in ("measured", "pending", "skipped"):
                    self._block(target, batch, f"batch {batch:,} failed before the restart.")


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default
