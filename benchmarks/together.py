"""Does dividing a batch between two targets at once gain what their two curves allow? Tried on two halves of the CPU.

    python -m benchmarks.together [--case alike|unlike] [--starts 4] [--rounds 6] [--json FILE]

Linux only. Two worker processes, each bound to half of the cores, stand for two devices; in the case *unlike* one of
them computes in mixed bfloat16, whose steps take a different time. First come the curves: each half with the other
idle, and with the other busy, in rounds of random order. From the idle curves ``best_splits`` computes how to divide a
batch and the maximum gain. Then, in fresh processes and again in rounds: the whole batch on either half, the parts of
the best split each alone, that split on both at once, half the batch on each at once. *At once*: both workers are told
to run their blocks, and the round ends with the slower one; once with one such barrier per block, and once with one
after every step. No gradients are summed. Each start of the workers is one observation; intervals are 95 % t intervals
over starts.

All of that is done twice, with the time of the clock and with the CPU time of the workers, which excludes time that
other programs take from a core. A barrier after every step waits outside of the workers, so that it is timed by the
clock only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from core.analysis.statistics import estimate_columns
from core.base.evidence import Block, Process
from core.rounds.answer.split import Split, best_splits
from core.rounds.run import Round, Run
from core.worker.process import ProcessWorker
from core.worker.protocol import Prepare, RunBlock
from core.workload.spec import Pipeline, Target, Workload

WORKLOAD = Workload(network="784-512-512-10")
GRID = (8, 16, 32, 64, 128, 256, 512)
TRIED = (128, 512)
BLOCK_MS, WARMUP_MS = 60.0, 500.0
START_S, ASK_S = 240.0, 240.0
CASES = {"alike": Target(threads=1), "unlike": Target(threads=1, precision="mixed_bfloat16")}
"""Target of the second half; the first runs :data:`FIRST`."""
FIRST = CASES["alike"]


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Tried:
    """Result of one batch, as speed-ups over the faster half alone.

    ``predicted`` follows from the idle curves, ``bound`` from the parts run alone in the rounds of the trial.
    ``at_once`` and ``stepwise`` run the best split on both halves at once with a barrier per block, or per step (None
    in CPU time); ``halves`` runs half the batch on each.
    """

    batch: int
    samples: tuple[int, int]
    predicted: Estimate
    bound: Estimate
    at_once: Estimate
    stepwise: Estimate | None
    halves_predicted: Estimate
    halves: Estimate


def split_cores() -> tuple[set[int], set[int]]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("Two cores are needed, one for each half.")
    middle = len(cores) // 2
    return set(cores[:middle]), set(cores[middle:])


def started(target: Target, cores: set[int]) -> ProcessWorker:
    """Start a worker on those cores; a process inherits its parent's cores at its start."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        return ProcessWorker(target.model_copy(update={"threads": len(cores)}))
    finally:
        os.sched_setaffinity(0, own)


Times = tuple[float, float]
"""Milliseconds per step: by the worker's clock, and of its CPU time."""
CLOCKS = ("clock", "CPU time")


class Halves:
    """The two workers of one start."""

    def __init__(self, workers: Sequence[ProcessWorker]) -> None:
        self._workers, self._pool = workers, ThreadPoolExecutor(2)
        self._steps: dict[tuple[int, int], int] = {}

    def prepare(self, number: int, batch: int) -> None:
        done = self._workers[number].ask(
            Prepare(workload=WORKLOAD, pipeline=Pipeline(), batch=batch, block_ms=BLOCK_MS, warmup_ms=WARMUP_MS,
                    latency_samples=1), ASK_S,
        )  # fmt: skip
        self._steps[number, batch] = done.steps_per_block

    def alone(self, number: int, batch: int, steps: int | None = None) -> Times:
        steps = steps or self._steps[number, batch]
        done = self._workers[number].ask(RunBlock(batch=batch, steps=steps), ASK_S)
        assert done.cpu_ms is not None
        return done.block_ms / steps, done.cpu_ms / steps

    def busy(self, number: int, batch: int) -> Times:
        """Time a batch on one half while the other half runs that batch, too, for twice as long."""
        steps = [self._steps[half, batch] * (1 if half == number else 2) for half in (0, 1)]
        return list(self._pool.map(self.alone, (0, 1), (batch, batch), steps))[number]

    def at_once(self, parts: tuple[int, int]) -> Times:
        """Time both halves at once; they wait for each other at the end of the block."""
        steps = min(self._steps[number, part] for number, part in enumerate(parts))
        (clock, cpu), (other_clock, other_cpu) = self._pool.map(self.alone, (0, 1), parts, (steps, steps))
        return max(clock, other_clock), max(cpu, other_cpu)

    def stepwise(self, parts: tuple[int, int]) -> Times:
        """Time both halves at once with a wait after each step, by this program's clock alone."""
        steps = min(self._steps[number, part] for number, part in enumerate(parts))
        begin = time.perf_counter()
        for _ in range(steps):
            list(self._pool.map(self.alone, (0, 1), parts, (1, 1)))
        return 1000 * (time.perf_counter() - begin) / steps, math.nan

    def check_cores(self, halves: Sequence[set[int]]) -> None:
        """Check that every thread of either worker is bound to its half."""
        for worker, cores in zip(self._workers, halves, strict=True):
            for thread in Path(f"/proc/{worker.ready.pid}/task").iterdir():
                bound_to = os.sched_getaffinity(int(thread.name))
                assert bound_to == cores, (
                    f"a thread of the worker for {worker.target} is bound to {bound_to}, not to {cores}"
                )

    def close(self) -> None:
        self._pool.shutdown()


