"""Remedies that could make a target's step faster, each a variant to be measured beside the step as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import get_args

from core.base.frameworks import FRAMEWORKS, Execution, Padding
from core.base.numbers import counted
from core.base.schema import UserError
from core.base.text import sentence_case
from core.rounds.plan import SweepPlan
from core.rounds.ran_as import resolved_target
from core.rounds.run import Run
from core.studies.experiment.record import Arm
from core.workload.execution import keeps_from_xla, same
from core.workload.lengths import bucket_ends
from core.workload.names import CALLS, PADDINGS
from core.workload.spec import MAX_BATCH, Pipeline, Target, Workload

AS_IS = "as-is"
STEPS = (2, 8, 32)
BATCH_FACTORS = (4, 16)
MOST_BATCH_SHARE = 4  # larger batches are tried up to this factor on the largest of the plan
BETTER_CALLS = {"function": "Call through a tf.function", "predict_on_batch": "Call of predict_on_batch"}
ON_SEVERAL = "On several devices Keras runs a graph, one step per call."


@dataclass(frozen=True)
class Remedy:
    """Family of arms (codes begin with ``family``) in words: what it is, how to apply it, and its drawback."""

    family: str
    title: str
    how: str
    caution: str = ""


REMEDIES = {
    remedy.family: remedy
    for remedy in (
        Remedy(
            "resident",
            "Data resident on the device",
            "Keep the whole data set as tensors on the device, where it fits.",
            "What it gains is what reading and copying cost; data that does not fit cannot be resident.",
        ),
        Remedy("prefetch", "Prefetch AUTOTUNE", "End the tf.data pipeline with prefetch(tf.data.AUTOTUNE)."),
        Remedy(
            "parallel",
            "Parallel map calls, AUTOTUNE",
            "Give the map num_parallel_calls=tf.data.AUTOTUNE, and end with prefetch(tf.data.AUTOTUNE).",
        ),
        Remedy("xla", "XLA", "Compile the model with jit_compile=True.", "Every new input shape compiles again."),
        Remedy("graph", "Graph execution", "Compile the model with run_eagerly=False and jit_compile=False."),
        Remedy(
            "steps",
            "Several steps per execution",
            "Compile the model with steps_per_execution=N.",
            "Callbacks and metrics then see every Nth step only.",
        ),
        Remedy(
            "call",
            "Another way of calling the model",
            "Wrap model(x, training=False) once in a tf.function with a fixed input_signature and call that for every "
            "batch, or call model.predict_on_batch(x).",
            "A tf.function with a fixed signature takes batches of one size only.",
        ),
        Remedy(
            "pad",
            "Padded inputs",
            "Pad every batch to one length, or to the longest of its bucket, and mask what was added.",
            "What is added is computed, too; without a mask it changes the result.",
        ),
        Remedy(
            "relaxed",
            "A tf.function that reduces retracing",
            "Give tf.function reduce_retracing=True, so that it is traced for any length after the second.",
        ),
        Remedy(
            "precision",
            "Mixed precision",
            "Set keras.mixed_precision.set_global_policy before building the model.",
            "Check that the training still converges; float16 needs loss scaling, which Keras adds.",
        ),
        Remedy("threads", "Another number of threads", "Set tf.config.threading before the first operation."),
        Remedy(
            "batch",
            "A larger batch (time per sample)",
            "Train with a larger batch.",
            "It changes the training: fewer updates per epoch, and often another learning rate.",
        ),
    )
}


def family(code: str) -> str:
    """Return the remedy that an arm's code belongs to: ``steps-8`` is of ``steps``."""
    return code.partition("-")[0]


