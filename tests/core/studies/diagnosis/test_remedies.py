"""The remedies tried for a step, and the words for those that are not."""

import pytest

from core.base.evidence import Environment, Setup
from core.base.frameworks import Call, Compiled, FrameworkName
from core.rounds.plan import SweepPlan
from core.rounds.run import Run
from core.studies.diagnosis.remedies import AS_IS, REMEDIES, arms_for, family, with_remedy
from core.studies.experiment.record import MAX_ARMS, Arm
from core.workload.spec import Execution, Pipeline, Precision, Target, Workload
from simulated.runs import make_run, planned

STEPS = {"steps-2", "steps-8", "steps-32"}
HALF = {"precision-float16", "precision-bfloat16"}
BATCHES = {"batch-256", "batch-1024"}
ON_GPU = Target(device="gpu:0", execution="graph")


def run_of(target: Target, pipeline: Pipeline | None = None, cores: int | None = 4, largest: int = 256) -> Run:
    """Return a run whose second target is under test; its first has another number of threads."""
    plan = SweepPlan(
        workload=Workload(network="784-128-10"),
        targets=(Target(threads=7), target),
        batches=(16, 64, largest),
        pipeline=pipeline or Pipeline(),
    )
    environment = None if cores is None else Environment(captured_at="2026-01-05T09:00:00+00:00", usable_cores=cores)
    update = {"plan": plan, "target_names": plan.target_names, "environment": environment}
    return make_run(batches=plan.batches).model_copy(update=update)


def tried(run: Run, target: int = 1, batch: int = 64) -> tuple[dict[str, Arm], dict[str, str]]:
    """Return the arms by code, without the base, and the reasons; check on the way what must hold for all of them."""
    (base, *arms), skipped = arms_for(run, target, batch)
    assert (base.code, base.target, base.pipeline, base.batch) == (
        AS_IS, run.plan.targets[target], run.plan.pipeline, batch,
    )  # fmt: skip
    codes = [arm.code for arm in arms]
    assert len({AS_IS, *codes}) == len(codes) + 1 <= MAX_ARMS
    for arm in arms:
        assert Arm.model_validate(arm.model_dump()) == arm
        assert (arm.target, arm.pipeline, arm.batch) != (base.target, base.pipeline, base.batch)
        assert arm.title
    others = ({"call"} if base.target.call == "step" else set()) | {"pad", "relaxed"}
    assert {family(code) for code in codes} | set(skipped) == set(REMEDIES) - others
    assert not {family(code) for code in codes} & set(skipped)
    assert all(why.endswith(".") for why in skipped.values())
    return {arm.code: arm for arm in arms}, skipped


def test_a_gpu_with_resident_data() -> None:
    arms, skipped = tried(run_of(ON_GPU))
    assert set(arms) == {"xla", *STEPS, *HALF, *BATCHES}
    resident = "The data is resident already."
    assert skipped == {
        "resident": resident,
        "prefetch": resident,
        "parallel": resident,
        "graph": "The step runs as a graph already.",
        "threads": "A GPU target has no choice of threads.",
    }
    assert arms["xla"].target == Target(device="gpu:0", execution="xla")
    assert arms["steps-8"].target == Target(device="gpu:0", execution="graph", steps_per_execution=8)
    assert arms["precision-float16"].target.precision == "mixed_float16"
    assert (arms["batch-256"].batch, arms["batch-256"].target) == (256, ON_GPU)


def test_a_cpu_tries_threads_and_bfloat16_only() -> None:
    arms, skipped = tried(run_of(Target()))
    assert set(arms) == {"xla", *STEPS, "precision-bfloat16", "threads-1", "threads-2", *BATCHES}
    assert set(skipped) == {"resident", "prefetch", "parallel", "graph"}
    assert arms["threads-2"].target == Target(threads=2)
    assert (arms["threads-1"].title, arms["threads-2"].title) == ("1 thread", "2 threads")


@pytest.mark.parametrize(
    ("threads", "cores", "expected"),
    [
        (None, 4, {"threads-1", "threads-2"}),
        (4, 4, {"threads-1", "threads-2"}),
        (2, 4, {"threads-1", "threads-4"}),
        (1, 4, {"threads-2", "threads-4"}),
        (3, 6, {"threads-1", "threads-6"}),
        (None, 2, {"threads-1"}),
        (None, 1, set()),
        (None, None, set()),
    ],
)
def test_threads_are_one_half_of_the_cores_and_all(threads: int | None, cores: int | None, expected: set[str]) -> None:
    arms, skipped = tried(run_of(Target(threads=threads), cores=cores))
    assert {code for code in arms if family(code) == "threads"} == expected
    assert ("threads" in skipped) == (not expected)
    if not expected:
        assert "cores there are" in skipped["threads"]


