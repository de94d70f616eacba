"""Measure what the framework itself costs on this machine: one worker, tiny networks, short blocks in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from core.environment import capture_environment
from core.experiment import Ended
from core.host_study import HostBlock, HostCell, HostRound, HostStudy, host_cells, host_target
from core.measure.pair import BLOCK_DEADLINE_S, PREPARE_DEADLINE_S, START_DEADLINE_S, NoiseSource
from core.measure.progress import Phase, Progress
from core.measure.protocol import CellFailed, Prepare, Worker, WorkerError
from core.measure.studies import StudyFailed, StudyTools
from core.results import Noise, Warning
from core.spec import Pipeline

BUDGET_S = 15.0
THREADS = 1
"""On a GPU one thread of the host hands out the kernels; with more threads a CPU runs small operations side by side."""

ROUNDS = 9  # in one start: enough for a 95 % interval of the median, and a third more for stalls
MAX_STARTS = 3
BLOCK_MS, WARMUP_MS = 10.0, 100.0


def run_host_study(tools: StudyTools, threads: int | None = THREADS, budget_s: float = BUDGET_S) -> HostStudy:
    """Measure within about ``budget_s``: one start of the worker, and further ones where each fits what is left.

    Cells that cannot run (XLA on a machine without its compiler) are left out with a warning. Raises StudyFailed,
    with a sentence, where nothing was measured.
    """
    return _Runner(tools, threads, budget_s, tools.noise()).run()


class _Cancelled(Exception):
    """Asked to stop."""


@dataclass
class _Runner:
    tools: StudyTools
    threads: int | None
    budget_s: float
    noise: NoiseSource | None
    cells: tuple[HostCell, ...] = field(default_factory=host_cells)
    rounds: list[HostRound] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    begin_s: float = 0.0
    starts: int = 0

    def run(self) -> HostStudy:
        self.begin_s = self.tools.clock.now_s()
        status: Ended = "finished"
        lost = ""
        created = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            while self.starts < MAX_STARTS and self._affordable():
                self._one_start()
        except _Cancelled:
            status = "cancelled"
        except WorkerError as error:
            status, lost = "failed", error.reason
        if not self.rounds:
            raise StudyFailed(
                lost or next(iter(self.failed.values()), "Cancelled before the first round; nothing was measured.")
            )
        return HostStudy(
            threads=self.threads,
            cells=self.cells,
            rounds=tuple(self.rounds),
            warnings=self._warnings(lost),
            status=status,
            created_at=created,
            elapsed_s=self._elapsed_s(),
            environment=capture_environment(),
        )

    def _affordable(self) -> bool:
        """Whether another start like those before fits what is left."""
        return self._elapsed_s() * (self.starts + 1) <= self.budget_s * self.starts if self.starts else True

    def _one_start(self) -> None:
        """A fresh worker, every cell prepared, rounds in an order that turns around. Raises WorkerError, _Cancelled."""
        self._check("Starting a worker process")
        (worker,) = self.tools.launcher((host_target(self.threads),), START_DEADLINE_S)
        try:
            steps = self._prepare_all(worker)
            self._sample(worker)  # what starting took is nobody's noise
            for _ in range(ROUNDS if steps else 0):
                self._round(worker, steps)
        finally:
            worker.close()
            self.starts += 1

    def _prepare_all(self, worker: Worker) -> dict[int, int]:
        """Steps of a block by cell."""
        steps = {}
        for index, cell in enumerate(self.cells):
            if index in self.failed:
                continue
            self._check(f"Preparing: {cell.title}")
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
                steps[index] = worker.prepare(request, PREPARE_DEADLINE_S).steps_per_block
            except CellFailed as error:
                self.failed[index] = error.reason
        return steps

    def _round(self, worker: Worker, steps: dict[int, int]) -> None:
        number = len(self.rounds)
        blocks = []
        for index in sorted(steps, reverse=number % 2 == 1):
            self._check("Measuring steps of tiny networks in turn")
            done = worker.block(1, steps[index], BLOCK_DEADLINE_S, index)
            step_ms = done.block_ms / done.steps
            blocks.append(HostBlock(cell=index, process=self.starts, steps=done.steps, step_ms=step_ms))
        self.rounds.append(HostRound(index=number, blocks=tuple(blocks), noise=self._sample(worker)))

    def _sample(self, worker: Worker) -> Noise:
        if self.noise is None:
            return Noise()
        return self.noise.sample(worker.cpu_time_s(), (worker.ready.pid,))

    def _warnings(self, lost: str) -> tuple[Warning, ...]:
        told = [
            Warning(code=f"host_cell_{index}", text=f"{self.cells[index].title}: {reason}")
            for index, reason in self.failed.items()
        ]
        if lost:
            told.append(Warning(code="cut_short", text=f"Cut short after {len(self.rounds)} rounds: {lost}"))
        return tuple(told)

    def _elapsed_s(self) -> float:
        return self.tools.clock.now_s() - self.begin_s

    def _check(self, activity: str) -> None:
        """Raise _Cancelled if asked to stop, else tell what is being done."""
        if self.tools.cancel.is_set():
            raise _Cancelled
        phase: Phase = "measuring" if self.rounds else "starting"
        done = len({block.cell for item in self.rounds for block in item.blocks})
        elapsed_s = self._elapsed_s()
        left_s = max(0.0, self.budget_s - elapsed_s)
        self.tools.report(Progress(phase, activity, done, len(self.cells), elapsed_s, left_s))
