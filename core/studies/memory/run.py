"""Measurement of the largest batch that fits into a limit: a bounded search, each probe in a fresh, limited process.

A fresh process, because memory that earlier cells freed stays with the allocator. The machine itself is never asked for
more than the limit, which in turn is refused if it exceeds the free memory. On a GPU that check matters more:
TensorFlow's allocator silently takes less if the card cannot provide the limit (bfc_allocator.cc, Extend).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.base.evidence import Ended, Outcome, Warning
from core.base.numbers import counted
from core.machine.cgroup import Killed
from core.machine.environment import available_memory_bytes, resources
from core.machine.nvml import free_gpu_bytes
from core.studies.deadlines import first_prepare_s
from core.studies.memory.forecast import Bounds, Forecast, forecast, planned_bytes, same_machine
from core.studies.memory.record import MIN_LIMIT_BYTES, MemoryPlan, MemoryStudy, Probe
from core.studies.progress import Phase
from core.studies.runner import Cancelled, StudyFailed, StudyRunner, StudyTools, cut_short
from core.worker.protocol import Prepare, Worker, WorkerError
from core.workload.spec import MAX_BATCH, Pipeline, Target

MOST_PROBES = 8
TOLERANCE = 1.05  # ratio of the smallest that ran out to the largest that fitted that is close enough
ASIDE = 0.975  # factor on the predicted limit: such a probe usually fits, and still closes in
AFTER_MISS = 4  # divisor of the next probe if nothing has fitted so far, then its square, and so on
APART = 1.5  # least ratio between two measured batches that define a line
LEAST_S = 30.0  # least time for a probe, else half of the remaining budget
STARTING_SHARE = 0.25  # share of a probe's time that does not depend on the batch
GO_ON: tuple[Outcome, ...] = ("measured", "out_of_memory", "crashed", "hung")
CUDA_BYTES = 400_000_000  # about what CUDA itself uses of a card before the allocator; 0.3 to 0.6 GB are usual
UNSEEN = Warning(
    code="gpu_memory_unseen",
    text="How much of the GPU is free could not be seen; if another program held some, less than the limit was tried.",
)
WARMUP_MS = 50.0  # at least three steps run after the first call, whatever their duration


@dataclass(frozen=True)
class MemorySearch:
    """Plan with ``earlier`` studies, of which those of this machine improve the prediction."""

    plan: MemoryPlan
    earlier: tuple[MemoryStudy, ...] = ()


def run_memory_study(
    tools: StudyTools,
    search: MemorySearch,
    available_bytes: Callable[[], int] | None = None,
    free_gpu: Callable[[Target], int | None] = free_gpu_bytes,
) -> MemoryStudy:
    """Search within the budget; ``tools.launcher`` takes a limit_bytes, beyond which workers end themselves.

    Raises StudyFailed if nothing could be tried.
    """
    return _Search(tools, search, available_bytes or available_memory_bytes, free_gpu).run()


def next_batch(forecast: Forecast, limit_bytes: int, probes: Sequence[Probe]) -> int | None:
    """Return the batch to try next; None if the bracket is close enough, or cannot become closer.

    The first is the largest that the forecast claims to fit, which tests that claim. The following ones close in from
    both sides of the predicted limit, which every measured peak refines. However wrong it is, :data:`MOST_PROBES` leave
    at most a factor of two. Nothing is tried beyond a batch that ran out or was too slow.
    """
    fitted = max((probe.batch for probe in probes if probe.fitted), default=0)
    refused = min((probe.batch for probe in probes if not probe.fitted), default=MAX_BATCH + 1)
    if refused - fitted <= 1 or (fitted and refused / fitted <= TOLERANCE):
        return None
    middle, low, _ = forecast.largest(limit_bytes)
    if not probes:
        return max(1, low)
    if not fitted:
        return max(1, refused // AFTER_MISS ** len(probes))
    octaves = math.log2(refused / fitted)
    if octaves > 1 and math.ceil(math.log2(octaves)) >= MOST_PROBES - len(probes):
        return round((fitted * refused) ** 0.5)  # only halving the octaves now guarantees to leave at most one
    middle = _on_a_line(limit_bytes, probes) or middle
    near = MAX_BATCH if middle >= MAX_BATCH else round(ASIDE * middle)
    if near <= fitted * (1 + (TOLERANCE - 1) / 2):  # nearly known from below: now show that more does not fit
        near = max(fitted + 1, int(fitted * TOLERANCE))
    if near >= refused:
        near = round((fitted * refused) ** 0.5)
    return min(max(near, fitted + 1), refused - 1, MAX_BATCH)


def _on_a_line(limit_bytes: int, probes: Sequence[Probe]) -> int | None:
    """Return where the line through the two largest measured peaks meets the limit; None without a rising line.

    Memory is nearly affine in the batch, even if the model is far off.
    """
    seen = sorted((probe.batch, probe.peak_bytes) for probe in probes if probe.peak_bytes is not None)
    before = [point for point in seen if point[0] * APART <= seen[-1][0]]
    if not before or seen[-1][1] <= before[-1][1]:
        return None
    (low, low_bytes), (high, high_bytes) = before[-1], seen[-1]
    return int(high + (limit_bytes - high_bytes) * (high - low) / (high_bytes - low_bytes))


def _would_come_again(outcome: Outcome, killed: Killed | None) -> bool:
    """Tell whether further probes would fail alike; after a kill, since the limit exceeds the memory there is."""
    return outcome not in GO_ON or killed is not None


class _Search(StudyRunner):
    """One memory search in progress."""

    def __init__(
        self,
        tools: StudyTools,
        search: MemorySearch,
        available_bytes: Callable[[], int],
        free_gpu: Callable[[Target], int | None],
    ) -> None:
        super().__init__(tools, search.plan.budget_s)
        self._plan, self._available_bytes, self._free_gpu = search.plan, available_bytes, free_gpu
        self._unseen = False
        self._earlier = same_machine(search.earlier, self.environment)
        self._planned = planned_bytes(search.plan.workload, search.plan.target, self.environment)
        self._probes: list[Probe] = []

    def run(self) -> MemoryStudy:
        status: Ended = "finished"
        why = ""
        try:
            self._search()
        except Cancelled:
            status = self.tools.stopped_as
        except StudyFailed as failure:
            status, why = "failed", str(failure)
        if not self._probes:
            raise self.nothing(status, why)
        self._tell("done", status.capitalize())
        warnings = self.asking.warnings + (UNSEEN,) * self._unseen
        if why:
            warnings += (cut_short(counted(len(self._probes), "probe"), why),)
        return MemoryStudy(plan=self._plan, probes=tuple(self._probes), warnings=warnings, **self.envelope(status))

    def _search(self) -> None:
        while len(self._probes) < MOST_PROBES:
            ahead = forecast(self._plan.workload, self._plan.target, self._earlier, self._probes, self._planned)
            batch = next_batch(ahead, self._plan.limit_bytes, self._probes)
            if batch is None or not self._affordable(batch):
                return
            self.check()
            self._tell("measuring", f"Trying batch {batch:,} in a fresh process")
            self._probes.append(self._probe(batch, ahead.at(batch)))
            if _would_come_again(self._probes[-1].outcome, self._probes[-1].killed):
                return

    def _affordable(self, batch: int) -> bool:
        """Tell whether there is time for another probe.

        A smaller batch takes time in proportion, plus the start; a larger one grows by the rate seen so far. A single
        probe does not show how much of its time depends on the batch; a probe's deadline bounds that risk.
        """
        if not self._probes:
            return True
        last = self._probes[-1]
        smaller = [probe for probe in self._probes if probe.batch < last.batch / 2]
        each_s = max(((last.took_s - probe.took_s) / (last.batch - probe.batch) for probe in smaller), default=0.0)
        if batch < last.batch:
            expected_s = last.took_s * max(STARTING_SHARE, batch / last.batch)
        else:
            expected_s = last.took_s + max(0.0, each_s) * (batch - last.batch)
        return expected_s <= self.remaining_s

    def _probe(self, batch: int, predicted: Bounds) -> Probe:
        """Try one batch in a fresh process. Raises StudyFailed if none can start."""
        self._check_free()
        begin_s, limit = self.clock.now_s(), self._plan.limit_bytes
        try:
            (worker,) = self.asking.start((self._plan.target,), limit_bytes=limit)
        except WorkerError as error:
            raise StudyFailed(self._no_start(error)) from None
        outcome, reason, killed, peak, steady = self._prepare(worker, batch)
        if _would_come_again(outcome, killed) and not self._probes:
            raise StudyFailed(reason)
        return Probe(
            batch=batch,
            outcome=outcome,
            reason=reason,
            killed=killed,
            peak_bytes=peak,
            steady_bytes=steady,
            baseline_bytes=worker.ready.memory_bytes,
            predicted_bytes=round(predicted.bytes),
            predicted_low_bytes=round(predicted.low),
            predicted_high_bytes=round(predicted.high),
            predicted_fits=predicted.high <= limit,
            took_s=self.clock.now_s() - begin_s,
        )

    def _prepare(self, worker: Worker, batch: int) -> tuple[Outcome, str, Killed | None, int | None, int | None]:
        """Build, run the first call and a few steps, and close the worker; return outcome, reason, killer, peak and
        steady peak in bytes.
        """
        request = Prepare(
            workload=self._plan.workload,
            pipeline=Pipeline(),
            batch=batch,
            warmup_ms=WARMUP_MS,
            latency_samples=0,
            steps_per_block=1,
        )
        try:
            done = worker.ask(request, self._deadline_s())
        except WorkerError as error:
            return error.outcome, error.reason, error.killed, None, None
        finally:
            worker.close()
        peak, steady = done.memory_peak_bytes, done.memory_steady_bytes
        if peak is not None and peak > self._plan.limit_bytes:  # missed by the watch between two samples
            return "out_of_memory", "Its peak was above the limit for a moment.", None, peak, steady
        return "measured", "", None, peak, steady

    def _deadline_s(self) -> float:
        """Return the deadline of one probe; on a GPU the first one gets that of any first preparation there."""
        gpu = self._plan.target.is_gpu
        most_s = first_prepare_s(self.budget_s, gpu)
        return most_s if gpu and not self._probes else min(most_s, max(LEAST_S, self.remaining_s / 2))

    def _check_free(self) -> None:
        """Raise StudyFailed if the limit exceeds the free memory: the machine would swap, or kill processes; a GPU's
        allocator would silently take less.
        """
        if self._plan.target.is_gpu:
            return self._check_free_gpu()
        free = self._available_bytes()
        if free < self._plan.limit_bytes:
            raise StudyFailed(
                f"The limit is {self._plan.limit_bytes / 1e9:.2f} GB, but only {free / 1e9:.2f} GB are free now"
                f"{resources().limited_words}; choose less, or close other programs."
            )

    def _check_free_gpu(self) -> None:
        free, limit = self._free_gpu(self._plan.target), self._plan.limit_bytes
        self._unseen |= free is None
        if free is None or limit + CUDA_BYTES <= free:
            return
        most = free - CUDA_BYTES
        instead = f"choose at most {most / 1e9:.2f} GB, or " if most >= MIN_LIMIT_BYTES else ""
        raise StudyFailed(
            f"The limit is {limit / 1e9:.2f} GB, but only {free / 1e9:.2f} GB of {self._plan.target.device} are free "
            f"now, of which CUDA itself takes about {CUDA_BYTES / 1e9:.1f} GB; {instead}end what else holds its memory "
            "(“nvidia-smi” lists it)."
        )

    def _no_start(self, error: WorkerError) -> str:
        if error.outcome == "out_of_memory" and error.killed is None:
            return (
                f"The limit of {self._plan.limit_bytes / 1e9:.2f} GB is less than the framework needs before any "
                "network is built; choose more."
            )
        return error.reason

    def _tell(self, phase: Phase, activity: str) -> None:
        self.tell(phase, activity, len(self._probes), MOST_PROBES)