@pytest.mark.parametrize(
    ("execution", "expected", "reason"),
    [
        ("graph", {"xla"}, ("graph", "The step runs as a graph already.")),
        ("xla", {"graph"}, ("xla", "The step is compiled by XLA already.")),
        ("eager", {"xla", "graph"}, ("steps", "Eager runs one step per call; a graph comes first.")),
    ],
)
def test_other_ways_of_execution(execution: Execution, expected: set[str], reason: tuple[str, str]) -> None:
    arms, skipped = tried(run_of(Target(device="gpu:0", execution=execution)))
    assert {code for code in arms if code in ("xla", "graph")} == expected
    assert skipped[reason[0]] == reason[1]
    assert STEPS.isdisjoint(arms) == (execution == "eager")
    for code in expected:
        assert arms[code].target.execution == code
    if "graph" in arms:
        assert arms["graph"].title == f"Graph instead of {'eager' if execution == 'eager' else 'XLA'}"


@pytest.mark.parametrize(
    ("target", "recorded", "expected"),
    [
        (Target(), None, "xla"),
        (Target(device="gpu:0"), None, "graph"),  # Keras takes XLA there
        (Target(device="gpu:0"), "graph", "xla"),  # Keras did not take XLA here
    ],
)
def test_what_keras_chose_itself_is_no_remedy(target: Target, recorded: Compiled | None, expected: str) -> None:
    run = run_of(target)
    if recorded is not None:
        setup = Setup(
            batch=64, build_ms=1, first_call_ms=1, warmup_steps=1, warmup_ms=1, warmup_steady=True, steps_per_block=1,
            target=1, process=0, execution=recorded,
        )  # fmt: skip
        run = run.model_copy(update={"setups": (setup,)})
    arms, _ = tried(run)
    assert {code for code in arms if code in ("xla", "graph")} == {expected}


def test_layers_that_xla_cannot_compile_on_a_gpu_are_not_tried_with_it() -> None:
    run = run_of(Target(device="gpu:0"))
    run = planned(run, workload=Workload(network="lstm-4x1-5x3-2"))
    arms, skipped = tried(run)
    assert {"xla", "graph"} & set(arms) == set()
    assert "call cuDNN" in skipped["xla"]


def test_steps_already_taken_are_not_tried_again() -> None:
    arms, _ = tried(run_of(ON_GPU.model_copy(update={"steps_per_execution": 8})))
    assert STEPS & set(arms) == {"steps-2", "steps-32"}
    assert arms["xla"].target.steps_per_execution == 8


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_a_mixed_step_is_tried_in_float32(precision: Precision) -> None:
    arms, _ = tried(run_of(ON_GPU.model_copy(update={"precision": precision})))
    assert {code for code in arms if family(code) == "precision"} == {"precision-float32"}
    assert arms["precision-float32"].target == ON_GPU
    assert arms["xla"].target.precision == precision


WORK = {"preprocess_us": 5.0}


@pytest.mark.parametrize(
    ("pipeline", "expected", "reasons"),
    [
        (Pipeline(), {}, {"resident", "prefetch", "parallel"}),
        (
            Pipeline(kind="host"),
            {"resident": Pipeline(), "prefetch-auto": Pipeline(kind="tfdata", prefetch="auto")},
            {"parallel"},
        ),
        (
            Pipeline(kind="tfdata"),
            {"resident": Pipeline(), "prefetch-auto": Pipeline(kind="tfdata", prefetch="auto")},
            {"parallel"},
        ),
        (
            Pipeline(kind="tfdata", prefetch=2, shuffle=True, **WORK),
            {
                "resident": Pipeline(),
                "prefetch-auto": Pipeline(kind="tfdata", prefetch="auto", shuffle=True, **WORK),
                "parallel-auto": Pipeline(
                    kind="tfdata", prefetch="auto", parallel_calls="auto", shuffle=True, **WORK
                ),
            },
            set(),
        ),
        (
            Pipeline(kind="tfdata", prefetch="auto", data="/data/train.npz"),
            {
                "resident": Pipeline(),
                "parallel-auto": Pipeline(
                    kind="tfdata", prefetch="auto", parallel_calls="auto", data="/data/train.npz"
                ),
            },
            {"prefetch"},
        ),
        (
            Pipeline(kind="tfdata", prefetch="auto", parallel_calls="auto", **WORK),
            {"resident": Pipeline()},
            {"prefetch", "parallel"},
        ),
    ],
    ids=["resident", "host", "plain", "work", "own data", "all already"],
)  # fmt: skip
def test_other_ways_of_feeding(pipeline: Pipeline, expected: dict[str, Pipeline], reasons: set[str]) -> None:
    arms, skipped = tried(run_of(ON_GPU, pipeline))
    feeds = ("resident", "prefetch", "parallel")
    assert {code: arm.pipeline for code, arm in arms.items() if family(code) in feeds} == expected
    assert set(skipped) & set(feeds) == reasons
    assert all(arm.target == ON_GPU for code, arm in arms.items() if family(code) in feeds)
    assert all(arm.pipeline == pipeline for code, arm in arms.items() if family(code) not in feeds)


