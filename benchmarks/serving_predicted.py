"""Coverage of predicted capacities over simulated servers with known step times.

    python -m benchmarks.serving_predicted [--servers 1000]

Draws servers (fixed cost, cost per sample, scatter of single steps, limit, largest batch), sweeps each on simulated
rounds, and prints how often the 95 % interval holds the true capacity, with its width. The exit status is 0 if at least
93 % of them do.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from core.rounds.answer.analyse import analyse
from core.studies.serving.prediction import serving_answer
from core.studies.serving.service import Service
from simulated.served import make_inference_run, true_capacity_per_s

GOAL = 0.93


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=1000)
    options = parser.parse_args()
    rng, held, widths, errors = np.random.default_rng(0), 0, list[float](), list[float]()
    played = 0
    while played < options.servers:
        floors, slopes = rng.uniform(0.2, 5.0, 2), rng.uniform(0.005, 0.5, 2)
        scatter, batch = float(rng.uniform(0.02, 0.6)), int(rng.choice([1, 4, 8, 16, 32, 64]))
        limit_ms = float(rng.uniform(3, 20) * (floors.max() + slopes.max()))
        service = Service(limit_ms=limit_ms, max_batch=batch)
        run = make_inference_run(
            int(rng.integers(1e9)), (float(floors[0]), float(floors[1])), (float(slopes[0]), float(slopes[1])), scatter
        )
        for target, floor, slope in zip(
            serving_answer(run, analyse(run), service).targets, floors, slopes, strict=True
        ):
            true, capacity = true_capacity_per_s(float(floor), float(slope), scatter, service), target.capacity_per_s
            assert capacity.low is not None
            assert capacity.high is not None
            held += capacity.low <= true <= capacity.high
            played += 1
            if true and capacity.low:
                widths.append(capacity.high / capacity.low)
                errors.append(abs(np.log(capacity.value / true)))
    quantiles = np.quantile(widths, [0.1, 0.5, 0.9])
    print(f"{held} of {played} intervals hold the true capacity ({held / played:.1%}, goal {GOAL:.0%})")
    print(f"upper over lower end: median {quantiles[1]:.3g} ({quantiles[0]:.3g} to {quantiles[2]:.3g})")
    print(f"median error of the value: {np.median(errors):.1%}, 90 %: {np.quantile(errors, 0.9):.1%}")
    return 0 if held / played >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
