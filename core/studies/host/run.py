"""Measurement of the framework's own cost on this machine: one worker, tiny networks, short blocks in turn."""

from __future__ import annotations

from dataclasses import dataclass

from core.base.evidence import Ended, Warning
from core.base.numbers import counted
from core.hardware.host_record import HostBlock, HostRound, HostStudy, host_cells, host_target
from core.studies.runner import OVERDRAWN, Cancelled, StudyRunner, StudyTools, cut_short
from core.worker.protocol import CellFailed, Prepare, RunBlock, Worker, WorkerError
from core.workload.spec import Pipeline

BUDGET_S = 15.0
THREADS = 1
"""One host thread launches the kernels of a GPU; with more threads a CPU runs small operations side by side."""

ROUNDS = 9  # per start: enough for a 95 % interval of the median, and a third more for stalls
MAX_STARTS = 3
BLOCK_MS, WARMUP_MS = 10.0, 100.0


@dataclass(frozen=True)
class HostPlan:
    """Plan of a host study: ``threads`` of the worker (None: all) and about ``budget_s`` seconds."""

    threads: int | None = THREADS
    budget_s: float = BUDGET_S


def run_host_study(tools: StudyTools, plan: HostPlan) -> HostStudy:
    """Measure within about the budget: one start of the worker, and further ones if they fit.

    Cells that cannot run (XLA on a machine without its compiler) are left out with a warning. Raises StudyFailed if
    nothing was measured.
    """
    return _Runner(tools, plan).run()


class _Runner(StudyRunner):
    def __init__(self, tools: StudyTools, plan: HostPlan) -> None:
        super().__init__(tools, plan.budget_s)
        self.threads = plan.threads
        self.cells = host_cells()
        self.rounds: list[HostRound] = []
        self.failed: dict[int, str] = {}
        self.starts = 0

    def run(self) -> HostStudy:
        status: Ended = "finished"
        lost = ""
        try:
            while self.starts < MAX_STARTS and self._affordable():
                try:
                    self._one_start()
                except WorkerError as error:
                    if self.rounds or not self.asking.forgives("start", error):
                        raise
                    self.asking.losses.add("cpu", "its first round", error.reason)
        except Cancelled:
            status = self.tools.stopped_as
        except WorkerError as error:
            status, lost = "failed", error.reason
        if not self.rounds:
            raise self.nothing(status, lost or next(iter(self.failed.values()), ""))
        return HostStudy(
            threads=self.threads,
            cells=self.cells,
            rounds=tuple(self.rounds),
            warnings=self._warnings(lost),
            **self.envelope(status),
        )

    def _affordable(self) -> bool:
        """Tell whether another start like those before fits the remaining time."""
        return self.elapsed_s * (self.starts + 1) <= self.budget_s * self.starts if self.starts else True

    def _one_start(self) -> None:
        """Start a fresh worker, prepare every cell and run rounds in alternating order. Raises WorkerError, Cancelled.

        Until there are rounds, a whole budget follows the start: a framework on a cold disk may use up all of the
        first.
        """
        self._tell("Starting a worker process")
        try:
            with self.started((host_target(self.threads),)) as (worker,):
                end_s = self.end_s if self.rounds else max(self.end_s, self.clock.now_s() + self.budget_s)
                steps = self._prepare_all(worker, end_s)
                self.interference((worker,))  # resets the sampling: starting is not interference
                for _ in range(ROUNDS):
                    if self.clock.now_s() >= end_s:
                        break
                    self._round(worker, steps, end_s)
        finally:
            self.starts += 1

    def _prepare_all(self, worker: Worker, end_s: float) -> dict[int, int]:
        """Prepare the cells that there is time for; return the steps per block by cell."""
        steps = {}
        for index, cell in enumerate(self.cells):
            if index in self.failed or self.clock.now_s() >= end_s:
                continue
            self._tell(f"Preparing: {cell.title}")
            request = Prepare(
                workload=cell.workload,
                pipeline=Pipeline(),
                batch=1,
                slot=index,
                variant=host_target(self.threads, cell.execution),
                block_ms=BLOCK_MS,
                warmup_ms=WARMUP_MS,
                latency_samples=0,
            )
            try:
                steps[index] = self.asking.prepare(worker, request, cell.execution).steps_per_block
            except CellFailed as error:
                self.failed[index] = error.reason
        return steps

    def _round(self, worker: Worker, steps: dict[int, int], end_s: float) -> None:
        """Run one block of every cell that still runs, while there is time; a cell that fails is dropped."""
        number = len(self.rounds)
        blocks = []
        for index in sorted(steps, reverse=number % 2 == 1):
            if self.clock.now_s() >= end_s + OVERDRAWN * self.budget_s:
                break
            self._tell("Measuring steps of tiny networks in turn")
            request = RunBlock(batch=1, steps=steps[index], slot=index)
            try:
                done = self.asking.block(worker, request, BLOCK_MS / 1000)
            except CellFailed as error:
                self.failed[index] = error.reason
                del steps[index]
                continue
            step_ms = done.block_ms / done.steps
            blocks.append(HostBlock(cell=index, process=self.starts, steps=done.steps, step_ms=step_ms))
        if blocks:
            interference = self.interference((worker,))
            self.rounds.append(HostRound(index=number, blocks=tuple(blocks), interference=interference))

    def _warnings(self, lost: str) -> tuple[Warning, ...]:
        seen = {block.cell for item in self.rounds for block in item.blocks}
        late = dict.fromkeys(set(range(len(self.cells))) - seen, "There was no time for it within the budget.")
        warnings = [
            Warning(code=f"host_cell_{index}", text=f"{self.cells[index].title}: {reason}")
            for index, reason in sorted((late | self.failed).items())
        ]
        if lost:
            warnings.append(cut_short(counted(len(self.rounds), "round"), lost))
        return (*self.asking.warnings, *warnings)

    def _tell(self, activity: str) -> None:
        """Report the activity; raise Cancelled if asked to stop."""
        self.check()
        done = len({block.cell for item in self.rounds for block in item.blocks})
        self.tell("measuring" if self.rounds else "starting", activity, done, len(self.cells))
