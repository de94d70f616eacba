"""Prediction of what a sweep's targets serve: the request rate that each carries at a latency, and which costs less.

Step times and their intervals are the sweep's; single steps, which the workers time whenever they prepare a batch, give
the spread that makes the tail. Batches between measured ones are interpolated.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import cast

import numpy as np

from core.analysis.numerics import Array
from core.base.money import SECONDS_AN_HOUR
from core.base.schema import UserError
from core.hardware.catalogue import GpuSpec
from core.hardware.compare import batches_between, card_target, compared_with, network_flag
from core.hardware.curve import CardCurve, card_curve
from core.hardware.host import Conditions, Modelling, costs_of_kind
from core.hardware.interval import Modelled
from core.rounds.answer.answer import Answer, CellStats
from core.rounds.run import Run
from core.studies.batch.shapes import PointLabel, Price, Quantity, check_prices
from core.studies.batch.times import StepCurve, step_curve
from core.studies.serving.queue import (
    NO_PERIODS,
    NO_STALLS,
    LatencyCurve,
    Stalls,
    StepTimes,
    capacity_per_s,
    latency_quantile_ms,
    saturation_per_s,
)
from core.studies.serving.record import ServingPlan
from core.studies.serving.service import Service
from core.workload.execution import expected

FEWEST_SINGLES = 100
"""Fewest single steps of a batch size that show a 99th percentile."""
FEWEST_BLOCKS = 8
"""Fewest blocks of a batch in one process among which an outlier shows."""
STALL_SDS, MAD_TO_SD = 5.0, 1.4826
"""A block is stalled beyond so many standard deviations, which follow from the median deviation (normal)."""
WIDEST = 10.0
"""Widest interval of a modelled capacity, upper over lower end, of which anything is said."""
MOST_SERVERS = 1_000
"""Most servers of one target that are counted when two prices are compared."""
MILLION = 1_000_000


@dataclass(frozen=True)
class TargetService:
    """One target's service.

    Attributes:
        label: That of its step times.
        capacity_per_s: Largest request rate within the limit; 0 if even a lone request misses it.
        singles: Number of single steps behind the tail; 0 if it is assumed to have none.
        pause_ms: By how much a step is longer after a pause of the server; None if that is not known.
        at_rate_ms: Promised percentile at the user's rate, infinite beyond saturation; None without such a rate.
    """

    index: int
    name: str
    title: str
    label: str
    curve: LatencyCurve
    capacity_per_s: Quantity
    at_rate_ms: Quantity | None
    singles: int
    pause_ms: Quantity | None
    price: Price | None

    @property
    def alone_ms(self) -> float:
        """The promised percentile for lone requests."""
        return float(self.curve.ms[0])

    @property
    def tells(self) -> bool:
        """Return True if its capacity is known well enough to be stated, as that of a measured target always is."""
        low, high = self.capacity_per_s.low, self.capacity_per_s.high
        return self.label != "modelled" or bool(low and high and high <= WIDEST * low)

    def cost_per_million(self, rate_per_s: float) -> float:
        """Return the price of a million requests that come at that rate, on as many servers as that takes."""
        assert self.price is not None
        servers = math.ceil(rate_per_s / self.capacity_per_s.value)
        return MILLION * self.price.per_hour * servers / (rate_per_s * SECONDS_AN_HOUR)


@dataclass(frozen=True)
class Pays:
    """From which request rate ``other`` costs less than ``base``; None if it does at none, or not clearly.

    ``for_good`` tells if it also does at every higher rate, though servers are whole.
    """

    base: int
    other: int
    rate_per_s: float | None
    low: float | None
    high: float | None
    for_good: bool


@dataclass(frozen=True)
class ServingAnswer:
    """Answer on serving a run's targets.

    ``pays`` compares each priced target with the first priced one. ``resident``: steps found their inputs ready.
    """

    service: Service
    targets: tuple[TargetService, ...]
    pays: tuple[Pays, ...]
    label: str
    resident: bool = False


def serving_answer(
    run: Run, answer: Answer, service: Service, prices: Sequence[Price] = (), cards: Sequence[CardCurve] = ()
) -> ServingAnswer:
    """Return what each target of a finished inference sweep carries, and modelled cards by :func:`served_curve`.

    Raises UserError where the run cannot tell.
    """
    if run.plan is None:
        raise UserError("Only points were imported for this run; without its plan it may be of training.")
    if run.plan.workload.training:
        raise UserError(
            "This run measured training; a server computes no gradients. Sweep the same for inference first: "
            f"“{_inference_command(run)}”, or Mode on the page Sweep."
        )
    if several := [target for target in run.plan.targets if target.steps_per_execution > 1]:
        raise UserError(
            f"{several[0]} runs several steps per call, but a server runs one for each batch: sweep without."
        )
    if run.plan.workload.lengths:
        raise UserError("This run has inputs of several lengths; serving is predicted for inputs of one length.")
    check_prices(prices, (*run.target_names, *(card.gpu for card in cards)))
    of_target = {price.target: price for price in prices}
    targets = []
    for index, fit in enumerate(answer.fits):
        cells = [cell for cell in answer.cells if cell.target == index]
        curve = step_curve([of_one_start(cell) for cell in cells], fit, run.label)
        if curve is not None:
            step_ms = {cell.batch: cell.step_ms for cell in cells}
            known = _Known(index, run.target_names[index], run.names[index], run.label, curve,
                           singles_of(run, index, step_ms), stalls_of(run, index), pause_of(run, index),
                           periods_of(run, index, step_ms))  # fmt: skip
            targets.append(_service_of(known, service, of_target.get(known.name)))
    if not targets:
        raise UserError("No batch size was measured, so nothing is known of serving.")
    for index, card in enumerate(cards, start=len(run.names)):
        if len(card.stretch) > 1 and card.stretch[-1].batch >= service.max_batch:
            known = _Known(index, card.gpu, f"{card.gpu} (modelled)", "modelled", _modelled(card),
                           {}, NO_STALLS, None, NO_PERIODS)  # fmt: skip
            targets.append(_service_of(known, service, of_target.get(known.name)))
    priced = [target for target in targets if target.price is not None and target.tells]
    compared = tuple(pays(priced[0], other) for other in priced[1:])
    return ServingAnswer(service, tuple(targets), compared, run.label, run.plan.pipeline.kind == "resident")


def of_one_start(cell: CellStats) -> CellStats:
    """Return the cell with the interval of one further start, such as a server is, in place of that of their mean.

    Both scatter between starts alike, so its standard error is √(1 + starts) times as large (prediction interval).
    """
    if cell.low_ms is None or cell.high_ms is None or not cell.starts:
        return cell
    wider = math.sqrt(1 + cell.starts)
    low, high = (cell.step_ms * (end_ms / cell.step_ms) ** wider for end_ms in (cell.low_ms, cell.high_ms))
    return replace(cell, low_ms=low, high_ms=high)


def plan_to_serve(run: Run, answer: ServingAnswer, **changes: object) -> ServingPlan:
    """Return the plan that serves a run's targets as an answer with padded batches predicts it.

    Targets of which even a lone request misses the limit are left out. Raises UserError if there is no other.
    """
    assert run.plan is not None
    served = [target for target in answer.targets if target.label != "modelled" and target.capacity_per_s.value]
    if not served:
        raise UserError(
            f"On no target does even a lone request keep {answer.service.promise}; there is nothing to serve."
        )
    targets = tuple(run.plan.targets[target.index] for target in served)
    predicted = tuple(target.capacity_per_s for target in served)
    fields = {"workload": run.plan.workload, "targets": targets, "predicted": predicted, "service": answer.service}
    return ServingPlan.model_validate({**fields, "run_id": run.id, **changes})


def _inference_command(run: Run) -> str:
    """Return the command that measures the run's targets for inference."""
    assert run.plan is not None
    network, targets = network_flag(run.plan.workload.network), " ".join(run.target_names)
    return f"python -m core sweep {network} --mode infer --pipeline host --targets {targets} --out infer.json"


