"""Do workers that are forked from a template scatter as fresh processes do?

    python -m benchmarks.forks [--sets 12] [--json FILE]

Linux only. A set holds two templates, two forks of each, and four fresh workers, all alive side by side, of one target
with one thread. At each cell the eight are timed in rounds of one block each, in a new random order every round. A
round's blocks fall within a second, so disturbances of the machine affect them alike; a process's value is the median
over rounds of its log step time minus the round's median over all eight. Nested analysis of variance over all sets then
gives three numbers for each cell: the variance between forks of one template, the variance that templates add, and the
variance between fresh processes. The same from halves of the rounds gives the variance of the timing itself, which is
subtracted. Intervals resample sets.

All of that is done twice: with the time of the clock, and with the CPU time of the worker's threads (schedstat, in
nanoseconds), which excludes the time that other programs take from a core: on a busy machine only that separates
processes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from core.worker.process import ProcessWorker, worker_environment
from core.worker.protocol import Prepare, RunBlock
from core.worker.templates import COMMAND, Template, key_of
from core.workload.spec import Pipeline, Target, Workload

TEMPLATES, FORKS, FRESH = 2, 2, 4  # numbers per set
START_S, ASK_S = 240.0, 240.0
RESAMPLES = 2_000
BLOCK_MS = 10.0


@dataclass(frozen=True)
class Cell:
    target: Target
    batch: int

    @property
    def name(self) -> str:
        return f"{'XLA' if self.target.execution == 'xla' else 'graph'}, batch {self.batch}"


CELLS = (
    Cell(Target(threads=1), 1),
    Cell(Target(threads=1), 128),
    Cell(Target(threads=1, execution="xla"), 32),
)
"""Cells of every worker; one worker serves all of them, since the process is the same for each."""
WORKLOAD = Workload(network="784-512-512-10")


Estimate = tuple[float, float, float]
"""Estimate with its 95 % interval."""


@dataclass(frozen=True)
class Scatter:
    """Standard deviations of the log step time between processes, in percent, and ratios of variances.

    That of the timing is subtracted. ``shift_pct``: how much slower a fork is than a fresh process.
    """

    cell: str
    forks_pct: Estimate
    templates_pct: Estimate
    fresh_pct: Estimate
    timing_pct: float
    forks_over_fresh: Estimate
    all_over_fresh: Estimate
    shift_pct: Estimate


def template() -> Template:
    target = Target(threads=1)
    key = key_of(target, worker_environment(target))
    assert key is not None, "forks are for Linux"
    return Template(dict(key.environment), (*COMMAND, key.module))


def one_set(rounds: int, seed: int) -> np.ndarray:
    """Return log milliseconds per step as (cell, clock or CPU, round, process), forks first, template by template."""
    templates = [template() for _ in range(TEMPLATES)]
    workers: list[ProcessWorker] = []
    try:
        for parent in templates:
            parent.wait(START_S)
            if not parent.usable:
                raise SystemExit(f"No worker can be forked here: {parent.refused}")
            workers += [ProcessWorker(Target(threads=1), template=parent) for _ in range(FORKS)]
        workers += [ProcessWorker(Target(threads=1)) for _ in range(FRESH)]
        for worker in workers:
            worker.wait_ready(START_S)
        assert [worker.ready.start for worker in workers] == ["forked"] * TEMPLATES * FORKS + ["fresh"] * FRESH
        order = random.Random(seed)
        return np.array([_cell(cell, slot, workers, rounds, order) for slot, cell in enumerate(CELLS)])
    finally:
        for worker in workers:
            worker.close()
        for parent in templates:
            parent.end()


def _cell(cell: Cell, slot: int, workers: list[ProcessWorker], rounds: int, order: random.Random) -> np.ndarray:
    """Measure one cell, prepared in a random order; all its blocks have the same number of steps."""
    steps = None
    for worker in order.sample(workers, len(workers)):
        done = worker.ask(
            Prepare(
                workload=WORKLOAD, pipeline=Pipeline(), batch=cell.batch, slot=slot, variant=cell.target,
                block_ms=BLOCK_MS, warmup_ms=300.0, latency_samples=1, steps_per_block=steps,
            ), ASK_S,
        )  # fmt: skip
        steps = steps or done.steps_per_block
    block = RunBlock(batch=cell.batch, steps=steps or 1, slot=slot)
    took_ms = np.empty((2, rounds, len(workers)))
    for number in range(rounds):
        for index in order.sample(range(len(workers)), len(workers)):
            worker = workers[index]
            before_ms = _cpu_ms(worker.ready.pid)
            took_ms[0, number, index] = worker.ask(block, ASK_S).block_ms
            took_ms[1, number, index] = _cpu_ms(worker.ready.pid) - before_ms
    return np.log(took_ms / block.steps)


def _cpu_ms(pid: int) -> float:
    """Return the CPU time of all threads of a process so far."""
    spent_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has just ended
            spent_ns += int((thread / "schedstat").read_text().split()[0])
    return spent_ns * 1e-6


def components(logs: np.ndarray, quantile: float) -> np.ndarray:
    """Return variances between forks, of templates, between fresh processes and of timing, and the shift, for a cell in
    a set.
    """
    centred = logs - np.median(logs, axis=1, keepdims=True)
    value = np.quantile(centred, quantile, axis=0)
    halves = [np.quantile(centred[start::2], quantile, axis=0) for start in (0, 1)]
    timing = float(np.mean((halves[0] - halves[1]) ** 2) / 4)  # half as many rounds have twice the variance
    forked = value[: TEMPLATES * FORKS].reshape(TEMPLATES, FORKS)
    fresh = value[TEMPLATES * FORKS :]
    within = float(np.mean(np.var(forked, axis=1, ddof=1)))
    between = float(np.var(forked.mean(axis=1), ddof=1)) - within / FORKS
    return np.array([within - timing, between, float(np.var(fresh, ddof=1)) - timing, timing,
                     float(forked.mean() - fresh.mean())])  # fmt: skip


def scatter(name: str, per_set: np.ndarray) -> Scatter:
    """Summarise the components of each set; several cells are represented by their mean."""
    picks = np.random.default_rng(0).integers(0, len(per_set), (RESAMPLES, len(per_set)))
    means = np.vstack([per_set.mean(axis=0), per_set[picks].mean(axis=1)])  # the first row is the estimate
    forks, templates, fresh, timing, shift = means.T
    floor = 0.02 * timing  # below this a remaining variance cannot be distinguished from zero

    def estimate(values: np.ndarray) -> Estimate:
        low, high = np.quantile(values[1:], (0.025, 0.975))
        return float(values[0]), float(low), float(high)

    def deviation(values: np.ndarray) -> Estimate:
        return estimate(100 * np.sqrt(np.maximum(values, 0.0)))

    base = np.maximum(fresh, floor)
    return Scatter(
        cell=name, forks_pct=deviation(forks), templates_pct=deviation(templates), fresh_pct=deviation(fresh),
        timing_pct=float(100 * np.sqrt(timing[0])), forks_over_fresh=estimate(forks / base),
        all_over_fresh=estimate((forks + templates) / base), shift_pct=estimate(100 * np.expm1(shift)),
    )  # fmt: skip


def _words(estimate: Estimate) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*estimate)


def report(sets: list[np.ndarray], quantile: float, clock: int) -> list[Scatter]:
    per_set = np.array([[components(cell[clock], quantile) for cell in logs] for logs in sets])
    rows = [scatter(cell.name, per_set[:, index]) for index, cell in enumerate(CELLS)]
    return [*rows, scatter("all cells", per_set.mean(axis=1))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--quantile", type=float, default=0.5, help="of a process's rounds; lower on a busy machine")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write results and every block's time, too; goes on "
                        "with the sets that are in it")  # fmt: skip
    options = parser.parse_args()
    sets = []
    if options.json and options.json.exists():
        sets = [np.array(logs) for logs in json.loads(options.json.read_text())["log_ms"]]
    for number in range(len(sets), options.sets):
        begin = time.monotonic()
        sets.append(one_set(options.rounds, number))
        load = os.getloadavg()[0]
        print(f"set {number + 1}: {time.monotonic() - begin:.0f} s, load {load:.1f}", file=sys.stderr, flush=True)
        if options.json:
            kept = {"label": "measured", "log_ms": [np.round(logs, 5).tolist() for logs in sets]}
            options.json.write_text(json.dumps(kept))
    print(f"{len(sets)} sets: {TEMPLATES * FORKS * len(sets)} forks of {TEMPLATES * len(sets)} templates, "
          f"{FRESH * len(sets)} fresh processes; variances with 95 % intervals by resampling sets")  # fmt: skip
    rows = {name: report(sets, options.quantile, clock) for clock, name in enumerate(("clock", "CPU time"))}
    for name, row in ((name, row) for name, of in rows.items() for row in of):
        print(f"{name}, {row.cell}: standard deviation between forks {_words(row.forks_pct)} %, between templates "
              f"{_words(row.templates_pct)} %, between fresh processes {_words(row.fresh_pct)} % "
              f"(timing {row.timing_pct:.2f} %)")  # fmt: skip
        print(f"    variance of forks over fresh {_words(row.forks_over_fresh)}, of forks of different templates "
              f"{_words(row.all_over_fresh)}; a fork is slower by {_words(row.shift_pct)} %")  # fmt: skip
    if options.json:
        kept = {"label": "measured", "rows": {name: [asdict(row) for row in of] for name, of in rows.items()}}
        kept["log_ms"] = [np.round(logs, 5).tolist() for logs in sets]
        options.json.write_text(json.dumps(kept))


if __name__ == "__main__":
    main()
