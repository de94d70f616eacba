import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.hardware.constants import CONVOLUTIONS, KINDS, PEAKS, WINOGRAD, Generation, PowerBudget, constants
from core.hardware.host import Conditions
from core.hardware.model import (
    arithmetic_time,
    attends_in_one_kernel,
    bandwidth_time,
    device_time,
    host_time,
    is_reordered,
    joined,
    modelled_as,
    peaks_of,
    predict,
    rate_of,
    reordering,
    runs_as,
    transfer_time,
)
from core.hardware.work import Op, OpTable, ops_of, step_table, table_of
from core.workload.spec import Target
from simulated.hardware import GPU, NETWORKS, XLA, plain_constants, round_card, steady_host, workload

RATES = st.floats(0.5, 3000)
FACTS = st.sampled_from(["bandwidth_gb_s", "fp32_tflops", "tf32_tflops", "half_tflops", "link_gb_s", "l2_mb", "tdp_w"])
PARTS_MS = st.just(0.0) | st.floats(1e-9, 1e4)
BATCHES = st.integers(1, 65_536)
PRECISIONS, EXECUTIONS = st.sampled_from(["float32", "mixed_float16"]), st.sampled_from(["graph", "xla", "eager"])
TARGETS = st.builds(Target, device=st.just("gpu:0"), precision=PRECISIONS, execution=EXECUTIONS)
WORKLOADS = st.builds(workload, st.sampled_from(NETWORKS), mode=st.sampled_from(["train", "infer"]))
CONDITIONS = st.builds(
    Conditions, fed=st.booleans(), build=st.sampled_from(["keras", "fused"]), under_fit=st.booleans(),
    channels_first=st.booleans(), separate_attention=st.booleans(),
)  # fmt: skip
CARDS = st.builds(
    round_card, fp32_tflops=RATES, tf32_tflops=st.none() | RATES, half_tflops=st.none() | RATES,
    bandwidth_gb_s=st.floats(10, 10_000), tdp_w=st.none() | st.floats(10, 1_000),
    l2_mb=st.none() | st.floats(0.5, 200), multiprocessors=st.none() | st.integers(1, 300),
)  # fmt: skip
ONE_OP = Op("op", "dense", "forward", 1, 1e9, 1e6, tiles=80.0)


def one_op(**values) -> OpTable:
    return table_of((dataclasses.replace(ONE_OP, **values),))


def test_a_step_by_hand() -> None:
    """Check full rates without overlap: every part adds up."""
    ops = ops_of(workload(), GPU, 256)
    kernels, flops, moved = (sum(getattr(op, name) for op in ops) for name in ("kernels", "flops", "bytes"))
    parts = predict(
        round_card(), workload(), GPU, 256, steady_host(), plain_constants(), conditions=Conditions(fed=True)
    )
    assert parts.host_ms == pytest.approx(0.1 + 0.005 * kernels)
    assert parts.launch_ms == pytest.approx(0.002 * kernels)
    assert parts.arithmetic_ms == pytest.approx(flops / 10e12 * 1e3)
    assert parts.bandwidth_ms == pytest.approx(moved / 1e12 * 1e3)
    assert parts.transfer_ms == pytest.approx(256 * (784 * 4 + 8) / 25e9 * 1e3)
    added = parts.host_ms + parts.launch_ms + parts.arithmetic_ms + parts.bandwidth_ms + parts.transfer_ms
    assert parts.step_ms == pytest.approx(added)


@settings(max_examples=60)
@given(CARDS, WORKLOADS, TARGETS, BATCHES, CONDITIONS)
def test_no_step_is_faster_than_peak_bandwidth_and_link_allow_and_its_largest_part_limits_it(
    card, asked, target, batch, conditions
) -> None:
    """Check the bounds with two allowances.

    A 3 × 3 convolution needs 2.25 times fewer multiplications than it counts; a kernel's traffic may be in the cache,
    which is faster than memory by its factor.
    """
    known = constants()
    ran = runs_as(asked, target, conditions.build)
    table = step_table(asked, ran, batch, conditions.build, attends_in_one_kernel(card, conditions))
    rates = np.array([rate_of(card, peak) for peak in PEAKS])[peaks_of(card, target.precision, table)]
    fewer = np.where(table.kind == KINDS.index("winograd"), WINOGRAD, 1.0)
    at_peak = float(np.sum(table.flops / rates / fewer)) * 1e-9
    streamed = float(table.bytes.sum()) / card.bandwidth_gb_s / known.cache_speed * 1e-6
    copied = batch * math.prod(asked.network.input_shape) * 4 / card.link_gb_s * 1e-6 if conditions.fed else 0.0
    parts = predict(card, asked, target, batch, steady_host(fit_us=70), known, conditions)
    assert parts.step_ms >= (max(at_peak, streamed) + copied) * (1 - 1e-12)
    by_name = {name: getattr(parts, f"{name}_ms") for name in ("host", "launch", "arithmetic", "bandwidth", "transfer")}
    assert by_name[parts.limited_by] == max(by_name.values())
    assert max(by_name.values()) <= parts.step_ms * (1 + 1e-12)


