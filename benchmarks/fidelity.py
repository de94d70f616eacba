"""Is our step the step of ``model.fit``, and does our block loop add nothing? ``python -m benchmarks.fidelity``.

Every execution that a target can choose is compared, since each is another function of Keras. ``fit`` runs with its
defaults on a model of its own, and should be longer only by what its loop adds to our step
(:mod:`core.worker.keras.loop`). All comparisons run in this one process, alternating, so that each ratio is of
neighbours in time. This module imports TensorFlow.
"""

from __future__ import annotations

import argparse
import contextlib
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

import numpy as np

from core.analysis.statistics import bounded_median
from core.base.frameworks import FRAMEWORKS
from core.networks.families import network_from_name
from core.worker.process import worker_environment
from core.workload.spec import Pipeline, Target, Workload

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
EXECUTIONS = FRAMEWORKS["tensorflow"].executions
PIPELINE = Pipeline(kind="tfdata", prefetch=2)
EPOCH_MS = 500.0  # long, because of the fixed cost of an epoch of fit (iterator, metrics, callbacks)
EPOCHS = 6
LOOP_LIMIT_MS = 4000.0
FEW = 3  # every third combination
FIT_GOAL = (0.95, 1.05)
LOOP_GOAL = (0.98, 1.02)


@dataclass(frozen=True)
class Comparison:
    """Measured medians of paired ratios.

    ``fit_ratio`` is our step over a step of fit, ``bare_ratio`` our block loop over a bare loop, ``loop_us`` what fit's
    own loop adds to our step. Low and high are 95 % intervals of medians.
    """

    execution: str
    network: str
    batch: int
    our_ms: float
    fit_ms: float
    fit_ratio: float
    fit_low: float | None
    fit_high: float | None
    bare_ratio: float
    loop_us: float
    loop_low_us: float | None
    loop_high_us: float | None

    @property
    def corrected(self) -> float:
        """Return our step and fit's own loop together, over a step of fit."""
        return self.fit_ratio + self.loop_us / 1000 / self.fit_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON, too")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="pairs for each combination")
    parser.add_argument(
        "--epoch-ms", type=float, default=EPOCH_MS, help="length of an epoch; short ones on a busy machine"
    )
    parser.add_argument("--execution", nargs="+", default=EXECUTIONS, choices=EXECUTIONS)
    parser.add_argument("--few", action="store_true", help=f"only every {FEW}rd combination")
    choice = parser.parse_args()
    os.environ.update(worker_environment(Target()))
    print(
        "execution  network              batch   ours ms    fit ms  ours/fit  (95 % interval)  block/bare"
        "  fit's loop µs  with loop"
    )
    results = []
    for execution in choice.execution:
        for name, batch in CELLS[:: FEW if choice.few else 1]:
            comparison = compare(Target(execution=execution), name, batch, choice.epochs, choice.epoch_ms)
            results.append(comparison)
            bounds = interval(comparison.fit_low, comparison.fit_high)
            print(
                f"{execution:<10} {name:<20} {batch:>5} {comparison.our_ms:>9.3f} {comparison.fit_ms:>9.3f} "
                f"{comparison.fit_ratio:>9.3f} {bounds:>16} {comparison.bare_ratio:>11.3f} "
                f"{comparison.loop_us:>14.1f} {comparison.corrected:>10.3f}",
                flush=True,
            )
    medians = {execution: judged([c for c in results if c.execution == execution]) for execution in choice.execution}
    if choice.json:
        summary = {"label": "measured", "medians": medians, "cells": [asdict(comparison) for comparison in results]}
        choice.json.write_text(json.dumps(summary, indent=2) + "\n")
    sys.exit(0 if all(median["met"] for median in medians.values()) else 1)


def interval(low: float | None, high: float | None) -> str:
    return "none" if low is None or high is None else f"({low:.2f} to {high:.2f})"


