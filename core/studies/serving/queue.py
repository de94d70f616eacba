"""Latency of requests behind a batcher, and the largest request rate at a promised latency. Pure.

The batcher is Triton's: a free instance starts with what waits, at most ``max_batch`` requests, and waits at most
``max_delay_ms`` after the arrival of the oldest for more to come. All instances share one queue. Batch after batch is
played for many servers at once, with random numbers from one seed, so that two calls agree. Checked against M/M/1,
M/D/1 and Inoue's bound for dynamic batching (arXiv 1912.06322) by tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.analysis.numerics import Array
from core.analysis.statistics import CONFIDENCE, normal_quantile
from core.studies.serving.service import Service
from core.worker.serving import gaps
from core.worker.timing import PAUSE_MS

Whole = NDArray[np.integer[Any]]
LANES = 128
"""Servers that are played at once."""
BATCHES, MOST_REQUESTS = 500, 6_000
"""Batches per server, about, and the most requests. Without batching, where a queue varies most, the p99 of a known one
errs by up to 4 % at half of saturation, 8 % at 0.7 and 10 % at 0.9 (a test); means of batches err by 2 %."""
RUN_UP = 0.25
"""Share of a server's first requests that are left out: it starts empty."""
LOADS = (0.02, 0.15, 0.35, 0.55, 0.75, 0.88, 0.95, 0.98)
"""Rates at which latencies are computed, as shares of the rate at which the server saturates."""
REFINEMENTS = 2
"""Rates that are played between two of those before the crossing of the limit is interpolated: to 0.3 %."""
NEAR_UP, NEAR_DOWN = 1.1, 0.85
"""Factors by which rates rise or fall from an expected capacity until the limit is crossed."""
TAIL_POINTS = 1_000


@dataclass(frozen=True)
class Stalls:
    """Rare stops of a machine while it computes, whatever the step: their lengths (ms), all seen in ``seen_ms``."""

    lengths_ms: Array
    seen_ms: float

    def per_ms(self, side: int = 0) -> float:
        """Return the rate per millisecond of computing; with ``side`` 1 or −1 the end of its 95 % interval (Poisson,
        by the square root).
        """
        count = len(self.lengths_ms)
        root = math.sqrt(count) + side * normal_quantile((1 + CONFIDENCE) / 2) / 2
        return max(0.0, root) ** 2 / self.seen_ms if count else 0.0


NO_STALLS = Stalls(np.zeros(0), 1.0)
NO_PERIODS: Array = np.ones(1)
PERIOD_MS = 300.0
"""Length of a period in which a machine is as slow or fast as a visit of a sweep showed: visits of different batches
0.3 s apart correlate by 0.4, 1 s apart by 0.1 (ten targets of 28 November 2026)."""
PERIODS = 64
"""Periods after which those of a server repeat."""


@dataclass(frozen=True)
class StepTimes:
    """Step time (ms) by batch size, rising, and single steps relative to it, as a row of quantiles for each of
    ``tail_batches``; beside them ``stall_lengths_ms``, which come ``stalls_per_ms`` of computing, and ``pause_ms``, by
    which a step is longer after its server has waited for :data:`core.worker.timing.PAUSE_MS`. ``periods`` are factors
    by which all steps of a period are longer.
    """

    batches: Array
    ms: Array
    tail_batches: Array
    tails: Array
    stall_lengths_ms: Array
    stalls_per_ms: float
    pause_ms: float
    periods: Array

    @classmethod
    def of(
        cls, batches: Array, ms: Array, singles: Mapping[int, Array] | None = None, stalls: Stalls = NO_STALLS,
        side: int = 0, pause_ms: float = 0.0, periods: Array = NO_PERIODS,
    ) -> StepTimes:  # fmt: skip
        """Return step times with the spread of ``singles``, relative latencies of single steps by batch, and of
        ``periods``, relative step times of short periods; none without.

        With ``side`` 1 or −1 each quantile is the upper or lower end of its 95 % interval, by order statistics.
        """
        rows = {batch: _quantiles(values, TAIL_POINTS, side) for batch, values in (singles or {}).items()}
        rows = rows or {1: np.ones(TAIL_POINTS)}
        return cls(
            np.asarray(batches, float), np.asarray(ms, float), np.array(list(rows), float), np.array([*rows.values()]),
            stalls.lengths_ms, stalls.per_ms(side), pause_ms, _quantiles(periods, LANES, side),
        )  # fmt: skip

    def of_batch(self, batch: Array) -> Array:
        """Return the step time (ms) at each batch size, interpolated over the logarithms."""
        return np.asarray(np.exp(np.interp(np.log(batch), np.log(self.batches), np.log(self.ms))))

    def tail_of(self, batch: Array) -> Array:
        """Return for each batch size the row of the nearest batch with a spread."""
        return np.abs(np.log(batch)[:, None] - np.log(self.tail_batches)[None, :]).argmin(axis=1)

    def mean_ms(self, batch: Array) -> Array:
        """Return the mean time (ms) of single steps at each batch size, stalls included."""
        stalled = 1 + self.stalls_per_ms * (self.stall_lengths_ms.mean() if self.stall_lengths_ms.size else 0.0)
        return np.asarray(
            self.of_batch(batch) * self.tails.mean(axis=1)[self.tail_of(batch)] * self.periods.mean() * stalled
        )


