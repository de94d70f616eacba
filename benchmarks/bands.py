"""Share of whole answers about three and six targets that are right, on rounds simulated with known truth.

    python -m benchmarks.bands [--sweeps 1000] [--uneven] [--json out.json]

:func:`simulated.truths.wrong` defines a right answer. At most 5 % of answers may be wrong; fewer are if little can be
wrong: no change, or one target far ahead.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from core.rounds.answer.fastest import find_fastest
from simulated.truths import TRUTHS, simulated, wrong


@dataclass(frozen=True)
class Row:
    """One row of the table.

    ``claimed``: share of the range (octaves) with a single target; ``width``: median high / low of boundaries.
    """

    truth: str
    targets: int
    sweeps: int
    right: float
    claimed: float
    boundaries: float
    width: float | None


def judged(truth: str, count: int, sweeps: int, uneven: bool = False) -> Row:
    """Return the row of that many targets of one kind of truth, simulated that many times."""
    right, claimed, widths, known = 0, [], [], 0
    for seed in range(sweeps):
        rng = np.random.default_rng([seed, count, list(TRUTHS).index(truth)])
        curves = TRUTHS[truth](rng, count)
        answer = find_fastest(simulated(curves, rng, uneven), count, 0.05)
        right += not wrong(answer, curves)
        octaves = [(math.log2(b.to_batch / b.from_batch), len(b.targets) == 1) for b in answer.bands]
        claimed.append(sum(o for o, single in octaves if single) / sum(o for o, _ in octaves))
        known += len(answer.boundaries)
        widths += [b.high / b.low for b in answer.boundaries if b.low is not None and b.high is not None]
    width = float(np.median(widths)) if widths else None
    return Row(truth, count, sweeps, right / sweeps, float(np.mean(claimed)), len(widths) / sweeps, width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--uneven", action="store_true", help="3 to 6 processes, 2 to 8 rounds per cell")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"{'truth':<26}{'targets':>8}{'right':>8}{'one named':>11}{'intervals':>11}{'high/low':>10}")
    rows = []
    for truth in TRUTHS:
        for count in (3, 6):
            row = judged(truth, count, options.sweeps, options.uneven)
            rows.append(row)
            width = "" if row.width is None else f"{row.width:.3f}"
            print(
                f"{truth:<26}{count:>8}{row.right:>8.1%}{row.claimed:>11.0%}{row.boundaries:>11.2f}{width:>10}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
