import pytest

from core.hardware.work import ops_of
from core.workload.spec import Target
from simulated.hardware import GPU, NETWORKS, XLA, workload

HALF = Target(device="gpu:0", precision="mixed_float16", execution="graph")


def test_a_dense_layers_product_and_adams_updates_count_by_hand() -> None:
    first = ops_of(workload("784-128-10", mode="infer"), GPU, 32)[0]
    assert (first.kind, first.phase, first.kernels) == ("dense", "forward", 1)
    assert first.flops == 32 * (2 * 784 * 128 + 128)
    assert first.bytes == 4 * (32 * (784 + 128) + 785 * 128)
    parameters = 785 * 128 + 129 * 10
    for target, values in ((GPU, 32), (XLA, 7)):
        updates = [op for op in ops_of(workload("784-128-10"), target, 8) if op.phase == "optimizer"]
        assert sum(op.bytes for op in updates) == 4 * values * parameters


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_layers_do_the_networks_operations_and_xla_launches_and_moves_less(network: str, mode: str) -> None:
    asked = workload(network, mode=mode)
    graph, fused = ops_of(asked, GPU, 64), ops_of(asked, XLA, 64)
    assert [op.name for op in graph] == [op.name for op in fused]
    assert sum(op.bytes for op in fused) < sum(op.bytes for op in graph) or network.startswith("lstm")
    assert all(a.bytes <= b.bytes and a.kernels <= b.kernels for a, b in zip(fused, graph, strict=True))
    layers = [
        op for op in ops_of(asked, GPU, 16) if op.kind not in ("loss", "optimizer") and "element-wise" not in op.name
    ]
    assert sum(op.flops for op in layers) == pytest.approx(16 * asked.flops_per_sample, rel=0.02)


def test_half_precision_halves_what_layers_move_and_eager_runs_the_kernels_of_the_graph() -> None:
    single, half = ops_of(workload(), GPU, 64), ops_of(workload(), HALF, 64)
    for a, b in zip(single, half, strict=True):
        if a.phase == "optimizer":
            assert b.bytes > a.bytes
            assert b.kernels > a.kernels
        elif a.kind != "loss":
            assert b.bytes == a.bytes / 2
    assert ops_of(workload(), Target(device="gpu:0", execution="eager"), 8) == ops_of(workload(), GPU, 8)


@pytest.mark.parametrize("network", NETWORKS)
def test_work_grows_with_the_batch_and_launches_do_not_and_inference_runs_forward_only(network: str) -> None:
    small, large = ops_of(workload(network), GPU, 8), ops_of(workload(network), GPU, 80)
    assert [op.kernels for op in small] == [op.kernels for op in large]
    assert all(a.flops <= b.flops <= 10 * a.flops for a, b in zip(small, large, strict=True))
    assert all(a.bytes <= b.bytes <= 10 * a.bytes for a, b in zip(small, large, strict=True))
    assert {op.phase for op in ops_of(workload(network, mode="infer"), GPU, 4)} == {"forward"}
    assert {op.phase for op in ops_of(workload(network), GPU, 4)} == {"forward", "backward", "optimizer"}


def test_recurrent_layers_depend_on_themselves_and_an_embedding_reads_the_rows_of_its_batch() -> None:
    steps = {op.sequential for op in ops_of(workload("lstm-32x2-128x9-6"), GPU, 8) if op.kind == "recurrent"}
    assert steps == {128}
    assert {op.sequential for op in ops_of(workload("resnet8"), GPU, 8)} == {1}
    ops = ops_of(workload("bert-tiny-like"), GPU, 1)
    table = next(op for op in ops if op.kind == "embedding" and op.phase == "forward")
    update = next(op for op in ops if op.name == "embedding update")
    assert table.bytes < 4 * 30_522 * 128 / 10
    assert update.bytes == 4 * 32 * 30_522 * 128