def _quantiles(values: Array, count: int, side: int) -> Array:
    """Return that many quantiles in the middle of equal shares, or the ends of their 95 % intervals."""
    levels = (np.arange(count) + 0.5) / count
    shift = side * normal_quantile((1 + CONFIDENCE) / 2) * np.sqrt(levels * (1 - levels) / len(values))
    return np.asarray(np.quantile(values, np.clip(levels + shift, 0, 1)))


@lru_cache(maxsize=16)
def _gaps(burstiness: float, lanes: int, requests: int) -> Array:
    """Return times between requests with a mean of 1, summed up per lane."""
    return np.cumsum(gaps(np.random.default_rng(7), burstiness, (lanes, requests)), axis=1)


def usual_batch(steps: StepTimes, service: Service, rate_per_s: float) -> float:
    """Return the batch size at which requests come as fast as instances without a pause serve them, at least 1."""
    sizes = np.arange(1, service.max_batch + 1, dtype=float)
    keeps_up = 1000 * service.instances * sizes >= rate_per_s * steps.mean_ms(sizes)
    return float(sizes[keeps_up.argmax()]) if keeps_up.any() else float(service.max_batch)


class _Machines:
    """Random step times of the servers that are played, from one seed, for batches of at most ``most``."""

    def __init__(self, steps: StepTimes, most: int) -> None:
        sizes = np.arange(1, most + 1, dtype=float)
        self._steps, self._rng = steps, np.random.default_rng(11)
        self._ms = np.concatenate([[0.0], steps.of_batch(sizes)])
        self._rows = np.concatenate([[0], steps.tail_of(sizes)])
        self._periods = self._rng.permuted(np.tile(steps.periods, (PERIODS, 1)), axis=1)

    def step_ms(self, lane: Whole, begin_ms: Array, waited_ms: Array, count: Whole) -> Array:
        """Return how long these servers take for batches of ``count`` that begin now, after a wait for requests."""
        steps, random = self._steps, self._rng.random
        spread = steps.tails[self._rows[count], (random(lane.size) * TAIL_POINTS).astype(int)]
        of_period = self._periods[(begin_ms / PERIOD_MS).astype(int) % PERIODS, lane]
        ms = self._ms[count] * spread * of_period + steps.pause_ms * np.sqrt(np.minimum(1.0, waited_ms / PAUSE_MS))
        if steps.stalls_per_ms:
            hit = random(lane.size) < steps.stalls_per_ms * ms
            ms = ms + hit * steps.stall_lengths_ms[(random(lane.size) * steps.stall_lengths_ms.size).astype(int)]
        return np.asarray(ms)


def latencies_ms(steps: StepTimes, service: Service, rate_per_s: float) -> Array:
    """Return latencies from arrival to the end of the batch, of requests that come at ``rate_per_s``."""
    lanes, most = LANES, service.max_batch
    load = min(0.99, rate_per_s / saturation_per_s(steps, service))
    more = max(usual_batch(steps, service, rate_per_s), 1 / (1 - load))  # near saturation a queue forgets slowly
    requests = min(MOST_REQUESTS, BATCHES * 2 ** round(math.log2(more)))
    arrivals = _gaps(service.burstiness, lanes, requests) * (1000 / rate_per_s)
    apart = 2 * float(arrivals.max()) + 1.0
    flat = (arrivals + apart * np.arange(lanes)[:, None]).ravel()
    machines = _Machines(steps, most)
    lane, head = np.arange(lanes), np.zeros(lanes, dtype=int)
    free = np.zeros((lanes, service.instances))
    begins, counts, ends = list[Array](), list[Array](), list[Array]()
    while lane.size:
        first = lane * requests + head
        oldest = flat[first] - apart * lane
        ready = oldest + service.max_delay_ms
        if service.max_delay_ms and most > 1:
            last = flat[np.minimum(first + most, (lane + 1) * requests) - 1] - apart * lane
            ready = np.where(head + most <= requests, np.minimum(ready, last), ready)
        instance = free.argmin(axis=1) if service.instances > 1 else 0
        here = np.arange(lane.size)
        begin = np.maximum(free[here, instance], ready)
        waiting = np.searchsorted(flat, np.minimum(begin, apart / 1.5) + apart * lane, side="right") - first
        count = np.clip(waiting, 1, np.minimum(most, requests - head))
        end = begin + machines.step_ms(lane, begin, begin - free[here, instance], count)
        free[here, instance] = end
        begins.append(first)
        counts.append(count)
        ends.append(end)
        head = head + count
        if (head >= requests).any():
            left = head < requests
            lane, head, free = lane[left], head[left], free[left]
    order = np.argsort(np.concatenate(begins))
    finished = np.repeat(np.concatenate(ends)[order], np.concatenate(counts)[order].astype(int))
    waits = finished.reshape(lanes, requests) - arrivals
    return np.asarray(waits[:, int(RUN_UP * requests) :].ravel())