@settings(max_examples=60)
@given(CARDS, WORKLOADS, TARGETS, BATCHES, BATCHES, st.floats(1.01, 10), FACTS, CONDITIONS)
def test_neither_fewer_samples_nor_a_better_card_take_more_time(
    card, asked, target, one, other, factor, fact, conditions
) -> None:
    """Check all facts but multiprocessors: more of them at the same rate are no better, since it takes more blocks to
    fill them.
    """

    def step_ms(batch: int, on=card) -> float:
        return predict(on, asked, target, batch, steady_host(), constants(), conditions).step_ms

    assert step_ms(min(one, other)) <= step_ms(max(one, other)) * (1 + 1e-12)
    if (now := getattr(card, fact)) is not None:
        # a card without stated multiprocessors gets a number from its rate
        card = card.model_copy(update={"multiprocessors": card.multiprocessors or 100})
        better = card.model_copy(update={fact: factor * now})
        assert step_ms(one, better) <= step_ms(one, card) * (1 + 1e-12)


@given(PARTS_MS, PARTS_MS, st.floats(1, 10))
def test_parts_that_overlap_take_the_larger_at_least_and_the_sum_at_most(one, other, exponent) -> None:
    found = joined(one, other, exponent)
    assert max(one, other) * (1 - 1e-9) <= found <= (one + other) * (1 + 1e-9)


def test_a_power_budget_costs_little_in_short_arithmetic_and_all_of_it_in_long() -> None:
    budget = PowerBudget(watts_per_tflop={"Ampere": 50.0}, on_tensor_cores=0.1, exponent=0.5)
    known = plain_constants(power=budget)
    free, bound = round_card(tdp_w=None), round_card(tdp_w=80.0)
    kept = budget.share("Ampere", "fp32", 10.0, 80.0)
    assert kept == pytest.approx(0.4, rel=0.01)  # (80 W / 500 W) ** 0.5

    def arithmetic(card, batch: int) -> float:
        return predict(card, workload("784-8192x2-10"), GPU, batch, steady_host(), known).arithmetic_ms

    assert arithmetic(bound, 1) == pytest.approx(arithmetic(free, 1), rel=0.1)
    assert arithmetic(bound, 65_536) == pytest.approx(arithmetic(free, 65_536) / kept, rel=0.05)


def test_float32_products_run_as_tf32_where_there_is_some_and_half_precision_needs_its_own_rate() -> None:
    half = Target(device="gpu:0", precision="mixed_bfloat16", execution="graph")
    strict = GPU.model_copy(update={"precision": "float32_strict"})

    def peaks(card, target: Target) -> dict[str, str]:
        table = step_table(workload(), target, 8, "keras")
        found = peaks_of(card, target.precision, table)
        return {KINDS[kind]: PEAKS[peak] for kind, peak in zip(table.kind, found, strict=True)}

    assert set(peaks(round_card(), GPU).values()) == {"fp32"}
    assert peaks(round_card(tf32_tflops=80.0), GPU)["dense"] == "tf32"
    assert peaks(round_card(tf32_tflops=80.0), GPU)["optimizer"] == "fp32"
    assert set(peaks(round_card(tf32_tflops=80.0), strict).values()) == {"fp32"}
    assert "float32 (TF32)" in modelled_as(round_card(tf32_tflops=80.0), workload(), GPU)
    assert modelled_as(round_card(), workload(), GPU) == "graph, as asked"
    assert "without TF32" in modelled_as(round_card(tf32_tflops=80.0), workload(), strict)
    assert peaks(round_card(), half)["dense"] == "half"
    assert peaks(round_card(), half)["optimizer"] == "fp32"
    assert set(peaks(round_card(half_tflops=None), half).values()) == {"fp32"}
    odd = one_op(kind="pointwise", tensor=False)
    assert PEAKS[peaks_of(round_card(), "mixed_float16", odd)[0]] == "fp32"


