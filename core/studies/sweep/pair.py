"""The two workers of a sweep: started together, prepared cell by cell, timed in alternating order, replaced when lost.

What goes wrong becomes the outcome of a cell; larger batches of that target are then skipped (docs/design.md,
Failures). A cell that already has rounds keeps them, and the loss becomes a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from core.evidence import Block, Process, Warning
from core.studies.runner import Asking, StudyFailed, StudyTools, sampled
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.plan import SweepPlan
from core.studies.sweep.record import Round
from core.studies.sweep.schedule import Costs
from core.studies.sweep.tracing import trace_prepared
from core.worker.protocol import Prepare, RunBlock, Worker, WorkerError, WorkerLost

PROBE_STEPS = 30  # steps that preparing and scanning a cell takes at the least; decides whether the budget allows it
MAX_LOSSES = 3  # workers of one target lost before it is given up


@dataclass
class _TargetState:
    """``blocked_from``: the smallest batch that failed; it and larger ones are not tried again."""

    blocked_from: int | None = None
    blocked_by: str = ""
    losses: int = 0
    step_ms: dict[int, float] = field(default_factory=dict)


class WorkerPair:
    """Runs rounds for a sweep's ledger. Not thread-safe: one engine thread owns it."""

    def __init__(self, plan: SweepPlan, ledger: Ledger, tools: StudyTools, deadline_s: Callable[[], float]) -> None:
        self._plan, self._ledger, self._tools, self._clock = plan, ledger, tools, tools.clock
        self._asking = Asking(tools, plan.budget_s)
        self._forgiven = False
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
        begin, lost_s, told = self._clock.now_s(), self._asking.lost_s, len(self._asking.warnings)
        try:
            self._workers = self._asking.start(self._plan.targets)
        except WorkerError as error:
            raise StudyFailed(error.reason) from error
        if warnings := self._asking.warnings[told:]:
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

        Where a worker crashed that may just as well not have, all over again with new ones.
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
        sampled(self._tools.interference, self._workers)  # what starting and preparing took is nobody's interference
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
            text = f"{self._plan.target_names[target]} at batch {batch} could not be traced: {error.reason}"
            self._ledger.add(Warning(code=f"trace_{target}_{batch}", text=text))
            if isinstance(error, WorkerLost):
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
        """What the first steps of a cell should take by the next smaller batch, in seconds; 0 where that is unknown."""
        known = self._targets[target].step_ms
        nearest = max((b for b in known if b <= batch), default=None)
        return 0.0 if nearest is None else PROBE_STEPS * known[nearest] * batch / nearest / 1000.0

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
            blocks.append(Block(target=target, process=self._process, steps=done.steps, step_ms=step_ms, at_s=at_s))
        interference = sampled(self._tools.interference, self._workers)
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
        if self._ledger.rounds_of(target, batch):
            self._ledger.add(
                Warning(code=f"lost_{target}_{batch}", text=f"{name} at batch {batch} was cut short: {error.reason}")
            )
        else:
            self._ledger.set_cell(target, batch, error.outcome, error.reason, "failed")
            if self._asking.forgives((target, batch), error):
                self._forgiven = True
            else:
                self._block(target, batch, f"batch {batch:,} failed ({error.outcome.replace('_', ' ')}).")
        if isinstance(error, WorkerLost):
            state.losses += 1
            if self.is_given_up(target):
                self._block(target, 1, f"{state.losses} worker processes of {name} were lost.")
            self.close()

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
