"""Allocation of a sweep's time: pure rules, no clock and no worker.

Intervals are made of *replicates*: a batch prepared anew in another start of the workers. So a sweep is starts times
batches. The first start looks for the changes of the fastest target (:mod:`core.studies.sweep.focus`) and measures the
rest of the batches for which the budget holds three replicates; the next ones repeat them all; further ones repeat
those that decide the answer. Within a start batches are visited in turn.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from core.analysis.numerics import evenly, zeros
from core.analysis.statistics import MIN_UNITS, Array, median_interval, t_quantile
from core.rounds.plan import SweepPlan
from core.rounds.run import Run, StopReason

CLIMB = 8  # largest step of the scan upwards, as a factor on the largest batch seen
VISIT_S = 0.2  # length of a visit: short and repeated later, as neighbours and cores change within seconds
VISIT_SHARE = 0.1  # and at least so much of the time that preparing it for this visit took: 5 s with XLA on a GPU
FEWEST_ROUNDS, MOST_ROUNDS = 2, 12  # rounds per visit
REPLICATES = MIN_UNITS  # per reported batch, if the budget holds them: fewer support no interval
FEWEST_BATCHES = 3  # fewest batches for which a budget must hold that many starts
GOOD_BATCHES = 5  # show a curve; only then is time kept for anything else
MIN_PROCESSES = 4  # starts before a narrow interval may end the sweep (with fewer, luck looks like precision)
GOOD_PROCESSES = 6  # starts before longer ones pay off: t at 95 % falls from 3.2 (four) to 2.6 (six)
LEAST_VISITS, MOST_VISITS = 2, 8  # visits to a batch per start, if there is time
VISIT_SCATTER = 3.0  # ratio of the scatter between visits to that between starts (measured: 2.0 to 4.7 over 1.5 %)
GOOD_VISITS = 4  # visits to each batch per start for which sizes beyond the plan must leave room
FURTHER_STARTS, FURTHER_SHARE = 3, 0.3  # starts of deciding batches to keep time for, within this share
SPARE_SHARE = 0.08  # share of the time, kept for starts that take longer than the first ones
TRACE_SHARE, MOST_TRACE_S = 0.1, 8.0  # share of the budget for tracing three batches at the end; cap for two targets
MEDIAN_ERROR = 1.25  # standard error of a median of n normal values times √n, in standard deviations
REPLICATE_SCATTER = 0.035  # standard deviation of a log-ratio between starts (measured: benchmarks/repeatability.py)
SEGMENT_SHARE = 0.15  # share of the largest sign segment's area; a smaller segment is taken for noise
SEGMENT_ERRORS = 4.0  # standard errors from parity at which a smaller segment still counts
MAX_ACTIVE = 6  # batches visited in a further start if several targets are not separated
FEWEST_ACTIVE = 3
DOUBTFUL_REACH = 4.0  # factor around an unproven sign change within which batches are visited: far off it shows best
FINEST_OCTAVES = 0.25  # no new batch size closer to its neighbours than this
MIN_MEDIAN_ROUNDS = 6  # fewer cannot support a distribution-free 95 % interval of the median
PLATEAU_GAIN = 0.9  # doubling the rounds should narrow an interval to 0.71; above this it has stopped narrowing
PROBE_STEPS = 30  # fewest steps of preparing and scanning a cell; decides whether the budget allows it
FEWEST_STEPS = 10  # the same if steps are slow: what a warm-up runs that its cap ends at once


@dataclass(frozen=True)
class Costs:
    """Seconds of a start of the workers, of preparing a batch (or several) on them, and of visiting these once."""

    startup_s: float
    prepare_s: float
    visit_s: float

    @property
    def batch_s(self) -> float:
        return self.prepare_s + self.visit_s

    @property
    def start_s(self) -> float:
        """Seconds of a start in which each of its batches is visited once."""
        return self.startup_s + self.batch_s

    @property
    def visits(self) -> float:
        """Best number of visits per start.

        Two-stage sampling (Cochran 1977, §10.6): with c₁ the cost of another replicate and c₂ of another visit, √(c₁ /
        c₂) · σ₂ / σ₁ visits of each are best.
        """
        if not self.visit_s:
            return 1.0
        best = math.sqrt((self.startup_s + self.prepare_s) / self.visit_s) * VISIT_SCATTER
        return min(MOST_VISITS, max(LEAST_VISITS, best))

    @property
    def more_visits_s(self) -> float:
        """Best length of a start beyond one visit of each of its batches."""
        return (self.visits - 1) * self.visit_s

    def replicate_s(self, visits: int) -> float:
        """Return the seconds of its batches with at most so many visits, without the start itself."""
        return self.prepare_s + min(visits, self.visits) * self.visit_s


def together(costs: Sequence[Costs], startup_s: float) -> Costs:
    """Return the costs of a start with several batches."""
    return Costs(startup_s, sum(cost.prepare_s for cost in costs), sum(cost.visit_s for cost in costs))


def rounds_of_a_visit(round_s: float, prepared_s: float = 0.0) -> int:
    """Return the number of rounds of that length that make a visit of a batch that took ``prepared_s`` to prepare."""
    visit_s = max(VISIT_S, VISIT_SHARE * prepared_s)
    return MOST_ROUNDS if round_s <= 0 else min(MOST_ROUNDS, max(FEWEST_ROUNDS, round(visit_s / round_s)))


def expected_s(batch: int, seen: Mapping[int, float], default_s: float) -> float:
    """Return the expected seconds at a batch, from the seconds ``seen`` by batch; half more above the largest one."""
    if not seen:
        return default_s
    mean_s = sum(seen.values()) / len(seen)
    return seen.get(batch) or (mean_s if batch < max(seen) else 1.5 * max(mean_s, seen[max(seen)]))


def first_steps_s(batch: int, known_ms: Mapping[int, float]) -> float:
    """Return the expected seconds of a cell's first steps, from the step times ``known_ms`` of smaller batches; 0
    without any.

    It extrapolates the slope of the last two. One alone may be all floor and only bounds the time, in proportion to the
    batch: then the cell is tried unless even its fewest steps could take too long.
    """
    *before, last = sorted(b for b in known_ms if b <= batch) or (0,)
    if not last:
        return 0.0
    most_ms = known_ms[last] * batch / last
    if not before:
        return FEWEST_STEPS * most_ms / 1000.0
    slope_ms = max(0.0, (known_ms[last] - known_ms[before[-1]]) / (last - before[-1]))
    return PROBE_STEPS * min(most_ms, known_ms[last] + slope_ms * (batch - last)) / 1000.0


def replicates(total_s: float, startup_s: float, batch_s: float, batches: int) -> int:
    """Return the starts that a budget holds with the fewest informative batches, at most ``REPLICATES``."""
    usable_s = (1 - SPARE_SHARE) * total_s
    return max(1, min(REPLICATES, int(usable_s / (startup_s + min(batches, FEWEST_BATCHES) * batch_s))))


def kept_s(total_s: float, batch: Costs) -> float:
    """Return the seconds kept for starts of the deciding batches after all replicates, if enough batches fit beside
    them.
    """
    further_s = batch.startup_s + FEWEST_BATCHES * batch.replicate_s(LEAST_VISITS)
    whole_s = REPLICATES * (batch.startup_s + GOOD_BATCHES * batch.replicate_s(LEAST_VISITS))
    count = min(FURTHER_STARTS, int(min(FURTHER_SHARE * total_s, total_s - whole_s) / further_s))
    return max(SPARE_SHARE * total_s, count * further_s)


def batches_of_a_start(left_s: float, batch: Costs, done: int) -> int:
    """Return the batches per further start, after ``done`` starts: few enough that ``GOOD_PROCESSES`` starts fit."""
    least_s = batch.startup_s + FEWEST_ACTIVE * batch.replicate_s(LEAST_VISITS)
    starts = max(1, min(GOOD_PROCESSES - done, int(left_s / least_s)))
    return int((left_s / starts - batch.startup_s) / batch.batch_s)


def extra_s(left_s: float, this: Costs, due: int, due_s: float, later: Costs, done: int) -> tuple[float, int]:
    """Return how long a start goes on once its batches were visited, and the number of starts that follow.

    ``left_s`` is the time from now on. ``due`` starts must follow and take at least ``due_s``; others, each like
    ``later``, until ``GOOD_PROCESSES`` are ``done``. Spare time is shared out, up to the best length of this start; if
    no other fits after it, it gets all.
    """
    free_s = left_s - (1 + SPARE_SHARE) * due_s
    further = min(max(0, GOOD_PROCESSES - done - due), max(0, int(free_s / max(later.start_s, 1e-3))))
    share_s = max(0.0, free_s - further * later.start_s) / (1 + due + further)
    longer_s = min(share_s, this.more_visits_s)
    enough_s = due_s / due if due else (1 + 2 * SPARE_SHARE) * later.start_s
    if left_s - longer_s < enough_s:
        return max(0.0, left_s), 0
    return longer_s, due + further or max(1, int((left_s - longer_s) / (later.start_s + later.more_visits_s)))


def evenly_spread(batches: Collection[int], chosen: Collection[int]) -> list[int]:
    """Return the batches in the order in which they fill the widest gaps in log2 between those ``chosen``, the two ends
    first.
    """
    left = sorted(set(batches).difference(chosen))
    if not left:
        return []
    order = [end for end in dict.fromkeys((max(batches), min(batches))) if end in left]
    taken = {*chosen, *order}
    while rest := [batch for batch in left if batch not in taken]:
        order.append(max(rest, key=lambda batch: min(abs(math.log2(batch / other)) for other in taken)))
        taken.add(order[-1])
    return order


def trace_reserve_s(plan: SweepPlan) -> float:
    """Return the seconds of the budget that are reserved for traces."""
    most_s = MOST_TRACE_S * max(2, len(plan.targets)) / 2
    return min(most_s, TRACE_SHARE * plan.budget_s) if plan.trace else 0.0


def batches_to_trace(measured: tuple[int, ...], crossovers: tuple[float, ...]) -> tuple[int, ...]:
    """Return the batch nearest the crossover (without one, the middle), the smallest and the largest, in that order."""
    if not measured:
        return ()
    middle = measured[len(measured) // 2]
    nearest = min(measured, key=lambda b: abs(math.log(b / crossovers[0]))) if crossovers else middle
    return tuple(dict.fromkeys((nearest, measured[0], measured[-1])))


def round_scatter(run: Run) -> float:
    """Return the standard deviation of the log-ratio (for one target, of the log step time) between rounds, without
    drift and stalls.

    It is taken from neighbouring rounds of one visit: for normal scatter, the median of |difference| is 0.954 σ. Zero
    without any.
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


