"""Does a fleet run measure what a direct run does? Both on one node here, in turn.

    python -m benchmarks.fleet_fidelity blocks [--sets 24] [--rounds 24] [--json FILE]
    python -m benchmarks.fleet_fidelity runs [--sets 8] [--budget 30] [--json FILE]

*blocks*: a set starts workers twice with the engine's own launcher: from this program, and from an actor that Ray
placed on a cluster of one node. All are alive side by side and are timed in rounds of one block each, in a new random
order every round, as a sweep times its targets, so that disturbances of the machine affect both alike. A set's ratio is
the mean over cells of the median over rounds of the log ratio. Every set has new processes and its own templates.

*runs*: the same plan by ``sweep`` and by ``fleet``, whole runs one after the other, in alternating order. It includes
the whole way of the results to the store, and the machine's variation from minute to minute.

Both print the ratio of step times, Ray over direct, and a 95 % interval by Student's t over sets. The exit status is 0
if the whole interval lies within 0.98 to 1.02. 10 minutes each. Run it without nice: a fleet's workers shed it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from core.analysis.statistics import t_quantile
from core.machine.cores import unhindered
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.rounds.show.imports import read_run
from core.studies.fleet.ray_cluster import connected
from core.studies.fleet.record import FleetStudy
from core.worker import templates
from core.worker.process import launch_processes
from core.worker.protocol import Prepare, Prepared, Request, RunBlock, Worker
from core.workload.names import full_name
from core.workload.spec import Pipeline, Target, Workload

LOW, HIGH = 0.98, 1.02
WORKLOAD = Workload(network="784-512-512-10")
TARGETS = (Target(threads=1), Target(threads=2))
BATCHES = (1, 32, 256)
START_S = ASK_S = 240.0
BLOCK_MS, WARMUP_MS = 20.0, 300.0
Cells = dict[tuple[int, int], float]
"""Values by target and batch."""


class Workers:
    """Workers of all targets, started as the engine starts them, here or as a Ray actor."""

    def __init__(self) -> None:
        unhindered()  # like a node of a fleet
        self._workers: tuple[Worker, ...] = launch_processes(TARGETS, START_S)

    def starts(self) -> list[str]:
        return [worker.ready.start for worker in self._workers]

    def ask(self, target: int, request: Request[Any]) -> Any:
        return self._workers[target].ask(request, ASK_S)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        templates.TEMPLATES.close()


Ask = Callable[[int, Request[Any]], Any]


@contextmanager
def cluster() -> Iterator[str]:
    """Yield the address of a cluster of this machine alone."""
    from ray.cluster_utils import Cluster

    if os.nice(0) > 0:
        raise SystemExit("Run this without nice: a direct run would keep it, and the workers of a fleet do not.")
    if os.geteuid() != 0:
        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": os.cpu_count()})
    try:
        yield made.address
    finally:
        made.shutdown()


def blocks(sets: int, rounds: int) -> list[Cells]:
    """Return the log ratios, Ray over direct, of each set's cells."""
    with cluster() as address:
        ray = connected(address)
        remote = ray.remote(Workers).options(num_cpus=os.cpu_count())
        try:
            return [_set_of_blocks(ray, remote, rounds, number) for number in range(sets)]
        finally:
            ray.shutdown()


def _set_of_blocks(ray: Any, remote: Any, rounds: int, number: int) -> Cells:
    order = random.Random(number)
    through: Any = None
    direct: Workers | None = None
    try:
        for way in order.sample(("direct", "ray"), 2):
            if way == "ray":
                through = remote.remote()
                starts = ray.get(through.starts.remote())
            else:
                direct = Workers()
        assert direct is not None
        assert direct.starts() == starts, "both are started alike"
        ways: list[Ask] = [direct.ask, lambda target, request: ray.get(through.ask.remote(target, request))]
        cells = [(target, batch) for target in range(len(TARGETS)) for batch in BATCHES]
        log_ratios = {cell: _log_ratio(ways, *cell, rounds, order) for cell in order.sample(cells, len(cells))}
    finally:
        if direct is not None:
            direct.close()
        if through is not None:
            ray.get(through.close.remote())
            ray.kill(through)
    print(f"set {number + 1}: {math.exp(statistics.fmean(log_ratios.values())):.4f}", flush=True)
    return log_ratios


