"""Layers as matrix products, by hand: shapes, kinds of convolution, blocks that can work in parallel."""

import math
from typing import Any

import pytest

from core.hardware.constants import KINDS
from core.hardware.layers import Product, Shaped, shaped_layers
from core.hardware.work import TENSOR_KINDS, TILE, Op, blocks, ops_of, step_table
from core.networks.architecture.graph import INPUT, Graph, Layer
from core.networks.architecture.text import dump
from core.networks.families.own import Own
from core.workload.spec import Target, Workload
from simulated.hardware import GPU, NETWORKS, XLA, workload

HALF = Target(device="gpu:0", precision="mixed_float16", execution="graph")


@pytest.mark.parametrize(
    ("kind", "given", "options", "product", "convolution"),
    [
        ("Dense", (7, 20), {"units": 30}, Product(7, 30, 20, 20), "dense"),
        ("Conv2D", (9, 9, 32), {"filters": 48, "kernel_size": 5}, Product(25, 48, 800, 32), "convolution"),
        ("Conv2D", (9, 9, 32), {"filters": 48, "kernel_size": 1}, Product(81, 48, 32, 32), "pointwise"),
        ("Conv2D", (9, 9, 32), {"filters": 48, "kernel_size": 3}, Product(49, 48, 288, 32), "winograd"),
        ("Conv2D", (9, 9, 32), {"filters": 48, "kernel_size": 3, "padding": "same"}, Product(81, 48, 288, 32),
         "winograd"),
        ("Conv2D", (9, 9, 3), {"filters": 48, "kernel_size": 3}, Product(49, 48, 27, 3), "convolution"),
        ("Conv2D", (9, 9, 32), {"filters": 48, "kernel_size": 3, "strides": 2}, Product(16, 48, 288, 32),
         "convolution"),
        ("Conv2D", (9, 9, 32), {"filters": 48, "kernel_size": 3, "dilation_rate": 2}, Product(25, 48, 288, 32),
         "convolution"),
        ("Conv2D", (9, 9, 32), {"filters": 48, "kernel_size": 3, "groups": 4}, Product(49, 12, 72, 8, 4), "grouped"),
        ("DepthwiseConv2D", (9, 9, 32), {"kernel_size": 3}, Product(49, 1, 9, 1, 32), "depthwise"),
        ("Conv2DTranspose", (9, 9, 32), {"filters": 48, "kernel_size": 3, "strides": 2}, Product(81, 432, 32, 32),
         "convolution"),
    ],
)  # fmt: skip
def test_a_layer_is_the_product_that_its_shapes_make(kind, given, options, product, convolution) -> None:
    layer = one_layer(kind, given, options)
    assert (layer.product, layer.kernels.kind) == (product, convolution)
    multiplied = 2 * product.groups * product.rows * product.columns * product.depth
    biased = layer.count.activations
    assert layer.count.forward_flops in (multiplied, multiplied + biased)


def one_layer(kind: str, given: tuple[int, ...], options: dict[str, Any]) -> Shaped:
    (found,) = shaped_layers(network_of(kind, given, options))
    return found


def network_of(kind: str, given: tuple[int, ...], options: dict[str, Any]) -> Own:
    inputs = (INPUT, INPUT) if kind == "MultiHeadAttention" else (INPUT,)
    return Own(architecture=dump(Graph(given, (Layer("one", kind, options, inputs),), "one")))


def ops_by_name(asked: Workload, batch: int, target: Target = GPU) -> dict[str, Op]:
    return {op.name: op for op in ops_of(asked, target, batch)}


def test_blocks_of_forward_and_of_both_gradients_by_hand() -> None:
    """Check 100 rows, 784 inputs and 1000 units: results of 100 × 1000, 784 × 1000 and 100 × 784."""
    assert TILE == 64
    found = ops_by_name(workload("784-1000-300-10"), 100)
    assert found["dense_1"].tiles == 2 * 16 * 784 / 512
    assert found["dense_1 weight gradient"].tiles == 13 * 16  # the sum over 100 rows is not split
    assert found["dense_2"].tiles == 2 * 5 * 1000 / 512
    assert found["dense_2 input gradient"].tiles == 2 * 16
    assert found["dense_1 element-wise"].tiles == math.inf
    assert blocks(64.0, 64.0, 1024.0) == 2
    assert blocks(65.0, 64.0, 512.0) == 2


def test_blocks_of_a_grouped_convolution_are_those_of_every_group() -> None:
    options = {"filters": 128, "kernel_size": 3, "groups": 2}
    found = ops_by_name(Workload(network=network_of("Conv2D", (10, 10, 64), options), mode="infer"), 2)
    assert found["one"].tiles == 2 * 2 * 1  # 2 samples of 64 results, 64 columns, sums of 288


