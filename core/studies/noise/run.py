"""Measurement of the gradient noise scale while a workload really trains to a loss, in one worker."""

from __future__ import annotations

from core.base.evidence import Ended, Warning
from core.studies.deadlines import first_prepare_s, reading_s
from core.studies.noise.answer import NoiseScale, noise_scale
from core.studies.noise.record import TARGET_SHARE, GradientDraw, LossPoint, NoisePlan, NoiseStudy, steps_to
from core.studies.progress import Phase
from core.studies.runner import Cancelled, StudyFailed, StudyRunner, StudyTools
from core.worker.protocol import OpenTraining, R, Request, SampleGradients, Train, TrainingOpened, Worker, WorkerError

LARGEST_SMALL = 32  # samples of a small batch: few enough to show its noise, enough for efficiency
FIRST_PARTS, MAX_BIG = 8, 65_536
DRAWS = 8  # draws per request
PRECISE = (
    2.0  # high over low of one checkpoint's noise scale; the average over some twelve of them is much better known
)
CHECKPOINT_GROWTH, LOSS_GROWTH = 1.5, 1.05  # growth in steps; the loss is cheaper and finds the target
CHECKPOINT_SHARE = 0.04  # largest share of the budget for one checkpoint's gradients
LONGEST_CHUNK_S = 2.0  # training per request, so that cancelling is quick


def run_noise_study(tools: StudyTools, plan: NoisePlan) -> NoiseStudy:
    """Train to the target loss or to the end of the budget, measuring the gradients' noise at log-spaced steps.

    Cancelling keeps what there is. Raises StudyFailed if nothing was measured, or the target loss is reached untrained.
    """
    return _Runner(tools, plan).run()


class _Runner(StudyRunner):
    def __init__(self, tools: StudyTools, plan: NoisePlan) -> None:
        super().__init__(tools, plan.budget_s)
        self.plan = plan
        self.draws: list[GradientDraw] = []
        self.losses: list[LossPoint] = []
        self.target_loss = 0.0
        self.parts = FIRST_PARTS
        self.step_s = 0.0
        self.draw_s = 0.0  # seconds per gradient of a small batch

    def run(self) -> NoiseStudy:
        self._tell("starting", "Starting a worker process")
        status: Ended = "finished"
        warnings: tuple[Warning, ...] = ()
        opened: TrainingOpened | None = None
        with self.started((self.plan.target,)) as (worker,):
            try:
                opened = self._open(worker)
                self._train_and_sample(worker)
            except Cancelled:
                status = self.tools.stopped_as
            except WorkerError as error:  # measurements before it still count
                if not self.draws:
                    raise
                status, warnings = "failed", (Warning(code=error.outcome, text=error.reason),)
        if opened is None or not self.draws:
            raise Cancelled
        return NoiseStudy(
            run_id=self.plan.run_id,
            plan=self.plan,
            draws=tuple(self.draws),
            losses=tuple(self.losses),
            initial_loss=opened.loss,
            target_loss=self.target_loss,
            samples=opened.samples,
            warnings=self.asking.warnings + warnings,
            **self.envelope(status),
        )

    def _open(self, worker: Worker) -> TrainingOpened:
        self.check()
        self._tell("starting", f"Building the network and its task: {self.plan.task}")
        request = OpenTraining(
            workload=self.plan.workload, batch=self.plan.batch, learning_rate=self.plan.rate, data=self.plan.data
        )
        first_s = first_prepare_s(self.budget_s, self.plan.target.is_gpu)
        opened = worker.ask(request, first_s if self.plan.data is None else reading_s(self.budget_s))
        self.losses.append(LossPoint(step=0, loss=opened.loss))
        self.target_loss = self.plan.target_loss or TARGET_SHARE * opened.loss
        if opened.loss <= self.target_loss:
            raise StudyFailed(
                f"The untrained network already has a loss of {opened.loss:.3g}, so {self.target_loss:.3g} is nothing "
                "to train for; choose a lower target loss."
            )
        return opened

    def _train_and_sample(self, worker: Worker) -> None:
        checkpoint = 0
        while True:
            step = self.losses[-1].step
            if step >= checkpoint:
                self._checkpoint(worker)
                checkpoint = max(step + 4, round(step * CHECKPOINT_GROWTH))
            if self._reached() or self.remaining_s <= self.step_s:
                break
            self._train(worker, checkpoint - step)
        if self.draws[-1].step < self.losses[-1].step:
            self._checkpoint(worker)  # measure the end, where the noise is largest

    def _reached(self) -> bool:
        return steps_to(self.target_loss, self.losses) is not None

    def _checkpoint(self, worker: Worker) -> None:
        """Draw gradients until the noise scale here is precise enough or its time is up, with larger big batches if
        noise dominates, since only those show |G|².
        """
        end_s = self.clock.now_s() + CHECKPOINT_SHARE * self.budget_s
        draws = self._sample(worker)
        while not _is_precise(noise_scale(draws)):
            small = self._small
            larger = 2 * self.parts if 2 * self.parts * small <= MAX_BIG else self.parts
            if self.clock.now_s() + DRAWS * larger * self.draw_s > end_s:
                break
            if larger > self.parts:
                self.parts, draws = larger, []
            draws = draws + self._sample(worker)

    @property
    def _small(self) -> int:
        return min(LARGEST_SMALL, self.plan.batch // 2)

    def _sample(self, worker: Worker) -> list[GradientDraw]:
        step, small = self.losses[-1].step, self._small
        self._tell("measuring", f"Measuring the gradients' noise after {step:,} steps")
        request = SampleGradients(small=small, parts=self.parts, draws=DRAWS)
        reply, took_s = self._timed(worker, request, DRAWS * self.parts * self.draw_s)
        self.draw_s = took_s / (DRAWS * self.parts)
        draws = [
            GradientDraw(step=step, small=small, big=small * self.parts, small_norm2=norm2, big_norm2=big_norm2)
            for norm2, big_norm2 in reply.norms2
        ]
        self.draws += draws
        return draws

    def _train(self, worker: Worker, most: int) -> None:
        last = self.losses[-1]
        steps = min(most, max(2, round(last.step * (LOSS_GROWTH - 1))))
        if self.step_s > 0:
            steps = max(1, min(steps, int(min(LONGEST_CHUNK_S, self.remaining_s) / self.step_s)))
        self._tell("measuring", f"Training: step {last.step:,}, loss {last.loss:.3g}, to reach {self.target_loss:.3g}")
        reply, took_s = self._timed(worker, Train(steps=steps), steps * self.step_s)
        if last.step > 0:  # the first request compiles
            self.step_s = took_s / steps
        self.losses.append(LossPoint(step=reply.step, loss=reply.loss))

    def _timed(self, worker: Worker, request: Request[R], expected_s: float) -> tuple[R, float]:
        """Return the reply and its duration in seconds."""
        self.check()
        begin_s = self.clock.now_s()
        reply = self.asking.ask(worker, request, expected_s=expected_s)
        return reply, self.clock.now_s() - begin_s

    def _tell(self, phase: Phase, activity: str) -> None:
        self.tell(phase, activity, 0, 0)


def _is_precise(scale: NoiseScale) -> bool:
    return scale.high is not None and scale.high <= PRECISE * scale.low
