"""Share of a fleet run's answers that are right, on three and six machines simulated with known truth.

    python -m benchmarks.fleet_bands [--fleets 1000] [--json out.json]

Like :mod:`benchmarks.bands`, but each target is a machine with its own run: its own processes, tails and stalls, and a
drift that no other machine shares, so that nothing cancels. An answer is right if every statement holds. Also printed:
the share of the crossovers against the baseline machine whose interval contains the true one.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from core.analysis.statistics import Array
from core.rounds.answer.answer import Fastest
from core.rounds.answer.condensed import TargetCurve, target_curve
from core.studies.fleet.answer import bands
from core.studies.fleet.unpaired import against_baseline, common_batches, times_of
from simulated import truths as paired
from simulated.replicates import observed
from simulated.truths import GRID, NOISE, POINTS, PROCESSES, TRUTHS, Curves

ROUNDS = 8
OWN_BATCHES = 2  # refined by this machine alone
DRIFT, DRIFT_CELLS = 0.03, 4.0  # standard deviation of a machine's drift, and its correlation length in cells


@dataclass(frozen=True)
class Machines:
    """Simulated machines: the curve to which each was condensed, and the truth."""

    curves: tuple[tuple[TargetCurve, ...], ...]
    truth: Curves

    def wrong(self, answer: Fastest) -> tuple[str, ...]:
        return paired.wrong(answer, self.truth)


def machine_curve(rng: np.random.Generator, count: int, truth: str = "changes far apart") -> Machines:
    """Return that many machines of one kind of truth."""
    curves = TRUTHS[truth](rng, count)
    return Machines(tuple((_measured(curve, rng),) for curve in curves), curves)


def _measured(curve: paired.Curve, rng: np.random.Generator) -> TargetCurve:
    """Return the condensed run of one machine, with its own offsets, cells, drift, heavy tails and stalls."""
    own = {round(2.0 ** rng.uniform(1, 9)) for _ in range(OWN_BATCHES)}
    batches = np.array(sorted({*GRID, *own}), dtype=float)
    processes = int(rng.choice(PROCESSES))
    shape = (processes, len(batches), ROUNDS)
    logs = np.log([curve.step_ms(batch) for batch in batches])[None, :, None] + np.zeros(shape)
    logs += rng.normal(0, NOISE.process, (processes, 1, 1)) + rng.normal(0, NOISE.cell, (processes, len(batches), 1))
    logs += _drift(rng, shape)[..., None] + NOISE.tail * rng.standard_t(3, shape)
    stalled = rng.random(shape) < NOISE.stall_share
    logs += np.where(stalled, np.log1p(rng.random(shape) * (NOISE.stall_factor - 1)), 0.0)
    values = np.median(logs, axis=2)
    values[0, ~np.isin(batches, GRID)] = np.nan
    return target_curve(observed(batches, values))


def _drift(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return the drift of each process over its cells, which it measures one after another."""
    keep = math.exp(-1 / DRIFT_CELLS)
    drift = np.zeros(shape[:2])
    drift[:, 0] = rng.normal(0, DRIFT, shape[0])
    for cell in range(1, shape[1]):
        drift[:, cell] = keep * drift[:, cell - 1] + rng.normal(0, DRIFT * math.sqrt(1 - keep**2), shape[0])
    return drift


def true_crossover(first: paired.Curve, second: paired.Curve) -> float | None:
    """Return the batch at which the second overtakes the first or falls behind; None unless it occurs exactly once."""
    logs = np.log([first.step_ms(batch) / second.step_ms(batch) for batch in POINTS])
    changes = np.flatnonzero(np.diff(np.sign(logs)))
    return float(POINTS[changes[0]]) if len(changes) == 1 else None


@dataclass(frozen=True)
class Row:
    """One row of the table.

    ``right``: share of whole answers; ``covered``: coverage of the claimed crossovers against the baseline;
    ``crossovers``: how many of the true crossovers those are; ``width``: their median high / low.
    """

    truth: str
    machines: int
    fleets: int
    right: float
    covered: float
    crossovers: float
    width: float | None


def judged(truth: str, count: int, fleets: int) -> Row:
    """Return the row of that many machines of one kind of truth, simulated that many times."""
    right, held, claimed, there, widths = 0, 0, 0, 0, []
    for seed in range(fleets):
        machines = machine_curve(np.random.default_rng([seed, count, list(TRUTHS).index(truth), 7]), count, truth)
        times = times_of(machines.curves, common_batches(machines.curves))
        right += not machines.wrong(bands(times, 0.05))
        for comparison in against_baseline(times, 0, 0.05, [str(n) for n in range(count)])[1:]:
            at = None if comparison is None else true_crossover(machines.truth[0], machines.truth[comparison.target])
            if comparison is None or at is None:
                continue
            there += 1
            for crossover in comparison.verdict.crossovers[:1]:
                assert crossover.low is not None
                assert crossover.high is not None
                claimed += 1
                held += crossover.low <= at <= crossover.high
                widths.append(crossover.high / crossover.low)
    width = float(np.median(widths)) if widths else None
    return Row(
        truth, count, fleets, right / fleets, held / claimed if claimed else math.nan,
        claimed / there if there else math.nan, width,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fleets", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"{'truth':<26}{'machines':>9}{'right':>8}{'covered':>9}{'claimed':>9}{'high/low':>10}")
    rows = []
    for truth in TRUTHS:
        for count in (3, 6):
            row = judged(truth, count, options.fleets)
            rows.append(row)
            width = "" if row.width is None else f"{row.width:.3f}"
            print(
                f"{truth:<26}{count:>9}{row.right:>8.1%}{row.covered:>9.1%}{row.crossovers:>9.1%}{width:>10}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