def narrowing(processes: int) -> float:
    """Return the share of an interval, in log2(batch), that remains after ``GOOD_PROCESSES``: their t·s/√n over that of
    ``processes`` (at least three).

    Few processes make wide intervals. Time spent at their far ends is lost, since those move inwards anyhow.
    """
    few = min(max(3, processes), GOOD_PROCESSES)
    wide, good = (t_quantile(0.975, n - 1) / math.sqrt(n) for n in (few, GOOD_PROCESSES))
    return good / wide


def deciding_batch(batches: Sequence[int], seen: Collection[int], centers: Sequence[float], climb: bool) -> int | None:
    """Return the one of a scan's ``batches`` to visit next, after those ``seen``, to find the changes of lead; None if
    done.

    First the smallest and the middle, then what halves the widest gap around each change seen so far (``centers``).
    Without one, or with ``climb``, one step up: not the top at once, since its time and memory are unknown.
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
    """Return new batch sizes, multiples of ``multiple``, that halve (in log2) the gaps around each change of lead;
    empty if gaps are fine.

    ``changes``: batch and the octaves of its interval so far (0 without one); gaps finer than that would not narrow it.
    ``tried`` are all sizes measured so far.
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
    """Return the batches at which the log-ratios' sign changes, interpolated in log2(batch), whether significant or
    not.

    A sign segment between two changes (or outside the first or last) that is small beside the largest one, and not
    large beside the ratios' standard ``errors`` either, is taken for noise, smallest first, so that a noisy scan does
    not send the sweep after changes of lead that do not exist.
    """
    x, error_of = np.log2(batches), np.broadcast_to(errors, np.shape(ratios))
    at = zeros(x, ratios)
    while at:
        edges = [x[0] - 0.5, *at, x[-1] + 0.5]  # half an octave beyond stands for the outermost batches
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
    """Integrate the piecewise linear curve from left to right, its ends continued level."""
    grid = np.unique(np.concatenate([[left, right], x[(x > left) & (x < right)]]))
    return float(np.trapezoid(np.interp(grid, x, y), grid))