def test_an_attention_is_projections_and_scores_whose_operations_add_up_to_the_layers() -> None:
    tokens, width, heads, batch = 16, 32, 4, 8
    options = {"num_heads": heads, "key_dim": width // heads}
    asked = Workload(network=network_of("MultiHeadAttention", (tokens, width), options))
    layer = shaped_layers(asked.network)[0]
    assert layer.product == Product(tokens, width, width, width)
    found = ops_of(asked, GPU, batch)
    (projections,) = (op for op in found if op.name == "one: projections")
    (scores,) = (op for op in found if op.name == "one: scores")
    assert (projections.kind, scores.kind) == ("dense", "attention")
    assert projections.flops == batch * 4 * 2 * tokens * width * width
    assert projections.flops + scores.flops == batch * layer.count.forward_flops
    assert scores.flops >= batch * 2 * 2 * tokens * tokens * width
    assert projections.kernels + scores.kernels == layer.kernels.kernels
    assert projections.tiles == 4 * (tokens * batch / TILE)
    backward = [op for op in found if op.phase == "backward" and op.kind in ("dense", "attention")]
    gradients = layer.count.weight_gradient_flops + layer.count.input_gradient_flops
    assert sum(op.flops for op in backward) == batch * gradients


@pytest.mark.parametrize(
    ("given", "filters", "target", "tensor"),
    [
        (16, 24, HALF, True), (12, 24, HALF, False), (16, 20, HALF, False), (12, 20, GPU, True), (3, 24, GPU, False),
    ],
)  # fmt: skip
def test_convolutions_use_tensor_cores_where_their_channels_are_aligned_and_dense_layers_always(
    given: int, filters: int, target: Target, tensor: bool
) -> None:
    asked = Workload(network=network_of("Conv2D", (8, 8, given), {"filters": filters, "kernel_size": 1}))
    found = ops_by_name(asked, 4, target)
    assert found["one"].tensor is found["one weight gradient"].tensor is tensor
    dense = Workload(network=network_of("Dense", (7,), {"units": 3}))
    assert ops_by_name(dense, 4, target)["one"].tensor


def test_in_a_fused_build_a_bias_costs_nothing_forward_and_one_read_for_its_gradient() -> None:
    asked, values = Workload(network=network_of("Dense", (20,), {"units": 30})), 4 * 30 * 4
    fused = {op.name: op for op in ops_of(asked, GPU, 4, "fused")}
    assert (fused["one element-wise"].kernels, fused["one element-wise"].bytes) == (0, 0)
    assert (fused["one element-wise gradient"].kernels, fused["one element-wise gradient"].bytes) == (1, values)
    plain = ops_by_name(asked, 4)
    assert (plain["one element-wise"].kernels, plain["one element-wise"].bytes) == (1, 2 * values)


def test_an_eager_fused_build_adds_the_bias_of_a_convolution_by_itself_and_a_graph_does_not() -> None:
    asked = Workload(network=network_of("Conv2D", (8, 8, 3), {"filters": 16, "kernel_size": 3, "padding": "same"}))
    values = 4 * 8 * 8 * 16 * 4
    by_execution = {
        execution: {op.name: op for op in ops_of(asked, Target(device="gpu:0", execution=execution), 4, "fused")}
        for execution in ("eager", "graph")
    }
    added = {name: ops["one element-wise"] for name, ops in by_execution.items()}
    assert {name: (op.kernels, op.bytes) for name, op in added.items()} == {"eager": (1, 2 * values), "graph": (0, 0)}
    gradients = {name: ops["one element-wise gradient"].bytes for name, ops in by_execution.items()}
    assert gradients == {"eager": values, "graph": values}


def test_xla_reads_again_what_a_gate_scales_since_the_gate_needs_all_of_it() -> None:
    gated = (
        Layer("values", "Conv2D", {"filters": 16, "kernel_size": 1}),
        Layer("mean", "GlobalAveragePooling2D", {"keepdims": True}, ("values",)),
        Layer("scaled", "Multiply", {}, ("values", "mean")),
    )
    asked = Workload(network=Own(architecture=dump(Graph((8, 8, 3), gated, "scaled"))), mode="infer")
    scaled = ops_by_name(asked, 2, XLA)["scaled"]
    values, gate = 2 * 8 * 8 * 16, 2 * 16
    assert (scaled.kernels, scaled.bytes) == (1, 4 * (2 * values + gate))


def test_xla_makes_layers_without_weights_part_of_those_before_and_a_fused_build_does_not() -> None:
    branch = (
        Layer("first", "Dense", {"units": 32}), Layer("second", "Dense", {"units": 32}, ("first",)),
        Layer("sum", "Add", {}, ("first", "second")), Layer("relu", "ReLU", {}, ("sum",)),
    )  # fmt: skip
    asked = Workload(network=Own(architecture=dump(Graph((32,), branch, "relu"))), mode="infer")
    graph, xla = ops_by_name(asked, 8), ops_by_name(asked, 8, XLA)
    fused = {op.name: op for op in ops_of(asked, GPU, 8, "fused")}
    values = 4 * 8 * 32
    assert (graph["sum"].bytes, xla["sum"].bytes, fused["sum"].bytes) == (3 * values, values, 3 * values)
    assert (graph["relu"].bytes, xla["relu"].bytes) == (2 * values, 0)
    assert (graph["sum"].kernels, xla["sum"].kernels, fused["sum"].kernels) == (1, 0, 1)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("target", [GPU, XLA, HALF])
def test_the_table_of_a_step_is_its_operations(network: str, target: Target) -> None:
    ops = ops_of(workload(network), target, 8, "fused")
    table = step_table(workload(network), target, 8, "fused")
    assert [KINDS[kind] for kind in table.kind] == [op.kind for op in ops]
    for name in ("kernels", "flops", "bytes", "tiles"):
        assert list(getattr(table, name)) == [getattr(op, name) for op in ops]
    assert list(table.tensor) == [op.tensor and op.kind in TENSOR_KINDS for op in ops]
    assert not any(table.tensor[i] for i, op in enumerate(ops) if op.kind in ("elementwise", "loss", "optimizer"))
