"""Scatter of equal simulated targets, measured like the real ones: visits, windows, offsets of preparations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.analysis.statistics import Array
from core.worker.protocol import Prepare, RunBlock
from core.workload.spec import Pipeline, Target, Workload
from simulated.noise import NoiseModel
from simulated.simulation import Curve, Machine, SimulatedWorker

STEP = Curve(2.5, 0.033, q=1.0)
"""Training 784-512-512-10 on one thread: 2.8 ms at batch 8, 4.6 at 64, 19.4 at 512."""
PAIR = (Target(threads=1), Target(threads=1, execution="xla"))
THREADS = (Target(threads=1), Target(threads=2))


@dataclass
class Bench:
    """Two targets with the same curve, started and asked by hand."""

    noise: NoiseModel
    targets: tuple[Target, Target] = PAIR
    seed: int = 0

    def __post_init__(self) -> None:
        self.machine = Machine((STEP, STEP), self.noise, self.seed, startup_s=0.1, prepare_s=0.1)
        self.rounds = 0

    def start(self) -> tuple[SimulatedWorker, ...]:
        return self.machine.launch(self.targets, 60.0)

    def prepare(self, worker: SimulatedWorker, batch: int, block_ms: float, slot: int = 0) -> int:
        """Prepare a cell; return the steps of a block that lasts at least ``block_ms``."""
        request = Prepare(
            workload=Workload(network="784-512-512-10"), pipeline=Pipeline(), batch=batch, slot=slot, block_ms=block_ms
        )
        return worker.prepare(request, 60.0).steps_per_block

    def prepare_all(self, workers: tuple[SimulatedWorker, ...], batch: int, block_ms: float) -> int:
        return max(self.prepare(worker, batch, block_ms) for worker in workers)

    def round(self, workers: tuple[SimulatedWorker, ...], batch: int, steps: int) -> float:
        """Return the log ratio of one block of each, in an order that alternates between rounds."""
        self.rounds += 1
        logs = {i: self.block(workers[i], batch, steps) for i in ((0, 1) if self.rounds % 2 else (1, 0))}
        return logs[0] - logs[1]

    @staticmethod
    def block(worker: SimulatedWorker, batch: int, steps: int, slot: int = 0) -> float:
        done = worker.block(RunBlock(batch=batch, steps=steps, slot=slot), 60.0)
        return float(np.log(done.block_ms / done.steps))


def visits(bench: Bench, count: int = 180, block_ms: float = 30.0, batch: int = 8) -> tuple[float, float, float]:
    """Return deviations of rounds within a visit of five and of visits' medians, and the worst visit."""
    workers = bench.start()
    steps = bench.prepare_all(workers, batch, block_ms)
    seen = []
    for _ in range(count):
        bench.machine.clock.advance(1.0)  # other conditions had their turn
        seen.append([bench.round(workers, batch, steps) for _ in range(5)])
    table = np.array(seen) - np.median(seen)
    medians = np.median(table, axis=1)
    return float(np.sqrt(table.var(axis=1, ddof=1).mean())), float(medians.std()), float(np.abs(medians).max())


def windows(bench: Bench, block_ms: float, batch: int = 8, count: int = 60, length_s: float = 2.0) -> float:
    """Return the deviation of the median ratio of windows of ``length_s``."""
    workers = bench.start()
    steps = bench.prepare_all(workers, batch, block_ms)
    medians = []
    for _ in range(count):
        end_s, seen = bench.machine.clock.now_s() + length_s, []
        while bench.machine.clock.now_s() < end_s:
            seen.append(bench.round(workers, batch, steps))
        medians.append(np.median(seen))
        bench.machine.clock.advance(5.0)
    return float(np.std(medians))


def offsets(bench: Bench, sets: int = 4, batch: int = 8, rounds: int = 40) -> tuple[float, float]:
    """Return deviations between preparations of one process, and between processes beyond that.

    Estimated as offsets.py does: four processes, four preparations in each, their blocks in random order.
    """
    rng, preparations, processes = np.random.default_rng(bench.seed), [], []
    for _ in range(sets):
        workers = [*bench.start(), *bench.start()]
        steps = max(bench.prepare(worker, batch, 30.0, slot) for worker in workers for slot in range(4))
        logs: Array = np.zeros((4, 4, rounds))
        for number in range(rounds):
            for place in rng.permutation(16):
                logs[place // 4, place % 4, number] = bench.block(workers[place // 4], batch, steps, place % 4)
        medians = np.median(logs, axis=2)
        preparations.append(medians.var(axis=1, ddof=1).mean())
        processes.append(max(0.0, medians.mean(axis=1).var(ddof=1) - preparations[-1] / 4))
    return float(np.sqrt(np.mean(preparations))), float(np.sqrt(np.mean(processes)))


@dataclass(frozen=True)
class Swept:
    """Scatter of sweeps of equal targets.

    Rounds are about the median of batch and start, ``starts`` are those medians, ``batches`` their means over starts.
    """

    rounds: float
    starts: float
    batches: float
    worst: float


def swept(
    noise: NoiseModel, block_ms: float, in_visit: int, visits_each: int = 3, sweeps: int = 8, starts: int = 3
) -> Swept:
    """Run trial sweeps: each start prepares eleven batches and passes over them."""
    batches, rounds, of_start, of_batch = [2**i for i in range(11)], [], [], []
    for seed in range(sweeps):
        bench = Bench(noise, seed=seed)
        table = []
        for _ in range(starts):
            workers = bench.start()
            steps = {b: bench.prepare_all(workers, b, block_ms) for b in batches}
            seen: dict[int, list[float]] = {b: [] for b in batches}
            for _ in range(visits_each):
                for batch in batches:
                    seen[batch] += [bench.round(workers, batch, steps[batch]) for _ in range(in_visit)]
            table.append([np.median(seen[b]) for b in batches])
            rounds += [np.array(seen[b]) - np.median(seen[b]) for b in batches]
        of_start += table
        of_batch.append(np.mean(table, axis=0))
    return Swept(
        float(np.concatenate(rounds).std()),
        float(np.std(of_start)),
        float(np.std(of_batch)),
        float(np.abs(of_batch).max()),
    )
