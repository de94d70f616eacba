"""Rounds and seconds to a crossover interval of a given width: our refinement against a fixed grid.

    python -m benchmarks.refinement --sweeps 40 [--json out.json]

Both run on simulated machines (seeded, virtual clock, costs as measured on a 2-core machine unless given: 4.5 s per
start, 0.35 s per cell), with the same workers, rounds and statistics, and both restart their workers. The fixed grid
visits all its sizes equally often (two per doubling by default; a width of 20 % needs four without interpolation); ours
starts at one per doubling and spends its time at the bracket. Each is stopped when its interval is narrow enough (after
at least four processes), and the ratio is taken sweep by sweep.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.sweep import schedule
from core.studies.sweep.focus import focus_of
from core.studies.sweep.ledger import Ledger
from core.studies.sweep.workers import Workers
from simulated.simulation import Machine, NoiseModel, random_curves
from simulated.sweeps import MemoryRecorder, new_run, plan, sweep
from simulated.tools import tools_for

STARTUP_S, PREPARE_S = 4.5, 0.35
LIMIT_S = 3600.0


def machine(seed: int, startup_s: float = STARTUP_S, prepare_s: float = PREPARE_S) -> Machine:
    curves = random_curves(np.random.default_rng(seed))
    return Machine(curves, NoiseModel(), seed=seed, startup_s=startup_s, prepare_s=prepare_s)


def is_narrow(run: Run, sweep_plan: SweepPlan) -> bool:
    return focus_of(run).is_answered(sweep_plan.crossover_width, cells_settled=True)


def fixed_grid(simulated: Machine, sweep_plan: SweepPlan) -> Run:
    """Measure all batches equally often, in passes with restarts, until the interval is narrow enough."""
    ledger = Ledger(new_run(sweep_plan), MemoryRecorder())
    clock = simulated.clock
    workers = Workers(sweep_plan, ledger, tools_for(simulated), lambda: sweep_plan.budget_s)
    starts = 0
    while clock.now_s() < sweep_plan.budget_s:
        workers.start()
        starts += 1
        for number in range(schedule.LEAST_VISITS):
            for batch in sorted(sweep_plan.batches, reverse=number % 2 == 1):
                workers.visit(batch, ledger.next_pass, (0, 1))
            run = ledger.run(clock.now_s())
            if starts >= schedule.MIN_PROCESSES and is_narrow(run, sweep_plan):
                workers.close()
                return run
    workers.close()
    return ledger.run(clock.now_s())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=40)
    parser.add_argument("--width", type=float, default=0.2, help="(high − low) / batch that is enough")
    parser.add_argument("--batches", default="1:8192", help="range of both; default %(default)s")
    parser.add_argument("--per-octave", type=float, default=2.0, help="sizes per doubling of the fixed grid")
    parser.add_argument("--startup", type=float, default=STARTUP_S, help="seconds of a start")
    parser.add_argument("--prepare", type=float, default=PREPARE_S, help="seconds of preparing a batch")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    ours_plan = plan(options.batches, budget_s=LIMIT_S, crossover_width=options.width)
    grid_plan = plan(
        f"{options.batches}:{options.per_octave:g}", budget_s=LIMIT_S, crossover_width=options.width, refine=False
    )
    rows = []
    for seed in range(options.sweeps):
        ours = sweep(machine(seed, options.startup, options.prepare), ours_plan)
        grid = fixed_grid(machine(seed, options.startup, options.prepare), grid_plan)
        if is_narrow(ours, ours_plan) and is_narrow(grid, grid_plan):
            rows.append((len(ours.rounds), len(grid.rounds), ours.elapsed_s, grid.elapsed_s))
    values = np.array(rows, dtype=float)
    rounds, seconds = values[:, 1] / values[:, 0], values[:, 3] / values[:, 2]
    result = {
        "sweeps": len(rows),
        "of": options.sweeps,
        "width": options.width,
        "batches": options.batches,
        "median_rounds": {"refined": float(np.median(values[:, 0])), "fixed": float(np.median(values[:, 1]))},
        "median_s": {"refined": float(np.median(values[:, 2])), "fixed": float(np.median(values[:, 3]))},
        "rounds_ratio": float(np.median(rounds)),
        "seconds_ratio": float(np.median(seconds)),
    }
    print(f"{len(rows)} of {options.sweeps} sweeps reached a width of {options.width:.0%} both ways")
    print(
        f"rounds:  refined {np.median(values[:, 0]):.0f}, fixed grid {np.median(values[:, 1]):.0f}, "
        f"ratio {np.median(rounds):.1f} (quartiles {np.percentile(rounds, 25):.1f} to {np.percentile(rounds, 75):.1f})"
    )
    print(f"seconds: refined {np.median(values[:, 2]):.0f}, fixed grid {np.median(values[:, 3]):.0f}, "
          f"ratio {np.median(seconds):.1f}")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
