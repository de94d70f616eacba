"""Predicted capacity beside that of a real batcher on this CPU.

    python -m benchmarks.serving [--budget 45] [--only WORDS] [--keep FOLDER] [--json FILE]

For each network it sweeps inference on one thread and on two, predicts the capacity of both, and then serves: a process
of its own runs the network behind a batcher, as the target does (Keras's predict function, as many threads within and
between operations), its batches padded to powers of two, which are the sizes that the sweep measures. Arrivals come at
their planned times whatever the server does (open loop), and latency counts from the planned time. No network and no
client is in between, and the server looks arrivals up by the clock, so no generator can be late. Rates are visited in
random order, several times each, and the capacity is where the share of requests beyond the limit passes 1 %. A shared
machine's speed drifts, and the sweep is over by then: before each visit full batches are timed in a row, and their
ratio to those of the sweep is printed. Goal: median error at most 10 %, and 90 % of the measured capacities in the
predicted interval. A network takes about six minutes; the machine should be idle.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.real import sweep
from core.analysis.numerics import Array
from core.machine.interference import InterferenceSampler
from core.machine.lock import machine_lock
from core.rounds.answer.analyse import analyse
from core.rounds.plan import SweepPlan
from core.studies.serving.prediction import serving_answer
from core.studies.serving.queue import saturation_per_s
from core.studies.serving.service import Service
from core.workload.spec import Target, Workload, parse_batches

Cell = dict[str, Any]
CELLS = (  # network, largest batch, limits in lone latencies
    ("784-512-512-10", 32, (3.0, 10.0)),
    ("784-2048-2048-10", 32, (3.0, 10.0)),
    ("784-2048-2048-10", 8, (3.0, 10.0)),
    ("784-1024-1024-1024-10", 16, (3.0, 10.0)),
    ("resnet20", 8, (3.0, 10.0)),
)
THREADS = (1, 2)
LOADS = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.35)
"""Rates that are served, as shares of the rate at which the sweep says that full batches saturate."""
CHUNK_S, VISITS = 3.0, 4
"""Length of a visit and their number per rate; the first quarter of a chunk is left out."""
STEPS_S = 0.3
BUSY_PCT, TRIES = 5.0, 4
"""A chunk beside which other processes took more of a core than this is served again, at most so often."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=45.0, help="seconds of each sweep")
    parser.add_argument("--only", default="", help="only networks whose name contains this")
    parser.add_argument("--keep", type=Path, help="write the sweeps to this folder")
    parser.add_argument("--json", type=Path, help="append a line per cell to this file")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(json.loads(options.serve))
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    cells = list[Cell]()
    with machine_lock("the serving benchmark"):
        for network, most, limits in (cell for cell in CELLS if options.only in cell[0]):
            for cell in cells_of(network, most, limits, options):
                print(json.dumps(cell), flush=True)
                if options.json:
                    with options.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(cell) + "\n")
                cells.append(cell)
    errors = [abs(math.log(cell["predicted"] / cell["measured"])) for cell in cells]
    held = sum(cell["low"] <= cell["measured"] <= cell["high"] for cell in cells)
    print(f"median error {np.median(errors):.1%} (goal 10 %); {held} of {len(cells)} in the interval (goal 90 %)")
    drift = [cell["step_ms"] / cell["sweep_ms"] for cell in cells]
    print(f"full batches in a row while serving over those of the sweep: {min(drift):.2f} to {max(drift):.2f}")
    return 0 if np.median(errors) <= 0.1 and held >= 0.9 * len(cells) else 1


def cells_of(network: str, most: int, times_alone: tuple[float, ...], options: argparse.Namespace) -> list[Cell]:
    """Return predicted and measured capacity of one network, for each limit and number of threads."""
    workload = Workload(network=network, mode="infer")
    targets = tuple(Target(threads=threads) for threads in THREADS)
    batches = parse_batches(f"1:{most}")
    run = sweep(SweepPlan(workload=workload, targets=targets, batches=batches, budget_s=options.budget))
    if options.keep:
        (options.keep / f"{network}_{most}.json").write_text(run.to_json(), encoding="utf-8")
    answer, cells = analyse(run), []
    alone = serving_answer(run, answer, Service(max_batch=most, pads=True)).targets
    for index, threads in enumerate(THREADS):
        limits = [round(times * alone[index].alone_ms, 2) for times in times_alone]
        services = [Service(max_batch=most, pads=True, limit_ms=limit_ms) for limit_ms in limits]
        rates = saturation_per_s(alone[index].curve.steps, services[0]) * np.array(LOADS)
        full = answer.cell(index, most)
        assert full is not None
        with Server(network, threads, most) as server:
            missed, busy_pct, step_ms = missed_shares(server, rates, limits)
        for service, shares in zip(services, missed, strict=True):
            target = serving_answer(run, answer, service).targets[index]
            capacity = target.capacity_per_s
            cells.append(
                {"network": network, "threads": threads, "max_batch": most, "limit_ms": service.limit_ms,
                 "predicted": capacity.value, "low": capacity.low, "high": capacity.high,
                 "measured": capacity_of(rates, shares, 1 - service.level), "busy_pct": busy_pct,
                 "step_ms": step_ms, "sweep_ms": full.step_ms,
                 "rates": [round(rate) for rate in rates], "missed": [round(share, 4) for share in shares]}
            )  # fmt: skip
    return cells