def arms_for(run: Run, target: int, batch: int) -> tuple[tuple[Arm, ...], dict[str, str]]:
    """Return the target as it is, then every applicable remedy; and by family why others do not apply.

    Raises UserError for a run without a plan.
    """
    if run.plan is None:
        raise UserError("Only points were imported for this run; without its plan nothing can be tried.")
    plan = run.plan
    base = Arm(
        code=AS_IS,
        title=f"As it is: {plan.targets[target]}, {plan.pipeline.title}",
        target=plan.targets[target],
        pipeline=plan.pipeline,
        batch=batch,
    )
    now = resolved_target(run, target).execution
    no_xla = base.target.is_gpu and keeps_from_xla(plan.workload.network)
    cores = run.environment.usable_cores if run.environment is not None else None
    remedies = tuple(
        chain(
            _feeds(base, plan.workload),
            _executions(base, now, no_xla),
            _steps(base, plan.workload),
            _calls(base, plan.workload),
            _pads(base, plan.workload),
            _precisions(base),
            _threads(base, cores),
            _batches(base, plan),
        )
    )
    tried = {family(arm.code) for arm in remedies}
    reasons = _reasons(base, no_xla) | (_reasons_of_a_call(base.target) if base.target.call != "step" else {})
    if plan.workload.lengths:
        one_by_one = "Inputs of several lengths are handed over one by one."
        reasons |= dict.fromkeys(("resident", "prefetch", "parallel", "steps"), one_by_one)
    skipped = {name: why for name, why in reasons.items() if name not in tried}
    return (base, *remedies), skipped


def with_remedy(plan: SweepPlan, target: int, arm: Arm) -> SweepPlan | None:
    """Return the plan with an arm's target and pipeline; None if both targets would be the same."""
    first, second = plan.targets
    targets = (arm.target, second) if target == 0 else (first, arm.target)
    if same(plan.workload, *targets):
        return None
    return plan.model_copy(update={"targets": targets, "pipeline": arm.pipeline})


def _variant(base: Arm, code: str, title: str, pipeline: Pipeline | None = None, **target: object) -> Arm:
    changes: dict[str, object] = {"code": code, "title": title}
    if pipeline is not None:
        changes["pipeline"] = pipeline
    if target:
        changes["target"] = Target.model_validate(base.target.model_dump() | target)
    return base.model_copy(update=changes)


def _feeds(base: Arm, workload: Workload) -> Iterator[Arm]:
    pipeline = base.pipeline
    if pipeline.kind == "resident" or base.target.call != "step" or workload.lengths:
        return
    yield _variant(base, "resident", "Data resident on the device", Pipeline())
    if pipeline.kind == "host":
        yield _variant(base, "prefetch-auto", "tf.data, prefetch AUTOTUNE", Pipeline(kind="tfdata", prefetch="auto"))
        return
    if pipeline.prefetch != "auto":
        changed = pipeline.model_copy(update={"prefetch": "auto"})
        yield _variant(base, "prefetch-auto", "Prefetch AUTOTUNE", changed)
    if pipeline.parallel_calls != "auto" and (pipeline.preprocess_us or pipeline.data is not None):
        changed = pipeline.model_copy(update={"parallel_calls": "auto", "prefetch": "auto"})
        yield _variant(base, "parallel-auto", "Parallel calls and prefetch AUTOTUNE", changed)


def _executions(base: Arm, now: Execution, no_xla: bool) -> Iterator[Arm]:
    """Yield other executions than the current one, ``now``; ``no_xla`` if Keras would not use XLA."""
    if base.target.call == "model":
        return
    known = FRAMEWORKS[base.target.framework]
    ways = known.executions if base.target.replicas == 1 or known.several is None else known.several.executions
    if now != "xla" and not no_xla and "xla" in ways:
        yield _variant(base, "xla", "XLA", execution="xla")
    if now != "graph" and "graph" in ways:
        yield _variant(base, "graph", f"Graph instead of {'eager' if now == 'eager' else 'XLA'}", execution="graph")


def _steps(base: Arm, workload: Workload) -> Iterator[Arm]:
    if base.target.execution == "eager" or base.target.framework != "tensorflow" or base.target.replicas > 1:
        return
    if base.target.call != "step" or workload.lengths:
        return
    for steps in STEPS:
        if steps != base.target.steps_per_execution:
            yield _variant(base, f"steps-{steps}", f"{steps} steps per execution", steps_per_execution=steps)


