"""Does a tf.data pipeline have the same step time in blocks, among other cells, as in one long run?

Several pipelines and resident data share one worker, as in a pipeline study. Each is timed in interleaved blocks (a
fresh pipeline, a warm-up, the block) and then alone in one long run; the ratio of both is printed. A pipeline left idle
between its blocks would prepare batches in advance, and the ratio of an input-bound one would fall far below 1.

    python -m benchmarks.pipeline [--rounds 12] [--alone 4]
"""

from __future__ import annotations

import argparse
import statistics

from core.machine.lock import machine_lock
from core.worker.process import launch_processes
from core.worker.protocol import Prepare, RunBlock, Worker
from core.workload.spec import Pipeline, Target, Workload

WORKLOAD, BATCH, DEADLINE_S = Workload(network="784-512-512-10"), 64, 120.0
AUTOTUNED = Pipeline(kind="tfdata", prefetch="auto", parallel_calls="auto")
PIPELINES = {
    "resident": Pipeline(),
    "host array": Pipeline(kind="host"),
    "off, 100 µs": Pipeline(kind="tfdata", preprocess_us=100.0),
    "prefetch 4, 30 µs": Pipeline(kind="tfdata", prefetch=4, preprocess_us=30.0),
    "prefetch 4, 100 µs": Pipeline(kind="tfdata", prefetch=4, preprocess_us=100.0),
    "AUTOTUNE, 100 µs": AUTOTUNED.model_copy(update={"preprocess_us": 100.0}),
    "AUTOTUNE, 500 µs": AUTOTUNED.model_copy(update={"preprocess_us": 500.0}),
    "cached, 500 µs": Pipeline(kind="tfdata", prefetch=2, cache=True, preprocess_us=500.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--alone", type=float, default=4.0, help="seconds of each long run")
    options = parser.parse_args()
    with machine_lock("benchmarks/pipeline.py"):
        blocks, alone = measure(options.rounds, options.alone)
    print(f"{'pipeline':<20} {'in blocks (ms)':>15} {'alone (ms)':>11} {'ratio':>6}")
    for name in PIPELINES:
        in_blocks = statistics.median(blocks[name])
        print(f"{name:<20} {in_blocks:>15.2f} {alone[name]:>11.2f} {in_blocks / alone[name]:>6.2f}")


def block_ms(worker: Worker, slot: int, steps: int) -> float:
    return worker.ask(RunBlock(batch=BATCH, steps=steps, slot=slot), DEADLINE_S).block_ms


def measure(rounds: int, alone_s: float) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return the step times (ms) in interleaved blocks, and in a long run of each pipeline."""
    (worker,) = launch_processes((Target(),), DEADLINE_S)
    try:
        steps = {}
        for slot, (name, pipeline) in enumerate(PIPELINES.items()):
            request = Prepare(workload=WORKLOAD, pipeline=pipeline, batch=BATCH, slot=slot)
            steps[name] = worker.ask(request, DEADLINE_S).steps_per_block
        blocks: dict[str, list[float]] = {name: [] for name in PIPELINES}
        for _ in range(rounds):
            for slot, name in enumerate(PIPELINES):
                blocks[name].append(block_ms(worker, slot, steps[name]) / steps[name])
        alone = {}
        for slot, name in enumerate(PIPELINES):
            long = max(1, round(1000 * alone_s / statistics.median(blocks[name])))
            alone[name] = block_ms(worker, slot, long) / long
    finally:
        worker.close()
    return blocks, alone


if __name__ == "__main__":
    main()