def test_float32_takes_the_faster_of_tensor_cores_and_plain_kernels_and_half_precision_never_the_plain_ones() -> None:
    shares = {"other/fp32": 1.0, "other/tf32": 0.25, "other/half": 0.25}
    known = plain_constants(arithmetic=shares)
    alike, faster = round_card(tf32_tflops=10.0, half_tflops=10.0), round_card(tf32_tflops=80.0)
    assert arithmetic_time(alike, "float32", one_op(tiles=math.inf), known) == pytest.approx([0.1])
    assert arithmetic_time(faster, "float32", one_op(tiles=math.inf), known) == pytest.approx([0.05])
    assert arithmetic_time(alike, "mixed_float16", one_op(tiles=math.inf), known) == pytest.approx([0.4])


def test_a_generation_has_its_own_shares_of_tensor_cores_and_memory_but_no_more_than_all() -> None:
    shares = {"other/fp32": 1.0, "other/tf32": 0.5, "other/half": 0.5}
    own = {"Ampere": Generation(dense=0.5, convolution=4.0, bandwidth=0.5)}
    known = plain_constants(arithmetic=shares, generations=own)
    card, other = (round_card(architecture=name, half_tflops=40.0) for name in ("Ampere", "Ada"))
    product, convolution, other_kind = (one_op(kind=kind, tiles=math.inf) for kind in ("dense", "pointwise", "loss"))
    assert arithmetic_time(other, "mixed_float16", product, known) == pytest.approx([0.05])
    assert arithmetic_time(card, "mixed_float16", product, known) == pytest.approx([0.1])
    assert arithmetic_time(card, "mixed_float16", convolution, known) == pytest.approx([0.025])  # all of the rate
    assert arithmetic_time(card, "float32_strict", product, known) == pytest.approx([0.1])  # no tensor cores
    assert bandwidth_time(card, other_kind, known) == pytest.approx(2 * bandwidth_time(other, other_kind, known))
    assert bandwidth_time(card, product, known) == pytest.approx(bandwidth_time(other, product, known))


@pytest.mark.parametrize(("architecture", "build", "one"), [
    ("Ampere", "fused", True), ("Ampere", "keras", False), ("Turing", "fused", False),
])  # fmt: skip
def test_attention_never_writes_its_scores_in_fused_builds_on_cards_of_2020_and_later(architecture, build, one) -> None:
    card = round_card(architecture=architecture)
    assert attends_in_one_kernel(card, Conditions(build=build)) is one
    assert not attends_in_one_kernel(card, Conditions(build=build, separate_attention=True))
    asked = workload("bert-tiny-like")
    plain, flash = (
        [op for op in ops_of(asked, GPU, 8, "fused", with_flash) if op.kind == "attention"]
        for with_flash in (False, True)
    )
    assert [op.kernels for op in flash] == [1] * len(plain)
    assert all(small.bytes < large.bytes for small, large in zip(flash, plain, strict=True))
    assert [op.flops for op in flash] == [op.flops for op in plain]
    steady = predict(card, asked, GPU, 64, steady_host(), plain_constants(), Conditions(build=build)).bandwidth_ms
    older = round_card(architecture="Turing")
    before = predict(older, asked, GPU, 64, steady_host(), plain_constants(), Conditions(build=build)).bandwidth_ms
    assert (steady < before) is one


def test_a_product_has_half_its_rate_where_so_many_blocks_as_fill_it_half() -> None:
    known = plain_constants(fill=0.5)
    card = round_card(multiprocessors=160)
    full = arithmetic_time(card, "float32", one_op(tiles=math.inf), known)
    assert full == pytest.approx([0.1])
    assert arithmetic_time(card, "float32", one_op(tiles=80.0), known) == pytest.approx([0.2])
    assert arithmetic_time(card, "float32", one_op(tiles=8000.0), known) == pytest.approx([0.101])
    assert arithmetic_time(round_card(), "float32", one_op(tiles=10.0), known) > full  # multiprocessors not stated


