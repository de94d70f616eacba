"""Memory before running: parts, and the sentence that refuses what cannot fit."""

import pytest

from core.analysis.memory import check_fits, estimate_bytes
from core.spec import SweepPlan, Target, Workload

CPU, GPU = Target(), Target(device="gpu:0")


def test_parts_follow_the_formula() -> None:
    workload = Workload(network="784-128-10", optimizer="adam")
    found = estimate_bytes(workload, CPU, 32)
    parameters = workload.network.parameters
    assert found.weights_bytes == 4 * parameters
    assert found.optimizer_bytes == 8 * parameters
    assert found.activations_bytes == 2 * 32 * 138 * 4
    assert found.data_bytes == 32 * 785 * 4
    assert found.total_bytes == 16 * parameters + found.activations_bytes + found.data_bytes


def test_inference_keeps_neither_gradients_nor_optimizer() -> None:
    found = estimate_bytes(Workload(network="784-128-10", mode="infer"), CPU, 32)
    assert found.gradients_bytes == found.optimizer_bytes == 0


def plan(network: str, batches: tuple[int, ...]) -> SweepPlan:
    return SweepPlan(workload=Workload(network=network), targets=(CPU, Target(threads=1)), batches=batches)


def test_what_fits_is_accepted() -> None:
    check_fits(plan("784-512-512-10", (1, 1024)), 8 * 10**9)


def test_too_large_a_batch_names_the_largest_that_fits() -> None:
    with pytest.raises(ValueError, match=r"batches up to 1,024 fit"):
        check_fits(plan("65536-64-10", (1, 1024, 65_536)), 4 * 10**9)


def test_too_large_a_network_is_refused() -> None:
    with pytest.raises(ValueError, match="whatever the batch"):
        check_fits(plan("784-16384x20-10", (1, 8)), 8 * 10**9)


def test_a_gpu_target_does_not_count_against_the_host() -> None:
    on_gpus = SweepPlan(
        workload=Workload(network="784-16384x4-10"),
        targets=(GPU, Target(device="gpu:1")),
        batches=(1,),
    )
    check_fits(on_gpus, 8 * 10**9)
