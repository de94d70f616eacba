"""A batcher in a worker, and requests that come at their own times whatever it does (an open loop).

Requests are looked up by the clock, so no generator can be late; only the batcher itself can, which it records. Its
rules are those of Triton: a free instance starts with what waits, at most ``max_batch`` requests, and waits at most
``max_delay_ms`` after the arrival of the oldest for more to come. Instances are threads that share one queue. Batches
are computed at the next prepared size, as TensorFlow Serving does with ``allowed_batch_sizes``.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple, Protocol

import numpy as np

from core.base.evidence import ServedPart
from core.worker.protocol import Serve, Served
from core.worker.step import Step

Run = Callable[[int], object]
"""Computes a batch of a prepared size."""


class ServingClock(Protocol):
    def now_s(self) -> float: ...
    def wait(self, seconds: float) -> None: ...


class RealClock:
    """The monotonic clock from its making on; ``spins`` waits without sleeping, since a sleep would wake late."""

    def __init__(self, spins: bool) -> None:
        self._spins, self._begin_s = spins, time.perf_counter()

    def now_s(self) -> float:
        return time.perf_counter() - self._begin_s

    def wait(self, seconds: float) -> None:
        if self._spins:
            end_s = self.now_s() + seconds
            while self.now_s() < end_s:
                pass
        else:
            time.sleep(seconds)


class Batch(NamedTuple):
    """A batch that was computed: its first request and size; it could begin at ``ready_s``."""

    first: int
    size: int
    ready_s: float
    begin_s: float
    end_s: float


def gaps(rng: np.random.Generator, burstiness: float, shape: tuple[int, ...]) -> np.ndarray:
    """Return times between requests with a mean of 1 and that squared coefficient of variation.

    A gamma distribution has any, and is the exponential one at 1.
    """
    if burstiness <= 0:
        even = np.ones(shape)
        even[..., 0] = rng.random(shape[:-1])
        return even
    return np.asarray(rng.gamma(1 / burstiness, burstiness, shape))


class Queue:
    """Requests in the order in which they are due (s), and the batches taken from them.

    With more than ``most_waiting`` requests in it, it is ``overrun``, and nothing more is taken.
    """

    def __init__(self, due_s: Sequence[float], request: Serve) -> None:
        self._due_s, self._request, self.overrun_s = due_s, request, float("inf")
        self.head = 0

    def ready_s(self) -> float | None:
        """Return when the next batch may begin on a free instance; None if there is none."""
        request, head = self._request, self.head
        if head >= len(self._due_s) or self.overrun_s < float("inf"):
            return None
        ready_s = self._due_s[head] + request.max_delay_ms / 1000
        last = head + request.max_batch - 1
        return min(ready_s, self._due_s[last]) if last < len(self._due_s) else ready_s

    def take(self, now_s: float) -> int:
        """Take the batch that begins now; return its size, 0 if the queue is overrun."""
        waiting = bisect_right(self._due_s, now_s, self.head) - self.head
        if waiting > self._request.most_waiting:
            self.overrun_s = now_s
            return 0
        size = max(1, min(waiting, self._request.max_batch))
        self.head += size
        return size


def serve(request: Serve, runs: Sequence[Run], clock: ServingClock) -> Served:
    """Serve the requests of one visit with an instance for each of ``runs``."""
    rng = np.random.default_rng(request.seed)
    seconds = request.part_s * (request.parts + 1)
    count = max(1, round(request.rate_per_s * seconds))
    due_s = np.cumsum(gaps(rng, request.burstiness, (count,))) / request.rate_per_s
    queue, lock = Queue(due_s.tolist(), request), threading.Lock()
    if len(runs) == 1:
        batches = _instance(queue, runs[0], clock, lock)
    else:
        with ThreadPoolExecutor(len(runs)) as pool:
            batches = sorted(batch for each in pool.map(lambda run: _instance(queue, run, clock, lock), runs)
                             for batch in each)  # fmt: skip
    return _reply(request, due_s, batches, queue)


def serve_steps(request: Serve, instances: Sequence[Sequence[Step]]) -> Served:
    """Serve with each instance's steps, one for each of the request's sizes: a batch is one run of a step."""

    def instance(steps: Sequence[Step]) -> Run:
        return lambda size: steps[bisect_left(request.sizes, size)].run(1)

    with ExitStack() as fed:
        for step in (step for steps in instances for step in steps):
            fed.enter_context(step.fed())
        return serve(request, list(map(instance, instances)), RealClock(spins=len(instances) == 1))


def _instance(queue: Queue, run: Run, clock: ServingClock, lock: threading.Lock) -> list[Batch]:
    """Compute batches until none is left, with little work between them, since that is no step's."""
    batches, free_s = list[Batch](), 0.0
    while True:
        with lock:
            ready_s, first, size = queue.ready_s(), queue.head, 0
            if ready_s is None:
                return batches
            now_s = clock.now_s()
            if now_s >= ready_s and not (size := queue.take(now_s)):
                return batches
        if not size:
            clock.wait(ready_s - now_s)
            continue
        run(size)
        end_s = clock.now_s()
        batches.append(Batch(first, size, max(free_s, ready_s), now_s, end_s))
        free_s = end_s


def _reply(request: Serve, due_s: np.ndarray, batches: Sequence[Batch], queue: Queue) -> Served:
    """Return the parts after the first, in which the server filled; those that an overrun queue cut off are missing.

    Requests that still waited then have missed the limit.
    """
    ends_s = np.full(len(due_s), np.inf)
    for batch in batches:
        ends_s[batch.first : batch.first + batch.size] = batch.end_s
    latency_ms = 1000 * (ends_s - due_s)
    parts = list[ServedPart]()
    for part in range(1, request.parts + 1):
        begin_s = part * request.part_s
        if begin_s > queue.overrun_s:
            break
        inside = (due_s >= begin_s) & (due_s < min(begin_s + request.part_s, queue.overrun_s))
        mine = latency_ms[inside]
        known = mine.size and np.quantile(mine, request.level, method="higher")
        parts.append(
            ServedPart(
                requests=int(mine.size), missed=int((mine > request.limit_ms).sum()),
                latency_ms=float(known) if mine.size and np.isfinite(known) else None,
            )
        )  # fmt: skip
    late_ms = [1000 * (batch.begin_s - batch.ready_s) for batch in batches] or [0.0]
    return Served(
        parts=tuple(parts), overrun=bool(np.isfinite(queue.overrun_s)), batches=len(batches), served=queue.head,
        late_ms=max(0.0, float(np.quantile(late_ms, request.level))),
    )  # fmt: skip
