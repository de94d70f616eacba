"""Memory before running: parts, and the sentence that refuses what cannot fit."""

import pytest

from core.networks.families import network_from_name
from core.rounds.plan import SweepPlan, check_fits
from core.workload.memory import USUAL, Copies, estimate_bytes, sizes, usual_copies
from core.workload.spec import Target, Workload

CPU, GPU = Target(), Target(device="gpu:0")
ONLY_KEPT = Copies(0.0, 0.0, update=0.0, kept=1.0, passing=0.0, feeding=1.0)


def test_parts_follow_the_formula_and_inference_keeps_neither_gradients_nor_optimizer_nor_layers() -> None:
    workload = Workload(network="784-128-10", optimizer="adam")
    found, usual = estimate_bytes(workload, CPU, 32), USUAL["graph"]
    parameters = workload.network.parameters
    assert found.weights_bytes == found.gradients_bytes == 4 * parameters
    assert found.optimizer_bytes == 8 * parameters
    assert found.activations_bytes == round(32 * 4 * (usual.kept * 138 + usual.passing * 128))
    assert found.data_bytes == 32 * (4 * 784 + 8)
    assert found.workspace_bytes == round(usual.model_bytes + 2 * usual.layer_bytes + 4 * usual.update * 785 * 128)
    assert found.total_bytes == 16 * parameters + found.activations_bytes + found.data_bytes + found.workspace_bytes
    workload = Workload(network="784-128x8-10", mode="infer")
    found = estimate_bytes(workload, CPU, 32)
    assert found.gradients_bytes == found.optimizer_bytes == 0
    assert found.activations_bytes == round(32 * 4 * USUAL["graph"].passing * 128)


@pytest.mark.parametrize(("optimizer", "state"), [("sgd", 0), ("momentum", 4), ("adam", 8)])
def test_optimizers_keep_so_many_bytes_a_parameter_in_training(optimizer: str, state: int) -> None:
    workload = Workload.model_validate({"network": "784-128-10", "optimizer": optimizer})
    assert estimate_bytes(workload, CPU, 1).optimizer_bytes == state * workload.network.parameters


def test_mixed_precision_adds_a_copy_of_the_weights_and_halves_what_is_kept() -> None:
    workload = Workload(network="784-128-10")
    whole = estimate_bytes(workload, CPU, 1000, ONLY_KEPT)
    mixed = estimate_bytes(workload, Target(precision="mixed_bfloat16"), 1000, ONLY_KEPT)
    strict = Target(device="gpu:0", precision="float32_strict")
    assert estimate_bytes(workload, strict, 1000, ONLY_KEPT) == whole
    assert mixed.weights_bytes == 1.5 * whole.weights_bytes
    assert mixed.activations_bytes == 0.5 * whole.activations_bytes == 1000 * 138 * 2


def test_making_a_batch_or_a_layer_can_take_more_than_a_step() -> None:
    wide = Workload(network="65536-64-10", mode="infer")
    batch_bytes = 512 * 4 * 65_536
    assert estimate_bytes(wide, CPU, 512).total_bytes == pytest.approx(3 * batch_bytes, rel=0.01)
    large = Workload(network="8192-8192-10", mode="infer")
    assert estimate_bytes(large, CPU, 1).total_bytes > 3 * 4 * 8192 * 8192


def test_a_layer_that_works_in_place_keeps_nothing_of_its_own() -> None:
    """Check that ResNet-8's activations, apart from batch normalisations, have the sizes of the layers before them."""
    network = network_from_name("resnet8", "cnn")
    in_place = [
        layer.activations
        for before, layer in zip(network.layers, network.layers[1:], strict=False)
        if not layer.parameters and layer.activations == before.activations
    ]
    assert len(in_place) >= 6
    assert sizes(network).kept == network.activations - sum(in_place)


def plan(network: str, batches: tuple[int, ...]) -> SweepPlan:
    return SweepPlan(workload=Workload(network=network), targets=(CPU, Target(threads=1)), batches=batches)


def test_what_fits_is_accepted_and_a_gpu_target_does_not_count_against_the_host() -> None:
    check_fits(plan("784-512-512-10", (1, 1024)), 8 * 10**9)
    on_gpus = SweepPlan(
        workload=Workload(network="784-16384x4-10"), targets=(GPU, Target(device="gpu:1")), batches=(1,)
    )
    check_fits(on_gpus, 8 * 10**9)


def test_too_large_a_batch_or_network_is_refused_with_what_fits() -> None:
    with pytest.raises(ValueError, match="1,024 fit"):
        check_fits(plan("65536-64-10", (1, 1024, 65_536)), 4 * 10**9)
    with pytest.raises(ValueError, match="whatever the batch"):
        check_fits(plan("784-16384x20-10", (1, 8)), 8 * 10**9)
    with pytest.raises(ValueError, match=r"8 GB.*\(the container's\)"):
        check_fits(plan("784-16384x20-10", (1, 8)), 8 * 10**9, " (the container's)")


@pytest.mark.parametrize("target", ["cpu,framework=litert", "cpu,framework=torch,execution=compile"])
def test_what_was_not_measured_is_taken_as_a_graph(target: str) -> None:
    workload = Workload(network="784-128-10", mode="infer")
    assert usual_copies(workload, Target.parse(target)) == USUAL["graph"]
