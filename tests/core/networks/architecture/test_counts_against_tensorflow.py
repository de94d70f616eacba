"""Operations, forward and backward, against what TensorFlow's profiler counts in the functions Keras makes."""

from typing import Any

import pytest

from core.networks.architecture.counts import count
from core.networks.architecture.graph import INPUT, Graph, Layer, chain
from tests.support.keras_truth import Truth, truths

pytestmark = pytest.mark.tensorflow

SEQUENCE, IMAGE = (12, 8), (16, 14, 8)

EXACT: dict[str, tuple[tuple[int, ...], str, dict[str, Any]]] = {
    "dense": ((20,), "Dense", {"units": 7}),
    "dense on steps": (SEQUENCE, "Dense", {"units": 7, "activation": "relu"}),
    "dense with softmax": ((20,), "Dense", {"units": 7, "activation": "softmax", "use_bias": False}),
    "causal": (SEQUENCE, "Conv1D", {"filters": 5, "kernel_size": 3, "padding": "causal"}),
    "valid": (IMAGE, "Conv2D", {"filters": 5, "kernel_size": (3, 2)}),
    "same, strides": (IMAGE, "Conv2D", {"filters": 5, "kernel_size": 3, "strides": (2, 3), "padding": "same"}),
    "volume": ((5, 6, 7, 2), "Conv3D", {"filters": 5, "kernel_size": 3}),
    "transposed": (IMAGE, "Conv2DTranspose", {"filters": 5, "kernel_size": 3, "strides": 2, "padding": "same"}),
    "depthwise": (IMAGE, "DepthwiseConv2D", {"kernel_size": 3, "depth_multiplier": 2}),
    "depthwise on steps": (SEQUENCE, "DepthwiseConv1D", {"kernel_size": 3, "padding": "same"}),
    "separable": (IMAGE, "SeparableConv2D", {"filters": 9, "kernel_size": 3}),
    "maximum pool": (IMAGE, "MaxPooling2D", {"pool_size": 3, "strides": 2, "padding": "same"}),
    "average pool": (SEQUENCE, "AveragePooling1D", {"pool_size": 3}),
    "global average": (IMAGE, "GlobalAveragePooling2D", {}),
    "softmax": ((20,), "Softmax", {}),
    "rescaling": (IMAGE, "Rescaling", {"scale": 2.0}),
    "unrolled recurrent": (SEQUENCE, "SimpleRNN", {"units": 6, "unroll": True}),
    "unrolled LSTM": (SEQUENCE, "LSTM", {"units": 6, "unroll": True, "return_sequences": True}),
    "unrolled GRU": (SEQUENCE, "GRU", {"units": 6, "unroll": True}),
    "unrolled GRU, reset before": (SEQUENCE, "GRU", {"units": 6, "unroll": True, "reset_after": False}),
    "each step": (SEQUENCE, "TimeDistributed", {"layer": {"class_name": "Dense", "config": {"units": 3}}}),
}
"""Single layers. Left out: dilated convolutions, which TensorFlow's CPU path pads to whole blocks; grouped ones, which
it runs through XLA, outside the profiler's view; normalisation, whose work per channel is a rounding error.
"""

TWO_INPUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "add": ("Add", {}),
    "average": ("Average", {}),
    "product": ("Dot", {"axes": 2}),
    "attention": ("Attention", {"use_scale": True}),
    "heads": ("MultiHeadAttention", {"num_heads": 3, "key_dim": 5}),
    "heads with dropout": ("MultiHeadAttention", {"num_heads": 3, "key_dim": 5, "value_dim": 4, "dropout": 0.1}),
}


def encoder() -> Graph:
    """Return two blocks of a transformer on token ids."""
    width, layers, last = 64, [Layer("tokens", "Embedding", {"input_dim": 100, "output_dim": 64})], "tokens"
    for i in (1, 2):
        layers += [
            Layer(f"norm_{i}", "LayerNormalization", {}, (last,)),
            Layer(f"attention_{i}", "MultiHeadAttention", {"num_heads": 4, "key_dim": 16}, (f"norm_{i}",) * 2),
            Layer(f"add_{i}", "Add", {}, (last, f"attention_{i}")),
            *chain(
                Layer(f"second_norm_{i}", "LayerNormalization"),
                Layer(f"up_{i}", "Dense", {"units": 4 * width, "activation": "relu"}),
                Layer(f"down_{i}", "Dense", {"units": width}),
                after=f"add_{i}",
            ),
            Layer(f"sum_{i}", "Add", {}, (f"add_{i}", f"down_{i}")),
        ]
        last = f"sum_{i}"
    layers += chain(Layer("mean", "GlobalAveragePooling1D"), Layer("out", "Dense", {"units": 10}), after=last)
    return Graph((32,), tuple(layers), "out", vocabulary=100)


