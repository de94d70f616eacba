"""Requests about training and ways of timing, answered without a cell."""

from __future__ import annotations

import random
import time

from core.worker.protocol import (
    GradientsSampled,
    OpenTraining,
    PitfallTimed,
    SampleGradients,
    TimePitfall,
    Train,
    Trained,
    TrainingOpened,
)
from core.workload.spec import Pipeline, Target
from simulated.made_up.curves import parts_ms

LOSS, FALLS_STEPS = 2.3, 200
NOISE_SCALE = 500  # samples
ASKED_S = 0.02


class Trains:
    """The training part of the engine."""

    _target: Target
    _random: random.Random
    _trained = 0

    def open_training(self, _: OpenTraining) -> TrainingOpened:
        self._trained = 0
        return TrainingOpened(samples=None, loss=LOSS)

    def train(self, request: Train) -> Trained:
        time.sleep(ASKED_S)
        self._trained += request.steps
        return Trained(step=self._trained, loss=LOSS / (1 + self._trained / FALLS_STEPS))

    def sample_gradients(self, request: SampleGradients) -> GradientsSampled:
        time.sleep(ASKED_S)
        sizes = request.small, request.small * request.parts
        noises = [self._random.uniform(0.95, 1.05) for _ in range(request.draws)]
        small, big = ([noise * (1 + NOISE_SCALE / size) for noise in noises] for size in sizes)
        return GradientsSampled(norms2=tuple(zip(small, big, strict=True)))

    def pitfall(self, request: TimePitfall) -> PitfallTimed:
        step_ms = parts_ms(request.workload, self._target, Pipeline(kind="host"), request.batch).step_ms
        times = {
            "predict": {"predict_first": 8 * step_ms, "predict_loop": 4 * step_ms},
            "single_call": {"single_call": 300.0},
            "first_epoch": {"first_epoch": 6 * step_ms},
        }
        return PitfallTimed(steps_ms=times[request.way])
