"""The crossover of a modelled card and a measured CPU, and the facts of a card that would move it elsewhere.

At a batch, d = log(t_CPU / t_GPU). The CPU's step time carries its measured noise, the card's the model's error. The
model's errors are almost common to neighbouring batches: a card that is slower than modelled at one batch is slower at
the next by the same factor. Its interval therefore means a shift of the whole curve, and the batches at which some
shift within the interval makes the curves meet are those at which the interval of d contains zero. The CPU's noise is
independent of the model's error, so the half widths add in quadrature at each batch. The set of batches at which d = 0
is not rejected then covers the true crossover as often as the interval of d covers there (Fieller 1954), whatever the
correlation along the curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

import numpy as np

from core.analysis.numerics import bisect, rising_zeros, runs, zero_between
from core.analysis.statistics import Array
from core.base.numbers import WHOLE, first_batch, last_batch, number
from core.hardware.catalogue import GpuSpec
from core.hardware.constants import constants
from core.hardware.curve import CardCurve, RecordedStep, Recording, card_curve
from core.hardware.host import BUILD_WORDS, NAMED_BUILDS, Build, Modelling
from core.hardware.interval import Modelled
from core.hardware.model import predict
from core.rounds.answer.answer import Answer, CellStats, Machine
from core.rounds.answer.best_cpu import setting_words
from core.rounds.run import Run
from core.workload.names import are

PER_OCTAVE = 24  # evaluation points per doubling
FAR_APART = 2.0  # doublings beyond which a straight line between two measured batches is unreliable
FARTHEST_FACTOR = 100.0  # search range around a fact's value, in both directions
WIDEST = 50.0  # half width in logs that rules nothing out

CrossoverKind = Literal["from", "cpu ahead throughout", "gpu ahead throughout", "not resolved", "withheld"]
Fact = Literal["launch_us", "link_gb_s", "bandwidth_gb_s"]
FACTS: dict[Fact, tuple[str, str]] = {
    "launch_us": ("spacing of small kernels", "µs"),
    "link_gb_s": ("link from host to card", "GB/s"),
    "bandwidth_gb_s": ("memory bandwidth", "GB/s"),
}


@dataclass(frozen=True)
class ClearSpan:
    """Whole batches from ``first`` to ``last`` at which one device is clearly faster: the 95 % interval of the speed-up
    lies on one side of 1.
    """

    faster: Literal["gpu", "cpu"]
    first: int
    last: int


@dataclass(frozen=True)
class ModelledCrossover:
    """The batch from which the card is faster. ``low`` and ``high`` (95 %) include model error and CPU noise; None if
    the range compared does not bound it on that side. A ``batch`` equal to ``first`` means that batch or less.

    They lie between batches; in words a crossover is the first whole batch from there on.

    ``cpu`` is the CPU's name for people, ``setting`` the same with its rank among the run's CPU targets, ``target`` its
    notation. ``first`` and ``last`` are the range compared. ``cpu_noise_known`` is False, and ``why_no_claim`` gives
    the reason, if the CPU has no interval (imported points, no completed start) or its own verdict lacks replicates.
    ``clear`` is in order of batch; between its spans it is not clear which is faster.
    """

    kind: CrossoverKind
    gpu: str
    cpu: str
    batch: float | None = None
    low: float | None = None
    high: float | None = None
    first: int | None = None
    last: int | None = None
    sentence: str = ""
    cpu_noise_known: bool = True
    why_no_claim: str = ""
    label: Literal["modelled"] = "modelled"
    target: str = ""
    setting: str = ""
    clear: tuple[ClearSpan, ...] = ()

    @property
    def low_words(self) -> str:
        """The lower bound as a whole batch, or the smallest batch compared with “or less”."""
        return f"{self.first or 1:,} or less" if self.low is None else first_batch(self.low)

    @property
    def interval_words(self) -> str:
        """The 95 % interval in whole batches, such as ``32 to 50``."""
        return f"{self.low_words} or more" if self.high is None else f"{self.low_words} to {first_batch(self.high)}"

    @property
    def clearly_from(self) -> int | None:
        """The batch from which the card is clearly faster up to the largest compared, or None."""
        last = self.clear[-1] if self.clear else None
        return last.first if last is not None and last.faster == "gpu" and last.last == self.last else None


@dataclass(frozen=True)
class ModelledSpeedUp:
    """The factor by which the card is faster than the CPU at a batch, with 95 % bounds that include both errors."""

    batch: int
    ratio: float
    low: float
    high: float
    label: Literal["modelled"] = "modelled"


@dataclass(frozen=True)
class Needed:
    """The value of one fact of the card at which both would take the same time at ``batch``.

    ``needed`` is None if no value achieves it; ``low`` and ``high`` are its 95 % bounds, None if no value reaches one.
    """

    fact: Fact
    batch: int
    now: float
    needed: float | None
    low: float | None
    high: float | None
    sentence: str
    label: Literal["modelled"] = "modelled"


@dataclass(frozen=True)
class _Ratio:
    """log(t_CPU / t_GPU) over x = log2(batch), with pointwise 95 % bounds."""

    x: Array
    center: Array
    low: Array
    high: Array
    noise_known: bool

    def at(self, x: float) -> tuple[float, float, float]:
        return tuple(float(np.interp(x, self.x, each)) for each in (self.center, self.low, self.high))  # type: ignore[return-value]


@dataclass(frozen=True)
class _Side:
    """Log step time over x, with half widths downwards and upwards, ≥ 0."""

    x: Array
    center: Array
    down: Array
    up: Array


def cross(run: Run, answer: Answer, curve: CardCurve, target: int = 0) -> ModelledCrossover:
    """Return the crossover of the card of ``curve`` and the run's measured ``target``, in the range that both have."""
    setting = setting_words(run, answer, target)
    crossover = _crossover(answer, curve, target, setting)
    return replace(crossover, cpu=run.names[target], target=run.target_names[target], setting=setting)