def residual() -> Graph:
    """Return a convolution, a residual block with batch normalisation, and a classifier."""
    same = {"filters": 16, "kernel_size": 3, "padding": "same"}
    stem = chain(Layer("stem", "Conv2D", same), Layer("norm", "BatchNormalization"), Layer("relu", "ReLU"))
    block = chain(
        Layer("one", "Conv2D", same),
        Layer("one_norm", "BatchNormalization"),
        Layer("one_relu", "ReLU"),
        Layer("two", "Conv2D", same),
        Layer("two_norm", "BatchNormalization"),
        after="relu",
    )
    tail = chain(Layer("pool", "GlobalAveragePooling2D"), Layer("out", "Dense", {"units": 10}), after="sum")
    return Graph((16, 16, 3), (*stem, *block, Layer("sum", "Add", {}, ("relu", "two_norm")), *tail), "out")


def lenet() -> Graph:
    return Graph(
        (28, 28, 1),
        chain(
            Layer("c1", "Conv2D", {"filters": 6, "kernel_size": 5, "padding": "same", "activation": "tanh"}),
            Layer("s2", "AveragePooling2D", {"pool_size": 2}),
            Layer("c3", "Conv2D", {"filters": 16, "kernel_size": 5, "activation": "tanh"}),
            Layer("s4", "AveragePooling2D", {"pool_size": 2}),
            Layer("flat", "Flatten"),
            Layer("c5", "Dense", {"units": 120, "activation": "tanh"}),
            Layer("f6", "Dense", {"units": 84, "activation": "tanh"}),
            Layer("out", "Dense", {"units": 10}),
        ),
        "out",
    )


def sequence(kind: str) -> Graph:
    options = {"units": 32, "unroll": True}
    both = {"layer": {"class_name": kind, "config": options}}
    return Graph(
        (10, 24),
        chain(
            Layer("one", kind, options | {"return_sequences": True}),
            Layer("two", "Bidirectional", both),
            Layer("out", "Dense", {"units": 5}),
        ),
        "out",
    )


NETWORKS = {"encoder": encoder(), "residual": residual(), "lenet": lenet()}
NETWORKS |= {"lstm": sequence("LSTM"), "gru": sequence("GRU")}


def alone(shape: tuple[int, ...], kind: str, options: dict[str, Any]) -> Graph:
    return Graph(shape, (Layer("layer", kind, options),), "layer")


def on_two(kind: str, options: dict[str, Any]) -> Graph:
    layers = Layer("other", "Dense", {"units": SEQUENCE[1]}), Layer("layer", kind, options, (INPUT, "other"))
    return Graph(SEQUENCE, layers, "layer")


GRAPHS = {
    **{name: alone(*case) for name, case in EXACT.items()},
    **{name: on_two(*case) for name, case in TWO_INPUTS.items()},
    **NETWORKS,
}


@pytest.fixture(scope="module")
def told() -> dict[str, Truth]:
    return dict(zip(GRAPHS, truths(list(GRAPHS.values()), operations=True)[0], strict=True))


def forward(graph: Graph) -> int:
    return sum(layer.forward_flops for layer in count(graph))


def backward(graph: Graph) -> int:
    return sum(layer.weight_gradient_flops + layer.input_gradient_flops for layer in count(graph))


@pytest.mark.parametrize("name", GRAPHS)
def test_forward_work_is_tensorflows_count_of_networks_to_two_percent(name: str, told: dict[str, Truth]) -> None:
    slack = 0.02 if name in NETWORKS else 0.0
    assert forward(GRAPHS[name]) == pytest.approx(sum(told[name].forward.values()), rel=slack, abs=0.0)


@pytest.mark.parametrize("name", ["encoder", "residual"])
def test_a_networks_gradients_are_tensorflows_count_to_two_percent(name: str, told: dict[str, Truth]) -> None:
    assert backward(NETWORKS[name]) == pytest.approx(sum(told[name].backward.values()), rel=0.02)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_gradients_through_time_are_tensorflows_products(name: str, told: dict[str, Truth]) -> None:
    """Compare with a tolerance.

    Unrolled, the first of ten steps has no earlier state whose gradient is needed, and TensorFlow sums each step's
    weight gradients apart from the products.
    """
    assert backward(NETWORKS[name]) == pytest.approx(told[name].backward["MatMul"], rel=0.08)


def test_gradients_of_a_convolution_without_padding_count_what_is_multiplied(told: dict[str, Truth]) -> None:
    """Check the difference: TensorFlow counts a kernel at each input position, we at each output position, where it
    really is.
    """
    second = count(NETWORKS["lenet"])[2]
    assert second.weight_gradient_flops - 16 * 10 * 10 == 2 * 25 * 6 * 16 * 10 * 10
    assert told["lenet"].backward["Conv2DBackpropInput"] == 2 * 25 * 6 * 16 * 14 * 14
