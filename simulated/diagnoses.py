"""Plausible diagnoses with known effects, made from a seed. Like their runs, nothing was measured."""

import random
from collections.abc import Mapping

from core.base.evidence import Ended, Interference, Label
from core.rounds.run import Run
from core.studies.diagnosis.record import Diagnosis, Rerun
from core.studies.diagnosis.remedies import arms_for
from core.studies.experiment.record import ArmBlock, ArmOutcome, ArmRound, Experiment
from simulated.runs import make_environment, make_run, true_step_ms

HELPING = {"xla": 1.4, "steps-2": 1.5, "steps-8": 2.0, "steps-32": 2.3, "graph": 1.0, "threads-1": 0.8}
GAINED_FLOORS_MS = (0.3, 0.35)  # for a run after several steps per execution
BATCH = 8  # at which the second target of make_run is slower


def make_diagnosis(
    run: Run,
    gains: Mapping[str, float] | None = None,
    *,
    seed: int = 0,
    target: int = 1,
    batch: int = BATCH,
    processes: int = 3,
    rounds: int = 6,
    noise: float = 0.005,
    failed: Mapping[str, str] | None = None,
    reruns: Mapping[str, Run] | None = None,
    status: Ended = "finished",
    label: Label = "recorded",
    other_cpu_pct: float = 3.0,
) -> Diagnosis:
    """Make a diagnosis in which each applicable remedy is ``gains`` times faster by arm code (default 1).

    ``rounds`` is per process of ``processes``; ``noise`` is each block's relative spread; ``failed`` is code: reason.
    """
    rng = random.Random(seed)
    gains, failed = gains or {}, failed or {}
    arms, skipped = arms_for(run, target, batch)
    base_ms = true_step_ms((0.3, 0.8)[target], (0.02, 0.01)[target], batch)
    neighbours = Interference(other_cpu_pct=other_cpu_pct, steal_pct=0.0)
    arm_rounds: list[ArmRound] = []
    for process in range(processes):
        for _ in range(rounds):
            drift_ms = base_ms * rng.lognormvariate(0.0, noise)
            times_ms = [drift_ms * arm.batch / batch / gains.get(arm.code, 1.0) for arm in arms]
            blocks = tuple(
                ArmBlock(arm=i, process=process, steps=20, step_ms=times_ms[i] * rng.lognormvariate(0.0, noise))
                for i, arm in enumerate(arms)
                if arm.code not in failed
            )
            arm_rounds.append(ArmRound(index=len(arm_rounds), blocks=blocks, interference=neighbours))
    lost = {index: failed[arm.code] for index, arm in enumerate(arms) if arm.code in failed}
    assert run.plan is not None  # arms_for refuses a run without a plan
    experiment = Experiment(
        workload=run.plan.workload, arms=arms, rounds=tuple(arm_rounds), label=label, status=status,
        outcomes=tuple(ArmOutcome(arm=index, outcome="error", reason=why) for index, why in lost.items()),
        created_at="2026-01-06T09:00:00+00:00", elapsed_s=97.0, budget_s=120.0, environment=make_environment(),
    )  # fmt: skip
    again = tuple(Rerun(code=code, run=rerun) for code, rerun in (reruns or {}).items())
    return Diagnosis(run_id=run.id, target=target, batch=batch, experiment=experiment, skipped=skipped, reruns=again)


def helping_diagnosis(run: Run, **changes: object) -> Diagnosis:
    """Make a diagnosis in which several steps per execution and XLA help; the former lowers the crossover."""
    again = make_run(91, floors_ms=GAINED_FLOORS_MS)
    return make_diagnosis(run, HELPING, reruns={"steps-32": again}, **changes)  # type: ignore[arg-type]
