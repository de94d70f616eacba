"""What a study needs to measure, and the studies themselves: a pipeline's ways of feeding, a run's diagnosis."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from core.experiment import Experiment
from core.measure.clock import Clock
from core.measure.experiment import ExperimentPlan, OnProgress, run_experiment
from core.measure.pair import NoiseSource
from core.measure.progress import Progress
from core.measure.protocol import Launcher

__all__ = ["ExperimentPlan", "StudyRecord", "StudySnapshot", "StudyTools", "measure_arms"]


class StudyRecord(Protocol):
    """What a study measured. One that belongs to a run names it in ``run_id``."""

    def to_json(self) -> str: ...


@dataclass(frozen=True)
class StudyTools:
    """How to measure here: real workers and the wall clock, or simulated ones in tests."""

    launcher: Launcher
    clock: Clock
    cancel: threading.Event
    noise: Callable[[], NoiseSource | None]
    report: OnProgress


@dataclass(frozen=True)
class StudySnapshot:
    """A study at one moment; ``result`` when it is done, ``error`` (a sentence) when it could not be."""

    kind: str
    description: str
    active: bool
    progress: Progress | None = None
    result: StudyRecord | None = None
    error: str | None = None


class StudyFailed(Exception):
    """A study could not measure what it is about; the message is a sentence."""


def measure_arms(tools: StudyTools, plan: ExperimentPlan) -> Experiment:
    """Measure a study's arms. Raises StudyFailed when there is nothing to compare with: no first arm, or no round."""
    experiment = run_experiment(
        plan,
        launcher=tools.launcher,
        clock=tools.clock,
        cancel=tools.cancel,
        on_progress=tools.report,
        noise=tools.noise(),
    )
    if experiment.status == "failed":
        why = next((outcome.reason for outcome in experiment.outcomes), "")
        raise StudyFailed(why or "Nothing could be measured within the budget; give it more time.")
    if not experiment.rounds:
        raise StudyFailed("Cancelled before the first round; nothing was measured.")
    return experiment
