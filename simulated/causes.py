"""Simulated machines on which a step is slow for one known reason, so that the right remedy is known."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.base.evidence import Environment
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.worker.protocol import Prepare
from core.workload.spec import Pipeline, Target, Workload
from simulated.runs import make_run

BATCH = 64
CAUSES = ("input", "eager", "dispatch", "fusion", "precision", "threads", "batch", "none", "call")
RIGHT = {"input": "resident", "eager": "graph", "dispatch": "steps", "fusion": "xla"}
RIGHT |= {code: code for code in ("precision", "threads", "batch", "call")}
GPU, CPU = Target(device="gpu:0", execution="graph"), Target()
TARGETS = {"eager": Target(execution="eager"), "precision": GPU, "batch": GPU, "dispatch": GPU, "fusion": GPU}
TARGETS["call"] = Target(call="predict")
FED = Pipeline(kind="tfdata", preprocess_us=20.0)

Law = Callable[[Prepare, Target], float]


@dataclass(frozen=True)
class Case:
    """A cause, the factor by which it slows the step, and the run of a sweep that suffered from it."""

    cause: str
    gain: float
    run: Run
    law: Law


def make_case(cause: str, seed: int) -> Case:
    """Make a step of a few milliseconds that removing ``cause`` speeds up 1.25 to 4 times; others gain 10 % at most."""
    rng = np.random.default_rng((CAUSES.index(cause), seed))
    gain = float(rng.uniform(1.25, 4.0))
    work_ms = float(rng.uniform(1.0, 6.0))
    # effect of remedies that do not apply: up to 5 % better, or worse
    beside = {name: float(rng.uniform(0.8, 1.02)) for name in ("xla", "half", "steps", "threads", "fed")}
    if cause == "eager":  # XLA ends eager dispatch too, but is not as good as the graph here
        beside["xla"] = float(rng.uniform(0.8, 0.94))
    elif cause != "none":
        beside["xla"] = float(rng.uniform(0.8, 1.1))

    def law(request: Prepare, target: Target) -> float:
        scale = request.batch / BATCH
        extra = (gain - 1) * work_ms  # the cause's extra time
        waits = {
            "input": extra * scale if request.pipeline.kind == "tfdata" else 0.0,
            "eager": extra if target.execution == "eager" else 0.0,
            "dispatch": extra / target.steps_per_execution,
            "batch": extra,
            "call": extra if target.call == "predict" else 0.0,
        }.get(cause, 0.0)
        factor = {
            "fusion": gain if target.execution != "xla" else 1.0,
            "precision": gain if target.precision == "float32" else 1.0,
            "threads": gain if target.device == "cpu" and target.threads != 1 else 1.0,
        }.get(cause, 1.0)
        step_ms = work_ms * scale * factor + waits
        if target.execution == "xla" and cause != "fusion":
            step_ms /= beside["xla"]
        if target.precision != "float32" and cause != "precision":
            step_ms /= beside["half"]
        if target.steps_per_execution > 1 and cause != "dispatch":
            step_ms /= beside["steps"]
        if target.threads is not None and cause != "threads":
            step_ms /= beside["threads"]
        if request.pipeline.prefetch == "auto":
            step_ms /= beside["fed"]
        return step_ms

    return Case(cause, gain, _run_of(cause), law)


def _run_of(cause: str) -> Run:
    """Return a finished sweep whose second target is the one to diagnose."""
    # a larger batch also divides the cost per call; if that is the cause, no 16 times larger batch is offered
    batches = (16, 64) if cause in ("dispatch", "call") else (16, 64, 256)
    targets = (Target(threads=2), TARGETS.get(cause, CPU))
    pipeline = {"input": FED, "call": Pipeline(kind="host")}.get(cause, Pipeline())
    workload = Workload(network="784-128-10", mode="infer" if cause == "call" else "train")
    plan = SweepPlan(workload=workload, targets=targets, batches=batches, pipeline=pipeline, trace=False)
    environment = Environment(captured_at="2026-01-05T09:00:00+00:00", usable_cores=4)
    update = {"plan": plan, "target_names": plan.target_names, "environment": environment}
    return make_run(batches=batches, label="modelled").model_copy(update=update)