def _crossover(answer: Answer, curve: CardCurve, target: int, cpu: str) -> ModelledCrossover:
    ratio = _ratio(answer, curve, target)
    if ratio is None:
        why = curve.reason or f"{cpu} and {curve.gpu} have fewer than two batches in common."
        sentence = f"Modelled: withheld for {curve.gpu}. {why}"
        return ModelledCrossover("withheld", curve.gpu, cpu, sentence=sentence)
    if not ratio.noise_known or answer.verdict.wants_replicates:
        return _no_claim(ratio, cpu, curve, answer.verdict.machine)
    return replace(_decide(ratio, cpu, curve), clear=_clear(ratio))


def _no_claim(ratio: _Ratio, cpu: str, curve: CardCurve, machine: Machine) -> ModelledCrossover:
    """Return the crossover of a CPU that was measured too rarely for any claim."""
    first, last = round(2.0 ** ratio.x[0]), round(2.0 ** ratio.x[-1])
    again = "Measure more." if machine.quiet and not machine.unstable else "Close other programs and measure again."
    why = f"how much the step times of {cpu} scatter is not known yet. {again}"
    text = f"Modelled: not clear which is faster, {curve.gpu} or {cpu}: {why}"
    return ModelledCrossover(
        "not resolved", curve.gpu, cpu, first=first, last=last, sentence=text, cpu_noise_known=False, why_no_claim=why
    )


def speed_up(answer: Answer, curve: CardCurve, batch: int, target: int = 0) -> ModelledSpeedUp | None:
    """Return the card's speed-up over the run's target at a batch; None outside the range that both have."""
    ratio = _ratio(answer, curve, target)
    if ratio is None or not ratio.x[0] <= math.log2(batch) <= ratio.x[-1]:
        return None
    center, low, high = ratio.at(math.log2(batch))
    return ModelledSpeedUp(batch, math.exp(center), math.exp(low), math.exp(high))


