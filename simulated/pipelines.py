"""Pipeline studies with a known truth, made from a seed. They are labelled recorded: nothing here was measured."""

import random
from collections.abc import Callable

from core.networks.families import network_from_name
from core.studies.experiment.record import Arm, ArmBlock, ArmOutcome, ArmRound, Experiment
from core.studies.pipeline.plan import DEFAULT_BASE, PipelinePlan
from core.workload.spec import Pipeline, Target, Workload
from simulated.runs import make_environment

RESIDENT_MS = 2.0
BATCH = 64
PREFETCHED = {0: 1.0, 1: 0.25}  # share of the feeding that the step still waits for; 2 and more hide all that fits

Truth = Callable[[Arm], float]


def make_study(base: Pipeline = DEFAULT_BASE) -> PipelinePlan:
    workload = Workload(network=network_from_name("784-128-10"))
    return PipelinePlan(workload=workload, target=Target(), batch=BATCH, base=base, budget_s=60.0)


def true_step_ms(arm: Arm) -> float:
    """Return the step time when two cores prepare samples while a device computes; a late batch is waited for."""
    pipeline = arm.pipeline
    if pipeline.kind != "tfdata":
        return RESIDENT_MS * (1.0 if pipeline.kind == "resident" else 1.1)
    calls = 2 if pipeline.parallel_calls == "auto" else min(2, pipeline.parallel_calls or 1)
    feed_ms = BATCH * (2.0 + pipeline.preprocess_us / calls) / 1000
    waited = 0.0 if pipeline.prefetch == "auto" else PREFETCHED.get(pipeline.prefetch, 0.0)
    return max(RESIDENT_MS, feed_ms) + waited * min(RESIDENT_MS, feed_ms)


def make_pipeline_experiment(
    seed: int = 0,
    base: Pipeline = DEFAULT_BASE,
    truth: Truth = true_step_ms,
    processes: int = 3,
    rounds: int = 6,
    noise: float = 0.01,
    failed: dict[str, str] | None = None,
    **changes: object,
) -> Experiment:
    """Make an experiment with ``rounds`` per process of ``processes``.

    ``noise`` is each block's relative spread; ``failed`` is code: reason.
    """
    rng = random.Random(seed)
    study = make_study(base)
    lost = {i: failed[arm.code] for i, arm in enumerate(study.arms) if failed and arm.code in failed}
    arm_rounds: list[ArmRound] = []
    for process in range(processes):
        drift = rng.lognormvariate(0.0, noise)
        for _ in range(rounds):
            blocks = tuple(
                ArmBlock(arm=i, process=process, steps=10, step_ms=truth(arm) * drift * rng.lognormvariate(0.0, noise))
                for i, arm in enumerate(study.arms)
                if i not in lost
            )
            arm_rounds.append(ArmRound(index=len(arm_rounds), blocks=blocks))
    made = Experiment(
        workload=study.workload, arms=study.arms, rounds=tuple(arm_rounds), label="recorded",
        outcomes=tuple(ArmOutcome(arm=i, outcome="out_of_memory", reason=why) for i, why in lost.items()),
        created_at="2026-01-05T09:00:00+00:00", elapsed_s=58.0, budget_s=study.budget_s, environment=make_environment(),
    )  # fmt: skip
    return made.model_copy(update=changes)