@pytest.mark.parametrize(
    ("batch", "largest", "expected"),
    [
        (64, 256, BATCHES),
        (256, 256, {"batch-1024"}),
        (512, 512, {"batch-2048"}),
        (64, 65, {"batch-256"}),
        (300, 256, set()),
        (16_384, 65_536, {"batch-65536"}),
        (65_536, 65_536, set()),
    ],
)
def test_larger_batches_stay_near_what_was_swept(batch: int, largest: int, expected: set[str]) -> None:
    arms, skipped = tried(run_of(ON_GPU, largest=largest), batch=batch)
    assert {code for code in arms if family(code) == "batch"} == expected
    if not expected:
        assert "beyond the limit" in skipped["batch"]


def test_the_first_target_can_be_asked_about_too() -> None:
    arms, _ = tried(run_of(ON_GPU), target=0)
    assert arms["xla"].target == Target(threads=7, execution="xla")
    assert {code for code in arms if family(code) == "threads"} == {"threads-1", "threads-2", "threads-4"}


def test_a_remedy_takes_its_place_in_the_plan() -> None:
    run = run_of(ON_GPU, Pipeline(kind="host"))
    arms, _ = tried(run)
    changed = with_remedy(run.plan, 1, arms["xla"])
    assert changed.targets == (Target(threads=7), Target(device="gpu:0", execution="xla"))
    assert changed.pipeline == run.plan.pipeline
    fed = with_remedy(run.plan, 1, arms["resident"])
    assert (fed.targets, fed.pipeline) == (run.plan.targets, Pipeline())
    first = with_remedy(run.plan, 0, arms["xla"])
    assert first.targets == (Target(device="gpu:0", execution="xla"), ON_GPU)


def test_a_remedy_that_makes_both_targets_the_same_has_no_plan() -> None:
    run = run_of(Target(threads=2))
    arms, _ = tried(run)
    plan = run.plan
    same = plan.model_copy(update={"targets": (Target(threads=1), Target(threads=2))})
    assert with_remedy(same, 1, arms["threads-1"]) is None
    assert with_remedy(same, 1, arms["threads-4"]) is not None


def test_points_alone_cannot_be_diagnosed() -> None:
    bare = run_of(ON_GPU).model_copy(update={"plan": None})
    with pytest.raises(ValueError, match="Only points were"):
        arms_for(bare, 1, 64)


def test_every_remedy_says_how() -> None:
    for name, remedy in REMEDIES.items():
        assert (remedy.family, family(f"{name}-8"), family(name)) == (name, name, name)
        assert remedy.how.endswith(".")
        assert remedy.title


def called(call: Call, execution: Execution = "keras") -> Run:
    infer, target = Workload(network="784-128-10", mode="infer"), Target(threads=1, call=call, execution=execution)
    return planned(run_of(ON_GPU), workload=infer, targets=(ON_GPU, target), pipeline=Pipeline(kind="host"))


@pytest.mark.parametrize(
    ("call", "execution", "calls", "compiled"),
    [
        ("predict", "keras", {"call-function": "keras", "call-predict_on_batch": "keras"}, {"xla"}),
        ("predict", "xla", {"call-function": "xla", "call-predict_on_batch": "xla"}, {"graph"}),
        ("predict", "eager", {"call-function": "keras", "call-predict_on_batch": "keras"}, {"xla", "graph"}),
        ("model", "keras", {"call-function": "keras", "call-predict_on_batch": "keras"}, set()),
        ("model", "eager", {"call-function": "keras", "call-predict_on_batch": "keras"}, set()),
        ("predict_on_batch", "keras", {}, {"xla"}),
        ("function", "keras", {}, {"xla"}),
    ],
)
def test_a_costly_call_is_tried_with_a_cheaper_one(
    call: Call, execution: Execution, calls: dict[str, Execution], compiled: set[str]
) -> None:
    arms, skipped = tried(called(call, execution))
    assert {code: arm.target.execution for code, arm in arms.items() if family(code) == "call"} == calls
    assert all(f"call-{arms[code].target.call}" == code for code in calls)
    assert {code for code in arms if code in ("xla", "graph")} == compiled
    assert all(arm.pipeline == Pipeline(kind="host") for arm in arms.values())
    assert {"resident", "prefetch", "parallel", "steps"} <= set(skipped)


@pytest.mark.parametrize(("framework", "left_out"), [("jax", {"graph", "steps"}), ("torch", {"graph", "steps", "xla"})])
def test_another_framework_is_tried_with_what_it_has(framework: FrameworkName, left_out: set[str]) -> None:
    arms, skipped = tried(run_of(Target(framework=framework, threads=2)))
    assert not left_out & {family(code) for code in arms}
    assert "threads-1" in arms
    assert left_out <= set(skipped)
    assert "save nothing with" in skipped["steps"]
    assert "has no execution" in skipped["graph"]
