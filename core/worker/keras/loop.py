"""Cost of Keras's own loop around a step: ``fit`` or ``predict`` with their defaults, beside our blocks.

Both run the cell's own compiled function on the cell's own iterator, so that their difference is the loop alone: its
Python, callbacks (``History``), metrics and the progress bar. Its output goes to the null device, at its full cost
except the terminal's. Garbage is collected in the loop, as in any program, and not in our blocks.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from core.base.evidence import MAX_LOOP_PAIRS, LoopPair
from core.worker.keras.step import KerasStep
from core.worker.protocol import LOOP_PAIRS, STEPS_A_PAIR

CALL_MS = 20.0  # of a short call, if time allows; the longer one then reaches the progress bar's 50 ms
USED = 0.7  # share of the time planned for the fewest pairs: calibration may have met a calm moment
FIRST_CALL_MS = 5.0  # of the calibration calls, which only predict the duration of the others
MAX_OUTPUT_BYTES = 64 * 2**20  # predict keeps the outputs of all steps until it returns


def time_loop(step: KerasStep, training: bool, limit_ms: float) -> tuple[int, tuple[LoopPair, ...]]:
    """Return the steps of a short call of a fed cell, and its pairs of times.

    There are ``LOOP_PAIRS`` pairs, or more if ``limit_ms`` allows. The model keeps no function, as :class:`KerasStep`
    left it.
    """
    end_ns = time.perf_counter_ns() + int(limit_ms * 1e6)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        steps, pair_ms = _calibrated(step, training, limit_ms)
        pairs = [_pair(step, training, steps, loop_first=False)]
        while len(pairs) < LOOP_PAIRS or (
            len(pairs) < MAX_LOOP_PAIRS and time.perf_counter_ns() + pair_ms * 1e6 < end_ns
        ):
            pairs.append(_pair(step, training, steps, loop_first=len(pairs) % 2 == 1))
    step.run(step.per_call)  # so that ``last`` reflects all steps
    return steps, tuple(pairs)


def call_loop(step: KerasStep, training: bool, steps: int) -> float:
    """Run one call of ``fit`` or ``predict`` for ``steps`` steps of a fed cell, to the device's end; return its ms."""
    model, feed = step.model, _adapter(step.iterator)
    with step.own_loop():
        start = time.perf_counter_ns()
        try:
            if training:
                model.train_function = step.function
                model.fit(feed, steps_per_epoch=steps)
            else:
                model.predict_function = step.function
                model.predict(feed, steps=steps)
            step.wait_for_model()
            return (time.perf_counter_ns() - start) * 1e-6
        finally:
            model.train_function = model.predict_function = None


def _adapter(iterator: Iterator[Any]) -> Any:
    """Wrap the iterator so that Keras draws from it directly; any other type Keras would wrap in its own."""
    # Keras does not export this class: a version without it costs this measurement, not the worker
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter

    class Drawn(DataAdapter):
        num_batches = batch_size = has_partial_batch = partial_batch_size = None

        def get_tf_dataset(self) -> Any:
            return self

        def get_jax_iterator(self) -> Any:
            return self

        def get_torch_dataloader(self) -> Any:
            return self

        def __iter__(self) -> Iterator[Any]:
            return iterator

    return Drawn()


def _pair(step: KerasStep, training: bool, steps: int, loop_first: bool) -> LoopPair:
    def blocks() -> float:
        step.run(steps)  # drains what a pipeline prefetched while idle
        return step.run(2 * steps)

    own_ms = 0.0 if loop_first else blocks()
    calls = [steps, 3 * steps] if loop_first else [3 * steps, steps]
    took_ms = {count: call_loop(step, training, count) for count in calls}
    own_ms = blocks() if loop_first else own_ms
    return LoopPair(short_ms=took_ms[steps], long_ms=took_ms[3 * steps], own_ms=own_ms)


def _calibrated(step: KerasStep, training: bool, limit_ms: float) -> tuple[int, float]:
    """Return the steps of a short call, in whole calls of the function, and the predicted ms of a pair."""
    each = step.per_call
    first = each * max(1, round(FIRST_CALL_MS / step.run(each)))
    call_loop(step, training, first)  # triggers its imports
    call_ms = step.run(first) * each / first
    fixed_ms = call_loop(step, training, first)
    loop_ms = max(call_ms, (call_loop(step, training, 3 * first) - fixed_ms) * each / (2 * first))
    pair_ms = 4 * loop_ms + (STEPS_A_PAIR - 4) * call_ms
    affordable = (USED * limit_ms / LOOP_PAIRS - 2 * fixed_ms) / pair_ms
    calls = max(1, int(min(affordable, CALL_MS / call_ms + 1, _most_calls(step, training))))
    return calls * each, calls * pair_ms + 2 * fixed_ms


def _most_calls(step: KerasStep, training: bool) -> float:
    """Return the most calls for which predict's outputs stay within ``MAX_OUTPUT_BYTES``."""
    if training:
        return float("inf")
    held = sum(math.prod(part.shape) * _value_bytes(part) for part in keras.tree.flatten(step.last))
    return MAX_OUTPUT_BYTES / (3 * held)


def _value_bytes(tensor: Any) -> int:
    return int(getattr(tensor.dtype, "itemsize", 0) or tensor.dtype.size)  # TensorFlow's name is size
