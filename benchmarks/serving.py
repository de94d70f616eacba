"""Predicted capacity beside that of a real batcher on this CPU.

    python -m benchmarks.serving [--budget 45] [--only WORDS] [--json FILE]

For each network and limit it sweeps inference on one thread and on two, predicts the capacity of both, and then serves:
a process of its own runs the network behind a batcher, arrivals come at their planned times whatever the server does
(open loop), and latency counts from the planned time. The rate at which the percentile meets the limit is bracketed by
halving, each time over chunks in shuffled order. No network and no client is in between, and the server looks arrivals
up by the clock, so no generator can be late. Goal: median error at most 10 %, and 90 % of the measured capacities in
the predicted interval. A network takes about five minutes; the machine should be idle.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from bisect import bisect_right
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real import sweep
from core.machine.lock import machine_lock
from core.rounds.answer.analyse import analyse
from core.rounds.plan import SweepPlan
from core.studies.serving.prediction import serving_answer
from core.studies.serving.service import Service
from core.workload.spec import Target, Workload, parse_batches

CELLS = (  # network, largest batch, limits in lone latencies
    ("784-512-512-10", 32, (3.0, 10.0)),
    ("784-2048-2048-10", 32, (3.0, 10.0)),
    ("784-2048-2048-10", 8, (3.0, 10.0)),
    ("784-1024-1024-1024-10", 16, (3.0, 10.0)),
    ("resnet20", 8, (3.0, 10.0)),
)
THREADS = (1, 2)
CHUNK_S, CHUNKS = 4.0, 2
"""Length and number of chunks per rate and step of the search; the first quarter of a chunk is left out."""
HALVINGS = 6
RANGE = 2.0
"""The search begins at the predicted capacity over and times this."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=45.0, help="seconds of each sweep")
    parser.add_argument("--only", default="", help="only networks whose name contains this")
    parser.add_argument("--json", type=Path, help="append a line per cell to this file")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(json.loads(options.serve))
    errors, held = list[float](), 0
    with machine_lock("the serving benchmark"):
        for network, most, limits in (cell for cell in CELLS if options.only in cell[0]):
            for cell in cells_of(network, most, limits, options.budget):
                print(json.dumps(cell), flush=True)
                if options.json:
                    with options.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(cell) + "\n")
                errors.append(abs(math.log(cell["predicted"] / cell["measured"])))
                held += cell["low"] <= cell["measured"] <= cell["high"]
    print(f"median error {np.median(errors):.1%} (goal 10 %); {held} of {len(errors)} in the interval (goal 90 %)")
    return 0 if np.median(errors) <= 0.1 and held >= 0.9 * len(errors) else 1


def cells_of(network: str, most: int, limits: tuple[float, ...], budget_s: float) -> list[dict[str, Any]]:
    """Return predicted and measured capacity of one network, for each limit and number of threads."""
    workload = Workload(network=network, mode="infer")
    targets = tuple(Target(threads=threads) for threads in THREADS)
    run = sweep(SweepPlan(workload=workload, targets=targets, batches=parse_batches(f"1:{most}"), budget_s=budget_s))
    answer, cells = analyse(run), []
    alone = serving_answer(run, answer, Service(max_batch=most)).targets
    for index, threads in enumerate(THREADS):
        with Server(network, threads, most) as server:
            for times in limits:
                service = Service(max_batch=most, limit_ms=round(times * alone[index].alone_ms, 2))
                target = serving_answer(run, answer, service).targets[index]
                capacity = target.capacity_per_s
                cells.append(
                    {"network": network, "threads": threads, "max_batch": most, "limit_ms": service.limit_ms,
                     "predicted": capacity.value, "low": capacity.low, "high": capacity.high,
                     "measured": measured_capacity(server, service, capacity.value), "singles": target.singles}
                )  # fmt: skip
    return cells


def measured_capacity(server: Server, service: Service, expected_per_s: float) -> float:
    """Return the rate at which the percentile meets the limit, between half and twice the expected one."""
    low, high = expected_per_s / RANGE, expected_per_s * RANGE
    for step in range(HALVINGS):
        middle = math.sqrt(low * high)
        chunks = [server.latencies_ms(middle, CHUNK_S, 100 * step + chunk) for chunk in range(CHUNKS)]
        if np.quantile(np.concatenate(chunks), service.level) <= service.limit_ms:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


class Server:
    """A process that serves one network; used as a context."""

    def __init__(self, network: str, threads: int, most: int) -> None:
        plan = json.dumps({"network": network, "threads": threads, "most": most})
        command = [sys.executable, "-m", "benchmarks.serving", "--serve", plan]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def latencies_ms(self, rate_per_s: float, seconds: float, seed: int) -> np.ndarray:
        """Return the latencies of requests at that rate, without the first quarter of them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([rate_per_s, seconds, seed]) + "\n")
        self._process.stdin.flush()
        latencies = np.array(json.loads(self._process.stdout.readline()))
        return latencies[len(latencies) // 4 :]


def serve(plan: dict[str, Any]) -> int:
    """Answer each line (rate, seconds, seed) with the latencies of the requests, in ms."""
    import tensorflow as tf

    from core.worker.tensorflow.model import build_model

    tf.config.threading.set_intra_op_parallelism_threads(plan["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(1)
    workload = Workload(network=plan["network"], mode="infer")
    model = build_model(workload, Target(threads=plan["threads"]))
    shape, most = model.input_shape[1:], plan["most"]
    compute = tf.function(lambda x: model(x, training=False), input_signature=[tf.TensorSpec((None, *shape))])
    inputs = [tf.random.normal((batch, *shape)) for batch in range(1, most + 1)]
    for _ in range(20):
        for batch in inputs:
            compute(batch).numpy()
    for line in sys.stdin:
        rate_per_s, seconds, seed = json.loads(line)
        rng = np.random.default_rng(seed)
        due = np.cumsum(rng.exponential(1 / rate_per_s, max(10, int(rate_per_s * seconds)))).tolist()
        print(json.dumps(_play(due, most, lambda count: compute(inputs[count - 1]).numpy())), flush=True)
    return 0


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