def _ratio(answer: Answer, curve: CardCurve, target: int) -> _Ratio | None:
    cells = [cell for cell in answer.cells if cell.target == target]
    if len(cells) < 2 or len(curve.stretch) < 2:
        return None
    cpu, gpu = _side(cells), _side(curve.stretch)
    known = all(cell.low_ms is not None for cell in cells)
    first, last = max(cpu.x[0], gpu.x[0]), min(cpu.x[-1], gpu.x[-1])
    if last <= first:
        return None
    grid = np.linspace(first, last, 1 + math.ceil((last - first) * PER_OCTAVE))
    x = np.unique(np.concatenate([grid, *(side.x[(side.x >= first) & (side.x <= last)] for side in (cpu, gpu))]))
    a, b = _spread_between(cpu, _resampled(cpu, x)), _resampled(gpu, x)
    center = a.center - b.center
    down, up = (np.minimum(np.hypot(*pair), WIDEST) for pair in ((a.down, b.up), (a.up, b.down)))
    return _Ratio(x, center, center - down, center + up, known)


def _side(points: Sequence[CellStats] | Sequence[Modelled | RecordedStep]) -> _Side:
    """Return the log step times of measured cells, or of a card's steps, with their intervals."""
    center = np.log([point.step_ms for point in points])
    low = np.log([point.low_ms or point.step_ms for point in points])
    high = np.log([point.high_ms or point.step_ms for point in points])
    return _Side(np.log2([float(point.batch) for point in points]), center, center - low, high - center)


def _resampled(side: _Side, x: Array) -> _Side:
    """Interpolate a side at ``x``, linearly in log2(batch) as all curves here."""
    return _Side(x, *(np.interp(x, side.x, each) for each in (side.center, side.down, side.up)))


def _spread_between(measured: _Side, side: _Side) -> _Side:
    """Widen the side between batches measured far apart, as in a short look at a few batches.

    There the step lies between a power law of the batch and a fixed cost plus a cost per sample: the middle of both is
    taken, and half their difference is added to the half widths in quadrature.
    """
    after = np.clip(np.searchsorted(measured.x, side.x, side="right"), 1, len(measured.x) - 1)
    affine = np.log(np.interp(2.0**side.x, 2.0**measured.x, np.exp(measured.center)))
    half = np.where(np.diff(measured.x)[after - 1] > FAR_APART, (affine - side.center) / 2, 0.0)
    return _Side(side.x, side.center + half, np.hypot(side.down, half), np.hypot(side.up, half))


def _decide(ratio: _Ratio, cpu: str, curve: CardCurve) -> ModelledCrossover:
    first, last = round(2.0 ** ratio.x[0]), round(2.0 ** ratio.x[-1])
    signs = _signs(ratio)
    segments = [sign for sign, _ in groupby(signs[signs != 0].tolist())]
    gpu = curve.gpu
    span = f"from batch {first:,} to {last:,}"
    crossover = ModelledCrossover("not resolved", gpu, cpu, first=first, last=last)
    if (signs == 1).all():
        crossover = replace(crossover, kind="gpu ahead throughout")
        text = f"{gpu} is clearly faster than {cpu} throughout, {span}; no crossover in this range."
    elif (signs == -1).all():
        crossover = replace(crossover, kind="cpu ahead throughout")
        text = f"{cpu} {are(cpu)} clearly faster than {gpu} throughout, {span}; no crossover in this range."
    elif segments in ([1], [-1, 1]) and signs[-1] == 1:
        batch, low, high = _interval(ratio, signs)
        crossover = replace(crossover, kind="from", batch=float(first) if batch is None else batch, low=low, high=high)
        if low is None or batch is None:  # nothing bounds it below, so only what is clear is said
            text = f"{gpu} is clearly faster than {cpu} from batch {first_batch(high)} on; below that it is not clear."
        else:
            at = first_batch(batch)
            text = f"{gpu} is faster than {cpu} from batch {at}, 95 % interval {crossover.interval_words}."
    else:
        low, text = _open(ratio, signs, segments, gpu, cpu)
        crossover = replace(crossover, low=low)
    if curve.reason:
        text += f" Beyond that range: {curve.reason}"
    if curve.corrected_by:
        text += f" Corrected by {curve.corrected_by}."
    return replace(crossover, sentence=f"Modelled: {text}")