def served_curve(run: Run, answer: Answer, spec: GpuSpec) -> CardCurve:
    """Return a card's modelled step times with each batch over the link, as requests come. Raises UserError.

    Host and build are not named, so the intervals span both.
    """
    index = compared_with(run, answer)
    assert run.plan is not None
    workload, target = run.plan.workload, card_target(run.plan.targets[index])
    costs = costs_of_kind("unnamed", expected(workload.network, target).execution)
    conditions = Conditions(fed=True, build="unnamed")
    return card_curve(spec, Modelling(workload, target, costs, conditions), batches_between(answer, index))


def _padded(curve: StepCurve, service: Service) -> StepCurve:
    """Return a curve with every batch up to the largest at the step time of the next computed size."""
    batches, sizes = np.arange(1, service.max_batch + 1), np.array(service.sizes)
    of_log = np.log(sizes[np.searchsorted(sizes, batches)])
    logs, *apart = (np.interp(of_log, np.log(curve.batches), ends) for ends in (curve.logs, curve.below, curve.above))
    below, above = (np.where(np.isnan(each), np.inf, each) for each in apart)  # beside an unknown bound
    labels = [cast(PointLabel, "interpolated") for _ in batches]
    return StepCurve(batches.astype(float), logs, below, above, tuple(labels))


