"""Workers of a sweep, one per target: started together, prepared cell by cell, timed in a rotating order, replaced when
lost.

A failure becomes the outcome of a cell; larger batches of that target are then skipped (docs/design.md, Failures). A
cell that already has rounds keeps them, and the loss becomes a warning.

Workers on one GPU share its memory, and none returns what it allocated for other cells. A cell that does not fit is
tried once more with fresh workers, which hold nothing but that batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from core.base.evidence import Block, Process, Warning
from core.rounds.answer.loop import why_not
from core.rounds.plan import SweepPlan
from core.rounds.run import EnergyWindow, LoopCost, Round, failed_words
from core.studies.runner import Asking, StudyFailed, StudyTools
from core.studies.sweep import schedule, windows
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.proposal import Experience
from core.studies.sweep.rotation import order_of_round
from core.studies.sweep.schedule import Costs
from core.studies.sweep.trace import trace_prepared
from core.worker.protocol import Prepare, RunBlock, TimeLoop, Worker, WorkerError, WorkerLost
from core.workload.names import all_of

MAX_LOSSES = 3  # lost workers after which a target is given up


@dataclass
class TargetState:
    """State of one target. ``blocked_from``: the smallest batch that failed; it and larger ones are not tried again.
    ``prepared``: batches its worker has prepared. ``untraced``: the batches that could not be traced, by reason.
    """

    blocked_from: int | None = None
    blocked_by: str = ""
    losses: int = 0
    step_ms: dict[int, float] = field(default_factory=dict)
    prepared: set[int] = field(default_factory=set)
    untraced: dict[str, list[int]] = field(default_factory=dict)

    def is_open(self, batch: int) -> bool:
        """Tell whether the batch is still tried."""
        return self.blocked_from is None or batch < self.blocked_from

    def block(self, batch: int, reason: str) -> None:
        """Exclude this batch and larger ones from now on."""
        if self.is_open(batch):
            self.blocked_from, self.blocked_by = batch, reason

    @property
    def is_given_up(self) -> bool:
        """Tell whether so many of its workers were lost that it is not tried again."""
        return self.losses >= MAX_LOSSES

    def is_doubtful(self, batch: int) -> bool:
        """Tell whether the batch lies above all that ran and below one that failed."""
        if self.blocked_from is None:
            return False
        return max((b for b in self.step_ms if b < self.blocked_from), default=0) < batch < self.blocked_from


LEAST_LOOP_S = 0.3  # least time for Keras's own loop, however long preparing took
FAR = 4  # factor on the largest batch that the target ran


class Workers:
    """Workers that run the rounds of a sweep's ledger. Not thread-safe: one engine thread owns it.

    Targets are named by their number in the plan. Those that a start leaves out are started when they are needed.
    """

    def __init__(self, plan: SweepPlan, ledger: Ledger, tools: StudyTools, deadline_s: Callable[[], float]) -> None:
        self._plan, self._ledger, self._tools, self._clock = plan, ledger, tools, tools.clock
        self._names = plan.names
        self._asking = Asking(tools, plan.budget_s)
        self._forgiven = False
        self._made_room: set[tuple[int, int]] = set()
        self._end_s = deadline_s
        self._start_s = self._clock.now_s()
        self._workers: dict[int, Worker] = {}
        self._wanted: tuple[int, ...] = tuple(range(len(plan.targets)))
        self._process = 0
        self._targets = tuple(TargetState() for _ in plan.targets)
        self._experience = Experience()
        self._pending: list[tuple[Block, ...]] = []  # rounds of the current visit
        self._pass_index = 0
        self._resume_failures()

    def costs(self, batch: int, targets: Collection[int]) -> Costs:
        """Return the costs seen so far of a start, of preparing this batch on those targets that still try it, and of a
        visit.
        """
        return self._experience.costs(batch, sum(self.is_open(target, batch) for target in targets))

    @property
    def running(self) -> tuple[int, ...]:
        """Targets that have a worker, or would have one after a loss."""
        return self._wanted

    @property
    def lost_s(self) -> float:
        """Seconds lost to failed starts."""
        return self._asking.lost_s

    @property
    def imports_s(self) -> tuple[float, float]:
        """Seconds that starts spent on imports, and seconds that imports will still take."""
        return self._experience.imports_s

    def elapsed_s(self) -> float:
        return self._clock.now_s() - self._start_s

    def start(self, targets: Collection[int] | None = None) -> None:
        """Start fresh processes for these targets, by default those of the last start. Raises StudyFailed if they
        cannot start.
        """
        self.close()
        self._wanted = self._wanted if targets is None else tuple(sorted(targets))
        self._process = self._ledger.next_process
        took_s = self._launch(self._wanted)
        own_s = max(worker.ready.startup_ms for worker in self._workers.values()) / 1000
        self._experience.started(took_s, own_s)

    def _launch(self, targets: Collection[int]) -> float:
        """Start these beside the running ones and return the seconds that took. Raises StudyFailed."""
        self._tools.check()
        begin, lost_s, told = self._clock.now_s(), self._asking.lost_s, len(self._asking.restarts)
        try:
            started = self._asking.start(tuple(self._plan.targets[target] for target in targets))
        except WorkerError as error:
            raise StudyFailed(error.reason) from error
        self._workers |= zip(targets, started, strict=True)
        if warnings := self._asking.restarts[told:]:
            self._ledger.add(*warnings)
        took_s = self._clock.now_s() - begin - self._asking.lost_s + lost_s
        self._ledger.add(
            *(
                Process(index=self._process, target=target, **worker.ready.model_dump(exclude={"kind", "memory_bytes"}))
                for target, worker in zip(targets, started, strict=True)
            )
        )
        return took_s

    def _staff(self, targets: Collection[int]) -> None:
        """Start the workers that these targets lack. Raises StudyFailed."""
        if not self._workers:
            self.start()
        if missing := [target for target in targets if target not in self._workers]:
            self._launch(missing)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers = {}
        for state in self._targets:
            state.prepared.clear()

    def visit(self, batch: int, pass_index: int, targets: Collection[int]) -> bool:
        """Prepare the batch if needed and run some rounds of these targets; return whether other programs disturbed
        them.

        Failures are recorded, not raised; Cancelled is. After a failure that may be retried, all is done again with new
        workers.
        """
        disturbed = False
        self._forgiven = True
        while self._forgiven:
            self._forgiven = False
            disturbed = self._visit(batch, pass_index, sorted(targets))
        return disturbed

    def _visit(self, batch: int, pass_index: int, targets: Collection[int]) -> bool:
        runnable = [target for target in targets if self.is_runnable(target, batch)]
        if not runnable:
            return False
        self._staff(runnable)
        begin, new = self._clock.now_s(), sum(batch not in self._targets[target].prepared for target in runnable)
        prepared = [target for target in runnable if self._prepare(target, batch)]
        if new and len(prepared) == len(runnable):
            self._experience.prepared(batch, self._clock.now_s() - begin, new)
        self._asking.restart_interference(tuple(self._workers.values()))
        self._pass_index = pass_index
        try:
            self._run_rounds(batch, prepared)
        except BaseException:  # mostly Cancelled: keep what was measured
            self._record_rounds(batch)
            raise
        return self._record_rounds(batch)

    def _run_rounds(self, batch: int, targets: list[int]) -> None:
        """Run the rounds of a visit; their number is fixed beforehand, whatever their duration."""
        for _ in range(self._experience.rounds_of_a_visit(batch, self._expected_round_s(batch, targets))):
            self._tools.check()
            targets = [t for t in targets if batch in self._targets[t].prepared]  # may have failed in the last round
            if not targets or not self._workers or self._clock.now_s() >= self._end_s():
                return
            self._round(batch, targets)

    def _expected_round_s(self, batch: int, targets: Collection[int]) -> float:
        return sum(
            self._ledger.block_steps(target, batch) * self._targets[target].step_ms.get(batch, 1.0) / 1000
            for target in targets
        )

    def _record_rounds(self, batch: int) -> bool:
        """Record the rounds of a visit, all with the interference sampled over it; return whether it disturbed them."""
        rounds, self._pending = self._pending, []
        if not rounds:
            return False
        sample = self._asking.interference(tuple(self._workers.values()))
        first = self._ledger.next_round
        self._ledger.add(
            *(
                Round(index=index, pass_index=self._pass_index, batch=batch, blocks=blocks, interference=sample)
                for index, blocks in enumerate(rounds, start=first)
            )
        )
        for target in {block.target for blocks in rounds for block in blocks}:
            self._ledger.set_cell(target, batch, "measured")
        return bool(getattr(sample, "disturbed", None))

    def is_given_up(self, target: int) -> bool:
        """Tell whether so many workers of the target were lost that it is not tried again."""
        return self._targets[target].is_given_up

    def trace(self, target: int, batch: int) -> None:
        """Trace a cell and record it; a failure becomes a warning. Cancelled is raised."""
        self._tools.check()
        if not self._ready(target, batch):
            return
        step_ms = self._targets[target].step_ms.get(batch, 1.0)
        try:
            self._ledger.add(trace_prepared(self._asking, self._workers[target], target, batch, step_ms))
        except WorkerError as error:
            alike = self._targets[target].untraced.setdefault(error.reason, [])
            alike.append(batch)  # one sentence per cause, such as a profiler that is not permitted
            batches = f"batch{'es' if len(alike) > 1 else ''} {all_of([f'{size:,}' for size in sorted(alike)])}"
            text = f"{self._names[target]} at {batches} could not be traced: {error.reason}"
            self._ledger.add(Warning(code=f"trace_{target}_{alike[0]}", text=text))
            if isinstance(error, WorkerLost):
                self.close()

    def time_loop(self, target: int, batch: int, until_s: float) -> None:
        """Time Keras's own loop around a cell's step and record it, or why not. Cancelled is raised."""
        self._tools.check()
        reason = why_not(self._plan, self._targets[target].step_ms.get(batch, 0.0), until_s - self._clock.now_s())
        if not reason and not self._ready(target, batch):
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
        """Record what the devices use with the workers ready and idle. Cancelled is raised."""
        for window in windows.idle(self._tools, self._plan, self._process, refused):
            self._ledger.add(window)

    def energy_s(self, targets: Collection[int], batch: int) -> float:
        """Return the seconds that energy windows of these cells take."""
        steps_ms = [self._targets[target].step_ms.get(batch, 1.0) for target in targets]
        new = [target for target in targets if batch not in self._targets[target].prepared]
        return self.costs(batch, new).prepare_s + sum(map(windows.cell_s, steps_ms))

    def energy(self, target: int, batch: int) -> None:
        """Record energy windows of a cell; a failure becomes one that was skipped. Cancelled is raised."""
        self._tools.check()
        if not self._ready(target, batch):
            return
        step_ms = self._targets[target].step_ms.get(batch, 1.0)
        window = EnergyWindow(target=target, batch=batch, process=self._process)
        try:
            for taken in windows.of_cell(self._asking, self._tools, self._workers[target], window, step_ms):
                self._ledger.add(taken)
        except WorkerError as error:
            name = f"{self._names[target]} at batch {batch:,}"
            why = f"The energy of {name} could not be measured: {error.reason}"
            self._ledger.add(window.model_copy(update={"index": windows.WINDOWS, "skipped": why}))
            self._targets[target].prepared.discard(batch)
            if isinstance(error, WorkerLost):
                self._note_loss(target, batch, error)
                self.close()

    def is_open(self, target: int, batch: int) -> bool:
        """Tell whether a target is still tried at a batch."""
        return self._targets[target].is_open(batch)

    def is_doubtful(self, batch: int) -> bool:
        """Tell whether, for some target, the batch lies above all that ran and below one that failed."""
        return any(state.is_doubtful(batch) for state in self._targets)

    def is_runnable(self, target: int, batch: int) -> bool:
        """Tell whether a target can run a batch; if not, record in the cell the smallest batch that failed."""
        uneven, cell = self._plan.why_uneven(target, batch), self._ledger.cell(target, batch)
        if not uneven and self.is_open(target, batch):
            return True
        if cell is None or (cell.outcome, cell.stop_reason) == ("skipped", "failed"):
            reason = f"Skipped, because {uneven or self._targets[target].blocked_by}"
            self._ledger.set_cell(target, batch, "skipped", reason, "failed")
        return False

    def _ready(self, target: int, batch: int) -> bool:
        """Prepare a cell after the rounds; after the loss of a worker there is nothing more to learn."""
        return target in self._workers and self._prepare(target, batch)

    def _prepare(self, target: int, batch: int) -> bool:
        """Prepare a cell if needed; return whether it is ready for rounds."""
        if batch in self._targets[target].prepared:
            return True
        if target not in self._workers or not self.is_runnable(target, batch) or not self._affordable(target, batch):
            return False
        self._tools.check()
        request = Prepare(
            workload=self._plan.workload_of(target), pipeline=self._plan.pipeline, batch=batch,
            warmup_ms=min(2000.0, max(200.0, 10.0 * self._plan.budget_s)),
            steps_per_block=self._ledger.steps_per_block(target, batch),
        )  # fmt: skip
        try:
            first_s = schedule.first_steps_s(batch, self._targets[target].step_ms)
            done = self._asking.prepare(self._workers[target], request, target, first_s)
        except WorkerError as error:
            self._fail(target, batch, error)
            return False
        self._ledger.add(done.to_setup(target, self._process))
        self._targets[target].prepared.add(batch)
        if done.latency_ms:
            self._targets[target].step_ms.setdefault(batch, min(done.latency_ms))
        return True

    def _affordable(self, target: int, batch: int) -> bool:
        """Tell whether a cell's first steps fit the budget; if not, skip the cell."""
        expected_s = schedule.first_steps_s(batch, self._targets[target].step_ms)
        if batch in self._targets[target].step_ms or not expected_s:
            return True
        remaining_s = self._end_s() - self._clock.now_s()
        if expected_s <= remaining_s or remaining_s <= 0:  # with no time left the batch is not to blame
            return expected_s <= remaining_s
        reason = f"batch {batch:,} would take about {expected_s:.0f} s, more than the {remaining_s:.0f} s left."
        self._targets[target].block(batch, reason)
        self._ledger.set_cell(target, batch, "skipped", f"Skipped, because {reason}", "budget")
        return False

    def _whole_calls(self, target: int, steps: int) -> int:
        """Round the steps up to whole calls of the target's function."""
        each = self._plan.targets[target].steps_per_execution
        return -(-steps // each) * each

    def _round(self, batch: int, targets: list[int]) -> None:
        begin, blocks = self._clock.now_s(), []
        for target in order_of_round(self._ledger.rounds_at(batch) + len(self._pending), targets):
            steps = self._whole_calls(target, self._ledger.block_steps(target, batch))
            expected_s = steps * self._targets[target].step_ms.get(batch, 0.0) / 1000.0
            at_s = self.elapsed_s()
            try:
                request = RunBlock(batch=batch, steps=steps)
                done = self._asking.block(self._workers[target], request, expected_s)
            except WorkerError as error:
                self._record_rounds(batch)  # now, while the workers can report their CPU time
                self._fail(target, batch, error)
                return
            step_ms = done.block_ms / done.steps
            self._targets[target].step_ms[batch] = step_ms
            measured = {"steps": done.steps, "step_ms": step_ms, "wake_ms": done.wake_ms, "cpu_ms": done.cpu_ms}
            blocks.append(Block(target=target, process=self._process, at_s=at_s, card=self._asking.card, **measured))
        self._pending.append(tuple(blocks))
        self._experience.ran_round(batch, self._clock.now_s() - begin)

    def _fail(self, target: int, batch: int, error: WorkerError) -> None:
        state, name = self._targets[target], self._names[target]
        state.prepared.discard(batch)
        if isinstance(error, WorkerLost):
            self._note_loss(target, batch, error)
        if self._ledger.rounds_of(target, batch):
            if not isinstance(error, WorkerLost):
                text = f"{name} at batch {batch} was cut short: {error.reason}"
                self._ledger.add(Warning(code=f"lost_{target}_{batch}", text=text))
        else:
            others = self._on_the_same_card(target)
            crowded = error.outcome == "out_of_memory" and bool(others)
            again = self._makes_room(target, batch) if crowded else self._asking.forgives((target, batch), error)
            reason = error.reason
            if crowded and not again:
                who = f"The worker of {others[0]}" if len(others) == 1 else f"The workers of {' and '.join(others)}"
                reason += f" {who} held memory of the same GPU; in a sweep against the CPU it may fit."
            self._ledger.set_cell(target, batch, error.outcome, reason, "failed")
            if again:
                self._forgiven = True
            else:
                self._targets[target].block(batch, failed_words(batch, error.outcome))
        if isinstance(error, WorkerLost):
            # a loss far above all that it ran is not blamed on the target
            state.losses += batch <= FAR * max(state.step_ms, default=batch)
            if self.is_given_up(target):
                self._targets[target].block(1, f"{state.losses} worker processes of {name} were lost.")
            self.close()

    def _note_loss(self, target: int, batch: int, error: WorkerLost) -> None:
        """Record a warning, since another worker may measure the cell, which then does not show the loss."""
        name = self._names[target]
        self._ledger.add(self._asking.losses.add(name, f"batch {batch:,}", error.reason, f"{target}_{batch}"))

    def _on_the_same_card(self, target: int) -> list[str]:
        """Return the names of the other targets that share a GPU with this one."""
        gpus = [set(other.gpus) for other in self._plan.targets]
        return [self._names[index] for index in range(len(gpus)) if index != target and gpus[index] & gpus[target]]

    def _makes_room(self, target: int, batch: int) -> bool:
        """End all workers, so that the cell is tried again with the whole card free; once, then return False."""
        if (target, batch) in self._made_room:
            return False
        self._made_room.add((target, batch))
        self.close()
        return True

    def _resume_failures(self) -> None:
        """Block the batches that failed before the sweep was resumed."""
        for target in range(len(self._targets)):
            for batch in self._plan.batches:
                cell = self._ledger.cell(target, batch)
                if cell is not None and cell.outcome not in ("measured", "pending", "skipped"):
                    self._targets[target].block(batch, failed_words(batch, cell.outcome))
