"""Do workers that are forked from a template scatter as fresh processes do?

    python -m benchmarks.forks [--sets 12] [--json FILE]

Linux only. A set holds two templates, two forks of each, and four workers started afresh, all alive side by side, of
one target with one thread. At each cell the eight are timed in rounds of a block each, in an order that is drawn anew
every round. A round's blocks come within a second, so what the machine does meanwhile hits them alike; a process's
value is the median over rounds of its log step time less the round's median over all eight. Nested analysis of
variance over all sets then gives three numbers for each cell: the variance between forks of one template, the
variance that templates add, and the variance between fresh processes. The same from halves of the rounds says how much
of each is left of the timing itself, and is taken off. Intervals resample sets.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from core.architecture import Architecture
from core.spec import Pipeline, Target, Workload
from core.worker.process import ProcessWorker, worker_environment
from core.worker.protocol import Prepare, RunBlock
from core.worker.templates import COMMAND, Template, key_of

TEMPLATES, FORKS, FRESH = 2, 2, 4  # of one set
START_S, ASK_S = 240.0, 240.0
RESAMPLES = 2_000
BLOCK_MS = 20.0


@dataclass(frozen=True)
class Cell:
    target: Target
    batch: int

    @property
    def name(self) -> str:
        return f"{self.target.execution}, batch {self.batch}"


CELLS = tuple(
    Cell(Target(threads=1, execution=execution), batch) for execution in ("graph", "xla") for batch in (1, 64)
)
"""One worker serves all of them: what differs is no matter of the process."""


@dataclass(frozen=True)
class Share:
    """Variances of log step time, times 10⁶, and ratios with their 95 % intervals."""

    cell: str
    forks: float
    templates: float
    fresh: float
    timing: float
    forks_over_fresh: tuple[float, float, float]
    all_over_fresh: tuple[float, float, float]
    shift_pct: tuple[float, float, float]
    """How much slower a fork is than a fresh process, percent."""


def template() -> Template:
    target = Target(threads=1)
    key = key_of(target, worker_environment(target))
    assert key is not None, "forks are for Linux"
    return Template(dict(key.environment), (*COMMAND, key.module))


def one_set(rounds: int, seed: int) -> np.ndarray:
    """Log milliseconds a step: (cell, round, process), forks first, template by template."""
    templates = [template() for _ in range(TEMPLATES)]
    workers: list[ProcessWorker] = []
    try:
        for one in templates:
            one.wait(START_S)
            if not one.usable:
                raise SystemExit(f"No worker can be forked here: {one.refused}")
            workers += [ProcessWorker(Target(threads=1), template=one) for _ in range(FORKS)]
        workers += [ProcessWorker(Target(threads=1)) for _ in range(FRESH)]
        for worker in workers:
            worker.wait_ready(START_S)
        assert [worker.ready.start for worker in workers] == ["forked"] * TEMPLATES * FORKS + ["fresh"] * FRESH
        order = random.Random(seed)
        return np.array([_cell(cell, slot, workers, rounds, order) for slot, cell in enumerate(CELLS)])
    finally:
        for worker in workers:
            worker.close(0.0)
        for one in templates:
            one.end()


def _cell(cell: Cell, slot: int, workers: list[ProcessWorker], rounds: int, order: random.Random) -> np.ndarray:
    """Prepared in an order that is drawn, too; all blocks of a cell have the same number of steps."""
    steps = None
    for worker in order.sample(workers, len(workers)):
        done = worker.ask(
            Prepare(
                workload=Workload(network=Architecture.preset("784-512-512-10") if False else NETWORK),
                pipeline=Pipeline(), batch=cell.batch, slot=slot, variant=cell.target, block_ms=BLOCK_MS,
                warmup_ms=600.0, latency_samples=1, steps_per_block=steps,
            ), ASK_S,
        )  # fmt: skip
        steps = steps or done.steps_per_block
    block = RunBlock(batch=cell.batch, steps=steps or 1, slot=slot)
    logs = np.empty((rounds, len(workers)))
    for number in range(rounds):
        for index in order.sample(range(len(workers)), len(workers)):
            logs[number, index] = np.log(workers[index].ask(block, ASK_S).block_ms / block.steps)
    return logs