@contextmanager
def halves_of(second: Target) -> Iterator[Halves]:
    cores = split_cores()
    workers = [started(target, own) for target, own in zip((FIRST, second), cores, strict=True)]
    halves = Halves(workers)
    try:
        for worker in workers:
            worker.wait_ready(START_S)
        yield halves
        halves.check_cores(cores)  # at the end, when all threads exist
    finally:
        halves.close()
        for worker in workers:
            worker.close()


def curves(second: Target, starts: int, rounds: int, order: random.Random) -> dict[str, tuple[Run, Run]]:
    """Return, for each clock, the rounds of all starts with the other half idle, and busy."""
    by_clock: dict[str, tuple[list[Round], list[Round]]] = {clock: ([], []) for clock in CLOCKS}
    for start in range(starts):
        with halves_of(second) as halves:
            for batch in GRID:
                for number in (0, 1):
                    halves.prepare(number, batch)
            for batch in [batch for _ in range(rounds) for batch in order.sample(GRID, len(GRID))]:
                for which, way in enumerate((halves.alone, halves.busy)):
                    took = {number: way(number, batch) for number in order.sample((0, 1), 2)}
                    for clock, both in enumerate(by_clock.values()):
                        blocks = tuple(
                            Block(target=number, process=start, steps=1, step_ms=times[clock])
                            for number, times in sorted(took.items())
                        )
                        kept = both[which]
                        kept.append(Round(index=len(kept), pass_index=start, batch=batch, blocks=blocks))
        print(f"curves {start + 1} of {starts}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return {
        clock: (run_of(idle, starts, second), run_of(busy, starts, second)) for clock, (idle, busy) in by_clock.items()
    }


def run_of(rounds: list[Round], starts: int, second: Target) -> Run:
    processes = tuple(
        Process(index=start, target=target, pid=1, startup_ms=1.0, device="cpu")
        for start in range(starts)
        for target in (0, 1)
    )
    names = str(FIRST), f"{second} on the other half"
    return Run(
        id="halves-of-the-cpu", name="Two halves of the CPU", created_at="", label="measured", status="finished",
        target_names=names, processes=processes, rounds=tuple(rounds),
    )  # fmt: skip


WAYS = ("first", "second", "part of first", "part of second", "at once", "stepwise", "halves")