def _calls(base: Arm, workload: Workload) -> Iterator[Arm]:
    """Yield calls that cost less in themselves, compiled where the present one is eager."""
    execution = "keras" if base.target.execution == "eager" else base.target.execution
    if workload.lengths and base.target.call in ("predict", "model", "function"):
        yield _variant(base, "relaxed", CALLS["relaxed"].capitalize(), call="relaxed", execution=execution)
    for call, title in BETTER_CALLS.items():
        if base.target.call in ("predict", "model"):
            yield _variant(base, f"call-{call}", title, call=call, execution=execution)


def _pads(base: Arm, workload: Workload) -> Iterator[Arm]:
    """Yield ways of padding inputs of several lengths."""
    for padding in get_args(Padding) if workload.lengths else ():
        needless = padding == "buckets" and len(bucket_ends(workload.lengths)) == len(workload.lengths)
        if padding != base.target.pad and not needless:
            yield _variant(base, f"pad-{padding}", sentence_case(PADDINGS[padding]), pad=padding)


def _precisions(base: Arm) -> Iterator[Arm]:
    if base.target.is_mixed:
        yield _variant(base, "precision-float32", "float32", precision="float32")
        return
    # on a CPU only bfloat16: float16 has no arithmetic there
    names = ("mixed_float16", "mixed_bfloat16") if base.target.is_gpu else ("mixed_bfloat16",)
    for name in (name for name in names if name in FRAMEWORKS[base.target.framework].precisions):
        yield _variant(base, f"precision-{name.removeprefix('mixed_')}", name.removeprefix("mixed_"), precision=name)


def _threads(base: Arm, cores: int | None) -> Iterator[Arm]:
    if not base.target.on_cpu or cores is None:
        return
    now = base.target.threads or cores
    for threads in sorted({1, max(1, cores // 2), cores} - {now}):
        title = counted(threads, "thread")
        yield _variant(base, f"threads-{threads}", title, threads=threads)


def _batches(base: Arm, plan: SweepPlan) -> Iterator[Arm]:
    most = min(MAX_BATCH, MOST_BATCH_SHARE * plan.batches[-1])
    for factor in BATCH_FACTORS:
        if base.batch * factor <= most:
            larger = base.batch * factor
            yield base.model_copy(update={"code": f"batch-{larger}", "title": f"Batch {larger:,}", "batch": larger})


def _reasons(base: Arm, no_xla: bool) -> dict[str, str]:
    """Return why a family has no arm; only read for those that have none."""
    resident, eager = base.pipeline.kind == "resident", base.target.execution == "eager"
    fed = "The data is resident already." if resident else ""
    known = FRAMEWORKS[base.target.framework]
    none = {way: f"{known.title} has no execution “{way}”." for way in ("xla", "graph") if way not in known.executions}
    by_steps, several = base.target.framework == "tensorflow", base.target.replicas > 1
    return (
        {
            "resident": fed,
            "prefetch": fed or "The pipeline prefetches with AUTOTUNE already.",
            "parallel": fed or "The pipeline has no map whose calls could run in parallel, or AUTOTUNE already.",
            "xla": (
                "Keras runs recurrent layers that may call cuDNN without XLA on a GPU."
                if no_xla
                else "The step is compiled by XLA already."
            ),
            "graph": "The step runs as a graph already.",
            "steps": "Eager runs one step per call; a graph comes first." if eager else "Nothing was left to try.",
            "precision": "Nothing was left to try.",
            "threads": (
                "A GPU target has no choice of threads."
                if base.target.is_gpu
                else "How many cores there are is not known, or there is only one."
            ),
            "batch": "Larger batches lie beyond the limit of what this sweep measured.",
        }
        | none
        | ({} if by_steps else {"steps": f"Several steps per call save nothing with {known.title}."})
        | (dict.fromkeys(("xla", "graph", "steps"), ON_SEVERAL) if several and by_steps else {})
    )


def _reasons_of_a_call(target: Target) -> dict[str, str]:
    """Return why a family has no arm for a target that calls the model."""
    reasons = dict.fromkeys(("resident", "prefetch", "parallel"), "Every call is handed a NumPy batch.")
    reasons |= {"steps": "A call is one step.", "call": f"It is {CALLS[target.call]} already."}
    if target.call == "model":
        reasons |= dict.fromkeys(("xla", "graph"), "model(x) runs eagerly; a tf.function comes first.")
    return reasons
