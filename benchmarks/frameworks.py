"""Each framework's block beside the barest loop that anyone would write: ``python -m benchmarks.frameworks jax``.

For every framework named, in its own process: the engine prepares a cell as in a sweep, and a loop that knows nothing
of the engine runs the same network in the same framework. Blocks of both alternate, so that each ratio is of neighbours
in time.
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

from benchmarks.torch_network import make
from core.analysis.statistics import bounded_median
from core.base.frameworks import FRAMEWORKS
from core.networks.families.code import Code
from core.worker.feeds import make_arrays
from core.worker.interpreters import interpreter
from core.worker.process import ROOT, worker_environment
from core.worker.protocol import CellFailed, Describe, Hello, Prepare, RunBlock, TimeLoop
from core.workload.spec import Mode, Pipeline, Target, Workload

NETWORK = "784-512-512-10"
OWN = "benchmarks.torch_network:make"
BATCHES = (1, 32, 256)
BLOCK_MS = 100.0
PAIRS = 31
LOOP_MS = 4000.0
GOAL = 0.05

Bare = Callable[[Workload, int], Callable[[int], float]]
"""Function of (workload, batch) that returns a loop: it runs so many steps, waits once, and returns milliseconds."""


@dataclass(frozen=True)
class Cell:
    """Medians of one cell.

    ``ratio`` is of our block over the bare one, with the 95 % interval of its median; ``of_fit`` is our block over the
    framework's own loop, if it has one.
    """

    framework: str
    mode: Mode
    batch: int
    our_ms: float
    bare_ms: float
    ratio: float
    low: float | None
    high: float | None
    of_fit: float | None


def compiled(workload: Workload) -> Any:
    """Compile the network in the usual way."""
    import keras

    model = workload.network.build(keras)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=workload.network.from_logits)
    model.compile(optimizer=keras.optimizers.Adam(1e-4), loss=loss, jit_compile=keras.backend.backend() == "jax")
    return model


def timed(steps: int, step: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
    gc.disable()  # like our blocks; collecting first would leave cold caches to this loop alone
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


def bare_litert(workload: Workload, batch: int) -> Callable[[int], float]:
    """Return the loop of the converted model, its input resized to the batch and set once, on one thread."""
    import tensorflow as tf

    program = tf.lite.TFLiteConverter.from_keras_model(compiled(workload)).convert()
    interpreter = tf.lite.Interpreter(model_content=program, num_threads=1)
    (input_detail,), (output_detail,) = interpreter.get_input_details(), interpreter.get_output_details()
    (x,) = make_arrays(workload, batch)
    interpreter.resize_tensor_input(input_detail["index"], x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(input_detail["index"], x)
    output = output_detail["index"]

    def step() -> Any:
        interpreter.invoke()
        return interpreter.get_tensor(output)

    return lambda steps: timed(steps, step, lambda last: last)


def bare_torch(workload: Workload, batch: int) -> Callable[[int], float]:
    import torch

    model, arrays = compiled(workload), tuple(map(torch.from_numpy, make_arrays(workload, batch)))
    if workload.training:
        model._symbolic_build(data_batch=arrays)
        model.make_train_function()
        model.train()
    else:
        model.make_predict_function()
        model.eval()
    function = model.train_function if workload.training else model.predict_function
    return lambda steps: timed(steps, lambda: function([arrays]), lambda _: None)


def bare_pytorch(workload: Workload, batch: int) -> Callable[[int], float]:
    """Return the loop of PyTorch's tutorials."""
    import torch
    from torch.nn.functional import cross_entropy

    model, arrays = make(), tuple(map(torch.from_numpy, make_arrays(workload, batch)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    model.train(workload.training)

    def train() -> Any:
        optimizer.zero_grad()
        loss = cross_entropy(model(arrays[0]), arrays[1])
        loss.backward()
        optimizer.step()
        return loss

    def infer() -> Any:
        return model(arrays[0])

    def bare(steps: int) -> float:
        with torch.set_grad_enabled(workload.training):
            return timed(steps, train if workload.training else infer, lambda _: None)

    return bare


BARE: dict[str, Bare] = {
    "tensorflow": bare_tensorflow, "jax": bare_jax, "torch": bare_torch, "pytorch": bare_pytorch,
    "litert": bare_litert,
}  # fmt: skip
"""The barest loop of each framework; a new framework adds its own."""


def measure(framework: str, threads: int | None, mode: Mode, batches: Sequence[int], pairs: int) -> list[Cell]:
    """Measure in this process, which belongs to the framework; inference for a framework that does not train."""
    mode = mode if FRAMEWORKS[framework].trains else "infer"
    target = Target(framework=framework, threads=threads)  # type: ignore[arg-type]
    engine, _ = importlib.import_module(FRAMEWORKS[framework].module).start(Hello(target=target, allow_code=True))
    workload = Workload(network=own_code(engine) if framework == "pytorch" else NETWORK, mode=mode)
    cells = []
    for batch in batches:
        prepared = engine.prepare(
            Prepare(workload=workload, pipeline=Pipeline(), batch=batch, block_ms=BLOCK_MS, warmup_ms=1000)
        )
        steps, bare = prepared.steps_per_block, BARE[framework](workload, batch)
        bare(steps)
        pairs_ms = []
        for pair in range(pairs):
            first = bare(steps) if pair % 2 else 0.0
            ours = engine.block(RunBlock(batch=batch, steps=steps)).block_ms
            pairs_ms.append((ours / steps, (first or bare(steps)) / steps))
        ratio, low, high = bounded_median(np.array([ours / under for ours, under in pairs_ms]))
        our_ms, bare_ms = (statistics.median(column) for column in zip(*pairs_ms, strict=True))
        cells.append(Cell(framework, mode, batch, our_ms, bare_ms, ratio, low, high, over_fit(engine, batch)))
    return cells


def own_code(engine: Any) -> Code:
    """Return the same network in native PyTorch."""
    described = engine.describe(Describe(entry=OWN, folder=str(ROOT)))
    return described.network(OWN, str(ROOT), "pytorch")


def over_fit(engine: Any, batch: int) -> float | None:
    try:
        pairs = engine.loop(TimeLoop(batch=batch, limit_ms=LOOP_MS)).pairs
    except CellFailed:
        return None
    return statistics.median(pair.own_ms / (pair.long_ms - pair.short_ms) for pair in pairs)


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
    print("framework   batch   ours ms   bare ms  ours/bare  (95 % interval)    ours/fit")
    all_cells = [cell for framework in choice.framework for cell in in_its_own_process(framework, choice)]
    if choice.json:
        choice.json.write_text(
            json.dumps({"label": "measured", "cells": [asdict(c) for c in all_cells]}, indent=2) + "\n"
        )
    sys.exit(0 if all(abs(cell.ratio - 1) <= GOAL for cell in all_cells) else 1)


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
        of_fit = "" if cell.of_fit is None else f"{cell.of_fit:.3f}"
        times = f"{cell.our_ms:>9.3f} {cell.bare_ms:>9.3f} {cell.ratio:>10.3f}"
        print(f"{cell.framework:<10} {cell.batch:>6} {times}  {interval:<18} {of_fit}", flush=True)
    return cells


if __name__ == "__main__":
    main()