def test_what_fits_in_its_share_of_the_cache_is_as_much_faster_as_the_cache_is() -> None:
    known = plain_constants(cache_speed=2.0, cache_share=0.5)
    card = round_card(l2_mb=20.0)

    def ms(megabytes: float, kernels: int = 1) -> float:
        return float(bandwidth_time(card, one_op(bytes=megabytes * 1e6, kernels=kernels), known)[0])

    assert ms(0.01) == pytest.approx(0.005e-3, rel=1e-3)
    assert ms(10) == pytest.approx(0.75 * 0.01)
    assert ms(10_000) == pytest.approx(10.0, rel=1e-3)
    assert ms(10_000, kernels=10_000) == pytest.approx(1000 * ms(10), rel=0.34)  # each moves only 1 MB
    assert ms(10_000, kernels=10_000) < 0.51 * ms(10_000)


def test_convolutions_overlap_their_loads_by_an_exponent_of_their_own() -> None:
    known = plain_constants(overlap=1.0, overlap_convolution=2.0)
    by_kind = dict(zip(KINDS, known.overlaps, strict=True))
    assert {kind for kind, value in by_kind.items() if value == 2.0} == CONVOLUTIONS
    assert by_kind["dense"] == by_kind["attention"] == 1.0


def test_the_host_hands_over_operations_one_by_one_or_a_compiled_step_at_once() -> None:
    host = steady_host()
    kernels = sum(op.kernels for op in ops_of(workload(), GPU, 8))
    eager = Target(device="gpu:0", execution="eager")
    several = Target(device="gpu:0", execution="graph", steps_per_execution=10)

    def host_ms(target: Target) -> float:
        return predict(round_card(), workload(), target, 8, host, plain_constants()).host_ms

    assert host_ms(GPU) == pytest.approx(0.1 + 0.005 * kernels)
    assert host_ms(several) == pytest.approx(0.01 + 0.005 * kernels)
    assert host_ms(eager) == pytest.approx(0.1 + 0.020 * kernels)
    assert host_ms(XLA) == pytest.approx(0.1 + 0.050)


def test_a_compiled_steps_kernels_a_fused_builds_and_the_loop_of_fit_cost_the_host_what_the_constants_say() -> None:
    known = plain_constants(xla_op=4.0, keras_xla_op=3.0, fused_op=2.0)
    host = steady_host(fit_us=700)

    def host_ms(target: Target, **conditions) -> float:
        return predict(round_card(), workload(), target, 8, host, known, Conditions(**conditions)).host_ms

    compiled, fused = (sum(op.kernels for op in ops_of(workload(), *how)) for how in ((XLA, 8), (GPU, 8, "fused")))
    assert host_ms(XLA) == pytest.approx(0.1 + 0.050 + 3 * 0.005 * compiled)
    in_parts = sum(op.kernels for op in ops_of(workload(), XLA, 8, "fused"))
    assert host_ms(XLA, build="fused") == pytest.approx(0.1 + 0.050 + 4 * 0.005 * in_parts)
    assert host_ms(GPU, build="fused") == pytest.approx(0.1 + 2 * 0.005 * fused)
    assert host_ms(GPU, under_fit=True) == pytest.approx(host_ms(GPU) + 0.7)
    several = GPU.model_copy(update={"steps_per_execution": 10})
    assert host_ms(several, under_fit=True) == pytest.approx(host_ms(several) + 0.07)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_a_fused_build_runs_its_graph_and_its_kernels_are_never_slower_than_those_of_keras(
    network: str, mode: str
) -> None:
    asked, keras, fused = workload(network, mode=mode), Target(device="gpu:0"), Conditions(build="fused")
    assert runs_as(asked, keras, "fused").execution == "graph"
    assert runs_as(asked, XLA, "fused").execution == "xla"
    for batch in (1, 32, 1024, 65_536):
        tables = [step_table(asked, GPU, batch, build) for build in ("keras", "fused")]
        of_keras, of_fused = (device_time(round_card(), GPU, table, constants()) for table in tables)
        assert of_fused.total_ms <= of_keras.total_ms
        same = constants().model_copy(update={"fused_op": 1.0})
        parts = [predict(round_card(), asked, GPU, batch, steady_host(), same, how) for how in (Conditions(), fused)]
        assert parts[1].step_ms <= parts[0].step_ms
        assert parts[1] == predict(round_card(), asked, keras, batch, steady_host(), same, fused)


def test_a_fused_build_trains_no_slower_than_keras_on_the_host_either() -> None:
    for network in NETWORKS:
        keras, fused = (
            predict(round_card(), workload(network), GPU, 1, steady_host(), constants(), how)
            for how in (Conditions(), Conditions(build="fused"))
        )
        assert fused.step_ms <= keras.step_ms, network


