"""The specification: accepted values, notation, and that it survives JSON."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.base.frameworks import FRAMEWORKS, MAX_REPLICAS
from core.base.schema import explain
from core.rounds.plan import SweepPlan
from core.workload.spec import MAX_BATCH, Pipeline, Target, Workload, geometric_grid, parse_batches, refuse_batch


@st.composite
def any_target(draw: st.DrawFn) -> Target:
    """Draw a target that some framework supports."""
    framework = draw(st.sampled_from(list(FRAMEWORKS.values())))
    kind = draw(st.sampled_from(framework.devices))
    device = f"{kind}:{draw(st.integers(0, 63))}" if kind in ("gpu", "tpu") else kind
    several = framework.name == "tensorflow" and draw(st.booleans())
    if several and kind == "cpu":
        device = f"cpu:{draw(st.integers(2, MAX_REPLICAS))}"
    elif several:
        cards = draw(st.sets(st.integers(0, 63), min_size=2, max_size=MAX_REPLICAS))
        device = f"gpu:{'+'.join(map(str, sorted(cards)))}"
    barred = () if kind == "gpu" else ("float32_strict", "reduce-overhead")
    barred += ("int8", "eager", "xla") if several else ()
    return Target(
        framework=framework.name,
        device=device,
        threads=draw(st.none() | st.integers(1, 1024)) if kind == "cpu" else None,
        precision=draw(st.sampled_from([p for p in framework.precisions if p not in barred])),
        execution=draw(st.sampled_from([e for e in framework.executions if e not in barred])),
        python=draw(st.none() | st.just("/opt/Own env/bin/python")),
    )


@given(any_target())
def test_a_target_reads_back_from_its_notation(target: Target) -> None:
    assert Target.parse(str(target)) == target


def test_notation_leaves_defaults_out() -> None:
    assert str(Target.parse("cpu, threads=1,execution=keras")) == "cpu,threads=1"
    assert str(Target.parse("cpu,execution=graph")) == "cpu,execution=graph"
    assert str(Target.parse("GPU,precision=mixed_float16,execution=xla")) == (
        "gpu:0,precision=mixed_float16,execution=xla"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("npu", "accepted are cpu, gpu:0"),
        ("tpu", "framework tensorflow cannot reach tpu:0"),
        ("gpu:64", "accepted are cpu, gpu:0"),
        ("cpu:1", "as gpu:0[+]1 or, logical devices of one CPU, as cpu:2 to cpu:8"),
        ("cpu:9", "is unknown"),
        ("gpu:0+", "is unknown"),
        ("gpu:0+64", "is unknown"),
        ("gpu:01", "is unknown"),
        ("gpu:1+0", "each named once, in ascending order"),
        ("gpu:0+0", "each named once, in ascending order"),
        ("gpu:0+1+2+3+4+5+6+7+8", "at most 8"),
        ("cpu:2,framework=torch", "torch is measured on one device at a time; .* need framework=tensorflow or jax"),
        ("gpu:0+1,framework=pytorch", "pytorch is measured on one device at a time"),
        ("cpu:2,framework=litert", "litert is measured on one device at a time"),
        ("cpu:2,framework=jax,precision=int8", "int8 is for one device"),
        ("cpu:2,execution=xla", "execution xla is for one device; .* choose keras or graph"),
        ("cpu:2,execution=eager", "execution eager is for one device"),
        ("cpu:2,precision=int8", "int8 is for one device"),
        ("gpu:0+1,steps_per_execution=8", "steps_per_execution is for one device"),
        ("gpu:0+1,threads=2", "cpu targets only"),
        ("gpu:0,threads=2", "cpu targets only"),
        ("cpu,threads=0", "threads"),
        ("cpu,threads=1,threads=2", "each once"),
        ("cpu,speed=9", "threads=N"),
        ("cpu,precision=float8", "precision"),
        ("cpu,precision=float32_strict", "for gpu targets; a CPU has no TF32 to switch off, so choose float32"),
        ("cpu,execution=jit", "'keras', 'graph', 'xla', 'eager'"),
        ("gpu:0,execution=eager,steps_per_execution=2", "needs keras, graph or xla"),
        ("cpu,call=fit", "'step', 'predict', 'predict_on_batch', 'model', 'function' or 'relaxed'"),
        ("cpu,framework=jax,call=predict", "leave call out for jax"),
        ("cpu:2,call=predict", "leave call out for cpu:2"),
        ("cpu,call=predict,steps_per_execution=2", "leave steps_per_execution out"),
        ("cpu,call=model,execution=xla", "leave execution=xla out, or choose call=function"),
        ("cpu,call=function,execution=eager", "leave execution=eager out, or choose call=model"),
    ],
)
def test_a_wrong_target_is_answered_with_one_sentence(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        Target.parse(text)
    assert "\n" not in str(caught.value)


def test_records_leave_out_the_step_that_is_not_called() -> None:
    assert "call" not in Target().model_dump(mode="json")
    assert Target.model_validate({"device": "cpu"}) == Target(call="step")
    called = Target.parse("cpu,call=model,execution=eager")
    assert Target.model_validate_json(called.model_dump_json()) == called


@pytest.mark.parametrize(
    ("mode", "kind", "says"),
    [
        ("train", "host", "choose inference, or leave call out"),
        ("infer", "resident", "choose the host pipeline, or leave call out"),
        ("infer", "tfdata", "choose the host pipeline, or leave call out"),
        ("infer", "host", ""),
    ],
)
def test_a_call_takes_numpy_batches_in_inference_only(mode: str, kind: str, says: str) -> None:
    values = {"workload": {"network": "784-128-10", "mode": mode}, "batches": (1, 8), "pipeline": {"kind": kind}}
    values["targets"] = (Target(), Target(call="predict"))
    if not says:
        assert SweepPlan.model_validate(values).names == ("CPU", "CPU, called by predict()")
        return
    with pytest.raises(ValueError, match=says):
        SweepPlan.model_validate(values)


def test_a_target_of_several_devices_knows_each() -> None:
    cards, halves = Target.parse("GPU:0+1+3"), Target.parse("cpu:2,threads=2")
    assert (cards.devices, cards.gpus, cards.replicas) == (("gpu:0", "gpu:1", "gpu:3"), (0, 1, 3), 3)
    assert (halves.devices, halves.gpus, halves.replicas) == (("cpu", "cpu"), (), 2)
    assert (cards.is_gpu, cards.on_cpu, halves.is_gpu, halves.on_cpu) == (True, False, False, True)
    assert halves.host == halves
    assert (Target().devices, Target(device="gpu").gpus) == (("cpu",), (0,))


def test_a_batch_is_shared_out_evenly_or_refused() -> None:
    refuse_batch(6, Target.parse("gpu:0+1+2"))
    refuse_batch(7, Target())
    for batch in (1, 2, 7):
        with pytest.raises(ValueError, match=r"3 devices.* 3$"):
            refuse_batch(batch, Target.parse("gpu:0+1+2"))


def test_a_process_serves_all_that_differs_in_no_matter_of_a_process() -> None:
    options = ("precision=mixed_float16", "execution=eager", "steps_per_execution=4", "call=predict")
    texts = ("gpu:0", *(f"gpu:0,{option}" for option in options))
    assert {Target.parse(text).host for text in texts} == {Target(device="gpu:0")}
    strict = Target.parse("gpu:0,precision=float32_strict,execution=xla")
    assert strict.host == Target(device="gpu:0", precision="float32_strict")
    assert not strict.is_mixed
    assert Target(threads=2, execution="xla").host == Target(threads=2)


@pytest.mark.parametrize(
    ("network", "first", "second"),
    [("784-128-10", "cpu", "cpu,execution=graph"), ("784-128-10", "gpu:0,execution=xla", "gpu:0"),
     ("lstm-4x1-5x3-2", "gpu:0", "gpu:0,execution=graph")],
)  # fmt: skip
def test_two_targets_that_come_to_the_same_are_refused(network: str, first: str, second: str) -> None:
    targets = Target.parse(first), Target.parse(second)
    with pytest.raises(ValidationError, match="choose targets that"):
        SweepPlan(workload=Workload(network=network), targets=targets, batches=(1,))


@given(st.integers(1, MAX_BATCH), st.integers(1, MAX_BATCH), st.sampled_from([0.5, 1.0, 2.0, 4.0]))
def test_a_geometric_grid_rises_from_low_to_high(a: int, b: int, per_octave: float) -> None:
    low, high = sorted((a, b))
    grid = geometric_grid(low, high, per_octave)
    assert grid[0] == low
    assert grid[-1] == high
    assert all(x < y for x, y in pairwise(grid))


def test_batches_are_read_as_range_or_list() -> None:
    assert parse_batches("1:16") == (1, 2, 4, 8, 16)
    assert parse_batches("64,8,8,1") == (1, 8, 64)
    assert parse_batches("1:100") == (1, 2, 4, 8, 16, 32, 64, 100)
    assert parse_batches("7:7") == (7,)


@pytest.mark.parametrize("text", ["16:1", "0:8", "1:99999", "a,b", "1:2:3:4", "", "1:8:nan", "-3", "1:8:100"])
def test_impossible_batches_are_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"[.]$"):
        parse_batches(text)


def plan(**changes: object) -> SweepPlan:
    values: dict[str, object] = {
        "workload": {"network": "784-128-10"},
        "targets": [{"device": "cpu", "threads": 1}, {"device": "cpu"}],
        "batches": [4, 1, 2, 2],
    }
    return SweepPlan.model_validate(values | changes)


def test_a_plan_sorts_its_batches_and_survives_json() -> None:
    made = plan()
    assert made.batches == (1, 2, 4)
    again = SweepPlan.model_validate_json(made.model_dump_json())
    assert again == made
    assert hash(again) == hash(made)
    assert type(again.workload.network) is type(made.workload.network)


@pytest.mark.parametrize(
    "changes",
    [
        {"targets": [{"device": "cpu"}, {"device": "cpu"}]},
        {"targets": []},
        {"targets": [{"device": "cpu", "threads": n} for n in range(1, 8)]},
        {"targets": [{"device": "cpu", "precision": "int8"}]},
        {"targets": [{"device": "cpu", "framework": "litert"}]},
        {"targets": [{"device": "mps"}]},
        {"targets": [{"device": "cpu", "python": "bin/python"}]},
        {"batches": []},
        {"batches": [0]},
        {"batches": list(range(1, 70))},
        {"budget_s": 0.5},
        {"budget_s": float("nan")},
        {"margin": 0},
        {"schema_version": 2},
        {"surprise": 1},
        {"workload": {"network": {"family": "gan"}}},
        {"workload": {"network": "784"}},
    ],
)
def test_an_impossible_plan_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        plan(**changes)
    assert explain(caught.value).endswith(".")


def test_pipeline_options_belong_to_tfdata() -> None:
    assert "prefetch auto" in Pipeline(kind="tfdata", prefetch="auto").title
    with pytest.raises(ValidationError, match="tfdata"):
        Pipeline(kind="host", prefetch=2)
    with pytest.raises(ValidationError):
        Pipeline(kind="tfdata", preprocess_us=-1)


def test_workload_counts() -> None:
    train, infer = Workload(network="784-128-10"), Workload(network="784-128-10", mode="infer")
    assert train.network.parameters == 785 * 128 + 129 * 10
    assert infer.flops_per_sample == 2 * (784 * 128 + 128 * 10) + 138
    # backward: both weight gradients, and the input gradient of the second layer alone
    assert train.flops_per_sample == 2 * infer.flops_per_sample + 2 * 128 * 10
