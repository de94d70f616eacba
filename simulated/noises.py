"""Noise studies with a known truth, made from a seed, and workers that train in simulation on a virtual clock.

The known problem is linear regression: x ~ N(0, I_p), y = x·w + ε with ε ~ N(0, σ²), loss ½ (x·θ − y)². With d = θ − w
the gradient of one sample is g = x (x·d − ε), so G = E g = d, and by E[x xᵀ (x·d)²] = |d|² I + 2 d dᵀ (Isserlis) Σ =
(|d|² + σ²) I + d dᵀ: tr(Σ) = (p + 1) |d|² + p σ², |G|² = |d|².
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from core.networks.families import network_from_name
from core.rounds.run import Run
from core.studies.noise.record import GradientDraw, LossPoint, NoisePlan, NoiseStudy
from core.studies.progress import Progress
from core.studies.runner import StudyTools
from core.worker.protocol import (
    CellFailed,
    GradientsSampled,
    OpenTraining,
    R,
    Ready,
    Request,
    SampleGradients,
    Train,
    Trained,
    TrainingOpened,
)
from core.workload.spec import Target, Workload
from simulated.runs import make_environment
from simulated.simulation import VirtualClock
from simulated.tools import tools_for

SMALL, PARTS, DRAWS = 16, 16, 8
TRUE_NOISE, TRUE_STEPS, BATCH = 600.0, 900.0, 64
INITIAL_LOSS, TARGET_LOSS = 2.4, 1.2
WORKLOAD = Workload(network=network_from_name("784-128-10"))


@dataclass(frozen=True)
class Regression:
    """Linear regression at a fixed distance from its solution."""

    inputs: int = 20
    distance: float = 0.5
    noise: float = 1.0

    @property
    def squared(self) -> float:
        """|G|²."""
        return self.distance**2

    @property
    def trace(self) -> float:
        """tr(Σ)."""
        return (self.inputs + 1) * self.distance**2 + self.inputs * self.noise**2

    @property
    def scale(self) -> float:
        return self.trace / self.squared

    def draw(self, rng: np.random.Generator, small: int, parts: int, step: int = 0) -> GradientDraw:
        offset = np.zeros(self.inputs)
        offset[0] = self.distance
        x = rng.normal(size=(parts, small, self.inputs))
        errors = x @ offset - self.noise * rng.normal(size=(parts, small))
        gradients = (x * errors[..., None]).mean(axis=1)
        small_norm2, big_norm2 = norms2_of(gradients)
        return GradientDraw(step=step, small=small, big=small * parts, small_norm2=small_norm2, big_norm2=big_norm2)


def simulated_norms(
    rng: np.random.Generator, noise: float, small: int, parts: int, dimensions: int = 400
) -> tuple[float, float]:
    """Return |G|² of small batches (mean) and of their mean, for gradients of that noise scale with |G|² = 1."""
    spread = math.sqrt(noise / dimensions / small)
    gradients = rng.normal(0.0, spread, size=(parts, dimensions))
    gradients[:, 0] += 1.0
    return norms2_of(gradients)


def norms2_of(gradients: np.ndarray) -> tuple[float, float]:
    """Return |G|² of each batch (mean), and of the mean of all."""
    return float((gradients**2).sum(axis=1).mean()), float((gradients.mean(axis=0) ** 2).sum())


def make_noise_study(
    run: Run | None = None,
    seed: int = 0,
    noise: float = TRUE_NOISE,
    steps: float = TRUE_STEPS,
    *,
    reached: bool = True,
    parts: int = PARTS,
    **changes: object,
) -> NoiseStudy:
    """Make a training of constant noise scale that reaches the target loss after ``steps`` steps, or gets half-way."""
    rng = np.random.default_rng(seed)
    last = math.ceil(steps * (1.0 if reached else 0.5))
    at = sorted({0, *(round(2 ** (i / 2)) for i in range(2, int(2 * math.log2(last)))), last})
    draws = []
    for step in at:
        for _ in range(DRAWS):
            small, big = simulated_norms(rng, noise, SMALL, parts)
            draws.append(GradientDraw(step=step, small=SMALL, big=SMALL * parts, small_norm2=small, big_norm2=big))
    judged = [round(share * steps * (1.2 if reached else 0.5) / 60) for share in range(61)]
    losses = [INITIAL_LOSS + (TARGET_LOSS - INITIAL_LOSS) * step / steps for step in judged]
    workload = WORKLOAD if run is None or run.plan is None else run.plan.workload
    plan = NoisePlan(workload=workload, batch=BATCH, run_id=None if run is None else run.id)
    made = NoiseStudy(
        run_id=plan.run_id, plan=plan, draws=tuple(draws), initial_loss=INITIAL_LOSS, target_loss=TARGET_LOSS,
        losses=tuple(LossPoint(step=step, loss=loss) for step, loss in zip(judged, losses, strict=True)),
        label="recorded", environment=make_environment(), created_at="2026-01-07T09:00:00+00:00", elapsed_s=58.0,
    )  # fmt: skip
    return made.model_copy(update=changes)


def exact_noise_study(run: Run, noise: float, steps: float = TRUE_STEPS, **changes: object) -> NoiseStudy:
    """Make a noise study with draws that show that noise scale exactly."""
    made = make_noise_study(run, noise=noise, steps=steps)
    draws = tuple(
        draw.model_copy(update={"small_norm2": 1 + noise / draw.small, "big_norm2": 1 + noise / draw.big})
        for draw in made.draws
    )
    return made.model_copy(update={"draws": draws, **changes})


@dataclass(eq=False)
class SimulatedTrainer:
    """A worker whose noise scale doubles every ``doubling`` steps, and whose loss follows the law of S(B).

    ``diverges_at``: the step after which training fails. ``asked`` are the requests it answered.
    """

    clock: VirtualClock = field(default_factory=VirtualClock)
    noise: float = 100.0
    doubling: float = math.inf
    minimal_steps: float = 50.0
    step_s: float = 0.02
    sample_s: float = 2e-5
    diverges_at: float = math.inf
    seed: int = 0
    asked: list[object] = field(default_factory=list)
    closed: int = 0

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._step, self._batch = 0, 0
        self.ready = Ready(pid=1, startup_ms=5000.0, device="CPU:0")

    def launch(self, targets: tuple[Target, ...], deadline_s: float, *_: object) -> tuple[SimulatedTrainer, ...]:
        assert len(targets) == 1
        assert deadline_s > 0
        self.clock.advance(5.0)
        return (self,)

    def noise_at(self, step: float) -> float:
        return self.noise * 2 ** (step / self.doubling)

    def _loss(self) -> float:
        """Return the loss, halved after S_min (1 + B_noise / B) steps; for a constant noise scale only."""
        return INITIAL_LOSS * 0.5 ** (self._step / (self.minimal_steps * (1 + self.noise / max(1, self._batch))))

    def ask(self, request: Request[R], deadline_s: float) -> R:
        reply: R = getattr(self, cast(Any, request).kind)(request, deadline_s)
        return reply

    def open_training(self, request: OpenTraining, deadline_s: float) -> TrainingOpened:
        assert deadline_s > 0
        self.asked.append(request)
        self._batch = request.batch
        self.clock.advance(1.0)
        return TrainingOpened(samples=None, loss=self._loss())

    def train(self, request: Train, deadline_s: float) -> Trained:
        assert deadline_s > request.steps * self.step_s
        self.asked.append(request)
        self.clock.advance(request.steps * self.step_s)
        self._step += request.steps
        if self._step > self.diverges_at:
            raise CellFailed("nan_loss", "The training diverged: its loss is not finite.")
        return Trained(step=self._step, loss=self._loss())

    def sample_gradients(self, request: SampleGradients, deadline_s: float) -> GradientsSampled:
        assert deadline_s > 0
        self.asked.append(request)
        self.clock.advance(request.draws * request.parts * request.small * self.sample_s)
        noise, drawn = self.noise_at(self._step), range(request.draws)
        norms2 = tuple(simulated_norms(self._rng, noise, request.small, request.parts) for _ in drawn)
        return GradientsSampled(norms2=norms2)

    def close(self) -> None:
        self.closed += 1


def simulated_tools(trainer: SimulatedTrainer, told: list[Progress] | None = None) -> StudyTools:
    return tools_for(trainer, (lambda _: None) if told is None else told.append)
