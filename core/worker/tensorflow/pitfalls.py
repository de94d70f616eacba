"""The ways of timing in :mod:`core.studies.pitfalls` on TensorFlow, on the CPU.

The wall clock is ``time.time`` as in the articles: it is part of the way of timing.
"""

from __future__ import annotations

import statistics
import time

from core.worker.feeds import make_arrays
from core.worker.protocol import TimePitfall
from core.worker.tensorflow.model import CellStep, build_model
from core.worker.tensorflow.pipeline import make_feed
from core.workload.spec import Pipeline, Target, Workload

PREDICT_CALLS = 5
EPOCH_STEPS = 20
TARGET = Target()


def time_pitfall(request: TimePitfall) -> dict[str, float]:
    """Return milliseconds per step by method."""
    measure = {"predict": _predict, "single_call": _single_call, "first_epoch": _first_epoch}[request.way]
    return measure(request.workload, request.batch)


def _predict(workload: Workload, batch: int) -> dict[str, float]:
    (x,) = make_arrays(workload, batch)
    model = build_model(workload, TARGET)
    times_ms = []
    for _ in range(PREDICT_CALLS):
        start = time.time()
        model.predict(x, batch_size=batch, verbose=0)
        times_ms.append(1000 * (time.time() - start))
    return {"predict_first": statistics.fmean(times_ms), "predict_loop": statistics.fmean(times_ms[1:])}


def _single_call(workload: Workload, batch: int) -> dict[str, float]:
    feed = make_feed(workload, TARGET, Pipeline(), batch, "CPU:0")
    step = CellStep(build_model(workload, TARGET), workload, feed)
    with step.fed():
        start = time.time()
        step.call()
        return {"single_call": 1000 * (time.time() - start)}


def _first_epoch(workload: Workload, batch: int) -> dict[str, float]:
    arrays = make_arrays(workload, EPOCH_STEPS * batch)
    model = build_model(workload, TARGET)
    start = time.time()
    model.fit(*arrays, batch_size=batch, epochs=1, verbose=0)
    return {"first_epoch": 1000 * (time.time() - start) / EPOCH_STEPS}