def judged(results: list[Comparison]) -> dict[str, float | bool]:
    """Return the medians of one execution, and print them with their goals."""
    fit = statistics.median(comparison.fit_ratio for comparison in results)
    corrected = statistics.median(comparison.corrected for comparison in results)
    bare = statistics.median(comparison.bare_ratio for comparison in results)
    print(
        f"{results[0].execution}: median ours/fit {fit:.3f}, with fit's loop {corrected:.3f} (goal {FIT_GOAL[0]} to "
        f"{FIT_GOAL[1]}), median block/bare {bare:.3f} (goal {LOOP_GOAL[0]} to {LOOP_GOAL[1]})"
    )
    met = FIT_GOAL[0] <= corrected <= FIT_GOAL[1] and LOOP_GOAL[0] <= bare <= LOOP_GOAL[1]
    return {"ours_over_fit": fit, "with_loop": corrected, "block_over_bare": bare, "met": met}


def compare(target: Target, name: str, batch: int, epochs: int, epoch_ms: float) -> Comparison:
    """Compare epochs of fit with blocks of our steps, and blocks with a bare loop; then measure fit's own loop."""
    from core.worker.keras.loop import time_loop
    from core.worker.tensorflow.model import CellStep, build_model
    from core.worker.tensorflow.pipeline import make_feed

    workload = Workload(network=network_from_name(name))
    step = CellStep(build_model(workload, target), workload, make_feed(workload, target, PIPELINE, batch, "CPU:0"))

    def block() -> float:
        with step.fed():  # as in a block of the engine
            return step.run(steps)

    with step.fed():
        steps = max(10, round(epoch_ms / (step.run(30) / 30)))
    pairs = fit_pairs(target, workload, batch, steps, epochs, block)
    with step.fed():
        bare = bare_ratio(step, steps, epochs)
    with step.fed():
        count, loops = time_loop(step, workload.training, LOOP_LIMIT_MS)
    fit_ratio, fit_low, fit_high = bounded_median(np.array([ours / fit for fit, ours in pairs]))
    added_us = [1000 * (pair.long_ms - pair.short_ms - pair.own_ms) / (2 * count) for pair in loops]
    loop_us, low_us, high_us = bounded_median(np.array(added_us))
    return Comparison(
        execution=target.execution,
        network=name,
        batch=batch,
        our_ms=statistics.median(ours for _, ours in pairs) / steps,
        fit_ms=statistics.median(fit for fit, _ in pairs) / steps,
        fit_ratio=fit_ratio,
        fit_low=fit_low,
        fit_high=fit_high,
        bare_ratio=bare,
        loop_us=loop_us,
        loop_low_us=low_us,
        loop_high_us=high_us,
    )


def fit_pairs(
    target: Target, workload: Workload, batch: int, steps: int, epochs: int, run_ours: Callable[[], float]
) -> list[tuple[float, float]]:
    """Return pairs in ms of (fit, our block of as many steps), alternating; fit is the mean of the neighbouring epochs.

    Epoch 1, which traces the function, is left out.
    """
    import keras

    from core.worker.tensorflow.model import build_model

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

    model, data = build_model(workload, target), dataset_of(target, workload, batch)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        model.fit(data, epochs=epochs + 2, steps_per_epoch=steps, callbacks=[Alternate()])
    return [((before + after) / 2, ours) for (before, after), ours in zip(pairwise(epochs_ms), blocks_ms, strict=False)]


def dataset_of(target: Target, workload: Workload, batch: int) -> Any:
    """Return the engine's pipeline, for fit to draw from."""
    from core.worker.tensorflow.pipeline import make_dataset, make_samples

    samples, dataset = make_samples(workload, PIPELINE, batch)
    return make_dataset(dataset, samples, PIPELINE, batch, target.threads)


def bare_ratio(step: Any, steps: int, pairs: int) -> float:
    """Return the median of our block over the barest loop on the same function, with the same synchronisation."""
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


if __name__ == "__main__":
    main()
