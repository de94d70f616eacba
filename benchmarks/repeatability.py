"""Do sweeps of the same thing agree? Five in a row, and five beside a neighbour that loads one core.

    python -m benchmarks.repeatability [--sweeps 5] [--budget 60] [--json out.json]

Real sweeps, headless, one CPU thread against two. The count is how often each sweep's crossover lies inside the other
sweeps' 95 % intervals; an inconclusive sweep (for instance on an unstable machine) makes no claim that another could
contradict, and is counted separately. Takes (2 × sweeps × budget) seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.neighbours import planted
from benchmarks.real import sweep
from core.machine.lock import machine_lock
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import Verdict
from core.rounds.answer.observations import observe
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.workload.spec import Target, Workload, parse_batches

GOAL = 0.9


def agreement(verdicts: list[Verdict]) -> tuple[int, int]:
    """Return (crossovers inside another sweep's interval, ordered pairs of sweeps that both name a crossover)."""
    claims = [v.crossovers[0] for v in verdicts if v.crossovers]
    pairs = [(a, b) for i, a in enumerate(claims) for j, b in enumerate(claims) if i != j]
    return sum(b.low <= a.batch <= b.high for a, b in pairs if b.low is not None and b.high is not None), len(pairs)


def report(title: str, runs: list[Run]) -> dict[str, object]:
    verdicts = [analyse(run).verdict for run in runs]
    print(f"{title}:")
    rows = []
    for run, verdict in zip(runs, verdicts, strict=True):
        seen = observe(run)
        codes = ", ".join(w.code for w in verdict.warnings)
        print(
            f"  {run.elapsed_s:4.0f} s, {len(run.rounds):4} rounds, spread {seen.spread:5.1%}: "
            f"{verdict.sentence} [{verdict.reason}{'; ' + codes if codes else ''}]"
        )
        rows.append(
            {
                "sentence": verdict.sentence,
                "reason": verdict.reason,
                "warnings": [w.code for w in verdict.warnings],
                "spread": seen.spread,
                "crossovers": [(c.batch, c.low, c.high) for c in verdict.crossovers],
            }
        )
    inside, pairs = agreement(verdicts)
    unclear = sum(v.kind == "inconclusive" for v in verdicts)
    share = inside / pairs if pairs else float("nan")
    print(f"  {inside} of {pairs} crossovers inside the others' intervals ({share:.0%}); {unclear} sweeps inconclusive")
    return {"sweeps": rows, "inside": inside, "pairs": pairs, "inconclusive": unclear}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=5)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--network", default="784-512-512-10")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    plan = SweepPlan(
        workload=Workload(network=options.network),
        targets=(Target.parse("cpu,threads=1"), Target.parse("cpu,threads=2")),
        batches=parse_batches("1:1024"),
        budget_s=options.budget,
    )
    with machine_lock("the benchmark of repeatability"):
        quiet = report("alone", [sweep(plan) for _ in range(options.sweeps)])
        with planted("one core"):
            loaded = report("beside a neighbour on one core", [sweep(plan) for _ in range(options.sweeps)])
    if options.json:
        options.json.write_text(json.dumps({"alone": quiet, "neighbour": loaded}, indent=1), encoding="utf-8")
    met = [not r["pairs"] or int(str(r["inside"])) >= GOAL * int(str(r["pairs"])) for r in (quiet, loaded)]
    print(f"goal {GOAL:.0%} of pairs: {'met' if all(met) else 'not met'}")
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
