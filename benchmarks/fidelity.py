"""Is our step the step of ``model.fit``, and does our block loop add nothing? ``python -m benchmarks.fidelity``.

Both comparisons run in this one process, alternating, so that each ratio is of neighbours in time. This module
imports TensorFlow.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from core.families import network_from_name
from core.spec import Pipeline, Target, Workload
from core.worker.process import worker_environment

CELLS = (
    ("100-50-10", 1),
    ("784-128-10", 1),
    ("784-128-10", 32),
    ("784-128-10", 256),
    ("128-256-128-1", 32),
    ("784-512-512-10", 32),
    ("784-512-512-10", 256),
    ("1000-512-256-2", 64),
    ("1000-512-256-2", 512),
    ("784-1024-1024-10", 128),
)
PIPELINE = Pipeline(kind="tfdata", prefetch=2)
TARGET = Target()
EPOCH_MS = 500.0  # long, since every epoch of fit has a fixed cost (iterator, metrics, callbacks)
EPOCHS = 6
FIT_GOAL = (0.95, 1.05)
LOOP_GOAL = (0.98, 1.02)


@dataclass(frozen=True)
class Comparison:
    """Measured. Medians of paired ratios; ``fit_ratio`` is our step over a step of fit, ``bare_ratio`` our block loop
    over a bare loop, ``loop_us`` what fit's own loop (callbacks, iterator, per-step Python) costs a step when the same
    loop runs an empty step."""

    network: str
    batch: int
    our_ms: float
    fit_ms: float
    fit_ratio: float
    bare_ratio: float
    loop_us: float

    @property
    def corrected(self) -> float:
        """Our step and fit's own loop together, over a step of fit."""
        return self.fit_ratio + self.loop_us / 1000 / self.fit_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON, too")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="pairs for each combination")
    choice = parser.parse_args()
    os.environ.update(worker_environment(TARGET))
    print("network              batch   ours ms    fit ms  ours/fit  block/bare  fit's loop µs  with loop")
    results = []
    for name, batch in CELLS:
        found = compare(name, batch, choice.epochs)
        results.append(found)
        print(
            f"{name:<20} {batch:>5} {found.our_ms:>9.3f} {found.fit_ms:>9.3f} {found.fit_ratio:>9.3f} "
            f"{found.bare_ratio:>11.3f} {found.loop_us:>14.1f} {found.corrected:>10.3f}",
            flush=True,
        )
    fit = statistics.median(found.fit_ratio for found in results)
    bare = statistics.median(found.bare_ratio for found in results)
    print(
        f"median ours/fit {fit:.3f} (goal {FIT_GOAL[0]} to {FIT_GOAL[1]}), "
        f"median block/bare {bare:.3f} (goal {LOOP_GOAL[0]} to {LOOP_GOAL[1]})"
    )
    if choice.json:
        summary = {"label": "measured", "median_fit_ratio": fit, "median_bare_ratio": bare}
        choice.json.write_text(json.dumps({**summary, "cells": [asdict(found) for found in results]}, indent=2) + "\n")
    met = FIT_GOAL[0] <= fit <= FIT_GOAL[1] and LOOP_GOAL[0] <= bare <= LOOP_GOAL[1]
    sys.exit(0 if met else 1)


def compare(name: str, batch: int, epochs: int) -> Comparison:
    """Pairs of an epoch of fit and a block of as many of our steps, then pairs of a block and a bare loop."""
    from core.worker.tensorflow_model import CellStep, build_model
    from core.worker.tensorflow_pipeline import make_feed

    workload = Workload(network=network_from_name(name))
    step = CellStep(build_model(workload, TARGET), workload, make_feed(workload, TARGET, PIPELINE, batch, "CPU:0"))

    def block() -> float:
        with step.fed():  # as the engine runs a block
            return step.run(steps)

    with step.fed():
        steps = max(10, round(EPOCH_MS / (step.run(30) / 30)))
    pairs = fit_pairs(workload, batch, steps, epochs, block)
    with step.fed():
        bare = bare_ratio(step, steps, epochs)
    return Comparison(
        network=name,
        batch=batch,
        our_ms=statistics.median(ours for _, ours in pairs) / steps,
        fit_ms=statistics.median(fit for fit, _ in pairs) / steps,
        fit_ratio=statistics.median(ours / fit for fit, ours in pairs),
        bare_ratio=bare,
        loop_us=loop_us(workload, batch),
    )


def fit_pairs(
    workload: Workload, batch: int, steps: int, epochs: int, run_ours: Callable[[], float]
) -> list[tuple[float, float]]:
    """Milliseconds of (fit, our block of as many steps), alternating; fit is the mean of the epochs before and after.

    Epoch 1, which traces, is left out.
    """
    import keras

    from core.worker.tensorflow_model import build_model

    epochs_ms: list[float] = []
    blocks_ms: list[float] = []

    class Alternate(keras.callbacks.Callback):  # type: ignore[misc]
        start = 0

        def on_epoch_begin(self, *_: Any) -> None:
            gc.collect()
            self.start = time.perf_counter_ns()

        def on_epoch_end(self, epoch: int, *_: Any) -> None:
            took_ms = (time.perf_counter_ns() - self.start) * 1e-6
            if epoch > 0:
                epochs_ms.append(took_ms)
                blocks_ms.append(run_ours())

    model = build_model(workload, TARGET)
    model.fit(dataset_of(workload, batch), epochs=epochs + 2, steps_per_epoch=steps, verbose=0, callbacks=[Alternate()])
    return [((before + after) / 2, ours) for (before, after), ours in zip(pairwise(epochs_ms), blocks_ms, strict=False)]


def dataset_of(workload: Workload, batch: int) -> Any:
    """The pipeline as the engine makes it, for fit to draw from."""
    from core.worker.tensorflow_pipeline import make_dataset, make_samples

    samples, dataset = make_samples(workload, PIPELINE, batch)
    return make_dataset(dataset, samples, PIPELINE, batch, TARGET.threads)


def bare_ratio(step: Any, steps: int, pairs: int) -> float:
    """Median of our block over the barest loop on the same function, with the same synchronisation."""
    import tensorflow as tf

    call = step.call

    def bare() -> float:
        start = time.perf_counter_ns()
        for _ in itertools.repeat(None, steps):
            call()
        tf.test.experimental.sync_devices()
        return (time.perf_counter_ns() - start) * 1e-6

    ratios = []
    for pair in range(2 * pairs):
        if pair % 2:
            under = bare()
            ratios.append(step.run(steps) / under)
        else:
            over = step.run(steps)
            ratios.append(over / bare())
    return statistics.median(ratios)


def loop_us(workload: Workload, batch: int) -> float:
    """What fit's own loop costs a step, µs: fit with the compiled function replaced by an empty one."""
    import keras

    from core.worker.tensorflow_model import build_model

    took: list[float] = []

    class Timer(keras.callbacks.Callback):  # type: ignore[misc]
        start = 0

        def on_epoch_begin(self, *_: Any) -> None:
            self.start = time.perf_counter_ns()

        def on_epoch_end(self, *_: Any) -> None:
            took.append((time.perf_counter_ns() - self.start) * 1e-3)

    model = build_model(workload, TARGET)
    logs = {"loss": 0.0}
    model.train_function = lambda _: logs
    steps = 2_000
    model.fit(dataset_of(workload, batch), epochs=4, steps_per_epoch=steps, verbose=0, callbacks=[Timer()])
    return min(took[1:]) / steps


if __name__ == "__main__":
    main()
