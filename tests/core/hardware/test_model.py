import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.hardware.constants import constants
from core.hardware.model import joined, modelled_as, peak_of, predict, rate_of, transfer_time
from core.hardware.work import ops_of
from core.spec import Target
from tests.support.hardware import GPU, NETWORKS, XLA, plain_constants, round_card, steady_host, workload

RATES = st.floats(0.5, 3000)
FACTS = st.sampled_from(["bandwidth_gb_s", "fp32_tflops", "link_gb_s"])
PARTS_MS = st.just(0.0) | st.floats(1e-9, 1e4)
BATCHES = st.integers(1, 65_536)
PRECISIONS, EXECUTIONS = st.sampled_from(["float32", "mixed_float16"]), st.sampled_from(["graph", "xla", "eager"])
TARGETS = st.builds(Target, device=st.just("gpu:0"), precision=PRECISIONS, execution=EXECUTIONS)
WORKLOADS = st.builds(workload, st.sampled_from(NETWORKS), mode=st.sampled_from(["train", "infer"]))
CARDS = st.builds(
    round_card, fp32_tflops=RATES, tf32_tflops=st.none() | RATES, half_tflops=st.none() | RATES,
    bandwidth_gb_s=st.floats(10, 10_000), power_limited=st.booleans(),
)  # fmt: skip


def test_a_step_by_hand() -> None:
    """All rates in full and nothing overlapping: every part adds up."""
    ops = ops_of(workload(), GPU, 256)
    kernels, flops, moved = (sum(getattr(op, name) for op in ops) for name in ("kernels", "flops", "bytes"))
    parts = predict(round_card(), workload(), GPU, 256, steady_host(), plain_constants(), fed=True)
    assert parts.host_ms == pytest.approx(0.1 + 0.005 * kernels)
    assert parts.launch_ms == pytest.approx(0.002 * kernels)
    assert parts.arithmetic_ms == pytest.approx(flops / 10e12 * 1e3)
    assert parts.bandwidth_ms == pytest.approx(moved / 1e12 * 1e3)
    assert parts.transfer_ms == pytest.approx(256 * (784 * 4 + 8) / 25e9 * 1e3)
    added = parts.host_ms + parts.launch_ms + parts.arithmetic_ms + parts.bandwidth_ms + parts.transfer_ms
    assert parts.step_ms == pytest.approx(added)


@settings(max_examples=60)
@given(CARDS, WORKLOADS, TARGETS, BATCHES, st.booleans())
def test_no_step_is_faster_than_peak_bandwidth_and_link_allow_and_its_largest_part_limits_it(
    card, asked, target, batch, fed
) -> None:
    ops = ops_of(asked, target, batch)
    parts = predict(card, asked, target, batch, steady_host(), constants(), fed)
    at_peak = sum(op.flops / rate_of(card, peak_of(card, target, op)) * 1e-9 for op in ops)
    streamed = sum(op.bytes / card.bandwidth_gb_s * 1e-6 for op in ops)
    copied = batch * math.prod(asked.network.input_shape) * 4 / card.link_gb_s * 1e-6 if fed else 0.0
    assert parts.step_ms >= max(at_peak, streamed) + copied
    by_name = {name: getattr(parts, f"{name}_ms") for name in ("host", "launch", "arithmetic", "bandwidth", "transfer")}
    assert by_name[parts.limited_by] == max(by_name.values())
    assert max(by_name.values()) <= parts.step_ms * (1 + 1e-12)


@settings(max_examples=60)
@given(CARDS, WORKLOADS, TARGETS, BATCHES, BATCHES, st.floats(1.01, 10), FACTS)
def test_neither_fewer_samples_nor_a_better_card_take_more_time(card, asked, target, one, other, factor, fact) -> None:
    def step_ms(batch: int, on=card) -> float:
        return predict(on, asked, target, batch, steady_host(), constants(), True).step_ms

    assert step_ms(min(one, other)) <= step_ms(max(one, other)) * (1 + 1e-12)
    better = card.model_copy(update={fact: factor * getattr(card, fact)})
    assert step_ms(one, better) <= step_ms(one) * (1 + 1e-12)