def _modelled(card: CardCurve) -> StepCurve:
    points = [point for point in card.stretch if isinstance(point, Modelled)]
    logs = np.log([point.step_ms for point in points])
    low = np.log([point.low_ms for point in points])
    high = np.log([point.high_ms for point in points])
    batches = np.array([point.batch for point in points], dtype=float)
    return StepCurve(batches, logs, logs - low, high - logs, tuple(point.label for point in points))


@dataclass(frozen=True)
class _Known:
    """Facts of a target before it is asked to serve."""

    index: int
    name: str
    title: str
    label: str
    curve: StepCurve
    singles: dict[int, Array]
    stalls: Stalls
    pause_ms: Quantity | None
    periods: Array


def _service_of(known: _Known, service: Service, price: Price | None) -> TargetService:
    largest = int(known.curve.batches[-1])
    if service.max_batch > largest:
        raise UserError(f"{known.title} was measured up to batch {largest:,}; choose at most that, or sweep further.")
    if service.pads:
        known = replace(known, curve=_padded(known.curve, service))
    middle = _steps(known)
    latency = LatencyCurve.of(middle, service)
    capacity = latency.capacity_per_s()
    ends = _ends(known, service)
    load = capacity / saturation_per_s(middle, service)
    return TargetService(
        known.index, known.name, known.title, known.label, latency,
        _with_ends(capacity, [capacity_per_s(steps, service, load or None) for steps in ends]),
        _at_rate(middle, ends, service), sum(map(len, known.singles.values())), known.pause_ms, price,
    )  # fmt: skip


def _at_rate(middle: StepTimes, ends: Sequence[StepTimes], service: Service) -> Quantity | None:
    if (rate := service.rate_per_s) is None:
        return None
    bounds = [latency_quantile_ms(steps, service, rate) for steps in ends]
    return _with_ends(latency_quantile_ms(middle, service, rate), bounds)


def _with_ends(value: float, ends: Sequence[float]) -> Quantity:
    """Return the value with the interval of its ends, which holds it; with none if there are no ends."""
    return (
        Quantity(float(value), float(min(value, *ends)), float(max(value, *ends)))
        if ends
        else Quantity(value, None, None)
    )


def singles_of(run: Run, target: int, step_ms: dict[int, float]) -> dict[int, Array]:
    """Return latencies of single steps over the step time, by batch, of batches that have enough of them.

    The step time is that of the blocks just after them, as a machine's speed drifts. Neighbouring batches are pooled
    until each pool has enough; none if all together are too few.
    """
    pools: dict[int, list[float]] = {}
    waiting: list[float] = []
    visits = _visits(run, target)
    for batch in sorted(step_ms):
        for setup in run.setups:
            if setup.target == target and setup.batch == batch:
                next_ms = visits.get((batch, setup.process), [step_ms[batch]])[0]
                waiting += [ms / next_ms for ms in setup.latency_ms]
        if len(waiting) >= FEWEST_SINGLES:
            pools[batch], waiting = waiting, []
    if pools and waiting:
        pools[max(pools)] += waiting
    return {batch: np.array(values) for batch, values in pools.items()}


def periods_of(run: Run, target: int, step_ms: dict[int, float]) -> Array:
    """Return mean step times of visits over those of their batch: how a machine's speed changes from one moment to
    another, which a queue feels and a mean does not.
    """
    visits = _visits(run, target).items()
    ratios = [ms / step_ms[batch] for (batch, _), several in visits for ms in several if batch in step_ms]
    return np.array(ratios) if ratios else NO_PERIODS


def _visits(run: Run, target: int) -> dict[tuple[int, int], list[float]]:
    """Return the mean step times of visits in ms, by batch and process, without disturbed ones if others remain."""
    quiet = [item for item in run.rounds if not item.interference.disturbed] or run.rounds
    blocks: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for item in quiet:
        if (ms := item.step_ms(target)) is not None:
            blocks[item.batch, item.process][item.pass_index].append(ms)
    return {cell: [fmean(visit) for _, visit in sorted(several.items())] for cell, several in blocks.items()}


