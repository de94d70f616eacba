"""Counts from the description alone: known numbers, monotony, sharing, and refusals that name the layer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.networks.architecture.counts import ArchitectureError, count, output_shape, shapes
from core.networks.architecture.graph import INPUT, Graph, Layer, chain
from core.networks.architecture.options import MAX_LAYERS
from core.networks.families.mlp import Mlp

IMAGE = (8, 8, 3)


def dense(name: str, units: int, *inputs: str, shares: str | None = None) -> Layer:
    return Layer(name, "Dense", {} if shares else {"units": units}, inputs or (INPUT,), shares)


def network(shape: tuple[int, ...], *layers: Layer, vocabulary: int | None = None) -> Graph:
    return Graph(shape, layers, layers[-1].name, vocabulary)


@given(st.integers(1, 3000), st.lists(st.integers(8, 2000), min_size=1, max_size=6), st.integers(1, 1000))
def test_dense_layers_count_what_the_perceptron_counts(inputs: int, hidden: list[int], classes: int) -> None:
    mlp = Mlp(inputs=inputs, hidden=tuple(hidden), outputs=classes)
    units = [*hidden, classes]
    layers = chain(*(Layer(f"dense_{i + 1}", "Dense", {"units": n, "activation": "relu"}) for i, n in enumerate(units)))
    assert count(network((inputs,), *layers)) == mlp.layers


GROWING: dict[str, tuple[tuple[int, ...], str, dict[str, Any]]] = {
    "units": ((5,), "Dense", {}),
    "filters": (IMAGE, "Conv2D", {"kernel_size": 3}),
    "depth_multiplier": (IMAGE, "DepthwiseConv2D", {"kernel_size": 2}),
    "key_dim": ((6, 5), "MultiHeadAttention", {"num_heads": 2}),
    "num_heads": ((6, 5), "MultiHeadAttention", {"key_dim": 2}),
}


@given(st.sampled_from(sorted(GROWING)), st.integers(1, 60), st.integers(1, 60))
def test_more_units_are_more_of_everything(option: str, low: int, more: int) -> None:
    shape, kind, options = GROWING[option]

    def counted(value: int) -> tuple[int, ...]:
        inputs = (INPUT, INPUT) if kind == "MultiHeadAttention" else (INPUT,)
        [layer] = count(network(shape, Layer("layer", kind, {**options, option: value}, inputs)))
        return layer.parameters, layer.forward_flops, layer.weight_gradient_flops, layer.activations + layer.internal

    assert all(a < b for a, b in zip(counted(low), counted(low + more), strict=True))


@given(st.sampled_from(["LSTM", "GRU", "SimpleRNN"]), st.integers(2, 40), st.integers(1, 20), st.integers(1, 20))
def test_time_costs_work_and_no_parameters(kind: str, steps: int, features: int, units: int) -> None:
    [one] = count(network((1, features), Layer("layer", kind, {"units": units})))
    [many] = count(network((steps, features), Layer("layer", kind, {"units": units})))
    assert many.parameters == one.parameters
    assert many.forward_flops == steps * one.forward_flops
    assert many.weight_gradient_flops == steps * one.weight_gradient_flops
    assert many.internal > steps * one.internal or kind == "SimpleRNN"


def test_a_shared_layers_parameters_count_once_and_its_work_each_time() -> None:
    graph = network((4,), dense("a", 4), dense("again", 0, "a", shares="a"), dense("out", 2, "again"))
    first, again, _ = count(graph)
    assert (first.parameters, again.parameters) == (20, 0)
    assert again.forward_flops == first.forward_flops
    assert (first.input_gradient_flops, again.input_gradient_flops) == (0, 32)


def test_the_input_needs_no_gradient_however_many_fixed_layers_come_first() -> None:
    layers = chain(
        Layer("scale", "Rescaling", {"scale": 0.1}),
        Layer("pad", "ZeroPadding2D"),
        Layer("conv", "Conv2D", {"filters": 4, "kernel_size": 3}),
        Layer("pool", "MaxPooling2D"),
    )
    gradients = [layer.input_gradient_flops for layer in count(network(IMAGE, *layers))]
    assert gradients[:3] == [0, 0, 0]
    assert gradients[3] > 0


def test_inner_values_are_those_the_backward_pass_needs() -> None:
    def internal(kind: str, **options: Any) -> int:
        inputs = (INPUT, INPUT) if "Attention" in kind else (INPUT,)
        return count(network((6, 8), Layer("layer", kind, options, inputs)))[0].internal

    assert internal("Dense", units=5, activation="relu") == 0
    assert internal("Dense", units=5, activation="gelu") == 6 * 5
    assert internal("LSTM", units=5, return_sequences=True) == 6 * 5 * 6
    assert internal("Dropout", rate=0.0) == 0
    assert internal("Dropout", rate=0.1) == 6 * 8
    projections, context, scores = 3 * 6 * 8, 6 * 8, 2 * 6 * 6
    assert internal("MultiHeadAttention", num_heads=2, key_dim=4) == projections + context + 3 * scores


def test_shapes_are_given_by_name() -> None:
    graph = network(
        IMAGE, *chain(Layer("pool", "MaxPooling2D"), Layer("flat", "Flatten"), Layer("out", "Dense", {"units": 2}))
    )
    assert shapes(graph) == {INPUT: IMAGE, "pool": (4, 4, 3), "flat": (48,), "out": (2,)}
    assert output_shape(graph) == (2,)


HEADS = {"head_dim": 2, "num_query_heads": 3, "num_key_value_heads": 2}
TOKENS = Layer("tokens", "Embedding", {"input_dim": 10, "output_dim": 4})
REFUSED: dict[str, tuple[Graph, str]] = {
    "rank": (
        network((5,), Layer("conv_3", "Conv2D", {"filters": 2, "kernel_size": 3})),
        r"Layer “conv_3” \(Conv2D\).*rows",
    ),
    "window": (network((2, 2, 1), Layer("c", "Conv2D", {"filters": 2, "kernel_size": 3})), "window of 3 does not fit"),
    "zero": (network((5,), dense("d", 0)), "option “units” is 0; accepted: whole numbers from 1"),
    "true": (network((5,), Layer("d", "Dense", {"units": True})), "option “units” is True"),
    "missing": (network((5,), Layer("d", "Dense", {})), "option “units” is missing"),
    "unknown option": (network((5,), Layer("d", "Dense", {"unit": 3})), "option “unit” is not known"),
    "unknown kind": (network((5,), Layer("l", "Lambda", {})), r"Layer “l” \(Lambda\): this kind of layer is not supp"),
    "unknown input": (network((5,), dense("d", 2, "elsewhere")), "its input “elsewhere” is no layer before it"),
    "later input": (network((5,), dense("a", 2, "b"), dense("b", 2)), "its input “b” is no layer before it"),
    "itself": (network((5,), dense("a", 2, "a")), "its input “a” is no layer before it"),
    "same name": (network((5,), dense("a", 2), dense("a", 2)), "another layer has the same name"),
    "input's name": (network((5,), dense("input", 2)), "another layer has the same name"),
    "unlike": (
        network((5,), dense("a", 2), dense("b", 3), Layer("sum", "Add", {}, ("a", "b"))),
        r"Layer “sum” \(Add\): its inputs have the unlike shapes \(2,\) and \(3,\)",
    ),
    "one to add": (network((5,), Layer("sum", "Add")), "it has 1 inputs; accepted are 2 to"),
    "two to one": (network((5,), Layer("d", "Dense", {"units": 2}, (INPUT, INPUT))), "it has 2 inputs; accepted are 1"),
    "groups": (network(IMAGE, Layer("c", "Conv2D", {"filters": 4, "kernel_size": 1, "groups": 2})), "do not divide"),
    "dilated strides": (
        network(IMAGE, Layer("c", "Conv2D", {"filters": 4, "kernel_size": 2, "strides": 2, "dilation_rate": 2})),
        "both above 1",
    ),
    "heads": (network((4, 4), Layer("q", "GroupQueryAttention", HEADS, (INPUT, INPUT))), "multiple of the 2 key heads"),
    "values": (network((6,), Layer("r", "Reshape", {"target_shape": [4, 2]})), "has 6 values"),
    "cropped": (network((4, 2), Layer("c", "Cropping1D", {"cropping": 2})), "leaves nothing"),
    "axis": (network((4,), Layer("n", "BatchNormalization", {"axis": 3})), "option “axis” is 3"),
    "shared kind": (
        network((4,), dense("a", 4), Layer("b", "ReLU", {}, ("a",), "a")),
        "no layer of its kind before it",
    ),
    "shared size": (
        network((4,), dense("a", 3), dense("b", 0, "a", shares="a")),
        r"a layer on \(4\) and is given \(3\)",
    ),
    "shared slopes": (
        network(
            (2, 3, 4),
            Layer("p", "PReLU"),
            Layer("t", "Permute", {"dims": (2, 1, 3)}, ("p",)),
            Layer("q", "PReLU", {"shared_axes": [1]}, ("t",)),
            Layer("r", "PReLU", {}, ("q",), "q"),
            Layer("f", "ZeroPadding2D", {}, ("r",)),
            Layer("s", "PReLU", {}, ("f",), "q"),
        ),
        r"Layer “s” \(PReLU\): it shares weights of a layer on",
    ),
    "shared options": (
        network((4,), dense("a", 4), Layer("b", "Dense", {"units": 4}, ("a",), "a")),
        "no layer of its kind before it",
    ),
    "tokens for Dense": (network((4,), dense("d", 2), vocabulary=10), "holds token ids"),
    "Embedding of numbers": (network((4,), TOKENS), "takes token ids"),
    "small Embedding": (network((4,), TOKENS, vocabulary=11), "below the 11 token ids"),
    "output": (Graph((4,), (dense("d", 2),), "e"), "output is “e”, which is none of its layers"),
    "input as output": (Graph((4,), (dense("d", 2),), INPUT), "none of its layers"),
    "nothing": (Graph((4,), (), "d"), "0 layers"),
    "layers": (network((4,), *chain(*(Layer(f"r{i}", "ReLU") for i in range(MAX_LAYERS + 1)))), "2001 layers"),
    "sample": (network((4, 0), dense("d", 2)), r"sample of the shape \(4, 0\)"),
    "scalar": (network((), dense("d", 2)), "sample of the shape"),
    "parameters": (network((2**20,), dense("d", 2**20)), r"1\.1e\+12 parameters"),
    "operations": (
        network((8192, 8192, 1), Layer("c", "Conv2D", {"filters": 16, "kernel_size": 2048, "padding": "same"})),
        "operations",
    ),
    "output size": (network((5,), Layer("r", "RepeatVector", {"n": 2**31 - 1})), "is too large"),
    "inner layer": (
        network((4, 4), Layer("both", "Bidirectional", {"layer": {"class_name": "Dense", "config": {"units": 2}}})),
        "option “layer” is a mapping of 2; accepted: a layer of the kind LSTM, GRU, SimpleRNN",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_network_that_cannot_be_is_refused(name: str) -> None:
    graph, said = REFUSED[name]
    with pytest.raises(ArchitectureError, match=said) as raised:
        count(graph)
    assert str(raised.value).endswith(".")
    assert "\n" not in str(raised.value)


def test_a_hostile_name_is_shown_short_and_printable() -> None:
    with pytest.raises(ArchitectureError) as raised:
        count(network((4,), Layer("x\n\x1b[31m" + "y" * 500, "Dense", {"units": "z" * 500})))
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 250
