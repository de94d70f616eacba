"""Workers of a sweep, one per target: started together, prepared cell by cell, timed in a rotating order, replaced when
lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from core.base.evidence import Block, Process, Warning
from core.rounds.plan import SweepPlan
from core.rounds.run import Round
from core.studies.runner import Asking, StudyFailed, StudyTools
from core.studies.sweep.attempts import Attempts
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.proposal import Experience
from core.studies.sweep.rotation import order_of_round
from core.studies.sweep.schedule import Costs
from core.studies.sweep.trace import trace_prepared
from core.studies.turns import uneven, up_and_down
from core.worker.protocol import Prepare, RunBlock, Worker, WorkerError, WorkerLost
from core.workload.names import all_of
from core.workload.spec import steps_per_call

SINGLES = 150
"""Most single steps that a start times at such a batch; they last 0.1 s at most (:mod:`core.worker.timing`)."""

PAUSED = 30
"""Single steps that a start times after a pause each, at the smallest batch."""


class Workers:
    """Workers that run the rounds of a sweep's ledger. Not thread-safe: one engine thread owns it.

    Targets are named by their number in the plan. Those that a start leaves out are started when they are needed.
    ``attempts`` decides which cells are tried; no block is begun after ``deadline_s``.
    """

    def __init__(self, plan: SweepPlan, ledger: Ledger, tools: StudyTools, deadline_s: Callable[[], float]) -> None:
        self._plan, self._ledger, self._tools, self._clock = plan, ledger, tools, tools.clock
        self.asking = Asking(tools, plan.budget_s)
        self.attempts = Attempts(plan, ledger, self.asking)
        self._deadline_s = deadline_s
        self._start_s = self._clock.now_s()
        self._workers: dict[int, Worker] = {}
        self._prepared: set[tuple[int, int]] = set()
        """Cells (target, batch) that the present workers have prepared."""
        self.running: tuple[int, ...] = tuple(range(len(plan.targets)))
        """Targets that have a worker, or would have one after a loss."""
        self.process = 0
        self.experience = Experience()
        self._retry = False
        self._pending: list[tuple[Block, ...]] = []  # rounds of the current visit
        self._untraced: dict[tuple[int, str], list[int]] = {}
        """Batches that could not be traced, by target and reason."""

    def costs(self, batch: int, targets: Collection[int]) -> Costs:
        """Return the costs seen so far of a start, of preparing this batch on those targets that still try it, and of a
        visit.
        """
        return self.experience.costs(batch, sum(self.attempts.is_open(target, batch) for target in targets))

    def start(self, targets: Collection[int] | None = None) -> None:
        """Start fresh processes for these targets, by default those of the last start. Raises StudyFailed if they
        cannot start.
        """
        self.close()
        self.running = self.running if targets is None else tuple(sorted(targets))
        self.process = self._ledger.next_process
        took_s = self._launch(self.running)
        own_s = max(worker.ready.startup_ms for worker in self._workers.values()) / 1000
        self.experience.started(took_s, own_s)

    def _launch(self, targets: Collection[int]) -> float:
        """Start these beside the running ones and return the seconds that took. Raises StudyFailed."""
        self._tools.check()
        begin_s, lost_s, known = self._clock.now_s(), self.asking.lost_s, len(self.asking.restarts)
        try:
            started = self.asking.start(tuple(self._plan.targets[target] for target in targets))
        except WorkerError as error:
            raise StudyFailed(error.reason) from error
        self._workers |= zip(targets, started, strict=True)
        if warnings := self.asking.restarts[known:]:
            self._ledger.add(*warnings)
        took_s = self._clock.now_s() - begin_s - self.asking.lost_s + lost_s
        self._ledger.add(
            *(
                Process(index=self.process, target=target, **worker.ready.model_dump(exclude={"kind", "memory_bytes"}))
                for target, worker in zip(targets, started, strict=True)
            )
        )
        return took_s

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers = {}
        self._prepared.clear()

    def visit(self, batch: int, pass_index: int, targets: Collection[int]) -> bool:
        """Prepare the batch if needed and run some rounds of these targets; return whether other programs disturbed
        them.

        Failures are recorded, not raised; Cancelled is. After a failure that may be retried, all is done again with new
        workers.
        """
        disturbed = False
        self._retry = True
        while self._retry:
            self._retry = False
            disturbed = self._visit(batch, pass_index, sorted(targets))
        return disturbed

    def _visit(self, batch: int, pass_index: int, targets: Collection[int]) -> bool:
        runnable = [target for target in targets if self.attempts.is_runnable(target, batch)]
        if not runnable:
            return False
        if not self._workers:
            self.start()
        if missing := [target for target in runnable if target not in self._workers]:
            self._launch(missing)
        begin_s, new = self._clock.now_s(), sum(not self.is_prepared(target, batch) for target in runnable)
        prepared = [target for target in runnable if self._prepare(target, batch)]
        took_s = self._clock.now_s() - begin_s if new else 0.0
        if new and len(prepared) == len(runnable):
            self.experience.prepared(batch, took_s, new)
        self.asking.restart_interference(tuple(self._workers.values()))
        try:
            self._run_rounds(batch, pass_index, prepared, took_s)
        except BaseException:  # mostly Cancelled: keep what was measured
            self._record_rounds(batch, pass_index)
            raise
        return self._record_rounds(batch, pass_index)

    def _run_rounds(self, batch: int, pass_index: int, targets: list[int], prepared_s: float) -> None:
        """Run the rounds of a visit; their number is fixed beforehand, whatever their duration.

        Where cores must wake they run in two turns, so that they wake once.
        """
        expected_s = sum(self.attempts.expected_block_s(target, batch) for target in targets)
        rounds = self.experience.rounds_of_a_visit(batch, expected_s, prepared_s)
        turns = 2 if uneven([self._plan.targets[target] for target in targets]) else rounds
        begin_s = self._clock.now_s()
        for turn in range(turns):
            self._tools.check()
            targets = [target for target in targets if self.is_prepared(target, batch)]  # may have failed meanwhile
            if not targets or not self._workers or self._clock.now_s() >= self._deadline_s():
                return
            self._turn(batch, pass_index, targets, turn, -(-rounds // turns))
            if done := len(self._pending):
                self.experience.ran_rounds(batch, (self._clock.now_s() - begin_s) / done)

    def _turn(self, batch: int, pass_index: int, targets: list[int], turn: int, rounds: int) -> None:
        """Run that many blocks of each target in a row."""
        number = (self._ledger.rounds_at(batch) + len(self._pending)) // rounds
        blocks: list[list[Block]] = [[] for _ in range(rounds)]
        order = up_and_down(order_of_round(number, targets), self._plan.targets, turn)
        for target in order:
            per_call = steps_per_call(self._plan.workload, self._plan.targets[target])
            steps = -(-self._ledger.block_steps(target, batch) // per_call) * per_call  # whole calls
            expected_s = steps * self.attempts.step_ms(target, batch, 0.0) / 1000.0
            for round_blocks in blocks:
                at_s = self._clock.now_s() - self._start_s
                try:
                    done = self.asking.block(self._workers[target], RunBlock(batch=batch, steps=steps), expected_s)
                except WorkerError as error:
                    self._pending += [tuple(each) for each in blocks if len(each) == len(order)]
                    self._record_rounds(batch, pass_index)  # now, while the workers can report their CPU time
                    self._fail(target, batch, error)
                    return
                step_ms = done.block_ms / done.steps
                self.attempts.ran(target, batch, step_ms)
                measured = {"steps": done.steps, "step_ms": step_ms, "wake_ms": done.wake_ms, "cpu_ms": done.cpu_ms}
                round_blocks.append(
                    Block(target=target, process=self.process, at_s=at_s, card=self.asking.card, **measured)
                )
        self._pending += map(tuple, blocks)

    def _record_rounds(self, batch: int, pass_index: int) -> bool:
        """Record the rounds of a visit, all with the interference sampled over it; return whether it disturbed them."""
        rounds, self._pending = self._pending, []
        if not rounds:
            return False
        sample = self.asking.interference(tuple(self._workers.values()))
        first = self._ledger.next_round
        self._ledger.add(
            *(
                Round(index=index, pass_index=pass_index, batch=batch, blocks=blocks, interference=sample)
                for index, blocks in enumerate(rounds, start=first)
            )
        )
        for target in {block.target for blocks in rounds for block in blocks}:
            self._ledger.set_cell(target, batch, "measured")
        return bool(getattr(sample, "disturbed", None))

    def is_prepared(self, target: int, batch: int) -> bool:
        """Tell whether the target's worker has prepared the batch."""
        return (target, batch) in self._prepared

    def ready_for(self, target: int, batch: int) -> Worker | None:
        """Return the target's worker with the cell prepared, for work after the rounds.

        None if it cannot be: after the loss of a worker there is nothing more to learn. Cancelled is raised.
        """
        self._tools.check()
        return self._workers[target] if target in self._workers and self._prepare(target, batch) else None

    def end_lost(self, target: int, batch: int, error: WorkerError) -> None:
        """Record the loss of a worker after the rounds and end all; another error leaves them running."""
        if isinstance(error, WorkerLost):
            self.attempts.note_loss(target, batch, error)
            self.close()

    def forget(self, target: int, batch: int) -> None:
        """Have a cell prepared anew before its next use."""
        self._prepared.discard((target, batch))

    def trace(self, target: int, batch: int) -> None:
        """Trace a cell and record it; a failure becomes a warning. Cancelled is raised."""
        if (worker := self.ready_for(target, batch)) is None:
            return
        try:
            step_ms = self.attempts.step_ms(target, batch)
            self._ledger.add(trace_prepared(self.asking, worker, target, batch, step_ms))
        except WorkerError as error:
            alike = self._untraced.setdefault((target, error.reason), [])
            alike.append(batch)  # one sentence per cause, such as a profiler that is not permitted
            batches = f"batch{'es' if len(alike) > 1 else ''} {all_of([f'{size:,}' for size in sorted(alike)])}"
            text = f"{self._plan.names[target]} at {batches} could not be traced: {error.reason}"
            self._ledger.add(Warning(code=f"trace_{target}_{alike[0]}", text=text))
            if isinstance(error, WorkerLost):
                self.close()

    def _prepare(self, target: int, batch: int) -> bool:
        """Prepare a cell if needed; return whether it is ready for rounds."""
        if self.is_prepared(target, batch):
            return True
        if target not in self._workers or not self.attempts.is_runnable(target, batch):
            return False
        if not self.attempts.is_affordable(target, batch, self._deadline_s() - self._clock.now_s()):
            return False
        self._tools.check()
        request = Prepare(
            workload=self._plan.workload_of(target), pipeline=self._plan.pipeline, batch=batch,
            warmup_ms=min(2000.0, max(200.0, 10.0 * self._plan.budget_s)),
            steps_per_block=self._ledger.steps_per_block(target, batch),
            **self._singles(batch),
        )  # fmt: skip
        try:
            first_s = self.attempts.first_steps_s(target, batch)
            done = self.asking.prepare(self._workers[target], request, target, first_s)
        except WorkerError as error:
            self._fail(target, batch, error)
            return False
        self._ledger.add(done.to_setup(target, self.process))
        self._prepared.add((target, batch))
        self.attempts.prepared(target, batch, done.latency_ms)
        return True

    def _singles(self, batch: int) -> dict[str, int]:
        """Return how many steps are timed singly: more of inference at three batch sizes, for the tail of latency, and
        some after pauses at the smallest.
        """
        grid = self._plan.batches
        if self._plan.workload.training or batch not in (grid[0], grid[len(grid) // 2], grid[-1]):
            return {}
        return {"latency_samples": SINGLES, "paused_samples": PAUSED if batch == grid[0] else 0}

    def _fail(self, target: int, batch: int, error: WorkerError) -> None:
        self.forget(target, batch)
        consequence = self.attempts.fail(target, batch, error)
        self._retry |= consequence.retry
        if consequence.end_workers:
            self.close()