def trial(second: Target, splits: Sequence[Split], starts: int, rounds: int, order: random.Random) -> list[np.ndarray]:
    """Return for each split the log milliseconds per step [clock, start, way], medians over its rounds."""
    logs = [np.empty((len(CLOCKS), starts, len(WAYS))) for _ in splits]
    for start in range(starts):
        with halves_of(second) as halves:
            for number in (0, 1):
                batches = {size for split in splits for size in (split.batch, split.samples[number], split.batch // 2)}
                for batch in sorted(batches - {0}):
                    halves.prepare(number, batch)
            for at, split in enumerate(splits):
                logs[at][:, start] = _rounds(halves, split, rounds, order)
        print(f"trial {start + 1} of {starts}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return logs


def _rounds(halves: Halves, split: Split, rounds: int, order: random.Random) -> np.ndarray:
    first_part, second_part = split.samples
    ways = {
        "first": lambda: halves.alone(0, split.batch),
        "second": lambda: halves.alone(1, split.batch),
        "part of first": lambda: halves.alone(0, first_part),
        "part of second": lambda: halves.alone(1, second_part),
        "at once": lambda: halves.at_once((first_part, second_part)),
        "stepwise": lambda: halves.stepwise((first_part, second_part)),
        "halves": lambda: halves.at_once((split.batch // 2, split.batch // 2)),
    }
    took: dict[str, list[Times]] = defaultdict(list)
    for _ in range(rounds):
        for way in order.sample(WAYS, len(WAYS)):
            took[way].append(ways[way]())
    return np.array([np.log(np.median(took[way], axis=0)) for way in WAYS]).T


def estimate(logs: np.ndarray) -> Estimate:
    """Return the ratio from the logs of each start, with its 95 % t interval."""
    estimates = estimate_columns(logs[:, None], trimmed=False)
    middle, half = float(estimates.center[0]), float(estimates.half_width(0.05)[0])
    return Estimate(*(math.exp(end) for end in (middle, middle - half, middle + half)))


def tried(split: Split, logs: np.ndarray) -> Tried:
    """Return the result of one split; ``logs`` are [start, way] by one clock."""
    first, second, *parts, at_once, stepwise, halves = logs.T
    alone = first if first.mean() < second.mean() else second
    bound = alone - np.maximum(*parts)
    best, even = (
        (speed_up.ratio, speed_up.low or math.nan, speed_up.high or math.nan) for speed_up in (split.best, split.even)
    )
    return Tried(
        split.batch, split.samples, Estimate(*best), estimate(bound), estimate(alone - at_once),
        None if np.isnan(stepwise).any() else estimate(alone - stepwise), Estimate(*even), estimate(alone - halves),
    )  # fmt: skip


def disturbance(idle: Run, busy: Run) -> dict[str, Estimate]:
    """Return by which factor a step of each half is slower while the other is busy, over all batches."""
    factors = {}
    for target, name in enumerate(("first", "second")):
        starts: dict[int, list[float]] = defaultdict(list)
        for quiet, loud in zip(idle.rounds, busy.rounds, strict=True):
            before, after = quiet.step_ms(target), loud.step_ms(target)
            assert before is not None
            assert after is not None
            starts[quiet.process].append(math.log(after / before))
        factors[name] = estimate(np.array([median(logs) for logs in starts.values()]))
    return factors


def report(case: str, clock: str, results: Sequence[Tried], busier: dict[str, Estimate]) -> None:
    print(f"\n{case}, by {clock}: times as fast as the faster half alone, 95 % intervals")
    for result in results:
        print(
            f"batch {result.batch}, {result.samples[0]} + {result.samples[1]}: predicted {result.predicted}, "
            f"bound from the parts {result.bound}, at once {result.at_once}, with a barrier per step "
            f"{result.stepwise}; halves predicted {result.halves_predicted}, at once {result.halves}"
        )
    print("; ".join(f"a step of the {name} half takes {factor} times as long while the other is busy"
                    for name, factor in busier.items()), flush=True)  # fmt: skip


def measured(case: str, starts: int, rounds: int) -> list[dict[str, object]]:
    """Return the results for each clock; splits follow from the CPU times, which other programs disturb less."""
    order, second, load = random.Random(0), CASES[case], os.getloadavg()[0]
    runs = curves(second, starts, rounds, order)
    known = {clock: _splits(idle) for clock, (idle, _) in runs.items()}
    chosen = [split for split in known["CPU time"] if min(split.samples)]
    logs, rows = trial(second, chosen, starts, rounds, order), []
    for number, (clock, splits) in enumerate(known.items()):
        at = {split.batch: split for split in splits}
        predicted = [replace(split, best=at[split.batch].best, even=at[split.batch].even) for split in chosen]
        results = [tried(split, split_logs[number]) for split, split_logs in zip(predicted, logs, strict=True)]
        busier = disturbance(*runs[clock])
        report(case, clock, results, busier)
        kept = {
            "tried": [asdict(result) for result in results],
            "busier": {name: asdict(factor) for name, factor in busier.items()},
        }
        rows.append({"case": case, "clock": clock, **kept, "load": [load, os.getloadavg()[0]]})
    return rows


def _splits(idle: Run) -> list[Split]:
    best = best_splits(idle, 0, 1)
    assert best is not None
    return [split for split in best.splits if split.batch in TRIED]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--starts", type=int, default=4, help="of the workers, for the curves and again for the trial")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results, too")
    options = parser.parse_args()
    results = [row for case in options.case for row in measured(case, options.starts, options.rounds)]
    if options.json:
        options.json.write_text(json.dumps({"label": "measured", "cases": results}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