def missed_shares(server: Server, rates: Array, limits: Sequence[float]) -> tuple[Array, float, float]:
    """Return the share of requests that missed each limit, by rate, over all visits: [limit, rate].

    The second value is the largest share of a core that other processes took beside a chunk that counted, in percent,
    the third the median time of a full batch meanwhile, in ms.
    """
    counts, busy_pct, step_ms = np.zeros((2, len(limits), len(rates))), 0.0, list[float]()
    for visit in range(VISITS):
        for place in np.random.default_rng(visit).permutation(len(rates)):
            step_ms.append(float(np.mean(server.ask([0, 0, 0]))))
            latencies, others_pct = server.undisturbed_ms(float(rates[place]), CHUNK_S, 100 * visit + int(place))
            busy_pct = max(busy_pct, others_pct)
            for which, limit_ms in enumerate(limits):
                counts[:, which, place] += (latencies > limit_ms).sum(), latencies.size
    return counts[0] / counts[1], busy_pct, float(np.median(step_ms))


def capacity_of(rates: Array, shares: Array, allowed: float) -> float:
    """Return the rate at which the share that missed passes what is allowed, interpolated; it rises with the rate."""
    rising = np.log(np.maximum.accumulate(np.maximum(shares, 1e-6)))
    rising += 1e-9 * np.arange(len(rates))
    return float(np.exp(np.interp(math.log(allowed), rising, np.log(rates))))


class Server:
    """A process that serves one network; used as a context."""

    def __init__(self, network: str, threads: int, most: int) -> None:
        plan = json.dumps({"network": network, "threads": threads, "most": most})
        command = [sys.executable, "-m", "benchmarks.serving", "--serve", plan]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._cpu = psutil.Process(self._process.pid)
        self._others = InterferenceSampler()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def undisturbed_ms(self, rate_per_s: float, seconds: float, seed: int) -> tuple[np.ndarray, float]:
        """Return latencies and what others took of a core meanwhile in percent; the quietest of a few tries if busy.

        The cause alone decides, never the latencies.
        """
        best = np.empty(0), math.inf
        for attempt in range(TRIES):
            self._others.reset(self._cpu_s(), [self._process.pid])
            latencies = self.latencies_ms(rate_per_s, seconds, seed + 10_000 * attempt)
            others_pct = self._others.sample(self._cpu_s(), [self._process.pid]).other_cpu_pct or 0.0
            if others_pct < best[1]:
                best = latencies, others_pct
            if others_pct <= BUSY_PCT:
                break
        return best

    def _cpu_s(self) -> float:
        times = self._cpu.cpu_times()
        return times.user + times.system

    def latencies_ms(self, rate_per_s: float, seconds: float, seed: int) -> np.ndarray:
        """Return the latencies of requests at that rate, without the first quarter of them."""
        latencies = self.ask([rate_per_s, seconds, seed])
        return latencies[len(latencies) // 4 :]

    def ask(self, question: list[float]) -> np.ndarray:
        """Return the answer to a line of :func:`serve`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return np.array(json.loads(self._process.stdout.readline()))


def serve(plan: dict[str, Any]) -> int:
    """Answer each line (rate, seconds, seed) with the latencies of the requests, in ms.

    A rate of 0 asks for the times of some full batches, one after the other.
    """
    import tensorflow as tf

    from core.worker.tensorflow.model import build_model

    tf.config.threading.set_intra_op_parallelism_threads(plan["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(plan["threads"])  # with one, steps take a quarter less
    workload = Workload(network=plan["network"], mode="infer")
    model = build_model(workload, Target(threads=plan["threads"]))
    shape, most = model.input_shape[1:], plan["most"]
    compute = model.make_predict_function() or model.predict_function
    sizes = [1 << (batch - 1).bit_length() for batch in range(1, most + 1)]  # batches are padded, as servers pad them
    padded = {size: [(tf.random.normal((size, *shape)),)] for size in sizes}
    inputs = [padded[size] for size in sizes]
    for _ in range(50):
        for batch in padded.values():
            compute(batch).numpy()
    for line in sys.stdin:
        rate_per_s, seconds, seed = json.loads(line)
        if not rate_per_s:
            print(json.dumps(timed(lambda: compute(inputs[-1]).numpy())), flush=True)
            continue
        rng = np.random.default_rng(seed)
        due = np.cumsum(rng.exponential(1 / rate_per_s, max(10, int(rate_per_s * seconds)))).tolist()
        print(json.dumps(_play(due, most, lambda count: compute(inputs[count - 1]).numpy())), flush=True)
    return 0


def timed(run: Any) -> list[float]:
    """Return the ms of each step for a while, without the first."""
    ms, end_s = list[float](), time.perf_counter() + STEPS_S
    while len(ms) < 2 or time.perf_counter() < end_s:
        begin_s = time.perf_counter()
        run()
        ms.append(1000 * (time.perf_counter() - begin_s))
    return ms[1:]


def _play(due: list[float], most: int, run: Any) -> list[float]:
    """Serve requests that are due at these seconds, greedily, and return their latencies in ms.

    Little is done between batches, since that work is no step's.
    """
    batches, head, begin = list[tuple[int, float]](), 0, time.perf_counter()
    while head < len(due):
        now = time.perf_counter() - begin
        tail = bisect_right(due, now, head, min(len(due), head + most))
        if tail > head:  # else busy waiting, as a sleep would wake late
            run(tail - head)
            batches.append((tail - head, time.perf_counter() - begin))
            head = tail
    counts, ends = zip(*batches, strict=True)
    return [round(ms, 4) for ms in 1000 * (np.repeat(ends, counts) - np.array(due))]


if __name__ == "__main__":
    sys.exit(main())
