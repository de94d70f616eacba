"""Answer of a memory study: the largest batch that fits, predicted and confirmed, and the peak at every batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from core.analysis.statistics import normal_quantile
from core.base.evidence import Environment
from core.base.numbers import byte_size, counted, percent
from core.studies.compiled.record import CompileStudy
from core.studies.memory.forecast import Forecast, forecast, planned_bytes, same_machine
from core.studies.memory.record import MemoryStudy, Probe
from core.workload.memory import MemoryEstimate, estimate_bytes
from core.workload.names import full_name
from core.workload.spec import MAX_BATCH, MIN_BATCH, Target, Workload, geometric_grid

PER_OCTAVE = 2.0  # points per octave of a curve


@dataclass(frozen=True)
class LargestBatch:
    """Predicted largest batch with its 95 % interval: up to ``low`` is claimed to fit, beyond ``high`` not; 0: not even
    batch 1.

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
class WrongRate:
    """Rate at which a prediction that a batch fits was wrong, because it ran out of memory, with its 95 % interval
    (Wilson 1927); None without a tested prediction.
    """

    n_predicted_fits: int
    n_ran_out: int
    rate: float | None
    low: float | None
    high: float | None
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """Prediction at one moment: the curve, and the parts in bytes at ``parts_batch``.

    Curve and limit include the framework's own memory, ``context_bytes``, to which the parts are added.
    """

    curve: tuple[CurvePoint, ...]
    context_bytes: int
    parts_batch: int
    parts: MemoryEstimate
    sentence: str

    @property
    def named_parts(self) -> dict[str, int]:
        """Bytes of each part by name, the framework first, without parts of size zero."""
        named = {"framework": self.context_bytes, **self.parts.named}
        return {name: size for name, size in named.items() if size > 0}


@dataclass(frozen=True, kw_only=True)
class MemoryPrediction(Outlook):
    """Prediction before anything runs; ``basis`` names its sources."""

    target: str
    limit_bytes: int
    largest: LargestBatch
    basis: str


@dataclass(frozen=True, kw_only=True)
class MemoryAnswer(Outlook):
    """Answer of a memory study. ``prediction`` uses the studies before this one; curve and parts also use its own
    peaks.

    ``probes`` by rising batch. ``confirmed`` is the largest batch that fitted below all that ran out, ``refused`` the
    smallest that ran out; None if there is none.
    """

    prediction: MemoryPrediction
    probes: tuple[Probe, ...]
    confirmed: int | None
    refused: int | None
    wrong: WrongRate


def predict_memory(
    workload: Workload,
    target: Target,
    limit_bytes: int,
    earlier: Sequence[MemoryStudy] = (),
    environment: Environment | None = None,
    compiled: Iterable[CompileStudy] = (),
) -> MemoryPrediction:
    """Predict the largest batch that fits and the peak at every batch, from the model and the studies of this machine.

    With ``environment`` only ``earlier`` studies of that machine count. For its GPU the compiler's plan counts where
    nothing of the workload was measured, from ``compiled`` studies or those that ship.
    """
    planned = planned_bytes(workload, target, environment, compiled)
    ahead = forecast(workload, target, same_machine(earlier, environment), planned=planned)
    return _prediction(ahead, limit_bytes)


def memory_answer(study: MemoryStudy, earlier: Sequence[MemoryStudy] = ()) -> MemoryAnswer:
    """Return the answer of a study, using ``earlier`` studies of the same machine but not the study itself."""
    plan = study.plan
    before = [other for other in same_machine(earlier, study.environment) if other != study]
    prediction = _prediction(forecast(plan.workload, plan.target, before), plan.limit_bytes)
    after = forecast(plan.workload, plan.target, before, study.probes)
    batch = study.largest_fitted or prediction.parts_batch
    return MemoryAnswer(
        prediction=prediction,
        probes=tuple(sorted(study.probes, key=lambda probe: probe.batch)),
        confirmed=study.largest_fitted,
        refused=study.smallest_refused,
        wrong=wrong_fits([study, *before]),
        sentence=_sentence(study, after),
        **_outlook(after, batch),
    )


def _outlook(ahead: Forecast, batch: int) -> dict[str, Any]:
    """Return the numbers of an :class:`Outlook`; parts are the fitted model's, without the workload's own peaks."""
    batches = geometric_grid(MIN_BATCH, MAX_BATCH, PER_OCTAVE)
    bounds = [(at, ahead.at(at)) for at in batches]
    return {
        "curve": tuple(CurvePoint(at, peak.bytes, peak.low, peak.high) for at, peak in bounds),
        "context_bytes": ahead.context_bytes,
        "parts_batch": batch,
        "parts": estimate_bytes(ahead.workload, ahead.target, batch, ahead.model.copies),
    }


