"""Coverage of 95 % intervals of the crossover, and false claims about equal targets, on simulated sweeps.

    python -m benchmarks.coverage methods --sweeps 1000 [--json out.json]
    python -m benchmarks.coverage machines --sweeps 200 [--machine quiet …] [--budget 45 …] [--jobs 2] [--json out.json]

``methods`` compares our interval with the usual ones, on the noise that all tests use. The same rounds, from sweeps of
the real supervisor on a virtual clock, are given to three methods: ours (t over processes, inverted), a percentile
bootstrap that resamples processes and their rounds, and one that resamples all rounds as if they were independent.

``machines`` simulates what real ones showed (simulated/noise.py): quiet, beside programs that compute in bursts,
and both with targets that the kernel may move between cores. Goals: at most 3 % of sweeps of equal targets with a claim
at any look (at every report, cancelled half-way, at the end, measured on), at least 93 % of the claimed intervals hold
the truth, and of the answers about three and six targets as many are right.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from core.rounds.answer.analyse import compare
from core.rounds.run import Run
from simulated.looks import LOST, Judged, Looked, crossing_targets, equal_targets
from simulated.noise import BUSY_MACHINE, QUIET_MACHINE, unbound
from simulated.simulation import Machine, NoiseModel, random_curves
from simulated.sweeps import plan, sweep

RESAMPLES = 200
PROLONGED_EVERY = 4
"""One in so many sweeps of equal targets is continued for half as long again."""
MACHINES = {
    "quiet": QUIET_MACHINE,
    "busy": BUSY_MACHINE,
    "quiet-unbound": unbound(QUIET_MACHINE),
    "busy-unbound": unbound(BUSY_MACHINE),
}


def random_machine(seed: int) -> Machine:
    return Machine(random_curves(np.random.default_rng(seed)), NoiseModel(), seed=seed)


def bootstrap(run: Run, clustered: bool, rng: np.random.Generator) -> tuple[float, float] | None:
    """Return a percentile interval of the crossover from resampled medians, interpolated in log2(batch)."""
    by_process: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for item in run.rounds:
        first, second = item.step_ms(0), item.step_ms(1)
        if first is not None and second is not None:
            key = item.blocks[0].process if clustered else 0
            by_process[key][item.batch].append(float(np.log(first / second)))
    processes = sorted(by_process)
    resampled = []
    for _ in range(RESAMPLES):
        pooled: dict[int, list[float]] = defaultdict(list)
        for process in rng.choice(processes, len(processes)):
            for batch, values in by_process[int(process)].items():
                pooled[batch] += list(rng.choice(values, len(values)))
        batches = np.array(sorted(pooled), dtype=float)
        x, y = np.log2(batches), np.array([np.median(pooled[int(b)]) for b in batches])
        crossing = [
            x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i]) for i in range(len(x) - 1) if y[i] * y[i + 1] < 0
        ]
        if crossing:
            resampled.append(crossing[len(crossing) // 2])
    if not resampled:
        return None
    low, high = np.percentile(resampled, [2.5, 97.5])
    return float(2**low), float(2**high)


def methods(sweeps: int) -> list[dict[str, Any]]:
    """Return the coverage and width of three intervals from the same sweeps."""
    budgets_s, names = (60.0, 90.0), ("ours", "bootstrap of processes", "bootstrap of rounds")
    results: list[dict[str, Any]] = []
    print(f"{'budget':>8} {'method':<24} {'claims':>7} {'coverage':>9} {'median high/low':>16}")
    for budget_s in budgets_s:
        covered: dict[str, list[bool]] = {method: [] for method in names}
        ratios: dict[str, list[float]] = {method: [] for method in names}
        for seed in range(sweeps // len(budgets_s)):
            machine = random_machine(seed)
            run = sweep(machine, plan(budget_s=budget_s))
            truth, rng = machine.true_crossover(1, 1024), np.random.default_rng(seed)
            verdict = compare(run)[0]
            intervals = {
                "ours": (verdict.crossovers[0].low, verdict.crossovers[0].high) if verdict.crossovers else None,
                "bootstrap of processes": bootstrap(run, True, rng),
                "bootstrap of rounds": bootstrap(run, False, rng),
            }
            for method, interval in intervals.items():
                if interval is not None:
                    covered[method].append(interval[0] <= truth <= interval[1])
                    ratios[method].append(interval[1] / interval[0])
        for method in names:
            row = {
                "budget_s": budget_s,
                "method": method,
                "claims": len(covered[method]),
                "coverage": float(np.mean(covered[method])),
                "median_ratio": float(np.median(ratios[method])),
            }
            results.append(row)
            numbers = f"{row['claims']:>7} {row['coverage']:>9.3f} {row['median_ratio']:>16.3f}"
            print(f"{budget_s:>6.0f} s {method:<24} {numbers}")
    return results


@dataclass(frozen=True)
class Task:
    """One simulated sweep; sweeps of ``equal`` targets are looked at throughout, others at the end."""

    machine: str
    targets: int
    budget_s: float
    seed: int
    equal: bool

    def run(self) -> tuple[Looked | Judged, float]:
        """Return the claims of the sweep and the seconds that its simulation took."""
        begin_s, noise = time.perf_counter(), MACHINES[self.machine]
        if self.equal:
            more_s = self.budget_s / 2 if self.seed % PROLONGED_EVERY == 0 else 0.0
            looked = equal_targets(noise, self.seed, self.budget_s, self.targets, more_s=more_s)
            return replace(looked, run=None), time.perf_counter() - begin_s
        judged = crossing_targets(noise, self.seed, self.budget_s * self.targets / 2, self.targets)
        return judged, time.perf_counter() - begin_s


def summary(task: Task, done: Sequence[tuple[Any, float]]) -> dict[str, Any]:
    """Return one row of the table of machines."""
    row: dict[str, Any] = {
        "machine": task.machine, "targets": task.targets, "budget_s": task.budget_s, "equal": task.equal,
        "sweeps": len(done), "simulated_in_s": float(np.mean([took_s for _, took_s in done])),
    }  # fmt: skip
    if task.equal:
        looked: list[Looked] = [result for result, _ in done]
        for name in ("claims", "live", "halfway", "end", "prolonged"):
            seen = [bool(claims) for result in looked if (claims := getattr(result, name)) is not None]
            row[f"false_{name}"] = float(np.mean(seen))
        row["codes"] = dict(Counter(code for result in looked for code in result.claims).most_common())
        return row
    judged: list[Judged] = [result for result, _ in done]
    covered, ratios = [c for result in judged for c in result.covered], [r for result in judged for r in result.ratios]
    return row | {
        "changes": sum(result.changes for result in judged),
        "intervals": len(covered),
        "coverage": float(np.mean(covered)) if covered else None,
        "median_ratio": float(np.median(ratios)) if ratios else None,
        "right": float(np.mean([result.right for result in judged])),
    }


def machines(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Simulate sweeps of equal and of crossing targets, per machine, budget and number of targets."""
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for machine, budget_s in product(options.machine, options.budget):
            for count, equal in [(2, True)] + [(count, False) for count in options.targets]:
                sweeps = max(1, options.sweeps // (1 if count == 2 else count))  # several targets take longer
                tasks = [Task(machine, count, budget_s, seed, equal) for seed in range(sweeps)]
                rows.append(summary(tasks[0], list(pool.map(Task.run, tasks))))
                print(", ".join(f"{name} {shown(value)}" for name, value in rows[-1].items()), flush=True)
    return rows


def shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["methods", "machines"])
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--machine", nargs="+", choices=MACHINES, default=list(MACHINES))
    parser.add_argument("--budget", nargs="+", type=float, default=[45.0, 90.0], help="seconds for two targets")
    parser.add_argument("--targets", nargs="+", type=int, choices=LOST, default=list(LOST))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = methods(options.sweeps) if options.what == "methods" else machines(options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