def test_the_time_steps_of_a_recurrent_layer_are_launched_by_cudnn_and_cost_a_fused_build_no_more() -> None:
    kernels = {op.kind: op.kernels for op in ops_of(workload("lstm-32x2-128x9-6", mode="infer"), GPU, 8, "fused")}
    table = step_table(workload("lstm-32x2-128x9-6", mode="infer"), GPU, 8, "fused")
    recurrent = float(table.kernels[table.kind == KINDS.index("recurrent")].sum())
    assert recurrent > 100 * kernels["dense"]
    known = plain_constants(fused_op=3.0)
    expected = 0.005 * (recurrent + 3.0 * (float(table.kernels.sum()) - recurrent))
    assert host_time(GPU, table, steady_host(), known, "fused") == pytest.approx(expected)


@pytest.mark.parametrize(("network", "like"), [("784-512-512-10", XLA), ("lstm-32x2-128x9-6", GPU)])
def test_keras_is_modelled_as_what_it_chooses(network: str, like: Target) -> None:
    keras = Target(device="gpu:0")
    asked = workload(network)
    parts = [predict(round_card(), asked, one, 8, steady_host(), plain_constants()) for one in (keras, like)]
    assert parts[0] == parts[1]
    assert ops_of(asked, keras, 8) == ops_of(asked, like, 8)


def test_resident_data_cross_no_link_and_labels_do_in_training_only() -> None:
    known = plain_constants(transfer_start_us=33.0)
    assert predict(round_card(), workload(), GPU, 64, steady_host(), known).transfer_ms == 0
    training = transfer_time(round_card(), workload(), 64, known)
    inference = transfer_time(round_card(), workload(mode="infer"), 64, known)
    assert inference == pytest.approx(0.033 + 64 * 784 * 4 / 25e9 * 1e3)
    assert training - inference == pytest.approx(64 * 8 / 25e9 * 1e3)


def test_shipped_constants_say_where_each_is_from() -> None:
    shipped = constants()
    assert set(shipped.found) == set(type(shipped).model_fields) - {"found"}


def test_a_budget_slows_cards_with_too_few_watts_and_half_precision_needs_fewer_than_tf32() -> None:
    budget = PowerBudget(watts_per_tflop={"Ampere": 10.0}, on_tensor_cores=0.1, exponent=1.0)
    assert budget.share("Ampere", "fp32", 10.0, 1000.0) == pytest.approx(1.0, abs=1e-3)
    assert budget.share("Ampere", "fp32", 10.0, 10.0) == pytest.approx(0.1, rel=1e-3)
    assert budget.share("Ampere", "tf32", 50.0, 10.0) == pytest.approx(0.1, rel=1e-3)
    assert budget.share("Ampere", "half", 100.0, 10.0) == pytest.approx(0.1, rel=1e-3)
    assert budget.share("Ampere", "half", 100.0, None) == budget.share("Unheard of", "half", 100.0, 10.0) == 1.0


def test_images_with_channels_first_cost_convolutions_on_tensor_cores_more_unless_a_compiler_reorders_them() -> None:
    known = plain_constants(channels_first=1.5)
    asked = workload("cnn-32x32x3-64x6-k3-bn-max-10", mode="infer")
    half = GPU.model_copy(update={"precision": "mixed_float16"})

    def device_ms(target: Target, channels_first: bool) -> tuple[float, float]:
        reordered = is_reordered(target, Conditions(channels_first=channels_first))
        table = step_table(asked, target, 64, "fused")
        every = device_time(round_card(), target, table, known, reordered=reordered)
        factors = reordering(round_card(), target.precision, table, known, reordered)
        return every.total_ms, float(factors.max())

    last, first = device_ms(half, False), device_ms(half, True)
    assert (last[1], first[1]) == (1.0, 1.5)
    assert last[0] < first[0] < 1.5 * last[0]
    assert device_ms(GPU, True) == device_ms(GPU, False)  # no tensor cores
    compiled = half.model_copy(update={"execution": "xla"})
    assert device_ms(compiled, True)[0] == device_ms(compiled, False)[0]


def test_numpy_batches_come_no_faster_than_keras_hands_them_over() -> None:
    slow, card = plain_constants(feed_gb_s=1.0), round_card()
    keras, fused = (transfer_time(card, workload(), 64, slow, build) for build in ("keras", "fused"))  # type: ignore[arg-type]
    assert keras == pytest.approx(fused * card.link_gb_s)