def pause_of(run: Run, target: int) -> Quantity | None:
    """Return by how many ms a step is longer after a pause, with the least and the most that a start showed.

    Each start is compared with its own steps in a row; None if none timed both.
    """
    longer_ms = [
        median(setup.paused_ms) - median(setup.latency_ms)
        for setup in run.setups
        if setup.target == target and setup.paused_ms and setup.latency_ms
    ]
    return Quantity(*(max(0.0, of(longer_ms)) for of in (median, min, max))) if longer_ms else None


def stalls_of(run: Run, target: int) -> Stalls:
    """Return the stops that a target's blocks show: what a block took beyond the usual one of its batch and process.

    Single steps are too few to meet what stops a machine some times per second or less; blocks are most of a sweep.
    """
    blocks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for item in run.rounds:
        for block in item.blocks:
            if block.target == target:
                blocks.setdefault((item.batch, block.process), []).append((block.step_ms, block.steps))
    lengths, seen_ms = list[float](), 0.0
    for group in blocks.values():
        if len(group) >= FEWEST_BLOCKS:
            step_ms, steps = np.array(group).T
            beyond = (step_ms - np.median(step_ms)) * steps
            usual = MAD_TO_SD * np.median(np.abs(beyond - np.median(beyond)))
            lengths += beyond[beyond > STALL_SDS * usual].tolist()
            seen_ms += float((step_ms * steps).sum())
    return Stalls(np.array(lengths), seen_ms) if seen_ms else NO_STALLS


def _ends(known: _Known, service: Service) -> list[StepTimes]:
    """Return the slowest and the fastest step times of the 95 % interval; none where a batch has no interval."""
    curve = known.curve
    used = curve.batches <= service.max_batch
    if not np.isfinite(curve.below[used]).all() or not np.isfinite(curve.above[used]).all():
        return []
    return [_steps(known, 1), _steps(known, -1)]


def _steps(known: _Known, side: int = 0) -> StepTimes:
    """Return the step times; with ``side`` 1 or −1 all batches, tail, stalls, periods and pauses at their upper or
    lower ends at once.
    """
    curve, pause = known.curve, known.pause_ms
    apart = side * (curve.above if side > 0 else curve.below)
    logs = curve.logs + np.where(np.isfinite(apart), apart, 0.0) if side else curve.logs
    pause_ms = (pause.low or 0.0, pause.value, pause.high or 0.0)[side + 1] if pause else 0.0
    return StepTimes.of(curve.batches, np.exp(logs), known.singles, known.stalls, side, pause_ms, known.periods)


def pays(base: TargetService, other: TargetService) -> Pays:
    """Return from which rate ``other`` costs less than ``base``, with its interval; both have a price."""
    mine, theirs = base.capacity_per_s, other.capacity_per_s
    value = pays_from(base, mine.value, other, theirs.value)
    for_good = value is not None and _for_good(base, other, value)
    if None in (mine.low, mine.high, theirs.low, theirs.high):
        return Pays(base.index, other.index, value, None, None, for_good)
    early = pays_from(base, mine.low or 0.0, other, theirs.high or 0.0)
    late = pays_from(base, mine.high or 0.0, other, theirs.low or 0.0)
    return Pays(base.index, other.index, value, early, late, for_good)


def _for_good(base: TargetService, other: TargetService, rate_per_s: float) -> bool:
    """Return True if no further server of ``other`` makes it dearer again above that rate."""
    assert base.price is not None
    assert other.price is not None
    for servers in range(1, MOST_SERVERS):
        rate = servers * other.capacity_per_s.value
        bases = math.floor(rate / base.capacity_per_s.value) + 1 if base.capacity_per_s.value else math.inf
        if rate >= rate_per_s and (servers + 1) * other.price.per_hour >= bases * base.price.per_hour:
            return False
    return True


def pays_from(base: TargetService, base_per_s: float, other: TargetService, other_per_s: float) -> float | None:
    """Return the smallest rate at which ``other`` costs less, at these capacities; None if at none.

    Costs rise by whole servers, so that rate is one at which another server of ``base`` is needed (0: from the first
    request on).
    """
    assert base.price is not None
    assert other.price is not None
    if not other_per_s:
        return None
    if not base_per_s:
        return 0.0
    for servers in range(MOST_SERVERS):
        rate = servers * base_per_s
        others = math.floor(rate / other_per_s) + 1
        if others * other.price.per_hour < (servers + 1) * base.price.per_hour:
            return rate
    return None