def around(center: float, span: tuple[float, float], tried: Sequence[int]) -> tuple[int, ...]:
    """Return the batches that locate a change near ``center``: the two around it, and the nearest to the span ends."""
    below = max((b for b in tried if b <= center), default=tried[0])
    above = min((b for b in tried if b >= center), default=tried[-1])
    ends = (min(tried, key=lambda b: abs(math.log(b / at))) for at in span)
    return tuple(sorted({below, above, *ends}))


def inside(span: tuple[float, float], tried: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the batches in and next to a span, at most ``most``."""
    start = max((i for i, b in enumerate(tried) if b <= span[0]), default=0)
    stop = min((i for i, b in enumerate(tried) if b >= span[1]), default=len(tried) - 1)
    return evenly(tried[start : stop + 1], most)


def spread(items: Sequence[int], most: int) -> tuple[int, ...]:
    """Return at most ``most`` items, but at least ``FEWEST_ACTIVE``, evenly spread, including the first and last."""
    return evenly(items, max(FEWEST_ACTIVE, most))


def cell_state(run: Run, target: int, batch: int, width: float) -> StopReason | None:
    """Return ``precise`` or ``plateau`` if a cell needs no further round (docs/design.md, Stopping), else None."""
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
    """Return the width of the median's distribution-free 95 % interval over the median; infinite below six samples."""
    low, high = median_interval(samples)
    return (high - low) / float(np.median(samples))
