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

import numpy as np

from core.analysis.numerics import Array
from core.analysis.statistics import CONFIDENCE, normal_quantile
from core.studies.serving.service import Service
from core.worker.serving import gaps

LANES = 128
"""Servers that are played at once."""
BATCHES, MOST_REQUESTS = 500, 6_000
"""Batches per server, about, and the most requests. Without batching, where a queue varies most, the p99 of a known one
errs by up to 4 % at half of saturation, 8 % at 0.7 and 10 % at 0.9 (a test); means of batches err by 2 %."""
RUN_UP = 0.25
"""Share of a server's first requests that are left out: it starts empty."""
LOADS = (0.02, 0.15, 0.35, 0.55, 0.75, 0.88, 0.95, 0.98)
"""Rates at which latencies are computed, as shares of the rate at which the server saturates."""
REFINEMENTS = 5
"""Halvings of the interval in which the limit is crossed: its end is then known to 0.4 % of saturation or better."""
NEAR = (0.85, 1.1)
"""Range about an expected capacity in which it is looked for first."""
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


@dataclass(frozen=True)
class StepTimes:
    """Step time (ms) by batch size, rising, and single steps relative to it, as a row of quantiles for each of
    ``tail_batches``; beside them ``stall_lengths_ms``, which come ``stalls_per_ms`` of computing.
    """

    batches: Array
    ms: Array
    tail_batches: Array
    tails: Array
    stall_lengths_ms: Array
    stalls_per_ms: float

    @classmethod
    def of(
        cls, batches: Array, ms: Array, singles: Mapping[int, Array] | None = None, stalls: Stalls = NO_STALLS,
        side: int = 0,
    ) -> StepTimes:  # fmt: skip
        """Return step times with the spread of ``singles``, relative latencies of single steps by batch; none without.

        With ``side`` 1 or −1 each quantile is the upper or lower end of its 95 % interval, by order statistics.
        """
        levels = (np.arange(TAIL_POINTS) + 0.5) / TAIL_POINTS
        rows = {}
        for batch, values in (singles or {}).items():
            shift = side * normal_quantile((1 + CONFIDENCE) / 2) * np.sqrt(levels * (1 - levels) / len(values))
            rows[batch] = np.quantile(values, np.clip(levels + shift, 0, 1))
        rows = rows or {1: np.ones(TAIL_POINTS)}
        return cls(
            np.asarray(batches, float), np.asarray(ms, float), np.array(list(rows), float), np.array([*rows.values()]),
            stalls.lengths_ms, stalls.per_ms(side),
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
        return np.asarray(self.of_batch(batch) * self.tails.mean(axis=1)[self.tail_of(batch)] * stalled)


@lru_cache(maxsize=16)
def _gaps(burstiness: float, lanes: int, requests: int) -> Array:
    """Return times between requests with a mean of 1, summed up per lane."""
    return np.cumsum(gaps(np.random.default_rng(7), burstiness, (lanes, requests)), axis=1)


def usual_batch(steps: StepTimes, service: Service, rate_per_s: float) -> float:
    """Return the batch size at which requests come as fast as instances without a pause serve them, at least 1."""
    sizes = np.arange(1, service.max_batch + 1, dtype=float)
    keeps_up = 1000 * service.instances * sizes >= rate_per_s * steps.mean_ms(sizes)
    return float(sizes[keeps_up.argmax()]) if keeps_up.any() else float(service.max_batch)


def latencies_ms(steps: StepTimes, service: Service, rate_per_s: float) -> Array:
    """Return latencies from arrival to the end of the batch, of requests that come at ``rate_per_s``."""
    lanes, most = LANES, service.max_batch
    load = min(0.99, rate_per_s / saturation_per_s(steps, service))
    more = max(usual_batch(steps, service, rate_per_s), 1 / (1 - load))  # near saturation a queue forgets slowly
    requests = min(MOST_REQUESTS, BATCHES * 2 ** round(math.log2(more)))
    arrivals = _gaps(service.burstiness, lanes, requests) * (1000 / rate_per_s)
    apart = 2 * float(arrivals.max()) + 1.0
    flat = (arrivals + apart * np.arange(lanes)[:, None]).ravel()
    sizes = np.arange(1, most + 1, dtype=float)
    ms_of = np.concatenate([[0.0], steps.of_batch(sizes)])
    row_of = np.concatenate([[0], steps.tail_of(sizes)])
    rng = np.random.default_rng(11)
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
        spread = steps.tails[row_of[count], (rng.random(lane.size) * TAIL_POINTS).astype(int)]
        end = begin + ms_of[count] * spread
        if steps.stalls_per_ms:
            hit = rng.random(lane.size) < steps.stalls_per_ms * (end - begin)
            end = end + hit * steps.stall_lengths_ms[(rng.random(lane.size) * steps.stall_lengths_ms.size).astype(int)]
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
        ends = (*self.rates_per_s, saturation_per_s(self.steps, self.service))
        return _crossing(self.steps, self.service, ends[kept[-1]], ends[kept[-1] + 1])


def capacity_per_s(steps: StepTimes, service: Service, near: float | None = None) -> float:
    """Return the largest request rate whose latency stays within the limit; 0 if there is none.

    ``near`` is about the share of saturation at which that rate lies, if it is known: it is looked for there first.
    """
    most = saturation_per_s(steps, service)
    if near is not None and latency_quantile_ms(steps, service, NEAR[0] * near * most) <= service.limit_ms:
        high = min(1.0, NEAR[1] * near) * most
        if latency_quantile_ms(steps, service, high) > service.limit_ms:
            return _crossing(steps, service, NEAR[0] * near * most, high)
    return LatencyCurve.of(steps, service).capacity_per_s()


def _crossing(steps: StepTimes, service: Service, low_per_s: float, high_per_s: float) -> float:
    for _ in range(REFINEMENTS):
        middle = (low_per_s + high_per_s) / 2
        if latency_quantile_ms(steps, service, middle) <= service.limit_ms:
            low_per_s = middle
        else:
            high_per_s = middle
    return float(low_per_s + high_per_s) / 2