def _log_ratio(ways: list[Ask], target: int, batch: int, rounds: int, order: random.Random) -> float:
    steps: int | None = None
    for way in order.sample(ways, len(ways)):
        done: Prepared = way(target, Prepare(
            workload=WORKLOAD, pipeline=Pipeline(), batch=batch, block_ms=BLOCK_MS, warmup_ms=WARMUP_MS,
            latency_samples=1, steps_per_block=steps,
        ))  # fmt: skip
        steps = steps or done.steps_per_block
    block = RunBlock(batch=batch, steps=steps or 1)
    logs = np.empty((rounds, len(ways)))
    for row in logs:
        for index in order.sample(range(len(ways)), len(ways)):
            row[index] = math.log(ways[index](target, block).block_ms)
    return float(np.median(logs[:, 1] - logs[:, 0]))


def runs(sets: int, budget_s: float) -> list[Cells]:
    """Return log ratios as :func:`blocks` does, from whole runs."""
    plan = SweepPlan(
        workload=WORKLOAD, targets=TARGETS, batches=BATCHES, refine=False, trace=False, step_width=0.001,
        budget_s=budget_s,
    )  # fmt: skip
    with cluster() as address, tempfile.TemporaryDirectory() as name:
        os.environ["BREAKEVEN_DATA_DIR"] = name
        (Path(name) / "plan.json").write_text(plan.model_dump_json())
        return [_pair_of_runs(Path(name), address, number) for number in range(sets)]


def _pair_of_runs(folder: Path, address: str, number: int) -> Cells:
    took: dict[str, Cells] = {}
    for way in ("direct", "ray") if number % 2 == 0 else ("ray", "direct"):
        out = folder / f"{way}-{number}.json"
        command = ["sweep", "--plan"] if way == "direct" else ["fleet"]
        command += [str(folder / "plan.json"), "--out", str(out), "--no-store"]
        command += ["--address", address] if way == "ray" else []
        done = subprocess.run([sys.executable, "-m", "core", *command], capture_output=True, text=True, check=False)
        assert out.exists(), done.stderr  # one machine has no comparison, so a fleet run ends with 1
        took[way] = steps_ms(_run_in(out, way))
    log_ratios = {cell: math.log(took["ray"][cell] / step_ms) for cell, step_ms in took["direct"].items()}
    print(f"pair {number + 1}: {math.exp(statistics.fmean(log_ratios.values())):.4f}", flush=True)
    return log_ratios


def _run_in(path: Path, way: str) -> Run:
    data = path.read_bytes()
    if way == "direct":
        return read_run(data, path.name)
    parsed = json.loads(data)
    return FleetStudy.from_data(parsed.get("record", parsed)).runs[0]


def steps_ms(run: Run) -> Cells:
    """Return the step time of each cell: the median over processes of their medians."""
    of: dict[tuple[int, int], dict[int, list[float]]] = {}
    for item in run.rounds:
        for block in item.blocks:
            of.setdefault((block.target, item.batch), {}).setdefault(block.process, []).append(block.step_ms)
    return {cell: statistics.median(map(statistics.median, each.values())) for cell, each in of.items()}


def summary(sets: list[Cells]) -> dict[str, Any]:
    """Return the ratio over all sets with its interval, and print it."""
    for target, batch in sorted(sets[0]):
        ratio = math.exp(statistics.fmean(each[target, batch] for each in sets))
        print(f"{full_name(TARGETS[target])} at batch {batch:5,}: Ray over direct {ratio:.4f}")
    means = np.array([statistics.fmean(each.values()) for each in sets])
    half = t_quantile(0.975, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means))
    ratio, low, high = (math.exp(means.mean() + change) for change in (0.0, -half, half))
    print(f"Ray over direct, {len(sets)} sets: {ratio:.4f}, 95 % interval {low:.4f} to {high:.4f}")
    return {"ratio": ratio, "low": low, "high": high, "sets": np.exp(means).tolist()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["blocks", "runs"])
    parser.add_argument("--sets", type=int)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--budget", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.what == "blocks":
        result = summary(blocks(options.sets or 24, options.rounds))
    else:
        result = summary(runs(options.sets or 8, options.budget))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return 0 if result["low"] >= LOW and result["high"] <= HIGH else 1


if __name__ == "__main__":
    sys.exit(main())
