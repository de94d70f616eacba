"""Measure the gradient noise scale while a workload really trains to a loss, in one worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TypeVar, cast

from core.analysis.noise_scale import NoiseScale, noise_scale
from core.environment import capture_environment
from core.experiment import Ended
from core.measure.pair import HANG_FACTOR, PREPARE_DEADLINE_S, START_DEADLINE_S
from core.measure.progress import Phase, Progress
from core.measure.protocol import (
    GradientsSampled,
    OpenTraining,
    SampleGradients,
    Train,
    Trained,
    TrainingOpened,
    WorkerError,
)
from core.measure.studies import StudyFailed, StudyTools
from core.noise_study import TARGET_SHARE, GradientDraw, LossPoint, NoisePlan, NoiseStudy, steps_to
from core.results import Warning

OPEN_DEADLINE_S = 600.0  # a person's own files are read whole
LARGEST_SMALL = 32  # samples of a small batch: few enough that its noise shows, enough to be computed efficiently
FIRST_PARTS, MAX_BIG = 8, 65_536
DRAWS = 8  # at a time
PRECISE = (
    2.0  # high over low of one checkpoint's noise scale; the average over some twelve of them is much better known
)
CHECKPOINT_GROWTH, LOSS_GROWTH = 1.5, 1.05  # from one to the next, in steps; the loss is cheaper and finds the target
CHECKPOINT_SHARE = 0.04  # of the budget, at most, for one checkpoint's gradients
LONGEST_CHUNK_S = 2.0  # of training in one request, so that cancelling is quick
Q = TypeVar("Q")
R = TypeVar("R")


class TrainingWorker(Protocol):
    """What a worker that trains can do (:class:`core.measure.process.ProcessWorker`)."""

    def open_training(self, request: OpenTraining, deadline_s: float) -> TrainingOpened: ...

    def train(self, request: Train, deadline_s: float) -> Trained: ...

    def sample_gradients(self, request: SampleGradients, deadline_s: float) -> GradientsSampled: ...

    def close(self) -> None: ...


def run_noise_study(tools: StudyTools, plan: NoisePlan) -> NoiseStudy:
    """Train to the target loss or to the budget's end, with the gradients' noise at steps spaced evenly in logarithm.

    Cancelling keeps what there is. Raises StudyFailed where nothing was measured, or the target is no target.
    """
    return _Runner(tools, plan).run()


class _Stopped(Exception):
    """Cancelled."""


@dataclass
class _Runner:
    tools: StudyTools
    plan: NoisePlan
    draws: list[GradientDraw] = field(default_factory=list)
    losses: list[LossPoint] = field(default_factory=list)
    target_loss: float = 0.0
    parts: int = FIRST_PARTS
    step_s: float = 0.0
    draw_s: float = 0.0  # of one small batch's gradient
    begin_s: float = 0.0

    def run(self) -> NoiseStudy:
        self.begin_s = self.tools.clock.now_s()
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self._tell("starting", "Starting a worker process")
        (worker,) = self.tools.launcher((self.plan.target,), START_DEADLINE_S)
        trainer = cast(TrainingWorker, worker)
        status: Ended = "finished"
        warnings: tuple[Warning, ...] = ()
        opened: TrainingOpened | None = None
        try:
            opened = self._open(trainer)
            self._train_and_sample(trainer)
        except _Stopped:
            status = "cancelled"
        except WorkerError as error:  # what was measured before it still counts
            if not self.draws:
                raise
            status, warnings = "failed", (Warning(code=error.outcome, text=error.reason),)
        finally:
            trainer.close()
        if opened is None or not self.draws:
            raise StudyFailed("Cancelled before the first gradients; nothing was measured.")
        return NoiseStudy(
            run_id=self.plan.run_id,
            plan=self.plan,
            draws=tuple(self.draws),
            losses=tuple(self.losses),
            initial_loss=opened.loss,
            target_loss=self.target_loss,
            samples=opened.samples,
            status=status,
            environment=capture_environment(),
            created_at=created,
            elapsed_s=self._elapsed_s(),
            warnings=warnings,
        )

    def _open(self, worker: TrainingWorker) -> TrainingOpened:
        self._check()
        self._tell("starting", f"Building the network and its task: {self.plan.task}")
        request = OpenTraining(
            workload=self.plan.workload,
            batch=self.plan.batch,
            learning_rate=self.plan.rate,
            data=self.plan.data,
        )
        opened = worker.open_training(request, OPEN_DEADLINE_S)
        self.losses.append(LossPoint(step=0, loss=opened.loss))
        self.target_loss = self.plan.target_loss or TARGET_SHARE * opened.loss
        if opened.loss <= self.target_loss:
            raise StudyFailed(
                f"The untrained network already has a loss of {opened.loss:.3g}, so {self.target_loss:.3g} is nothing "
                "to train for; choose a lower target loss."
            )
        return opened

    def _train_and_sample(self, worker: TrainingWorker) -> None:
        checkpoint = 0
        while True:
            step = self.losses[-1].step
            if step >= checkpoint:
                self._checkpoint(worker)
                checkpoint = max(step + 4, round(step * CHECKPOINT_GROWTH))
            if self._reached() or self._remaining_s() <= self.step_s:
                break
            self._train(worker, checkpoint - step)
        if self.draws[-1].step < self.losses[-1].step:
            self._checkpoint(worker)  # the noise is largest at the end

    def _reached(self) -> bool:
        return steps_to(self.target_loss, self.losses) is not None

    def _checkpoint(self, worker: TrainingWorker) -> None:
        """Draw gradients until the noise scale here is known well enough or its time is up: with larger big batches
        where noise dominates, for |G|² shows only in those.
        """
        end_s = self.tools.clock.now_s() + CHECKPOINT_SHARE * self.plan.budget_s
        found = self._sample(worker)
        while not _is_precise(noise_scale(found)):
            small = self._small
            larger = 2 * self.parts if 2 * self.parts * small <= MAX_BIG else self.parts
            if self.tools.clock.now_s() + DRAWS * larger * self.draw_s > end_s:
                break
            if larger > self.parts:
                self.parts, found = larger, []
            found = found + self._sample(worker)

    @property
    def _small(self) -> int:
        return min(LARGEST_SMALL, self.plan.batch // 2)

    def _sample(self, worker: TrainingWorker) -> list[GradientDraw]:
        step, small = self.losses[-1].step, self._small
        self._tell("measuring", f"Measuring the gradients' noise after {step:,} steps")
        request = SampleGradients(small=small, parts=self.parts, draws=DRAWS)
        reply, took_s = self._timed(worker.sample_gradients, request, DRAWS * self.parts * self.draw_s)
        self.draw_s = took_s / (DRAWS * self.parts)
        found = [
            GradientDraw(step=step, small=small, big=small * self.parts, small_norm2=norm2, big_norm2=big_norm2)
            for norm2, big_norm2 in zip(reply.small_norm2, reply.big_norm2, strict=True)
        ]
        self.draws += found
        return found

    def _train(self, worker: TrainingWorker, most: int) -> None:
        last = self.losses[-1]
        steps = min(most, max(2, round(last.step * (LOSS_GROWTH - 1))))
        if self.step_s > 0:
            steps = max(1, min(steps, int(min(LONGEST_CHUNK_S, self._remaining_s()) / self.step_s)))
        self._tell("measuring", f"Training: step {last.step:,}, loss {last.loss:.3g}, to reach {self.target_loss:.3g}")
        reply, took_s = self._timed(worker.train, Train(steps=steps), steps * self.step_s)
        if last.step > 0:  # the first request compiles
            self.step_s = took_s / steps
        self.losses.append(LossPoint(step=reply.step, loss=reply.loss))

    def _timed(self, ask: Callable[[Q, float], R], request: Q, expected_s: float) -> tuple[R, float]:
        """The reply, and how long it took in seconds."""
        self._check()
        begin_s = self.tools.clock.now_s()
        reply = ask(request, max(PREPARE_DEADLINE_S, HANG_FACTOR * expected_s))
        return reply, self.tools.clock.now_s() - begin_s

    def _check(self) -> None:
        if self.tools.cancel.is_set():
            raise _Stopped

    def _elapsed_s(self) -> float:
        return self.tools.clock.now_s() - self.begin_s

    def _remaining_s(self) -> float:
        return self.plan.budget_s - self._elapsed_s()

    def _tell(self, phase: Phase, activity: str) -> None:
        self.tools.report(Progress(phase, activity, 0, 0, self._elapsed_s(), max(0.0, self._remaining_s())))


def _is_precise(scale: NoiseScale) -> bool:
    return scale.high is not None and scale.high <= PRECISE * scale.low
