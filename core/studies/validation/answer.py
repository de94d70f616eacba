"""The answer of a validation: interval coverage, median error and common factor of the predictions. Pure functions.

The steps of a network share the model's errors about it, so forty steps are not forty observations. The interval of the
factor is therefore one over networks: the logarithms of measured over predicted are averaged within each network, and
Student's t over these means (n − 1 degrees of freedom) bounds their mean.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from core.analysis.statistics import t_quantile
from core.base.schema import UserError
from core.figures.marks import FAILED_WORDS
from core.rounds.answer.analyse import cell_statistics
from core.rounds.answer.answer import CellStats
from core.rounds.run import Run
from core.studies.compiled.traced import TracedStep, traced_steps
from core.studies.validation.record import Prediction, Predictions, ValidationStudy
from core.workload.spec import Workload

CONFIDENCE = 0.95
LEAST_NETWORKS = 2
MOST_LOG = 700.0


@dataclass(frozen=True)
class Checked:
    """One predicted step with its measurement, or the ``reason`` why one of the two is missing."""

    workload: Workload
    predicted: Prediction
    measured: CellStats | None
    reason: str

    @property
    def batch(self) -> int:
        return self.predicted.batch

    @property
    def factor(self) -> float | None:
        """Measured over predicted; None if one of them is missing."""
        if self.measured is None or self.predicted.step_ms is None:
            return None
        return self.measured.step_ms / self.predicted.step_ms

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Measured over both ends of the predicted interval; the two enclose 1 if the measured time is inside."""
        if self.measured is None or self.predicted.low_ms is None or self.predicted.high_ms is None:
            return None
        return self.measured.step_ms / self.predicted.high_ms, self.measured.step_ms / self.predicted.low_ms

    @property
    def inside(self) -> bool | None:
        """True if the measured time is inside the predicted interval; None if one of them is missing."""
        return None if self.bounds is None else self.bounds[0] <= 1 <= self.bounds[1]


@dataclass(frozen=True)
class Factor:
    """The common factor of measured over predicted steps, with 95 % bounds over ``networks`` networks."""

    value: float
    low: float
    high: float
    networks: int


@dataclass(frozen=True)
class Agreement:
    """Agreement of one set of predictions with ``measured`` steps.

    ``inside`` counts those within their interval, ``error`` is the median of |predicted / measured − 1|, and ``factor``
    the common factor (None with fewer than two networks).
    """

    measured: int
    inside: int
    error: float
    factor: Factor | None


@dataclass(frozen=True)
class Validation:
    """Every step and its agreement with the predictions.

    ``first``: with the predictions written before any block was measured; ``again``: with those made for the measured
    host, None if it was not measured. ``traced`` are the traced steps whose compiled facts for this card ship.
    """

    steps: tuple[Checked, ...]
    first: Agreement
    again: Agreement | None
    traced: tuple[TracedStep, ...] = ()


def validation(study: ValidationStudy) -> Validation:
    """Return the validation of a study.

    Raises:
        UserError: No predicted step was measured.
    """
    steps = checked(study, study.predictions)
    first = agreement(steps)
    if first is None:
        raise UserError(
            "No predicted step was measured yet, so there is nothing to hold against the predictions, which were "
            f"written at {study.predictions.written_at}."
        )
    again = None if study.again is None else agreement(checked(study, study.again))
    traced = tuple(step for run in study.sweeps for step in traced_steps(run, study.card))
    return Validation(steps, first, again, traced)


def checked(study: ValidationStudy, predictions: Predictions) -> tuple[Checked, ...]:
    """Return every prediction with the step that its part's sweep measured."""
    cells = {number: _cells(study.sweep_of(number)) for number in range(len(study.parts))}
    steps = []
    for prediction in predictions.steps:
        part, batch = prediction.part, prediction.batch
        if part < len(study.parts):
            measured = cells[part].get(batch)
            reason = prediction.reason or ("" if measured is not None else _why(study.sweep_of(part), batch))
            steps.append(Checked(study.parts[part].workload, prediction, measured, reason))
    return tuple(steps)


def _cells(run: Run | None) -> dict[int, CellStats]:
    cells = () if run is None or not run.rounds else cell_statistics(run)
    return {cell.batch: cell for cell in cells if cell.target == 0}


def _why(run: Run | None, batch: int) -> str:
    """Return the reason why a step was not measured."""
    cell = None if run is None else next((each for each in run.cells if each.batch == batch), None)
    if cell is None or cell.outcome == "measured":
        return "There was no time for it."
    return cell.reason or f"{FAILED_WORDS.get(cell.outcome, cell.outcome)}."


def agreement(steps: Sequence[Checked]) -> Agreement | None:
    """Return the agreement over the steps that have both numbers; None without any."""
    both = [(step, step.factor) for step in steps if step.factor is not None]
    if not both:
        return None
    by_network: dict[str, list[float]] = defaultdict(list)
    for step, factor in both:
        by_network[step.workload.network.name].append(math.log(factor))
    inside = sum(step.inside is True for step, _ in both)
    error = median(abs(1 / factor - 1) for _, factor in both)
    return Agreement(len(both), inside, error, common_factor(list(by_network.values())))


def common_factor(logs: Sequence[Sequence[float]]) -> Factor | None:
    """Return the factor common to all networks, from the logarithms of each one's steps; None with fewer than two."""
    means = [fmean(each) for each in logs]
    if len(means) < LEAST_NETWORKS:
        return None
    middle, half = fmean(means), t_quantile((1 + CONFIDENCE) / 2, len(means) - 1) * stdev(means) / len(means) ** 0.5
    return Factor(_exp(middle), _exp(middle - half), _exp(middle + half), len(means))


def _exp(log: float) -> float:
    """Return exp(log), clipped to the range of a float, since an imported file may hold any times."""
    return math.exp(max(-MOST_LOG, min(MOST_LOG, log)))
