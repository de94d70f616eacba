"""What watching a script costs: ``fit`` with and without the watch in one process, in turn.

    python -m benchmarks.watching [--pairs 30]

Two equal models take turns at ``fit`` over the same data: one was traced and runs under the watch, for the other the
watch is paused, its wrappers included. Prints microseconds per batch with a 95 % interval, and the seconds per run that
the watch counts for itself.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from core.analysis.statistics import median_interval
from core.worker.watch.script import Watch, beside

STEPS, WIDTH, BATCH = 100, 128, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=30)
    pairs = parser.parse_args().pairs
    watch = Watch(Path(tempfile.mkdtemp()) / "capture.json")
    keras_hooks, frameworks = beside("keras_hooks"), beside("framework_hooks")
    import keras

    frameworks.install_tensorflow(watch)
    keras_hooks.install(watch)
    rng = np.random.default_rng(0)
    x, y = rng.random((BATCH * STEPS, WIDTH), dtype=np.float32), rng.random((BATCH * STEPS, 1), dtype=np.float32)

    def model() -> object:
        layers = [keras.Input((WIDTH,)), *(keras.layers.Dense(WIDTH, activation="relu") for _ in range(3))]
        made = keras.Sequential([*layers, keras.layers.Dense(1)])
        made.compile("adam", "mse")
        return made

    def epoch_s(made: object, paused: bool) -> float:
        watch.paused = paused
        begin = time.perf_counter()
        made.fit(x, y, batch_size=BATCH, verbose=0)  # type: ignore[attr-defined]
        return time.perf_counter() - begin

    watched, plain = model(), model()
    for _ in range(2):
        epoch_s(watched, paused=False)
        epoch_s(plain, paused=True)
    differences, plain_s = [], []
    for pair in range(pairs):
        order = (False, True) if pair % 2 else (True, False)
        seconds = {paused: epoch_s(plain if paused else watched, paused) for paused in order}
        differences.append(1e6 * (seconds[False] - seconds[True]) / STEPS)
        plain_s.append(seconds[True])
    step_ms = 1e3 * float(np.median(plain_s)) / STEPS
    low, high = median_interval(np.array(differences))
    middle = float(np.median(differences))
    print(f"step without the watch: {step_ms:.2f} ms ({pairs} pairs of {STEPS} steps)")
    print(f"the watch costs {middle:.1f} µs per batch (95 %: {low:.1f} to {high:.1f}), {middle / step_ms / 10:.2f} %")
    print(f"and counts {watch.seconds.get('watch', 0.0):.4f} s for itself in {2 + pairs} calls of fit")


if __name__ == "__main__":
    main()
