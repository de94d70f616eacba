"""What a memory study says: the largest batch that fits, predicted and confirmed, and the peak at every batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.analysis.memory import MemoryEstimate, estimate_bytes
from core.analysis.memory_fit import Forecast, forecast, same_machine
from core.analysis.statistics import normal_quantile
from core.memory_study import MemoryStudy
from core.results import Environment, Outcome
from core.spec import MAX_BATCH, MIN_BATCH, Target, Workload, geometric_grid

PER_OCTAVE = 2.0  # points of a curve


@dataclass(frozen=True)
class LargestBatch:
    """Predicted with its 95 % interval: up to ``low`` is said to fit, beyond ``high`` not; 0: not even batch 1.

    MAX_BATCH in any of them means that batch or more.
    """

    batch: int
    low: int
    high: int


@dataclass(frozen=True)
class CurvePoint:
    """Predicted peak at a batch with its 95 % interval, of the same memory as the limit."""

    batch: int
    peak_bytes: float
    low_bytes: float
    high_bytes: float


@dataclass(frozen=True)
class ProbePoint:
    """A batch that was tried; ``peak_bytes`` is measured, None where it did not get through."""

    batch: int
    outcome: Outcome
    peak_bytes: int | None
    reason: str


@dataclass(frozen=True)
class WrongRate:
    """How often a prediction that a batch fits was wrong: it ran out of memory. 95 % interval (Wilson 1927); without a
    prediction that was tested the rate and its bounds are None.
    """

    n_predicted_fits: int
    n_ran_out: int
    rate: float | None
    low: float | None
    high: float | None
    sentence: str


@dataclass(frozen=True)
class MemoryPrediction:
    """Predicted before anything runs. ``context_bytes`` is the framework's own memory, in the curve and the limit;
    ``basis`` says from what it is predicted.
    """

    target: str
    limit_bytes: int
    largest: LargestBatch
    curve: tuple[CurvePoint, ...]
    context_bytes: int
    parts_batch: int
    parts: MemoryEstimate
    basis: str
    sentence: str


@dataclass(frozen=True)
class MemoryAnswer:
    """``prediction`` is from the studies before this one; ``curve`` and the parts from this one's own peaks, too.

    ``confirmed`` is the largest batch that got through below all that ran out, ``refused`` the smallest that ran out;
    None where there is none. ``parts`` are predicted, in bytes, at ``parts_batch``, on top of ``context_bytes``.
    """

    prediction: MemoryPrediction
    curve: tuple[CurvePoint, ...]
    probes: tuple[ProbePoint, ...]
    confirmed: int | None
    refused: int | None
    context_bytes: int
    parts_batch: int
    parts: MemoryEstimate
    wrong: WrongRate
    sentence: str


def predict_memory(
    workload: Workload,
    target: Target,
    limit_bytes: int,
    earlier: Sequence[MemoryStudy] = (),
    environment: Environment | None = None,
) -> MemoryPrediction:
    """The largest batch that fits and the peak at every batch, from the model and the studies of this machine.

    With ``environment`` only ``earlier`` studies of that machine count.
    """
    ahead = forecast(workload, target, same_machine(earlier, environment))
    return _prediction(ahead, limit_bytes)


def memory_answer(study: MemoryStudy, earlier: Sequence[MemoryStudy] = ()) -> MemoryAnswer:
    """The answer of a study. Of ``earlier`` studies those of its machine count, and not the study itself."""
    plan = study.plan
    before = [one for one in same_machine(earlier, study.environment) if one != study]
    prediction = _prediction(forecast(plan.workload, plan.target, before), plan.limit_bytes)
    after = forecast(plan.workload, plan.target, before, study.probes)
    batch = study.largest_fitted or prediction.parts_batch
    return MemoryAnswer(
        prediction=prediction,
        curve=_curve(after),
        probes=tuple(
            ProbePoint(probe.batch, probe.outcome, probe.peak_bytes, probe.reason)
            for probe in sorted(study.probes, key=lambda probe: probe.batch)
        ),
        confirmed=study.largest_fitted,
        refused=study.smallest_refused,
        context_bytes=after.context_bytes,
        parts_batch=batch,
        parts=parts_at(after, batch),
        wrong=wrong_fits([study, *before]),
        sentence=_sentence(study, after),
    )


def parts_at(ahead: Forecast, batch: int) -> MemoryEstimate:
    """The parts of a forecast at a batch, in bytes: the fitted model's, before the workload's own peaks count."""
    return estimate_bytes(ahead.workload, ahead.target, batch, ahead.model.copies)


def wrong_fits(studies: Sequence[MemoryStudy]) -> WrongRate:
    """The rate at which “fits” turned out wrong, over all probes of all studies.

    A probe counts where even the upper bound of its prediction was within the limit. A search looks closely at the
    limit, so that the rate is one of hard cases.
    """
    told = [probe for study in studies for probe in study.probes if probe.predicted_fits]
    decided = [probe for probe in told if probe.fitted or probe.ran_out]
    n, wrong = len(decided), sum(probe.ran_out for probe in decided)
    if not n:
        return WrongRate(
            0, 0, None, None, None, "No prediction that a batch fits has been put to the test here so far."
        )
    low, high = wilson_interval(wrong, n)
    interval = f"{100 * low:.0f} % to {100 * high:.0f} %"
    sentence = f"“Fits” was wrong in {wrong} of {n} tests near the limit: {100 * wrong / n:.0f} % (95 %: {interval})."
    return WrongRate(n, wrong, wrong / n, low, high, sentence)


def wilson_interval(k: int, n: int) -> tuple[float, float]:
    """95 % interval of a share of which k of n were seen: where the score test does not reject it (Wilson 1927)."""
    z2 = normal_quantile(0.975) ** 2
    centre, half = k + z2 / 2, math.sqrt(z2 * (k * (n - k) / n + z2 / 4))
    return max(0.0, (centre - half) / (n + z2)), min(1.0, (centre + half) / (n + z2))


def _prediction(ahead: Forecast, limit_bytes: int) -> MemoryPrediction:
    largest = LargestBatch(*ahead.largest(limit_bytes))
    batch = max(MIN_BATCH, largest.batch)
    return MemoryPrediction(
        target=str(ahead.target),
        limit_bytes=limit_bytes,
        largest=largest,
        curve=_curve(ahead),
        context_bytes=ahead.context_bytes,
        parts_batch=batch,
        parts=parts_at(ahead, batch),
        basis=_basis(ahead),
        sentence=_predicted_words(largest, limit_bytes),
    )


def _curve(ahead: Forecast) -> tuple[CurvePoint, ...]:
    batches = geometric_grid(MIN_BATCH, MAX_BATCH, PER_OCTAVE)
    bounds = [(batch, ahead.at(batch)) for batch in batches]
    return tuple(CurvePoint(batch, found.bytes, found.low, found.high) for batch, found in bounds)


def _basis(ahead: Forecast) -> str:
    model = ahead.model
    if not model.peaks:
        return "Predicted from the model alone; nothing like it was measured on this machine so far."
    other = f"{model.peaks} measured peaks of {model.workloads} workload{'s' if model.workloads > 1 else ''}"
    own = f", {len(ahead.own)} of them of this one" if ahead.own else ""
    return f"Predicted from the model, fitted to {other} on this machine{own}."


def _predicted_words(largest: LargestBatch, limit_bytes: int) -> str:
    within = f"{limit_bytes / 1e9:.3g} GB"
    if largest.low >= MAX_BATCH:
        return f"Predicted: all batches up to {MAX_BATCH:,} fit within {within}."
    if largest.high == 0:
        return f"Predicted: not even batch 1 fits within {within}."
    if largest.batch == 0:
        return f"Predicted: batch 1 hardly fits within {within}; at most batch {_size(largest.high)} does."
    return (
        f"Predicted: batch {_size(largest.batch)} is the largest that fits within {within} "
        f"(95 %: {largest.low:,} to {_size(largest.high)})."
    )


def _size(batch: int) -> str:
    return f"{batch:,} or more" if batch >= MAX_BATCH else f"{batch:,}"


def _sentence(study: MemoryStudy, after: Forecast) -> str:
    """What the probes showed, and where the limit lies between them by the sharpened prediction."""
    plan, fitted, refused = study.plan, study.largest_fitted, study.smallest_refused
    within = f"{plan.limit_bytes / 1e9:.3g} GB on {plan.target}"
    if fitted == MAX_BATCH:
        return f"All batches up to {MAX_BATCH:,} fit within {within}: {study.label}."
    slow = next((probe for probe in study.probes if probe.outcome == "hung"), None)
    stopped = "" if slow is None else f" Batch {slow.batch:,} was too slow to try within the budget."
    if fitted is None and refused is None:
        return f"No batch could be tried within {within}.{stopped}"
    if fitted is None:
        smallest = "Not even batch 1 fits" if refused == MIN_BATCH else f"Batch {refused:,} does not fit"
        return f"{smallest} within {within}: it ran out.{stopped}"
    if refused is None:
        middle, low, high = (max(fitted, batch) for batch in after.largest(plan.limit_bytes))
        return (
            f"Batch {fitted:,} fits within {within}: {study.label}. Predicted from there, {_size(middle)} does, too "
            f"(95 %: {low:,} to {_size(high)}).{stopped}"
        )
    if refused - fitted == 1:
        largest = f"Batch {fitted:,} is the largest that fits within {within}: {study.label}"
        return f"{largest}; {refused:,} ran out.{stopped}"
    gap = math.log2(refused / fitted)
    close = "" if gap <= 0.1 else " More time would bring the two closer."
    return f"Batch {fitted:,} fits within {within} and {refused:,} ran out: {study.label}.{close}{stopped}"
