"""STUB: real training."""

from core.measure.protocol import GradientsSampled, OpenTraining, SampleGradients, Trained, TrainingOpened
from core.spec import Target


class Training:
    def __init__(self, request: OpenTraining, target: Target, device: str) -> None:
        raise NotImplementedError

    opened: TrainingOpened

    def train(self, steps: int) -> Trained:
        raise NotImplementedError

    def sample(self, request: SampleGradients) -> GradientsSampled:
        raise NotImplementedError
