"""Compare the measured step ``decode`` with bare loops that generate tokens.

    python -m benchmarks.decoder [--pairs 60] [--block-ms 40]

*calls* is a Python loop around Keras's own predict function. *generate* is written by hand on Keras's layers, as
keras_hub's ``generate`` is: one compiled function that writes each new token's keys and values into the caches it
carries, attends to all at once and picks the next token. All are compiled alike (graph or XLA), on all cores, and take
turns in blocks; printed are the ratios of neighbouring blocks, step over loop.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from core.analysis.statistics import median_interval
from core.machine.lock import machine_lock
from core.networks.families import families
from core.worker.feeds import make_arrays
from core.worker.tensorflow.engine import build_model
from core.worker.tensorflow.model import CellStep
from core.worker.tensorflow.pipeline import make_feed
from core.workload.spec import Execution, Pipeline, Target, Workload

BATCHES = (1, 8, 64)
EXECUTIONS: tuple[Execution, ...] = ("graph", "xla")
WARM = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--block-ms", type=float, default=40.0)
    options = parser.parse_args()
    presets = [name for name in families()["decoder"].presets if name.endswith("decode")]
    with machine_lock("benchmarks/decoder.py"):
        for preset in presets:
            for execution in EXECUTIONS:
                for batch in BATCHES:
                    ratios = compare(preset, execution, batch, options.pairs, options.block_ms)
                    ends = [(np.median(ratio), *median_interval(ratio)) for ratio in ratios]
                    words = "  ".join("{:.3f} ({:.3f} to {:.3f})".format(*each) for each in ends)
                    print(f"{preset:42} {execution:6} {batch:4}  {words}", flush=True)


def compare(preset: str, execution: Execution, batch: int, pairs: int, block_ms: float) -> list[np.ndarray]:
    """Return the ratios of neighbouring blocks, our step over each loop."""
    workload, target = Workload(network=preset), Target(execution=execution)
    model = build_model(workload, target)
    step = CellStep(model, workload, make_feed(workload, target, Pipeline(), batch, "CPU:0"))
    ((tokens, *caches),) = make_arrays(workload, batch)
    loops = (calls(model, tokens, caches), generation(model, tokens, caches, execution == "xla"))
    ratios: list[list[float]] = [[] for _ in loops]
    with step.fed():
        for run in (step.run, *loops):
            run(WARM)
        steps = max(1, round(block_ms / step.run(WARM) * WARM))
        for number in range(pairs):
            for loop, found in zip(loops, ratios, strict=True):
                before = step.run(steps) if number % 2 else 0.0
                loop_ms = loop(steps)
                found.append((before or step.run(steps)) / loop_ms)
    return [np.array(each) for each in ratios]


def calls(model: Any, tokens: np.ndarray, caches: list[np.ndarray]) -> Callable[[int], float]:
    """Return a function that calls Keras's predict function for each token and returns the ms it took."""
    model.make_predict_function(force=True)
    function, batch = model.predict_function, tuple(map(tf.constant, (tokens, *caches)))

    def run(steps: int) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            result = function([(batch,)])
        result.numpy()
        return 1000 * (time.perf_counter() - start)

    return run


def generation(model: Any, tokens: np.ndarray, caches: list[np.ndarray], compiled: bool) -> Callable[[int], float]:
    """Return a function that generates some tokens after the cached ones and returns the ms it took."""
    last, layers = caches[0].shape[1], len(caches) // 2
    token = tf.constant(tokens)
    room = [tf.constant(np.concatenate([cache, cache[:, :1]], axis=1)) for cache in caches]

    def one(done: Any, token: Any, *room: Any) -> tuple[Any, ...]:
        x, written = model.get_layer("embedding")(token), []
        for number in range(layers):
            name = f"layer_{number + 1}"
            attention = model.get_layer(f"{name}_attention")
            normed = model.get_layer(f"{name}_norm_1")(x)
            query = attention._query_dense(normed) * attention._key_dim**-0.5
            new = (attention._key_dense(normed), attention._value_dense(normed))
            keys, values = (
                keras.ops.slice_update(room[2 * number + at], (0, last, 0, 0), part) for at, part in enumerate(new)
            )
            written += [keys, values]
            weights = keras.ops.softmax(keras.ops.einsum("bqhd,bkhd->bhqk", query, keys), axis=-1)
            x = x + attention._output_dense(keras.ops.einsum("bhqk,bkhd->bqhd", weights, values))
            normed = model.get_layer(f"{name}_norm_2")(x)
            x = x + model.get_layer(f"{name}_dense_2")(model.get_layer(f"{name}_dense_1")(normed))
        logits = model.get_layer("outputs")(model.get_layer("norm")(x[:, -1]))
        return done + 1, tf.argmax(logits, axis=-1)[:, None], *written

    @tf.function(jit_compile=compiled)
    def generate(steps: Any) -> Any:
        start = (tf.constant(0), token, *room)
        return tf.while_loop(lambda done, *_: done < steps, one, start, maximum_iterations=None)[1]

    def run(steps: int) -> float:
        start = time.perf_counter()
        generate(tf.constant(steps)).numpy()
        return 1000 * (time.perf_counter() - start)

    return run


if __name__ == "__main__":
    main()
