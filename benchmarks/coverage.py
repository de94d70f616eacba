"""How often a 95 % interval holds the true crossover, ours beside the usual ways, on simulated sweeps.

    python -m benchmarks.coverage --sweeps 1000 [--json out.json]

The same rounds, from whole sweeps of the real supervisor on a virtual clock, are given to three methods: ours (t over
processes, inverted), a percentile bootstrap that resamples processes and their rounds, and one that resamples all
rounds as if they were independent.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from core.studies.sweep.analyse import compare
from core.studies.sweep.record import Run
from tests.support.simulation import Machine, NoiseModel, random_curves
from tests.support.sweeps import plan, sweep

RESAMPLES = 200


def random_machine(seed: int) -> Machine:
    return Machine(random_curves(np.random.default_rng(seed)), NoiseModel(), seed=seed)


def bootstrap(run: Run, clustered: bool, rng: np.random.Generator) -> tuple[float, float] | None:
    """Percentile interval of the crossover of resampled medians, interpolated in log2(batch)."""
    by_process: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for item in run.rounds:
        first, second = item.step_ms(0), item.step_ms(1)
        if first is not None and second is not None:
            key = item.blocks[0].process if clustered else 0
            by_process[key][item.batch].append(float(np.log(first / second)))
    processes = sorted(by_process)
    found = []
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
            found.append(crossing[len(crossing) // 2])
    if not found:
        return None
    low, high = np.percentile(found, [2.5, 97.5])
    return float(2**low), float(2**high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    budgets_s, methods = (60.0, 90.0), ("ours", "bootstrap of processes", "bootstrap of rounds")
    results = []
    print(f"{'budget':>8} {'method':<24} {'claims':>7} {'coverage':>9} {'median high/low':>16}")
    for budget_s in budgets_s:
        covered: dict[str, list[bool]] = {method: [] for method in methods}
        ratios: dict[str, list[float]] = {method: [] for method in methods}
        for seed in range(options.sweeps // len(budgets_s)):
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
        for method in methods:
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
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