def saturation_per_s(steps: StepTimes, service: Service) -> float:
    """Return the rate that no queue survives: that of the best batch on every instance, without a pause."""
    sizes = np.arange(1, service.max_batch + 1, dtype=float)
    return float(1000 * service.instances * (sizes / steps.mean_ms(sizes)).max())


def latency_quantile_ms(steps: StepTimes, service: Service, rate_per_s: float) -> float:
    """Return the promised percentile of latency; infinite from saturation on."""
    if rate_per_s >= saturation_per_s(steps, service):
        return math.inf
    return float(np.quantile(latencies_ms(steps, service, rate_per_s), service.level))


@dataclass(frozen=True)
class LatencyCurve:
    """The promised percentile of latency (ms) by request rate."""

    steps: StepTimes
    service: Service
    rates_per_s: Array
    ms: Array

    @classmethod
    def of(cls, steps: StepTimes, service: Service) -> LatencyCurve:
        rates = saturation_per_s(steps, service) * np.array(LOADS)
        latency_ms = [latency_quantile_ms(steps, service, float(rate)) for rate in rates]
        return cls(steps, service, rates, np.array(latency_ms))

    def capacity_per_s(self) -> float:
        """Return the largest rate at which the latency stays within the limit; 0 if it does at none."""
        kept = np.flatnonzero(self.ms <= self.service.limit_ms)
        if not kept.size:
            return 0.0
        rates = (*self.rates_per_s, saturation_per_s(self.steps, self.service))
        points = list(zip(rates, (*self.ms, math.inf), strict=True))
        return _crossing(self.steps, self.service, *points[kept[-1] : kept[-1] + 2])


def capacity_per_s(steps: StepTimes, service: Service, near: float | None = None) -> float:
    """Return the largest request rate whose latency stays within the limit; 0 if there is none.

    ``near`` is about the share of saturation at which that rate lies, if it is known: it is looked for there first.
    """
    if not near:
        return LatencyCurve.of(steps, service).capacity_per_s()
    most = saturation_per_s(steps, service)

    def point(rate: float) -> tuple[float, float]:
        return rate, latency_quantile_ms(steps, service, rate)

    before = point(near * most)
    keeps = before[1] <= service.limit_ms
    while before[0] > LOADS[0] * most:
        after = point(min(most, before[0] * (NEAR_UP if keeps else NEAR_DOWN)))
        if (after[1] <= service.limit_ms) != keeps:
            return _crossing(steps, service, *sorted((before, after)))
        before = after
    return 0.0


def _crossing(steps: StepTimes, service: Service, low: tuple[float, float], high: tuple[float, float]) -> float:
    """Return the rate at which the limit is crossed between two rates, each with its latency in ms."""
    for _ in range(REFINEMENTS):
        rate = _between(low, high, service.limit_ms)
        ms = latency_quantile_ms(steps, service, rate)
        low, high = ((rate, ms), high) if ms <= service.limit_ms else (low, (rate, ms))
    return _between(low, high, service.limit_ms)


def _between(low: tuple[float, float], high: tuple[float, float], limit_ms: float) -> float:
    """Return the rate at which the limit lies on the line of log latency; the middle if that has no end."""
    (low_per_s, low_ms), (high_per_s, high_ms) = low, high
    place = math.log(limit_ms / low_ms) / math.log(high_ms / low_ms) if math.isfinite(high_ms) else 0.5
    return low_per_s + min(0.9, max(0.1, place)) * (high_per_s - low_per_s)
