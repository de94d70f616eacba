"""Where a sweep spends its time: pure rules, no clock and no worker.

A sweep has a scan for the changes of the fastest target (:mod:`core.studies.sweep.focus`), new sizes inside the bracket
of each, and then *epochs*, each in fresh worker processes, in which the batches that decide the answer are visited in
passes, up and down. The rest of the plan's batches, for the curves, comes when it is known how much processes differ.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from core.analysis.numerics import zeros
from core.analysis.statistics import Array, median_interval, t_quantile
from core.studies.sweep.observations import ALLOWANCE
from core.studies.sweep.plan import SweepPlan
from core.studies.sweep.record import Run, StopReason

SCAN_ROUNDS = 3  # rounds of a batch in the coarse scan
DECIDING_ROUNDS = 5  # the same while it looks for changes of lead: preparing the next batch costs more than two rounds
CLIMB = 8  # times the largest batch seen: how far up the scan goes at once
VISIT_ROUNDS = 2  # rounds of a batch in a pass: few, so that passes are many and spread
MIN_PROCESSES = 4  # process starts before a narrow interval may end the sweep (fewer: luck looks like precision)
GOOD_PROCESSES = 6  # starts before longer epochs pay: t at 95 % falls from 3.2 (four) to 2.6 (six)
TRACE_SHARE, MOST_TRACE_S = 0.1, 8.0  # of the budget kept for tracing three batches at the end; at most, of two targets
MEDIAN_ERROR = 1.25  # standard error of a median of n normal values times √n, in standard deviations
SEGMENT_SHARE = 0.15  # of the largest sign segment's area; below it a change of sign is taken for noise
SEGMENT_ERRORS = 4.0  # standard errors of its mean that a smaller one must lie away from parity
REFINE_SHARE = 0.2  # of the budget that one round of refinement may take; noise must not breed sizes without end
MIN_EPOCH_PASSES = 4  # a process's median must shrug off a stalled round
MAX_EPOCH_PASSES = 20
BACKGROUND = 1  # under-sampled batch far from the answer, in every epoch: each cell is seen in several processes
BACKGROUND_EVERY = 4  # passes
FILL_IN_SHARE = 0.25  # of an epoch that new batches of the rest of the plan may take after it
MIN_PASSES = 6  # the same where the budget allows no restart
MAX_ACTIVE = 6  # batches visited in every pass where several targets are not told apart
FEWEST_ACTIVE = 3
DOUBTFUL_REACH = 4.0  # how far around an unproven sign change batches are visited, as a factor: far off it shows best
FINEST_OCTAVES = 0.25  # no new batch size closer to its neighbours than this
EPOCH_SHARE = 0.9  # of the remaining budget that may be planned for epochs; the rest covers their variation
MIN_MEDIAN_ROUNDS = 6  # fewer cannot support a distribution-free 95 % interval of the median
PLATEAU_GAIN = 0.9  # doubling the rounds should narrow an interval to 0.71; above this it has stopped narrowing


@dataclass(frozen=True)
class Costs:
    """What this sweep has seen so far, in seconds: a start of the workers, preparing a batch on each, one round."""

    startup_s: float
    prepare_s: float
    round_s: float


def trace_reserve_s(plan: SweepPlan) -> float:
    """Seconds of the budget that are kept for traces."""
    most_s = MOST_TRACE_S * max(2, len(plan.targets)) / 2
    return min(most_s, TRACE_SHARE * plan.budget_s) if plan.trace else 0.0


def batches_to_trace(measured: tuple[int, ...], crossovers: tuple[float, ...]) -> tuple[int, ...]:
    """The batch nearest the crossover (without one, the middle), the smallest and the largest, in that order."""
    if not measured:
        return ()
    middle = measured[len(measured) // 2]
    nearest = min(measured, key=lambda b: abs(math.log(b / crossovers[0]))) if crossovers else middle
    return tuple(dict.fromkeys((nearest, measured[0], measured[-1])))


def shortest_epoch_s(costs: Costs, active: int, passes: int = MIN_EPOCH_PASSES) -> float:
    """A start of the workers, preparing deciding and background batches, and so many passes over them."""
    visits = active * passes + BACKGROUND * passes / BACKGROUND_EVERY
    return costs.startup_s + (active + BACKGROUND) * costs.prepare_s + visits * VISIT_ROUNDS * costs.round_s


def round_scatter(run: Run) -> float:
    """Standard deviation of the log-ratio from round to round, of a single target of its step time, drift and stalls
    aside.

    From neighbouring rounds of one visit: for normal scatter, the median of |difference| is 0.954 σ. Zero without any.
    """
    alone = len(run.target_names) == 1
    last: dict[tuple[int, int, int, int], float] = {}
    differences = []
    for item in run.rounds:
        base, *others = sorted(item.blocks, key=lambda block: block.target)
        for block in (base,) if alone else others:
            value = math.log(block.step_ms if alone else base.step_ms / block.step_ms)
            key = item.pass_index, item.batch, base.target, block.target
            if key in last:
                differences.append(abs(value - last[key]))
            last[key] = value
    return float(np.median(differences)) / 0.954 if differences else 0.0


def good_passes(costs: Costs, active: int, scatter: float) -> int:
    """Passes after which a restart pays more than further rounds, which share their process's luck.

    Two-stage sampling (Cochran 1977, §10.6): with c₁ the cost of a restart and c₂ of a round of every batch, σ₁ the
    scatter between processes and σ₂ between rounds, √(c₁σ₂² / c₂σ₁²) rounds in each process are best.
    """
    restart_s = costs.startup_s + (active + BACKGROUND) * costs.prepare_s
    rounds = math.sqrt(restart_s / (max(1, active) * costs.round_s)) * scatter / ALLOWANCE
    return min(MAX_EPOCH_PASSES, max(MIN_EPOCH_PASSES, round(rounds / VISIT_ROUNDS)))


def epoch_length_s(remaining_s: float, costs: Costs, active: int, passes: int, starts: int = 1) -> float | None:
    """How long the next epoch shall last: ``passes``, or shorter where the budget needs it for ``GOOD_PROCESSES``,
    after so many ``starts``.

    None when not even two of the shortest fit, since two processes decide little.
    """
    affordable = int(EPOCH_SHARE * remaining_s / shortest_epoch_s(costs, active))
    if affordable < 2:
        return None
    wanted = min(affordable, max(1, GOOD_PROCESSES - starts))
    return min(shortest_epoch_s(costs, active, passes), EPOCH_SHARE * remaining_s / wanted)


def affordable_batches(remaining_s: float, costs: Costs) -> int:
    """How many batches two more epochs could visit; what cannot be replicated in other processes decides nothing."""
    background_s = shortest_epoch_s(costs, 0)
    return int((EPOCH_SHARE * remaining_s / 2 - background_s) / (shortest_epoch_s(costs, 1) - background_s))


def narrowing(processes: int) -> float:
    """What is left of an interval, in log2(batch), once ``GOOD_PROCESSES`` have been seen: t·s/√n of so many over that
    of ``processes`` (of three where there are fewer).

    Few processes make wide intervals. Time that goes to their far ends is lost, since those move inwards anyhow.
    """
    few = min(max(3, processes), GOOD_PROCESSES)
    wide, good = (t_quantile(0.975, n - 1) / math.sqrt(n) for n in (few, GOOD_PROCESSES))
    return good / wide


def deciding_batch(batches: Sequence[int], seen: Collection[int], centers: Sequence[float], climb: bool) -> int | None:
    """The one of a scan's ``batches`` to visit next, after those ``seen``, to find the changes of lead; None where it
    is done.

    The smallest and the middle, then what halves the widest gap around each change seen so far (``centers``). Without
    one, or with ``climb``, one up: not the top at once, for the time and the memory that it needs are not known.
    """
    left = [batch for batch in batches if batch not in seen]
    for batch in (batches[0], batches[len(batches) // 2]):
        if batch in left:
            return batch
    gaps = []
    for center in centers:
        below = max((b for b in seen if b <= center), default=None)
        above = min((b for b in seen if b > center), default=None)
        if below is not None and above is not None and (inside := [b for b in left if below < b < above]):
            middle = math.sqrt(below * above)
            gaps.append((above / below, min(inside, key=lambda b: abs(math.log(b / middle)))))
    if gaps:
        return max(gaps)[1]
    if centers and not climb:
        return None
    higher = [batch for batch in left if batch > max(seen)]
    return max([b for b in higher if b <= CLIMB * max(seen)] or higher[:1], default=None)


def bracket_batches(changes: Sequence[tuple[float, float]], tried: Sequence[int], multiple: int = 1) -> tuple[int, ...]:
    """New batch sizes, multiples of ``multiple``, that halve (in log2) the gaps around each change of lead, empty where
    gaps are fine.

    ``changes``: batch and the octaves that its interval spans so far (0 where it has none); gaps finer than that would
    not narrow it. ``tried`` are all sizes measured so far.
    """
    new = set()
    for center, octaves in changes:
        below = max((b for b in tried if b <= center), default=None)
        above = min((b for b in tried if b > center), default=None)
        if below is None or above is None or math.log2(above / below) <= max(2 * FINEST_OCTAVES, octaves):
            continue
        middle = multiple * round(math.sqrt(below * above) / multiple)
        if below < middle < above:
            new.add(middle)
    return tuple(sorted(new))


def sign_changes(batches: Array, ratios: Array, errors: Array | float = math.inf) -> tuple[float, ...]:
    """Batches at which the log-ratios' sign changes, interpolated in log2(batch), whether significant or not.

    A sign segment between two changes (or outside the first or last) that is small beside the largest one, and not
    large beside the ratios' standard ``errors`` either, is taken for noise, smallest first, so that a noisy scan does
    not send the sweep to look at changes of lead that are not there.
    """
    x, error_of = np.log2(batches), np.broadcast_to(errors, np.shape(ratios))
    at = zeros(x, ratios)
    while at:
        edges = [x[0] - 0.5, *at, x[-1] + 0.5]  # half an octave stands for what an outermost batch represents
        areas = [abs(_area(x, ratios, left, right)) for left, right in pairwise(edges)]
        smallest = int(np.argmin(areas))
        left, right = edges[smallest : smallest + 2]
        within = (x > left) & (x < right)
        error = (right - left) * float(np.max(error_of[within], initial=0.0)) / math.sqrt(max(1, np.sum(within)))
        if areas[smallest] >= min(SEGMENT_SHARE * max(areas), SEGMENT_ERRORS * error if error else math.inf):
            break
        del at[max(0, smallest - 1) : smallest + 1]
    return tuple(float(2**change) for change in at)


def _area(x: Array, y: Array, left: float, right: float) -> float:
    """Integral of the straight-line curve from left to right, its ends continued level."""
    grid = np.unique(np.concatenate([[left, right], x[(x > left) & (x < right)]]))
    return float(np.trapezoid(np.interp(grid, x, y), grid))


def around(center: float, span: tuple[float, float], tried: Sequence[int]) -> tuple[int, ...]:
    """The batches that decide where a change near ``center`` is: the two that it lies between, and those nearest to
    ``span``'s ends.
    """
    below = max((b for b in tried if b <= center), default=tried[0])
    above = min((b for b in tried if b >= center), default=tried[-1])
    ends = (min(tried, key=lambda b: abs(math.log(b / at))) for at in span)
    return tuple(sorted({below, above, *ends}))


def inside(span: tuple[float, float], tried: Sequence[int], most: int) -> tuple[int, ...]:
    """The batches in and next to a span, at most so many."""
    start = max((i for i, b in enumerate(tried) if b <= span[0]), default=0)
    stop = min((i for i, b in enumerate(tried) if b >= span[1]), default=len(tried) - 1)
    return evenly(tried[start : stop + 1], most)


def spread(items: Sequence[int], most: int) -> tuple[int, ...]:
    """At most ``most`` items, but never fewer than ``FEWEST_ACTIVE``, evenly spread, the first and last among them."""
    return evenly(items, max(FEWEST_ACTIVE, most))


def evenly(items: Sequence[int], count: int) -> tuple[int, ...]:
    """At most ``count`` items, evenly spread, the first and last among them."""
    if len(items) <= count:
        return tuple(items)
    return tuple(items[round(i * (len(items) - 1) / (count - 1))] for i in range(count))


def cell_state(run: Run, target: int, batch: int, width: float) -> StopReason | None:
    """``precise`` or ``plateau`` for a cell that needs no further round (docs/design.md, Stopping), else None."""
    samples = [value for r in run.rounds if r.batch == batch and (value := r.step_ms(target)) is not None]
    if len(samples) < MIN_MEDIAN_ROUNDS:
        return None
    now = relative_width(np.array(samples))
    if now <= width:
        return "precise"
    half = samples[: len(samples) // 2]
    if len(half) >= MIN_MEDIAN_ROUNDS and now > PLATEAU_GAIN * relative_width(np.array(half)):
        return "plateau"
    return None


def relative_width(samples: Array) -> float:
    """Width of the median's distribution-free 95 % interval over the median; infinite below six samples."""
    low, high = median_interval(samples)
    return (high - low) / float(np.median(samples))
