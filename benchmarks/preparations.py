"""Does a batch that is prepared again in the same process vary as one in a new process does?

    python -m benchmarks.preparations [--targets cpu,threads=1 …] [--sets 4] [--forked] [--json FILE]

A set holds four processes of one target, all alive, in each of which every batch is prepared three times, in slots of
their own. The twelve are timed in rounds of one block each, in a new random order every round, so that disturbances
affect them alike. Nested analysis of variance then separates the variance between preparations in one process from that
between processes, less that of the timing (from halves of the rounds). Intervals resample sets. ``--forked`` takes
forks of a template in place of fresh processes, where the framework allows it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path

import numpy as np

from benchmarks.forks import ASK_S, RESAMPLES, START_S, template
from core.worker.process import ProcessWorker
from core.worker.protocol import Prepare, RunBlock
from core.workload.spec import Pipeline, Target, Workload

PROCESSES, PREPARATIONS = 4, 3
BATCHES = (8, 64, 512)
BLOCK_MS = 10.0
ROUNDS = 40


def one_set(target: Target, forked: bool, order: random.Random) -> np.ndarray:
    """Return log milliseconds per step as (batch, round, process, preparation)."""
    parent = template() if forked else None
    if parent is not None:
        parent.wait(START_S)
    workers = [ProcessWorker(target, template=parent) for _ in range(PROCESSES)]
    try:
        for worker in workers:
            worker.wait_ready(START_S)
            assert worker.ready.start == ("forked" if forked else "fresh")
        return np.array([_batch(workers, batch, order) for batch in BATCHES])
    finally:
        for worker in workers:
            worker.close()
        if parent is not None:
            parent.end()


def _batch(workers: list[ProcessWorker], batch: int, order: random.Random) -> np.ndarray:
    places = [(process, slot) for process in range(PROCESSES) for slot in range(PREPARATIONS)]
    steps = None
    for process, slot in order.sample(places, len(places)):
        done = workers[process].ask(
            Prepare(
                workload=Workload(network="784-512-512-10"), pipeline=Pipeline(), batch=batch, slot=slot,
                block_ms=BLOCK_MS, warmup_ms=300.0, latency_samples=1, steps_per_block=steps,
            ), ASK_S,
        )  # fmt: skip
        steps = steps or done.steps_per_block
    took_ms = np.empty((ROUNDS, PROCESSES, PREPARATIONS))
    for number in range(ROUNDS):
        for process, slot in order.sample(places, len(places)):
            block = RunBlock(batch=batch, steps=steps or 1, slot=slot)
            took_ms[number, process, slot] = workers[process].ask(block, ASK_S).block_ms
    return np.log(took_ms / (steps or 1))


def components(logs: np.ndarray) -> np.ndarray:
    """Return the variances between preparations, between processes beyond that, and of the timing, of a batch in a
    set.
    """
    centred = logs - np.median(logs, axis=(1, 2), keepdims=True)
    halves = [np.median(centred[start::2], axis=0) for start in (0, 1)]
    timing = float(np.mean((halves[0] - halves[1]) ** 2) / 4)  # half as many rounds have twice the variance
    value = np.median(centred, axis=0)
    within = float(np.mean(np.var(value, axis=1, ddof=1)))
    between = float(np.var(value.mean(axis=1), ddof=1)) - within / PREPARATIONS
    return np.array([within - timing, between, timing])


def report(name: str, sets: list[np.ndarray]) -> None:
    every = np.array([[components(logs) for logs in batches] for batches in sets])
    picks = np.random.default_rng(0).integers(0, len(sets), (RESAMPLES, len(sets)))
    for batch, parts in [*zip(map(str, BATCHES), every.swapaxes(0, 1), strict=True), ("all", every.mean(axis=1))]:
        means = np.maximum(np.vstack([parts.mean(axis=0), parts[picks].mean(axis=1)]), 0.0)
        share = means[:, 0] / np.maximum(means[:, 0] + means[:, 1], 1e-12)
        columns = [*(100 * np.sqrt(means.T)), 100 * share]
        shown = [f"{c[0]:.1f} ({np.quantile(c[1:], 0.025):.1f} to {np.quantile(c[1:], 0.975):.1f}) %" for c in columns]
        print(
            f"{name}, batch {batch}: standard deviation between preparations {shown[0]}, between processes {shown[1]}, "
            f"of the timing {shown[2]}; preparations have {shown[3]} of the variance",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", default=["cpu,threads=1"])
    parser.add_argument("--sets", type=int, default=4)
    parser.add_argument("--forked", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every block's time, too")
    options = parser.parse_args()
    kept = {}
    for text in options.targets:
        sets = []
        for number in range(options.sets):
            sets.append(one_set(Target.parse(text), options.forked, random.Random(number)))
            print(f"{text}: set {number + 1}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        report(text, sets)
        kept[text] = [np.round(logs, 5).tolist() for logs in sets]
        if options.json:
            options.json.write_text(json.dumps({"label": "measured", "log_ms": kept}))


if __name__ == "__main__":
    main()
