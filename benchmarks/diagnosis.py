"""Does a diagnosis find real causes on this CPU? Three steps that are slow for common reasons.

- input: an expensive Python function in the map, which starves the step;
- eager: a model run eagerly;
- tiny: a model so small that starting its operations is most of the step.

Each is measured as a user would: a short sweep, then a diagnosis, both with real workers. The remedy expected to rank
first, and the input-bound share, are printed beside the findings.

    python -m benchmarks.diagnosis [--sweep 20] [--budget 90]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from benchmarks.real import real_tools, sweep
from core.machine.lock import machine_lock
from core.rounds.plan import SweepPlan
from core.studies.diagnosis.answer import DiagnosisAnswer, diagnose
from core.studies.diagnosis.record import Diagnosis
from core.studies.diagnosis.run import DiagnosisPlan, run_diagnosis
from core.studies.experiment.effects import effects
from core.workload.spec import Pipeline, Target, Workload


@dataclass(frozen=True)
class Case:
    """One case. ``expected``: families of which one should rank first, apart from a larger batch."""

    name: str
    network: str
    target: str
    pipeline: Pipeline
    batch: int
    expected: tuple[str, ...]


CASES = (
    Case(
        "input",
        "784-128-10",
        "cpu",
        Pipeline(kind="tfdata", preprocess_us=300.0, preprocess_python=True),
        32,
        ("resident",),
    ),
    Case("eager", "784-128-10", "cpu,execution=eager", Pipeline(), 32, ("graph", "xla")),
    Case("tiny", "20-16-4", "cpu", Pipeline(), 16, ("steps", "xla")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", type=float, default=20.0, help="seconds for each sweep")
    parser.add_argument("--budget", type=float, default=90.0, help="seconds for each diagnosis")
    options = parser.parse_args()
    right = 0
    with machine_lock("benchmarks/diagnosis.py"):
        for case in CASES:
            run = sweep(plan_of(case, options.sweep))
            with real_tools() as tools:
                diagnosis = run_diagnosis(tools, DiagnosisPlan(run, 1, case.batch, options.budget))
            right += tell(case, diagnosis, diagnose(run, diagnosis))
    print(f"\nThe right remedy ranked first in {right} of {len(CASES)} cases.")


def plan_of(case: Case, budget_s: float) -> SweepPlan:
    return SweepPlan(
        workload=Workload(network=case.network),
        targets=(Target(threads=1), Target.parse(case.target)),
        batches=(case.batch // 2, case.batch, 2 * case.batch),
        pipeline=case.pipeline,
        budget_s=budget_s,
    )


def tell(case: Case, diagnosis: Diagnosis, answer: DiagnosisAnswer) -> bool:
    """Print a case's findings; return True if an expected remedy helps most."""
    print(f"\n{case.name}: {case.network} on {case.target}, batch {case.batch}, {case.pipeline.title}")
    print(f"  {answer.sentence}")
    for finding in answer.findings:
        if finding.gain is not None:
            bounds = (
                "" if finding.low is None or finding.high is None else f" ({finding.low:.2f} to {finding.high:.2f})"
            )
            print(f"  {finding.title:<58} {finding.judgement:<10} {finding.gain:6.2f}x{bounds}")
    resident = diagnosis.experiment.index_of("resident")
    for effect in effects(diagnosis.experiment):
        if effect.arm == resident:
            low, high = effect.speed_up_low or effect.speed_up, effect.speed_up_high or effect.speed_up
            share, least, most = (1 - 1 / v for v in (effect.speed_up, low, high))
            print(f"  input-bound share {share:.1%} ({least:.1%} to {most:.1%})")
    for warning in answer.warnings:
        print(f"  warning: {warning.text}")
    first = next(f for f in answer.findings if f.family != "batch")
    return first.family in case.expected and first.judgement == "helps"


if __name__ == "__main__":
    main()