def wrong_fits(studies: Sequence[MemoryStudy]) -> WrongRate:
    """Return the rate at which “fits” turned out wrong, over all probes of all studies.

    A probe counts if even the upper bound of its prediction was within the limit. A search probes near the limit, so
    the rate is one of hard cases.
    """
    claimed = [probe for study in studies for probe in study.probes if probe.predicted_fits]
    decided = [probe for probe in claimed if probe.fitted or probe.ran_out]
    n, wrong = len(decided), sum(probe.ran_out for probe in decided)
    if not n:
        untested = "No prediction that a batch fits has been put to the test here so far."
        return WrongRate(0, 0, None, None, None, untested)
    low, high = wilson_interval(wrong, n)
    interval = f"{percent(low)} to {percent(high)}"
    sentence = f"“Fits” was wrong in {wrong} of {n} tests near the limit: {percent(wrong / n)} (95 %: {interval})."
    return WrongRate(n, wrong, wrong / n, low, high, sentence)


def wilson_interval(k: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a proportion from k of n: the values that the score test does not reject (Wilson
    1927).
    """
    z2 = normal_quantile(0.975) ** 2
    centre, half = k + z2 / 2, math.sqrt(z2 * (k * (n - k) / n + z2 / 4))
    return max(0.0, (centre - half) / (n + z2)), min(1.0, (centre + half) / (n + z2))


def _prediction(ahead: Forecast, limit_bytes: int) -> MemoryPrediction:
    largest = LargestBatch(*ahead.largest(limit_bytes))
    return MemoryPrediction(
        target=full_name(ahead.target),
        limit_bytes=limit_bytes,
        largest=largest,
        basis=_basis(ahead),
        sentence=_predicted_words(largest, limit_bytes),
        **_outlook(ahead, max(MIN_BATCH, largest.batch)),
    )


def _basis(ahead: Forecast) -> str:
    model = ahead.model
    if ahead.own_sd:
        return (
            f"Predicted from the compiler's plan of {counted(len(ahead.own), 'batch size')}, not tuned; libraries and "
            "what else lives on the card come on top."
        )
    if not model.peaks:
        return "Predicted from the model alone; nothing like it was measured on this machine so far."
    other = f"{model.peaks} measured peaks of {counted(model.workloads, 'workload')}"
    own = f", {len(ahead.own)} of them of this one" if ahead.own else ""
    return f"Predicted from the model, fitted to {other} on this machine{own}."


def _predicted_words(largest: LargestBatch, limit_bytes: int) -> str:
    within = byte_size(limit_bytes)
    if largest.low >= MAX_BATCH:
        return f"Predicted: all batches up to {MAX_BATCH:,} fit within {within}."
    if largest.high == 0:
        return f"Predicted: not even batch 1 fits within {within}."
    if largest.batch == 0:
        return f"Predicted: batch 1 hardly fits within {within}; at most batch {batch_words(largest.high)} does."
    return (
        f"Predicted: batch {batch_words(largest.batch)} is the largest that fits within {within} "
        f"(95 %: {largest.low:,} to {batch_words(largest.high)})."
    )


def batch_words(batch: int) -> str:
    """Format a largest batch; the largest possible one means that or more."""
    return f"{batch:,} or more" if batch >= MAX_BATCH else f"{batch:,}"


def steady_words(study: MemoryStudy) -> str:
    """Describe what a GPU's peaks hold besides the steps, by the largest batch that fitted; empty if not recorded."""
    for probe in study.probes:
        if probe.batch == study.largest_fitted and probe.steady_bytes is not None:
            return (
                "A peak on a GPU holds what cuDNN and XLA take once, to try their algorithms: after its first call "
                f"batch {probe.batch:,} reached {byte_size(probe.steady_bytes)}, {study.label}."
            )
    return ""


def _stopped(probe: Probe) -> str:
    """Explain why a batch is uninformative about the limit; empty if it is informative."""
    if probe.outcome == "hung":
        return f" Batch {probe.batch:,} was too slow to try within the budget."
    return "" if probe.killed is None else f" Batch {probe.batch:,} says nothing of the limit: {probe.killed.words}."


def _sentence(study: MemoryStudy, after: Forecast) -> str:
    """Describe the probes' results, and where the limit lies between them by the refined prediction."""
    plan, fitted, refused = study.plan, study.largest_fitted, study.smallest_refused
    within = f"{byte_size(plan.limit_bytes)} on {full_name(plan.target)}"
    if fitted == MAX_BATCH:
        return f"All batches up to {MAX_BATCH:,} fit within {within}: {study.label}."
    stopped = "".join(map(_stopped, study.probes))
    if fitted is None and refused is None:
        return f"No batch could be tried within {within}.{stopped}"
    if fitted is None:
        smallest = "Not even batch 1 fits" if refused == MIN_BATCH else f"Batch {refused:,} does not fit"
        return f"{smallest} within {within}: it ran out.{stopped}"
    if refused is None:
        middle, low, high = (max(fitted, batch) for batch in after.largest(plan.limit_bytes))
        return (
            f"Batch {fitted:,} fits within {within}: {study.label}. Predicted from there, {batch_words(middle)} does, "
            f"too (95 %: {low:,} to {batch_words(high)}).{stopped}"
        )
    if refused - fitted == 1:
        largest = f"Batch {fitted:,} is the largest that fits within {within}: {study.label}"
        return f"{largest}; {refused:,} ran out.{stopped}"
    gap = math.log2(refused / fitted)
    close = "" if gap <= 0.1 else " More time would bring the two closer."
    return f"Batch {fitted:,} fits within {within} and {refused:,} ran out: {study.label}.{close}{stopped}"
