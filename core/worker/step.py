"""One cell's step, for any framework: fed, run many times, synchronised once."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from core.base.evidence import OutputDifference
from core.worker.feeds import Feed
from core.worker.protocol import CellFailed

MIN_PIPELINE_CALLS = 2


class Step(ABC):
    """One cell's step, compiled for this cell alone, on this cell's feed. One :meth:`call` runs ``per_call`` steps.

    ``call`` is the framework's own step on the next batch of :attr:`iterator`; it may return before the device is done.
    ``last`` is the result of a run's last call. ``output_difference`` is set for a step in int8.
    """

    call: Callable[[], Any]
    output_difference: OutputDifference | None = None

    def __init__(self, feed: Feed, per_call: int = 1) -> None:
        self.per_call = per_call
        self.last: Any = None
        self.call_ms = 0.0
        """Mean time per call in the last run."""
        self._feed = feed
        self._iterator: Any = None

    @abstractmethod
    def wait(self, last: Any) -> None:
        """Wait until the device has finished all its work; ``last`` is the last call's result."""

    @abstractmethod
    def check_finite(self) -> None:
        """Raise CellFailed ``nan_loss`` if the last step's loss (or output, in inference) is not finite."""

    def mode(self) -> AbstractContextManager[Any]:
        """Return the context in which the steps of a block run."""
        return contextlib.nullcontext()

    def repeat(self, batches: int) -> None:
        """Let one call run the step on that many batches: one pass through inputs of several lengths."""
        once = self.call

        def one_pass() -> Any:
            for _ in itertools.repeat(None, batches):
                last = once()
            return last

        self.call, self.per_call = one_pass, batches

    def traces(self) -> int | None:
        """Return how often the step was traced so far; None if the framework does not trace or does not tell."""
        return None

    @property
    def feed(self) -> Feed:
        return self._feed

    @property
    def iterator(self) -> Iterator[Any]:
        """The iterator that the step draws from while it is :meth:`fed`."""
        drawn: Iterator[Any] = self._iterator
        return drawn

    @contextlib.contextmanager
    def fed(self, warm_pipeline: bool = True) -> Iterator[float]:
        """Give the step data to draw from; run a new pipeline first until it is in steady state.

        That takes at least the feed's ``warmup_ms`` and two calls. Yields the milliseconds of that run.
        """
        self._iterator = self._feed.open()
        if self._feed.warmup_ms:
            next(self._iterator)  # sets up the pipeline's own functions, which is not part of a step
        least_ms = self._feed.warmup_ms if warm_pipeline else 0.0
        try:
            spent_ms, calls = 0.0, 0
            while least_ms and (calls < MIN_PIPELINE_CALLS or spent_ms < least_ms):
                spent_ms += self.run(self.per_call)
                calls += 1
            yield spent_ms
        finally:
            self._iterator = None  # ends a pipeline's threads

    def run(self, steps: int) -> float:
        """Run ``steps`` steps (whole calls) and synchronise once; return milliseconds by the monotonic clock."""
        calls, rest = divmod(steps, self.per_call)
        if rest or not calls:
            raise CellFailed("error", f"A block of {steps} steps is not whole calls of {self.per_call} steps.")
        call, wait = self.call, self.wait
        collecting = gc.isenabled()
        gc.disable()
        try:
            with self.mode():
                start = time.perf_counter_ns()
                for _ in itertools.repeat(None, calls):
                    last = call()
                wait(last)
                end = time.perf_counter_ns()
        finally:
            if collecting:
                gc.enable()
        self.last, took_ms = last, (end - start) * 1e-6
        self.call_ms = took_ms / calls
        return took_ms


def check_loss(loss: float) -> None:
    """Raise CellFailed ``nan_loss`` for a training loss that is not finite."""
    if not math.isfinite(loss):
        raise CellFailed("nan_loss", f"The training loss became {loss}; the steps timed after that mean nothing.")


def check_outputs(finite: bool) -> None:
    """Raise CellFailed ``nan_loss`` unless the network's outputs are finite."""
    if not finite:
        raise CellFailed("nan_loss", "The network's output holds values that are not finite.")
