"""Each framework's block beside the barest loop that anybody would write: ``python -m benchmarks.frameworks jax``.

For every framework named, in a process of its own: the engine prepares a cell as in a sweep, and a loop that knows
nothing of the engine runs the same network in the same framework. Blocks of both alternate, so that each ratio is of
neighbours in time.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.analysis.statistics import bounded_median
from core.frameworks import FRAMEWORKS
from core.spec import Mode, Pipeline, Target, Workload
from core.worker.feeds import make_arrays
from core.worker.interpreters import interpreter
from core.worker.process import worker_environment
from core.worker.protocol import Hello, Prepare, RunBlock

NETWORK = "784-512-512-10"
BATCHES = (1, 32, 256)
BLOCK_MS = 100.0
PAIRS = 31
GOAL = 0.05

Bare = Callable[[Workload, int], Callable[[int], float]]
"""(workload, batch) to a loop: so many steps, then one wait; milliseconds."""


@dataclass(frozen=True)
class Cell:
    """Medians; ``ratio`` is of our block over the bare one, with the 95 % interval of its median."""

    framework: str
    mode: Mode
    batch: int
    our_ms: float
    bare_ms: float
    ratio: float
    low: float | None
    high: float | None


def compiled(workload: Workload) -> Any:
    """A network as anybody compiles it."""
    import keras

    model = workload.network.build(keras)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=workload.network.from_logits)
    model.compile(optimizer=keras.optimizers.Adam(1e-4), loss=loss, jit_compile=keras.backend.backend() != "tensorflow")
    return model


def timed(steps: int, step: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
    gc.collect()
    gc.disable()
    start = time.perf_counter_ns()
    for _ in itertools.repeat(None, steps):
        last = step()
    wait(last)
    took_ms = (time.perf_counter_ns() - start) * 1e-6
    gc.enable()
    return took_ms


def bare_tensorflow(workload: Workload, batch: int) -> Callable[[int], float]:
    import tensorflow as tf

    model, arrays = compiled(workload), tuple(map(tf.constant, make_arrays(workload, batch)))
    data = itertools.repeat(arrays)
    if workload.training:
        model.optimizer.build(model.trainable_variables)
        model.make_train_function()
        return lambda steps: timed(
            steps, lambda: model.train_function(data), lambda _: tf.test.experimental.sync_devices()
        )
    model.make_predict_function()
    return lambda steps: timed(
        steps, lambda: model.predict_function([arrays]), lambda _: tf.test.experimental.sync_devices()
    )


def bare_jax(workload: Workload, batch: int) -> Callable[[int], float]:
    import jax

    model, arrays = compiled(workload), make_arrays(workload, batch)
    if workload.training:
        model._symbolic_build(data_batch=arrays)
        model.make_train_function()
    else:
        model.make_predict_function()
    function = model.train_function if workload.training else model.predict_function
    parts = dict.fromkeys(("optimizer_variables", "metrics_variables"), workload.training)
    state = model._get_jax_state(trainable_variables=True, non_trainable_variables=True, **parts)
    state = jax.tree_util.tree_map(lambda value: value.copy(), state)
    data = itertools.repeat(jax.device_put(arrays))

    def step() -> Any:
        nonlocal state
        last, state = function(state, data)
        return last

    return lambda steps: timed(steps, step, lambda last: jax.block_until_ready((last, state)))


BARE: dict[str, Bare] = {"tensorflow": bare_tensorflow, "jax": bare_jax}
"""A framework is added with its barest loop."""


def measure(framework: str, threads: int | None, mode: Mode, batches: Sequence[int], pairs: int) -> list[Cell]:
    """In this process, which is the framework's own."""
    target = Target(framework=framework, threads=threads)  # type: ignore[arg-type]
    engine, _ = importlib.import_module(FRAMEWORKS[framework].module).start(Hello(target=target))
    workload = Workload(network=NETWORK, mode=mode)
    cells = []
    for batch in batches:
        prepared = engine.prepare(
            Prepare(workload=workload, pipeline=Pipeline(), batch=batch, block_ms=BLOCK_MS, warmup_ms=1000)
        )
        steps, bare = prepared.steps_per_block, BARE[framework](workload, batch)
        bare(steps)
        found = []
        for pair in range(pairs):
            first = bare(steps) if pair % 2 else 0.0
            ours = engine.block(RunBlock(batch=batch, steps=steps)).block_ms
            found.append((ours / steps, (first or bare(steps)) / steps))
        ratio, low, high = bounded_median(np.array([ours / under for ours, under in found]))
        our_ms, bare_ms = (statistics.median(column) for column in zip(*found, strict=True))
        cells.append(Cell(framework, mode, batch, our_ms, bare_ms, ratio, low, high))
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", nargs="+", choices=sorted(BARE))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", choices=("train", "infer"), default="train")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON, too")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    choice = parser.parse_args()
    if choice.here:
        (framework,) = choice.framework
        cells = measure(framework, choice.threads, choice.mode, choice.batches, choice.pairs)
        print(json.dumps([asdict(cell) for cell in cells]))
        return
    print("framework   batch   ours ms   bare ms  ours/bare  (95 % interval)")
    found = [cell for framework in choice.framework for cell in in_its_own_process(framework, choice)]
    if choice.json:
        choice.json.write_text(json.dumps({"label": "measured", "cells": [asdict(c) for c in found]}, indent=2) + "\n")
    sys.exit(0 if all(abs(cell.ratio - 1) <= GOAL for cell in found) else 1)


def in_its_own_process(framework: str, choice: argparse.Namespace) -> list[Cell]:
    target = Target(framework=framework, threads=choice.threads)  # type: ignore[arg-type]
    batches = [str(batch) for batch in choice.batches]
    command = [interpreter(target), "-m", "benchmarks.frameworks", framework, "--here", "--mode", choice.mode]
    command += ["--threads", str(choice.threads), "--pairs", str(choice.pairs), "--batches", *batches]
    env = {**os.environ, **worker_environment(target)}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    cells = [Cell(**values) for values in json.loads(done.stdout.splitlines()[-1])]
    for cell in cells:
        interval = "none" if cell.low is None or cell.high is None else f"({cell.low:.3f} to {cell.high:.3f})"
        times = f"{cell.our_ms:>9.3f} {cell.bare_ms:>9.3f} {cell.ratio:>10.3f}"
        print(f"{cell.framework:<10} {cell.batch:>6} {times}  {interval}", flush=True)
    return cells


if __name__ == "__main__":
    main()