def _clear(ratio: _Ratio) -> tuple[ClearSpan, ...]:
    """Return the stretches whose interval excludes parity, cut to whole batches; empty ones are left out."""
    spans = []
    signs = _signs(ratio)
    for begin, end in runs(signs):
        if signs[begin] == 0:
            continue
        bound = ratio.low if signs[begin] > 0 else ratio.high
        start = ratio.x[0] if begin == 0 else zero_between(ratio.x, bound, begin - 1)
        stop = ratio.x[-1] if end == len(signs) else zero_between(ratio.x, bound, end - 1)
        first, last = math.ceil(2.0**start - WHOLE), math.floor(2.0**stop + WHOLE)
        if first <= last:
            spans.append(ClearSpan("gpu" if signs[begin] > 0 else "cpu", first, last))
    return tuple(spans)


def _signs(ratio: _Ratio) -> Array:
    """Return 1 at batches where the card is clearly faster, -1 where the CPU is, else 0."""
    return np.where(ratio.low > 0, 1.0, np.where(ratio.high < 0, -1.0, 0.0))


def _interval(ratio: _Ratio, signs: Array) -> tuple[float | None, float | None, float]:
    """Return crossover, lower and upper bound of the batches at which parity is not rejected. The lower bound is None
    if the first batch is among them, the crossover None if the card is faster there already.
    """
    sure, open_until = np.flatnonzero(signs == -1), int(np.flatnonzero(signs != 1)[-1])
    start = int(sure[-1]) if len(sure) else 0
    undecided = slice(start, open_until + 2)
    rising = rising_zeros(ratio.x[undecided], ratio.center[undecided])
    low = 2.0 ** zero_between(ratio.x, ratio.high, start) if len(sure) else None
    batch = 2.0 ** rising[len(rising) // 2] if rising else None
    return batch, low, 2.0 ** zero_between(ratio.x, ratio.low, open_until)


def _open(ratio: _Ratio, signs: Array, segments: list[int], gpu: str, cpu: str) -> tuple[float | None, str]:
    """Return lower bound and sentence if no crossover is bounded above: how far one side is clearly faster (95 %)."""
    x = ratio.x
    if not segments:
        best = f"{math.exp(float(ratio.low.min())):.2g} to {math.exp(float(ratio.high.max())):.2g} times"
        return None, f"not clear which is faster, {gpu} or {cpu}, at any batch (95 %: {best} the speed)."
    if segments == [-1] and signs[0] == -1:
        low = 2.0 ** zero_between(x, ratio.high, int(np.flatnonzero(signs != -1)[0]) - 1)
        ahead = f"{cpu} {are(cpu)} clearly faster (95 %) than {gpu} up to batch {last_batch(low)}"
        return low, f"{ahead}; above it is not clear."
    names = {1: gpu, -1: cpu}
    if len(segments) == 1:
        who, clear = names[segments[0]], x[signs == segments[0]]
        within = f"from batch {first_batch(2.0 ** clear[0])} to {last_batch(2.0 ** clear[-1])}"
        return None, f"{who} {are(who)} clearly faster (95 %) {within}; elsewhere it is not clear."
    order = ", then ".join(names[sign] for sign in segments)
    return None, f"no single crossover: with rising batch clearly faster: {order}."


def if_named(
    run: Run,
    answer: Answer,
    index: int,
    spec: GpuSpec,
    how: Modelling,
    batches: Sequence[int],
    recordings: Sequence[Recording] = (),
) -> tuple[tuple[Build, ModelledCrossover], ...]:
    """Return the crossover with the run's target ``index`` under each plausible build; empty if a build was named."""
    if how.conditions.build != "unnamed":
        return ()
    curves = ((build, card_curve(spec, how.with_build(build), batches, recordings)) for build in NAMED_BUILDS)
    return tuple((build, cross(run, answer, curve, index)) for build, curve in curves)


def named_sentence(named: Sequence[tuple[Build, ModelledCrossover]]) -> str:
    """Say how much naming the build would change; empty if it is named or nothing is claimed."""
    parts = [f"with {BUILD_WORDS[build]} {short}" for build, crossover in named if (short := _in_short(crossover))]
    return f"If its code were named: {', '.join(parts)}." if parts else ""


def _in_short(crossover: ModelledCrossover) -> str:
    if crossover.kind == "from" and crossover.batch is not None and crossover.high is not None:
        return f"from batch {first_batch(crossover.batch)} ({crossover.interval_words})"
    if crossover.kind == "gpu ahead throughout":
        return "faster throughout"
    if crossover.kind == "cpu ahead throughout":
        return "slower throughout"
    return "not clear" if crossover.kind == "not resolved" and crossover.cpu_noise_known else ""


def what_would_have_to_be_true(
    run: Run, answer: Answer, index: int, spec: GpuSpec, how: Modelling, curve: CardCurve, batch: int
) -> tuple[Needed, ...]:
    """Return the value that moves the crossover with the run's target ``index`` to ``batch``: for launch spacing, link
    (if data are fed) and memory bandwidth. Empty outside the range that both have.
    """
    ratio = _ratio(answer, curve, index)
    if ratio is None or not ratio.x[0] <= math.log2(batch) <= ratio.x[-1]:
        return ()
    distances = ratio.at(math.log2(batch))
    needed = []
    for fact in FACTS:
        if fact == "link_gb_s" and not how.conditions.fed:
            continue
        now = float(getattr(spec, fact))

        def log_step(value: float, fact: Fact = fact) -> float:
            changed = spec.model_copy(update={fact: value})
            host = how.costs.host
            parts = predict(changed, how.workload, how.target, batch, host, constants(), how.conditions)
            return math.log(parts.step_ms)

        # for parity the model's step must grow by the centre's logs; model error and CPU noise shift that
        here = log_step(now)
        values = [solve_fact(log_step, here + distance, now) for distance in distances]
        needed.append(_needed(fact, batch, now, values, spec.name, run.names[index]))
    return tuple(needed)


def solve_fact(log_step: Callable[[float], float], wanted: float, now: float) -> float | None:
    """Find the value within a factor of :data:`FARTHEST_FACTOR` at which the log step is ``wanted``, else None.

    It bisects in the logarithm; the step time is monotone in every fact.
    """

    def missing(log_value: float) -> float:
        return log_step(math.exp(log_value)) - wanted

    low, high = math.log(now / FARTHEST_FACTOR), math.log(now * FARTHEST_FACTOR)
    at_low = missing(low)
    if at_low * missing(high) > 0:
        return None
    return math.exp(bisect(lambda log_value: at_low * missing(log_value) > 0, low, high))


def _needed(fact: Fact, batch: int, now: float, values: list[float | None], gpu: str, cpu: str) -> Needed:
    words, unit = FACTS[fact]
    needed, *bounds = values
    known = sorted(value for value in bounds if value is not None)
    low, high = (known[0], known[-1]) if len(known) == 2 else (None, None)
    head = f"Modelled: for {gpu} to meet {cpu} at batch {batch:,}, its {words} ({number(now)} {unit} now)"
    if needed is None:
        text = f"{head} alone cannot do it, within {FARTHEST_FACTOR:g} times either way."
    else:
        interval = f" (95 %: {number(low)} to {number(high)})" if low is not None and high is not None else ""
        text = f"{head} would have to be {number(needed)} {unit}{interval}."
    return Needed(fact, batch, now, needed, low, high, text)