@given(PARTS_MS, PARTS_MS, st.floats(1, 10))
def test_parts_that_overlap_take_the_larger_at_least_and_the_sum_at_most(one, other, exponent) -> None:
    found = joined(one, other, exponent)
    assert max(one, other) * (1 - 1e-9) <= found <= (one + other) * (1 + 1e-9)


def test_a_power_budget_costs_little_in_short_arithmetic_and_all_of_it_in_long() -> None:
    known = plain_constants(power_limited={"other/fp32": 0.4, "other/tf32": 0.4, "other/half": 0.4})
    free, bound = round_card(), round_card(power_limited=True)

    def arithmetic(card, batch: int) -> float:
        return predict(card, workload("784-8192x2-10"), GPU, batch, steady_host(), known, False).arithmetic_ms

    assert arithmetic(bound, 1) == pytest.approx(arithmetic(free, 1), rel=0.1)
    assert arithmetic(bound, 65_536) == pytest.approx(arithmetic(free, 65_536) / 0.4, rel=0.05)


def test_float32_products_run_as_tf32_where_there_is_some_and_half_precision_needs_its_own_rate() -> None:
    op = ops_of(workload(mode="infer"), GPU, 8)[0]
    half = Target(device="gpu:0", precision="mixed_bfloat16")
    assert peak_of(round_card(), GPU, op) == "fp32"
    assert peak_of(round_card(tf32_tflops=80.0), GPU, op) == "tf32"
    strict = GPU.model_copy(update={"precision": "float32_strict"})
    assert peak_of(round_card(tf32_tflops=80.0), strict, op) == "fp32"
    assert modelled_as(round_card(tf32_tflops=80.0), workload(), GPU) == "graph, as asked; float32 (TF32)"
    assert modelled_as(round_card(), workload(), GPU) == "graph, as asked"
    assert modelled_as(round_card(tf32_tflops=80.0), workload(), strict) == "graph, as asked; float32 without TF32"
    assert peak_of(round_card(), half, op) == "half"
    assert peak_of(round_card(half_tflops=None), half, op) == "fp32"
    update = ops_of(workload(), half, 8)[-1]
    assert peak_of(round_card(), half, update) == "fp32"


def test_the_host_hands_over_operations_one_by_one_or_a_compiled_step_at_once() -> None:
    host = steady_host()
    kernels = sum(op.kernels for op in ops_of(workload(), GPU, 8))
    eager = Target(device="gpu:0", execution="eager")
    several = Target(device="gpu:0", execution="graph", steps_per_execution=10)

    def host_ms(target: Target) -> float:
        return predict(round_card(), workload(), target, 8, host, plain_constants(), False).host_ms

    assert host_ms(GPU) == pytest.approx(0.1 + 0.005 * kernels)
    assert host_ms(several) == pytest.approx(0.01 + 0.005 * kernels)
    assert host_ms(eager) == pytest.approx(0.1 + 0.020 * kernels)
    assert host_ms(XLA) == pytest.approx(0.1 + 0.050)


@pytest.mark.parametrize(("network", "like"), [("784-512-512-10", XLA), ("lstm-32x2-128x9-6", GPU)])
def test_keras_is_modelled_as_what_it_chooses(network: str, like: Target) -> None:
    keras = Target(device="gpu:0")
    asked = workload(network)
    parts = [predict(round_card(), asked, one, 8, steady_host(), plain_constants(), False) for one in (keras, like)]
    assert parts[0] == parts[1]
    assert ops_of(asked, keras, 8) == ops_of(asked, like, 8)


def test_resident_data_cross_no_link_and_labels_do_in_training_only() -> None:
    known = plain_constants(transfer_start_us=33.0)
    assert predict(round_card(), workload(), GPU, 64, steady_host(), known, False).transfer_ms == 0
    training = transfer_time(round_card(), workload(), 64, known)
    inference = transfer_time(round_card(), workload(mode="infer"), 64, known)
    assert inference == pytest.approx(0.033 + 64 * 784 * 4 / 25e9 * 1e3)
    assert training - inference == pytest.approx(64 * 8 / 25e9 * 1e3)


def test_shipped_constants_say_where_each_is_from() -> None:
    shipped = constants()
    assert set(shipped.found) == set(type(shipped).model_fields) - {"found"}
    assert shipped.arithmetic_share("dense", "fp32") > shipped.limited_share("dense", "fp32")
