"""The interface that serves a worker's requests on one target. Imports no framework.

A framework's module (:data:`core.base.frameworks.FRAMEWORKS`) has ``start(hello) -> (Engine, Ready)``. Most engines are
a
:class:`core.worker.cells.CellEngine`. docs/frameworks.md explains how to add one.
"""

from __future__ import annotations

from typing import NoReturn, Protocol

from core.worker.protocol import (
    BlockDone,
    CellFailed,
    Describe,
    Described,
    Examine,
    Examined,
    GradientsSampled,
    LoopTimed,
    OpenTraining,
    PitfallTimed,
    Prepare,
    Prepared,
    Release,
    Released,
    RunBlock,
    SampleGradients,
    TimeLoop,
    TimePitfall,
    Traced,
    TraceSteps,
    Train,
    Trained,
    TrainingOpened,
)


class Engine(Protocol):
    """One method per kind of request except ``hello``. Each raises CellFailed or WorkerLost."""

    def prepare(self, request: Prepare) -> Prepared: ...
    def block(self, request: RunBlock) -> BlockDone: ...
    def trace(self, request: TraceSteps) -> Traced: ...
    def loop(self, request: TimeLoop) -> LoopTimed: ...
    def release(self, request: Release) -> Released: ...
    def describe(self, request: Describe) -> Described: ...
    def open_training(self, request: OpenTraining) -> TrainingOpened: ...
    def train(self, request: Train) -> Trained: ...
    def sample_gradients(self, request: SampleGradients) -> GradientsSampled: ...
    def pitfall(self, request: TimePitfall) -> PitfallTimed: ...
    def examine(self, request: Examine) -> Examined: ...


class TensorFlowOnly:
    """Default methods that refuse what only TensorFlow serves."""

    title: str
    """The framework's name in a sentence."""

    def trace(self, request: TraceSteps) -> Traced:  # noqa: ARG002
        self.refuse("Where a step's time goes")

    def loop(self, request: TimeLoop) -> LoopTimed:  # noqa: ARG002
        self.refuse("What the framework's own loop costs")

    def describe(self, request: Describe) -> Described:  # noqa: ARG002
        self.refuse("A model of your own function")

    def open_training(self, request: OpenTraining) -> TrainingOpened:  # noqa: ARG002
        self.refuse("Gradient noise")

    def train(self, request: Train) -> Trained:  # noqa: ARG002
        self.refuse("Gradient noise")

    def sample_gradients(self, request: SampleGradients) -> GradientsSampled:  # noqa: ARG002
        self.refuse("Gradient noise")

    def pitfall(self, request: TimePitfall) -> PitfallTimed:  # noqa: ARG002
        self.refuse("A way of timing that misleads")

    def examine(self, request: Examine) -> Examined:  # noqa: ARG002
        self.refuse("What the self-check looks at")

    def refuse(self, what: str) -> NoReturn:
        raise tensorflow_only(what, self.title)


def tensorflow_only(what: str, title: str) -> CellFailed:
    """Return the error for a request that the framework called ``title`` does not serve."""
    return CellFailed("error", f"{what} is measured with TensorFlow only, not with {title}.")
